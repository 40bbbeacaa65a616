"""What an agent may ask of us: permissions by its role's list, files in its node's folder, nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import anyio

from orchestrator.agents.jobs import Stage
from orchestrator.agents.peers import INVALID, UNKNOWN, PeerError

__all__ = ["Desk"]

#: Largest file that is read for it, in bytes.
_FILE: Final = 4 * 1024 * 1024
_SHOWN: Final = 400


class Desk:
    """Answers one turn's agent; whatever needs a permission is noted with its answer.

    Args:
        allow: kinds of tool that are allowed, or ``*``. stage: the turn.
    """

    def __init__(self, allow: Sequence[str], stage: Stage) -> None:
        self._allow, self._stage = allow, stage
        self._folder = stage.workdir.resolve()
        self._taken: list[dict[str, Any]] = []

    def taken(self) -> list[dict[str, Any]]:
        """What was asked since the last call, and how it was answered."""
        taken, self._taken = self._taken, []
        return taken

    async def answer(self, method: str, params: Mapping[str, Any]) -> Any:
        """Answer one request.

        Raises:
            PeerError: it is not offered, not allowed, or cannot be done.
        """
        if method == "session/request_permission":
            return self._permission(params)
        if method == "fs/read_text_file":
            return await self._read(params)
        if method == "fs/write_text_file":
            return await self._write(params)
        if method.startswith("terminal/"):
            self._note("execute", method, allowed=False)
        raise PeerError(UNKNOWN, f"{method} is not offered here")

    def _permission(self, params: Mapping[str, Any]) -> dict[str, Any]:
        call, options = params.get("toolCall"), params.get("options")
        if not isinstance(call, dict) or not isinstance(options, list):
            raise PeerError(INVALID, "a request for permission names a toolCall and options")
        kind = str(call.get("kind") or "other")
        allowed = kind in self._allow or "*" in self._allow
        chosen = _choice(options, "allow" if allowed else "reject")
        self._note(kind, str(call.get("title") or ""), allowed=allowed and chosen is not None)
        if chosen is None:
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": chosen}}

    async def _read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        place = self._inside(_text(params, "path"), "read")
        try:
            if (await place.stat()).st_size > _FILE:
                raise PeerError(INVALID, f"{place.name} is larger than {_FILE:,} bytes")
            text = await place.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise PeerError(INVALID, f"{place.name}: {error.strerror or error}") from None
        return {"content": _lines(text, params.get("line"), params.get("limit"))}

    async def _write(self, params: Mapping[str, Any]) -> dict[str, Any]:
        place = self._inside(_text(params, "path"), "edit")
        try:
            await place.parent.mkdir(parents=True, exist_ok=True)
            await place.write_text(_text(params, "content"), encoding="utf-8")
        except OSError as error:
            raise PeerError(INVALID, f"{place.name}: {error.strerror or error}") from None
        return {}

    def _inside(self, path: str, kind: str) -> anyio.Path:
        """The file, links followed, if it is in the node's folder."""
        place = (self._folder / Path(path)).resolve()
        if not place.is_relative_to(self._folder):
            self._note(kind, path, allowed=False)
            raise PeerError(INVALID, f"{path} is outside of the folder that you work in")
        return anyio.Path(place)

    def _note(self, kind: str, title: str, *, allowed: bool) -> None:
        word = "allowed" if allowed else "denied"
        self._stage.report(f"{word}: {kind} {title}".strip()[:_SHOWN])
        self._taken.append({"asked": kind, "for": title[:_SHOWN], "answer": word})


def _choice(options: Sequence[Any], word: str) -> str | None:
    """The option for this once, else the one for always."""
    kinds = {one.get("kind"): one.get("optionId") for one in reversed(options) if isinstance(one, dict)}
    chosen = kinds.get(f"{word}_once") or kinds.get(f"{word}_always")
    return chosen if isinstance(chosen, str) else None


def _lines(text: str, line: object, limit: object) -> str:
    """The part of a text that was asked for: from a line, counted from 1, so many of them."""
    if not isinstance(line, int) and not isinstance(limit, int):
        return text
    first = max(0, line - 1) if isinstance(line, int) else 0
    lines = text.splitlines(keepends=True)[first:]
    return "".join(lines[: max(0, limit)] if isinstance(limit, int) else lines)


def _text(params: Mapping[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str) or "\0" in value:
        raise PeerError(INVALID, f"{name} is no text")
    return value
