"""Servers of the Model Context Protocol, over the extra `mcp`: the only module that knows the library."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TextIO, cast

import httpx2
from anyio import BrokenResourceError, ClosedResourceError
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent, Tool

from orchestrator.agents.secrecy import redacted
from orchestrator.agents.surroundings import environment, located
from orchestrator.agents.tools import ReadyTool, ToolError
from roles import McpServer

__all__ = ["serve"]

#: A list of tools that never ends is left after so many pages.
_PAGES: Final = 100
_TAIL: Final = 500
#: JSON-RPC's code for a connection that is gone.
_GONE: Final = -32000


async def serve(
    server: McpServer,
    use: Callable[[Mapping[str, ReadyTool]], Awaitable[None]],
    gone: Callable[[], None],
) -> None:
    """Connect to a server, and keep the connection as long as ``use`` runs.

    Args:
        server: which. use: is given the tools, by the server's own names.
        gone: called when a call finds the connection closed.

    Raises:
        ToolError: it cannot be started or reached; with the end of what it said on stderr.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as file:
        errors = cast("TextIO", file)
        try:
            async with _transport(server, errors) as transport, _client(server, transport) as client:
                found = await _listed(client)

                def lost() -> str:
                    gone()
                    return _tail(errors)

                await use({tool.name: _ready(server, client, tool, lost) for tool in found})
        except (MCPError, OSError, httpx2.HTTPError, ExceptionGroup) as error:
            raise ToolError(f"server {server.name}: {_said(error)}{_tail(errors)}") from None


@asynccontextmanager
async def _transport(server: McpServer, errors: TextIO) -> AsyncIterator[Any]:
    who = f"server {server.name}"
    if server.argv:
        command, *arguments = located(server.argv, server.origin)
        given = environment(server.env, who)
        yield stdio_client(StdioServerParameters(command=command, args=arguments, env=given), errlog=errors)
        return
    headers = {}
    if server.bearer:
        environment((server.bearer,), who)
        headers["Authorization"] = f"Bearer {os.environ[server.bearer]}"
    async with httpx2.AsyncClient(headers=headers, timeout=server.timeout) as client:
        yield streamable_http_client(server.url, http_client=client)


def _client(server: McpServer, transport: Any) -> Client:
    return Client(transport, read_timeout_seconds=server.timeout, cache=None)


async def _listed(client: Client) -> list[Tool]:
    found: list[Tool] = []
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return found


def _ready(server: McpServer, client: Client, tool: Tool, lost: Callable[[], str]) -> ReadyTool:
    """``lost`` is told that the connection is closed, and gives the server's last words."""
    called = f"{server.name}.{tool.name}"

    async def perform(arguments: Mapping[str, Any]) -> Any:
        try:
            result = await client.call_tool(tool.name, dict(arguments))
        except MCPError as error:
            end = lost() if error.code == _GONE else ""
            raise ToolError(f"{called} failed: {_said(error)}{end}") from None
        except (BrokenResourceError, ClosedResourceError):
            raise ToolError(f"{called} failed: the connection to its server is closed{lost()}") from None
        except (ValueError, RuntimeError) as error:
            raise ToolError(f"{called} gave an answer that cannot be read: {_said(error)}") from None
        if result.is_error:
            raise ToolError(f"{called} failed: {_line(str(_value(result)))}")
        return _value(result)

    return ReadyTool(called, tool.description or "", dict(tool.input_schema), perform)


def _value(result: CallToolResult) -> Any:
    """What a call gave: its structured answer, else its text, else its parts; of bytes only how many."""
    if result.structured_content is not None:
        return result.structured_content
    parts = [
        one.text
        if isinstance(one, TextContent)
        else {
            key: f"{len(value)} characters of base64" if key in {"data", "blob"} else value
            for key, value in one.model_dump(mode="json", exclude_none=True).items()
        }
        for one in result.content
    ]
    if all(isinstance(part, str) for part in parts):
        return "\n".join(map(str, parts))
    return parts


def _said(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return _line(str(error) or type(error).__name__)


def _line(text: str) -> str:
    return redacted(" ".join(text.split()))


def _tail(errors: TextIO) -> str:
    errors.seek(0)
    text = _line(errors.read()[-_TAIL:])
    return f": {text}" if text else ""
