"""What the pages call by its place in the code is there: files, and functions by their dotted name."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from orchestrator import Budget, RefusalReason, VerdictValue
from tests.docs.pages import ROOT, Page, pages

SPAN = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"(?:[\w.-]+/)+[\w.-]*(?:\.\w+)?")
#: A name such as `core.growth.admit`: the room, the file, and one or two names inside it.
DOTTED = re.compile(
    r"(?:orchestrator\.)?(core|runtime|flows|journal|agents|testing)\.(\w+)\.(\w+)(?:\.(\w+))?"
)
TOPS = ("orchestrator", "roles", "emissions", "tests", "docs")


@cache
def names_in(path: Path) -> frozenset[str]:
    """Every function, class, field and constant of a module; those of a class also as `Class.name`."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        found |= named(node)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{name}" for part in node.body for name in named(part)}
    return frozenset(found)


def named(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return {node.target.id}
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    return set()


def fault(span: str) -> str | None:
    """What is wrong with a code span that names a place, or None."""
    if span.startswith(tuple(f"{top}/" for top in TOPS)) and FILE.fullmatch(span):
        missing = not (ROOT / span).exists() and not list(ROOT.glob(f"{span}.*"))
        return f"{span} does not exist" if missing else None
    dotted = DOTTED.fullmatch(span)
    if dotted is None:
        return None
    room, module, first, second = dotted.groups()
    path = ROOT / "orchestrator" / room / f"{module}.py"
    if not path.exists():
        return f"{span}: there is no {path.relative_to(ROOT).as_posix()}"
    name = f"{first}.{second}" if second else first
    return None if name in names_in(path) else f"{span}: {path.relative_to(ROOT).as_posix()} has no {name}"


PAGES = [page for page in pages() if "examples" not in page.path.parts]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_places_in_the_code_exist(page: Page):
    """A page that names a function or a file of the project fails when it was renamed or moved."""
    faults = [
        f"{page.name}:{number}: {what}"
        for number, line in enumerate(page.text.splitlines(), 1)
        for span in SPAN.findall(line)
        if (what := fault(span))
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("span", "wrong"),
    [
        ("orchestrator/core/machine.py", False),
        ("orchestrator/core/nothing.py", True),
        ("core.machine.GraphMachine.handle", False),
        ("core.machine.GraphMachine.nothing", True),
        ("core.nothing.at_all", True),
        ("anyio.from_thread.run", False),
        ("${scan.summary}", False),
    ],
)
def test_wrong_places_are_found(span: str, wrong: bool):
    """A green test is not a blind one."""
    assert (fault(span) is not None) is wrong


def words_of(name: str) -> set[str]:
    """Every code span of a page under docs."""
    return set(SPAN.findall((ROOT / "docs" / name).read_text(encoding="utf-8")))


def test_every_refusal_is_explained():
    """The page about growth says of each reason what is wrong and what to do."""
    assert {reason.value for reason in RefusalReason} <= words_of("growth.md")


def test_every_budget_and_verdict_is_explained():
    """The page about limits names every budget, the page about gates every verdict."""
    assert set(Budget.__struct_fields__) <= words_of("limits.md")
    assert {verdict.value for verdict in VerdictValue} <= words_of("gates.md")
