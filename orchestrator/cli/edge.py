"""The edge of the console: the one place where text of others becomes output of ours.

What a terminal would obey is written out; what an encoding cannot show is replaced; a reader that went
away is no error.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, TextIO

from orchestrator.agents.secrecy import redacted

__all__ = [
    "clean",
    "clean_json",
    "clean_lines",
    "close_streams",
    "is_terminal",
    "note",
    "own_stdout",
    "prepare_streams",
    "say",
    "say_json",
    "write",
]

#: Not printable by Python's table and harmless all the same: joiners inside emoji and scripts, and spaces.
_HARMLESS: Final = re.compile(r"[\u200c\u200d\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")


def clean(text: object) -> str:
    """``text`` on one line; control, direction and half characters are written out as escapes.

    Everything that comes from a node, a role, a file or an error passes through here on its way out.
    """
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(
        char
        if char.isprintable() or _HARMLESS.match(char)
        else char.encode("unicode_escape", "surrogatepass").decode("ascii")
        for char in shown
    )


def clean_lines(text: object) -> str:
    """``clean`` for a text that has lines of its own: line feeds stay, tabs become spaces."""
    lines = str(text).replace("\r\n", "\n").expandtabs(4).split("\n")
    return "\n".join(clean(line) for line in lines)


def clean_json(raw: bytes) -> bytes:
    """The same JSON with what a terminal would obey as JSON's own escapes; data is not changed."""
    text = raw.decode()
    if text.isprintable():
        return raw
    return "".join(
        char if char == "\n" or char.isprintable() or _HARMLESS.match(char) else _json_escape(char)
        for char in text
    ).encode()


def _json_escape(char: str) -> str:
    pair = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pair[at : at + 2].hex()}" for at in range(0, len(pair), 2))


def prepare_streams() -> None:
    """Let no character that the console cannot show raise: it becomes a replacement."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def say(text: object = "") -> None:
    """Write lines to stdout."""
    write(sys.stdout, clean_lines(text) + "\n")


def say_json(raw: bytes) -> None:
    """Write JSON to stdout: always UTF-8, whatever the console shows."""
    write(sys.stdout, clean_json(raw) + b"\n")


def note(text: object) -> None:
    """Write lines to stderr; an error of somebody else's may quote a key."""
    write(sys.stderr, clean_lines(redacted(str(text))) + "\n")


def write(stream: TextIO | None, text: str | bytes) -> bool:
    """Write and flush; a reader that went away gets nothing more, and that is no error.

    Args:
        stream: None where the process was started without it.
        text: bytes are written as they are.

    Returns:
        False if nobody reads the stream any more.
    """
    if stream is None:
        return False
    try:
        if isinstance(text, bytes):
            buffer = getattr(stream, "buffer", None)
            if buffer is None:
                stream.write(text.decode())
            else:
                buffer.write(text)
        else:
            stream.write(text)
        stream.flush()
    except BrokenPipeError:
        _discard(stream)
        return False
    return True


def _discard(stream: TextIO) -> None:
    """Send the rest of a broken stream nowhere, so that the flush at the end of the process is quiet."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def close_streams() -> None:
    """Flush what is left; a reader that is gone, or a full disk, is not told at the very end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            _discard(stream)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at this stream, on a terminal that can move its cursor."""
    try:
        found = stream is not None and stream.isatty()
    except ValueError:
        return False
    return found and os.environ.get("TERM") != "dumb"


@contextmanager
def own_stdout() -> Iterator[TextIO]:
    """Give stdout to us alone: what roles print, and programs that they start, goes to stderr meanwhile."""
    ours, fd = sys.stdout, _descriptor(sys.stdout)
    if fd is None:
        sys.stdout = sys.stderr
        try:
            yield ours
        finally:
            sys.stdout = ours
        return
    ours.flush()
    kept = os.dup(fd)
    stream = os.fdopen(kept, "w", encoding=ours.encoding, errors="replace", closefd=False)
    os.dup2(2, fd)
    sys.stdout = sys.stderr
    try:
        yield stream
    finally:
        sys.stdout = ours
        with suppress(OSError):
            stream.flush()
        os.dup2(kept, fd)
        stream.detach()
        os.close(kept)


def _descriptor(stream: TextIO) -> int | None:
    """The number of a real stdout; None for a stream that only looks like one, or without a stderr."""
    try:
        fd = stream.fileno()
        os.fstat(2)
    except (OSError, ValueError, AttributeError):
        return None
    return fd if fd == 1 else None
