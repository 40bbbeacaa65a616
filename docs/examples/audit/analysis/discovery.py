"""Find the Python modules of a folder, in an order that depends on nothing but their names."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from .reading import MAX_BYTES

_SUFFIXES = frozenset({".py", ".pyw"})
_SHEBANG = re.compile(rb"#!.*\bpython")
_UNSAID = frozenset({"__pycache__"})
_FOREIGN = {"node_modules": "packages of another language", "site-packages": "installed packages"}
_BUILT = frozenset({"build", "dist"})


@dataclass(frozen=True, slots=True)
class Skipped:
    """Something that was left out on purpose, relative to the target."""

    path: str
    why: str


@dataclass(slots=True)
class Discovery:
    """The folder that paths are relative to, the modules in it, and what was left out."""

    root: Path
    modules: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


def discover(target: Path) -> Discovery:
    """Find the modules under a folder, or take a single file as it is.

    Links are never followed, so that no file is looked at twice and no walk leaves the target.

    Raises:
        FileNotFoundError: there is nothing at `target`.

    """
    if not target.exists():
        msg = f"{target}: no such file or folder; name an existing one with --arg target=PATH"
        raise FileNotFoundError(msg)
    if target.is_file():
        return Discovery(target.parent, [target.name])
    found = Discovery(target)
    for entry, path in _walk(target, found.skipped):
        if (reason := _why_not(entry)) is not None:
            found.skipped.append(Skipped(path, reason))
        else:
            found.modules.append(path)
    found.modules.sort(key=lambda p: PurePosixPath(p).parts)
    found.skipped.sort(key=lambda s: PurePosixPath(s.path).parts)
    return found


def _walk(root: Path, skipped: list[Skipped]) -> Iterator[tuple[os.DirEntry[str], str]]:
    """Every entry under `root` that claims to be Python."""
    stack = [""]
    while stack:
        folder = stack.pop()
        try:
            entries = sorted(os.scandir(root / folder), key=lambda e: e.name)
        except OSError as error:
            skipped.append(Skipped(_printable(folder or "."), error.strerror or type(error).__name__))
            continue
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                reason = _why_not_enter(entry)
                if reason is None:
                    stack.append(path)
                elif reason:
                    skipped.append(Skipped(_printable(path) + "/", reason))
            elif entry.is_symlink() and Path(entry.path).is_dir():
                skipped.append(Skipped(_printable(path) + "/", "a symbolic link"))
            elif _is_utf8(path) and _claims_python(entry):
                yield entry, path
            elif not _is_utf8(path) and path.endswith(tuple(_SUFFIXES)):
                skipped.append(Skipped(_printable(path), "its name is not valid UTF-8"))


def _why_not_enter(entry: os.DirEntry[str]) -> str | None:
    """None to enter a folder; an empty text to pass it without a word; else the reason."""
    name = entry.name
    if name in _UNSAID:
        return ""
    if name.startswith("."):
        return "hidden"
    if name in _FOREIGN:
        return _FOREIGN[name]
    inside = Path(entry.path)
    if (inside / "pyvenv.cfg").is_file():
        return "a virtual environment"
    if name in _BUILT and not (inside / "__init__.py").exists():
        return "build output"
    return None


def _why_not(entry: os.DirEntry[str]) -> str | None:
    if entry.is_symlink():
        return "a symbolic link"
    try:
        info = entry.stat(follow_symlinks=False)
    except OSError as error:
        return error.strerror or type(error).__name__
    if not stat.S_ISREG(info.st_mode):
        return "not a regular file"
    if info.st_size > MAX_BYTES:
        return f"larger than {MAX_BYTES // 1024:,} KiB"
    return None


def _claims_python(entry: os.DirEntry[str]) -> bool:
    """By its suffix, or as a program whose first line names Python."""
    stem, suffix = PurePosixPath(entry.name).stem, PurePosixPath(entry.name).suffix
    if suffix in _SUFFIXES:
        return True
    if suffix or stem.startswith(".") or not entry.is_file(follow_symlinks=False):
        return False
    try:
        if not entry.stat(follow_symlinks=False).st_mode & 0o111:
            return False
        with Path(entry.path).open("rb") as stream:
            return _SHEBANG.match(stream.read(100)) is not None
    except OSError:
        return False  # it does not claim to be Python, and cannot be asked


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _printable(path: str) -> str:
    return path.encode(errors="backslashreplace").decode()
