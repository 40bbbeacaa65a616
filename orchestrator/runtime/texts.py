"""Texts that come from outside, as a record can hold them."""

from __future__ import annotations

from orchestrator.agents.secrecy import redacted

__all__ = ["said", "storable"]


def storable(text: str, limit: int | None = None) -> str:
    """A text with halves of surrogate pairs, which no JSON can hold, written as escapes; cut at ``limit``."""
    kept = text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
    return kept if limit is None else kept[:limit]


def said(error: BaseException, limit: int | None = None) -> str:
    """An exception as ``Type: text``, without secrets, whatever asking for its text does."""
    name = type(error).__name__
    try:
        text = f"{name}: {error}"
    except BaseException as broken:  # noqa: BLE001 (the text of an exception is its author's code)
        text = f"{name}: (its text raised {type(broken).__name__})"
    return storable(redacted(text), limit)
