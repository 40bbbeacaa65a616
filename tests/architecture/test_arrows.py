"""An import points down or sideways within a room, never up; a room uses the libraries that it was given.

The table below is the one of docs/architecture.md. To give a room a new library or a new arrow, change it
here and in the page, and say why in the commit.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.architecture.tree import ROOT, Source, product, report, tracked

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Room:
    """One row of the table. `stdlib` is None where the whole standard library may be used."""

    name: str
    rooms: tuple[str, ...]
    libraries: tuple[str, ...] = ()
    stdlib: frozenset[str] | None = None


FLOOR_0 = ("emissions", "orchestrator.errors")
FLOOR_1 = ("orchestrator.core", "roles")
FLOOR_2 = ("orchestrator.agents", "orchestrator.flows", "orchestrator.journal")
FLOOR_3 = ("orchestrator.runtime",)
FLOOR_4 = ("orchestrator", "orchestrator.supersteps", "orchestrator.testing")
BELOW_2 = FLOOR_0 + FLOOR_1
BELOW_4 = BELOW_2 + FLOOR_2 + FLOOR_3

# The core has no clock, randomness, environment, thread, logging or input and output: nothing but these.
PURE = frozenset(
    """__future__ abc ast bisect collections contextlib copy dataclasses decimal difflib enum fractions
    functools graphlib hashlib heapq itertools json keyword math numbers operator re string
    textwrap types typing unicodedata
    """.split()
)

# Only the runtime and the agents know an event loop, and they know it as anyio; the testing room makes loops.
LOOPS = frozenset({"asyncio", "trio", "selectors"})

TABLE = (
    Room("emissions", (), ("pydantic", "pydantic_core")),
    Room("orchestrator.errors", ("emissions",)),
    Room("roles", ("emissions",)),
    Room("orchestrator.core", FLOOR_0, ("msgspec",), PURE),
    Room("orchestrator.journal", BELOW_2, ("apsw", "msgspec")),
    Room("orchestrator.flows", BELOW_2, ("pydantic", "pydantic_core", "ruamel")),
    Room(
        "orchestrator.agents",
        BELOW_2,
        ("acp", "anyio", "httpx2", "mcp", "pydantic", "pydantic_ai", "stamina"),
    ),
    Room("orchestrator.runtime", BELOW_2 + FLOOR_2, ("anyio", "blinker", "msgspec", "pydantic", "structlog")),
    # anyio: deadlines of tasks, and the task in which a streamed thread runs
    Room("orchestrator.supersteps", BELOW_4, ("anyio", "msgspec", "pydantic")),
    Room(
        "orchestrator.testing",
        BELOW_4,
        ("anyio", "hypothesis", "msgspec", "pydantic", "pytest", "trio", "asyncio", "selectors"),
    ),
    Room("orchestrator", (*BELOW_4, "orchestrator.supersteps", "orchestrator.testing")),
    Room(
        "orchestrator.cli", BELOW_4 + FLOOR_4, ("anyio", "msgspec", "pydantic", "rich", "structlog", "typer")
    ),
    Room("orchestrator.studio", BELOW_4 + FLOOR_4, ("anyio", "msgspec", "pydantic", "starlette", "uvicorn")),
)
ROOMS = {room.name: room for room in TABLE}
MODULES = frozenset(source.module for source in product())


def room_of(module: str) -> str | None:
    """The room that a module of ours is in; None for a file that stands in no room."""
    if module in {"orchestrator", "orchestrator.__init__"}:
        return "orchestrator"
    if module == "orchestrator.__main__":
        return "orchestrator.cli"
    parts = module.split(".")
    name = parts[0] if parts[0] != "orchestrator" else ".".join(parts[:2])
    return name if name in ROOMS else None


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """Every module that a file imports, wherever the statement stands, with its line."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = absolute(source, node)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                yield node.lineno, full if full in MODULES else base


def absolute(source: Source, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = source.module.split(".") if source.is_package else source.module.split(".")[:-1]
    kept = package[: len(package) - (node.level - 1)]
    return ".".join([*kept, node.module] if node.module else kept)


def fault(room: Room, target: str) -> str | None:
    """What is wrong with this room importing that module, or None."""
    top = target.partition(".")[0]
    if top in {"emissions", "orchestrator", "roles"}:
        other = room_of(target)
        if other is None:
            return f"{room.name} -> {target}: that module stands in no room"
        allowed = other == room.name or other in room.rooms
        return (
            None if allowed else f"{room.name} -> {other}: allowed are {', '.join(room.rooms) or 'no rooms'}"
        )
    if top in room.libraries:
        return None
    if top in sys.stdlib_module_names and top not in LOOPS:
        pure = room.stdlib is None or top in room.stdlib
        return None if pure else f"{room.name} -> {top}: the core decides and touches nothing"
    return f"{room.name} -> {top}: its libraries are {', '.join(room.libraries) or 'none'}"


def test_every_file_stands_in_a_room():
    """A new folder beside the rooms is a decision: it needs a row in the table."""
    homeless = [source.name for source in product() if room_of(source.module) is None]
    assert not homeless, report(homeless)


@pytest.mark.parametrize(
    "room", [room for room in TABLE if room.name != "orchestrator"], ids=lambda room: room.name
)
def test_arrows_point_down(room: Room):
    """DESIGN: each row of the floors table, with file:line and the arrow."""
    faults = [
        f"{source.name}:{line}: {what}"
        for source in product()
        if room_of(source.module) == room.name
        for line, target in imports(source)
        if (what := fault(room, target))
    ]
    assert not faults, report(faults)


def test_public_surface_points_down():
    """`orchestrator/__init__` re-exports what is below it and uses no library itself."""
    source = next(source for source in product() if source.module == "orchestrator")
    room = ROOMS["orchestrator"]
    faults = [
        f"{source.name}:{line}: {what}" for line, target in imports(source) if (what := fault(room, target))
    ]
    assert not faults, report(faults)


def test_top_level_is_fixed():
    """Nothing but the house itself stands at the top."""
    known = {
        *("orchestrator", "roles", "emissions", "tests", "docs", ".ci"),
        *("pyproject.toml", "constraints.txt", "Makefile", ".gitignore", ".npmrc"),
        *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"),
    }
    strange = sorted({path.relative_to(ROOT).parts[0] for path in tracked()} - known)
    assert not strange, report(strange)


@pytest.mark.parametrize(
    ("room", "target", "wrong"),
    [
        ("roles", "orchestrator.runtime.session", True),
        ("roles", "orchestrator.errors", True),
        ("orchestrator.core", "roles", True),
        ("orchestrator.core", "time", True),
        ("orchestrator.core", "random", True),
        ("orchestrator.core", "orchestrator.errors", False),
        ("orchestrator.journal", "anyio", True),
        ("orchestrator.flows", "orchestrator.journal", True),
        ("orchestrator.runtime", "asyncio", True),
        ("orchestrator.runtime", "orchestrator", True),
        ("orchestrator.runtime", "orchestrator.flows", False),
        ("orchestrator.testing", "asyncio", False),
        ("orchestrator.cli", "orchestrator", False),
        ("emissions", "pydantic", False),
        ("emissions", "msgspec", True),
    ],
)
def test_the_table_itself(room: str, target: str, wrong: bool):
    """The checker refuses what it must and allows what it may: it is not green by being blind."""
    assert (fault(ROOMS[room], target) is not None) is wrong
