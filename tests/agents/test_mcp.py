"""Servers of tools: what they offer, what a role may use of it, how they fail and how they end."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

pytest.importorskip("mcp")

from orchestrator import OperationGraphBuilder, Role, Session
from orchestrator.agents import backends
from orchestrator.agents.tools import ToolError
from orchestrator.errors import ExecutionError, OperationError
from roles import McpServer, RoleError
from tests.agents.mcp_server import over_http

SERVER = str(Path(__file__).with_name("mcp_server.py"))


def stdio(*words: str, **more: Any) -> McpServer:
    return McpServer("notes", argv=(sys.executable, SERVER, *words), **{"timeout": 20, **more})


@asynccontextmanager
async def opened(server: McpServer) -> AsyncIterator[Any]:
    """Calls one of the server's tools."""
    async with Session(tools=[server]) as session:

        async def call(name: str, **given: Any) -> Any:
            return await (await session.tools.named(f"notes.{name}")).call(given)

        yield call


async def test_over_stdio(monkeypatch: pytest.MonkeyPatch):
    """What tools give; an error of a tool; one that dies is started again; its environment is a list."""
    monkeypatch.setenv("NOTES_TOKEN", "x")
    monkeypatch.setenv("SOMEBODYS_SECRET", "x")
    async with opened(stdio(env=("NOTES_TOKEN",))) as call:
        assert await call("double", a=2) == {"twice": 4}
        assert await call("words") == "some words"
        assert (await call("words", picture=True))[1]["data"] == "4 characters of base64"
        with pytest.raises(ToolError, match=r"notes\.fails failed: it will not do"):
            await call("fails")
        with pytest.raises(ToolError, match=r"notes.dies failed: .*: out of memory"):
            await call("dies")
        names = (await call("env"))["names"]
    assert "NOTES_TOKEN" in names
    assert "SOMEBODYS_SECRET" not in names


async def test_over_http(monkeypatch: pytest.MonkeyPatch):
    """At an address, with a token that is looked up at the call; without it the server says no."""
    monkeypatch.setenv("NOTES_TOKEN", "canary-0123456789")
    with over_http("canary-0123456789") as url:
        async with opened(McpServer("notes", url=url, bearer="NOTES_TOKEN", timeout=20)) as call:
            assert await call("double", a=3) == {"twice": 6}
        async with opened(McpServer("notes", url=url, timeout=20)) as call:
            with pytest.raises(ToolError, match="server notes"):
                await call("double", a=3)
        async with opened(McpServer("notes", url=url, bearer="NOBODY_SET_THIS", timeout=20)) as call:
            with pytest.raises(ToolError, match="NOBODY_SET_THIS"):
                await call("double", a=3)


@pytest.mark.slow
async def test_one_that_hangs():
    """A call, and a start, that take too long fail by the server's timeout; nothing waits for them."""
    async with opened(stdio(timeout=1.5)) as call:
        with pytest.raises(ToolError, match="timed out"):
            await call("hangs")
    async with opened(stdio("mute", timeout=0.3)) as call:
        with pytest.raises(ToolError, match=r"not ready within 0\.3 s"):
            await call("double", a=1)


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (stdio("broken"), "no such folder"),
        (McpServer("notes", argv=("no-such-program-anywhere",)), "no-such-program-anywhere"),
        (McpServer("notes", url="http://127.0.0.1:1/mcp", timeout=20), "server notes"),
    ],
)
async def test_one_that_cannot_be_reached(server: McpServer, words: str):
    """The end of what it said, or why it could not be started."""
    async with opened(server) as call:
        with pytest.raises(ToolError, match=words):
            await call("double", a=1)


async def test_it_ends_with_the_session():
    """Nothing of it is left."""
    async with Session(tools=[stdio()]) as session:
        pid = (await (await session.tools.named("notes.env")).call({}))["pid"]
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_what_a_role_may_use(tmp_path: Path):
    """A name, or a pattern; a name that the server has not fails the node, and says what there is."""
    async with Session(tools=[stdio()]) as session:

        async def of(*tools: str, may: Any = lambda _name: True) -> list[str]:
            return sorted(await session.tools.of(Role("r", tools=tools), may))

        assert await of("notes.double") == ["notes.double"]
        assert await of("notes.d*") == ["notes.dies", "notes.double"]
        assert await of("notes.d*", may=lambda name: name != "notes.dies") == ["notes.double"]
        with pytest.raises(OperationError, match=r"offers no 'notes\.triple'; it offers notes\.dies"):
            await of("notes.triple")
        with pytest.raises(OperationError, match=r"there is no tool 'other\.double'"):
            session.tools.check(Role("r", tools=("other.double",)))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_model_calls_one(tmp_path: Path):
    """``--model test`` calls every tool that it is offered, under a name that every provider takes."""
    pytest.importorskip("pydantic_ai")
    graph = OperationGraphBuilder()
    cast = Role("r", body="B", tools=("notes.double", "notes.f*"), models=("test",))
    graph.add_operation(cast, node_id="work", depends_on=[])
    told: list[Any] = []
    async with (
        Session(folder=tmp_path, tools=[stdio()]) as session,
        session.tap(told.append, kinds=("NodeProgress",)),
    ):
        result = await session.flow(graph)
        said = session.branches["work"].messages
    assert result["work"].error is None
    assert '"notes_double":{"twice":0}' in result["work"].value["text"]
    assert '"error":"notes.fails failed: it will not do"' in result["work"].value["text"]
    assert "notes_double" in said[0].content
    assert any("notes_double is called with" in one.data["text"] for one in told)


def test_declared():
    """One of argv and url; a list, not a text for a shell."""
    for given, words in (
        ({}, "one of both"),
        ({"argv": ("x",), "url": "http://a"}, "one of both"),
        ({"argv": "python x.py"}, "there is no shell"),
        ({"url": "ftp://a"}, "give an address"),
        ({"argv": ("x",), "timeout": 0}, "give seconds"),
    ):
        with pytest.raises(RoleError, match=words):
            McpServer("notes", **given)


async def test_without_the_extra(monkeypatch: pytest.MonkeyPatch):
    """One line with the command that installs it, before anything runs."""

    def missing(_name: str) -> None:
        raise ImportError(name="mcp")

    monkeypatch.setattr(backends, "import_module", missing)
    graph = OperationGraphBuilder()
    graph.add_operation(Role("r", tools=("notes.double",), models=("test",)), depends_on=[])
    async with Session(tools=[stdio()]) as session:
        with pytest.raises((OperationError, ExecutionError), match=r"pip install 'callboard\[m"):
            session.tools.check(Role("r", tools=("notes.double",)))


@pytest.mark.slow
async def test_against_the_librarys_own_server(tmp_path: Path):
    """A server as its authors would write it."""
    file = tmp_path / "server.py"
    file.write_text(
        "from mcp.server import MCPServer\n"
        "server = MCPServer('notes')\n"
        "@server.tool()\n"
        "def double(a: int) -> dict[str, int]:\n    return {'twice': a * 2}\n"
        "server.run(transport='stdio')\n"
    )
    with anyio.fail_after(60):
        async with opened(McpServer("notes", argv=(sys.executable, str(file)))) as call:
            assert await call("double", a=4) == {"twice": 8}
            with pytest.raises(ToolError, match="valid integer"):
                await call("double", a="x")
