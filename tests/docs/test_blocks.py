"""Every example in the README and the docs runs, prints what the page says, and names commands that exist.

The Python blocks of one page build on each other. They run in a folder of their own, as a program would. A
block that defines `test_...` functions is a test: they are called, the async ones on both event loops.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import linecache
import re
import shlex
import sys
import types
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.cli import program
from tests.docs.pages import ROOT, Block, Page, pages

if TYPE_CHECKING:
    from collections.abc import Callable

# Every command of the public surface.
COMMANDS = frozenset(
    """answer asks cancel check diff doctor drain draw emissions events fork init inject ledger pause rehearse
    resume retry roles run runs save-flow schema show steer story studio try watch""".split()
)


@dataclass
class Reader:
    """Someone who types a page's blocks in, one after the other."""

    page: Page
    folder: Path
    printed: str = ""
    module: types.ModuleType = field(init=False)

    def __post_init__(self) -> None:
        name = "page_" + re.sub(r"\W", "_", self.page.name)
        self.module = types.ModuleType(name)
        self.module.__file__ = str(self.folder / f"{name}.py")

    def follow(self, block: Block) -> None:
        if block.word == "file":
            self.write(block)
        elif block.word == "prints":
            assert self.printed.strip() == block.text.strip(), (
                f"{self.page.name}:{block.line}: prints something else"
            )
        elif block.language == "python" and block.word != "not run":
            self.run(block)

    def write(self, block: Block) -> None:
        target = self.folder / block.rest
        assert self.folder in target.resolve().parents, (
            f"{self.page.name}:{block.line}: {block.rest} leaves the folder"
        )
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(block.text, encoding="utf-8")

    def run(self, block: Block) -> None:
        where = f"{self.page.name}:{block.line}"
        linecache.cache[where] = (len(block.text), None, block.text.splitlines(keepends=True), where)
        code = compile(
            block.text, where, "exec"
        )  # a traceback shows the page, the block's line, and the code
        before = set(vars(self.module))
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, vars(self.module))
            for name in sorted(set(vars(self.module)) - before):
                if name.startswith("test_"):
                    call(vars(self.module)[name])
        self.printed = printed.getvalue()


def call(test: Callable[[], Any]) -> None:
    if not inspect.iscoroutinefunction(test):
        test()
        return
    for backend in ("asyncio", "trio"):
        anyio.run(test, backend=backend)


WITH_PYTHON = [page for page in pages() if any(block.language == "python" for block in page.blocks())]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_python_blocks_run(page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Every Python block of a page runs, in order, in one folder."""
    monkeypatch.chdir(tmp_path)
    reader = Reader(page, tmp_path)
    monkeypatch.setitem(sys.modules, reader.module.__name__, reader.module)
    for block in page.blocks():
        reader.follow(block)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_block_that_is_not_run_says_why(page: Page):
    """No block is skipped in silence, and none is without a language."""
    unexplained = [block.line for block in page.blocks() if block.word == "not run" and not block.rest]
    assert not unexplained, f"{page.name}: lines {unexplained}: not run: say why"
    bare = [block.line for block in page.blocks() if not block.language]
    assert not bare, f"{page.name}: lines {bare}: name a language, `text` if it is none"


@dataclass(frozen=True)
class Command:
    """One line that a page tells its reader to type."""

    where: str
    words: tuple[str, ...]


def commands() -> list[Command]:
    found = []
    for page in pages():
        for block in page.blocks():
            if block.language != "console":
                continue
            for offset, line in enumerate(block.text.splitlines()):
                if line.startswith("$ "):
                    words = tuple(shlex.split(line.removeprefix("$ "), comments=True))
                    found.append(Command(f"{page.name}:{block.line + offset}", words))
    return found


def test_commands_exist():
    """Each `$ callboard ...` of the pages is a command of the public surface, each `$ make ...` a target."""
    targets = set(
        re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    faults = []
    for command in commands():
        program, *rest = command.words
        if program == "callboard" and rest and not rest[0].startswith("-") and rest[0] not in COMMANDS:
            faults.append(f"{command.where}: callboard has no command {rest[0]!r}")
        if program == "make" and rest and rest[0] not in targets:
            faults.append(f"{command.where}: the Makefile has no target {rest[0]!r}")
    assert not faults, "\n".join(faults)


USED = sorted(
    {command.words[1] for command in commands() if command.words[0] == "callboard" and len(command.words) > 1}
)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in USED if not name.startswith("-")])
def test_options_exist(name: str):
    """Each option that a page uses is in the help of its command."""
    done = program.call(name, "--help", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    offered = set(re.findall(r"--[a-z][a-z-]*", done.stdout))
    faults = [
        f"{command.where}: {name} has no option {word}"
        for command in commands()
        if command.words[:2] == ("callboard", name)
        for word in (word.partition("=")[0] for word in command.words[2:] if word.startswith("--"))
        if word not in offered
    ]
    assert not faults, "\n".join(faults)


RUN = [
    (page, block)
    for page in pages()
    for block in page.blocks()
    if block.language == "console" and block.word == "run"
]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "block"), RUN, ids=lambda value: getattr(value, "name", None))
def test_console_blocks_run(page: Page, block: Block, tmp_path: Path):
    """A console block that is marked `run` works in the folder that the page's files were written to."""
    reader = Reader(page, tmp_path)
    for other in page.blocks():
        if other.word == "file" and other.line < block.line:
            reader.write(other)
    for line in block.text.splitlines():
        if line.startswith("$ callboard "):
            words = shlex.split(line.removeprefix("$ callboard "), comments=True)
            done = program.call(*words, cwd=tmp_path, NO_COLOR="1")
            assert done.returncode == 0, f"{page.name}:{block.line}: {line}\n{done.stdout}{done.stderr}"
