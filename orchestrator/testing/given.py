"""What a test gives to a fake turn, kept by value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from emissions import Emission
from orchestrator.runtime.values import settle
from orchestrator.testing.desk import role_in_name
from roles import Artifact, Emitted, NodeError, Rework

__all__ = [
    "Ancestry",
    "Asked",
    "Given",
    "Said",
    "ancestors",
    "by_value",
    "encoded",
    "in_order",
    "node_error",
    "said",
]

#: What ancestors emitted: node -> emissions, or emissions, or emissions with their origin.
Ancestry = Mapping[str, Iterable[Emission]] | Iterable[Emission | Emitted[Any]]
_UPSTREAM = "upstream"


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of a role, as ``turn.ask`` was called.

    Attributes:
        question, key, choices, schema, expires, default: the call's; ``key`` is the question where none was
            given. answer: what the script answered.
    """

    question: str
    key: str
    choices: tuple[str, ...] = ()
    schema: Any = None
    expires: float | None = None
    default: Any = None
    answer: Any = None


@dataclass(frozen=True, slots=True)
class Said:
    """An emission of an ancestor, kept as JSON."""

    type: type[Emission]
    payload: bytes
    node: str
    role: str | None
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a test gives to a turn."""

    parameters: Mapping[str, Any]
    inputs: Mapping[str, Any]
    instruction: str
    context: Mapping[str, Any]
    emissions: Ancestry
    failed: Mapping[str, NodeError | BaseException]
    rework: Rework | None = None
    roles: Mapping[str, str]
    answers: Mapping[str, Any]
    steps: Mapping[str, Any]
    steers: tuple[str, ...]
    workdir: Path | None
    artifacts: tuple[Artifact, ...]
    attempt: int
    deadline: float | None
    branch: Any
    run: str

    def role_of(self, node: str) -> str:
        """The role of a predecessor: as given, else as its name tells."""
        return self.roles.get(node) or role_in_name(node)


def by_value(rework: Rework) -> Rework:
    """A rework whose value is a copy."""
    return replace(rework, value=msgspec.json.decode(settle(rework.value, "rework.value")[0]))


def ancestors(given: Given) -> list[Said]:
    """Everything that the test says ancestors emitted, in its order."""
    if isinstance(given.emissions, Mapping):
        return [
            said(emission, node, given.role_of(node))
            for node, some in given.emissions.items()
            for emission in some
        ]
    return [
        said(item.emission, item.node, item.role, item.attempt)
        if isinstance(item, Emitted)
        else said(item, _UPSTREAM, None)
        for item in given.emissions
    ]


def in_order(all_said: Iterable[Said], predecessors: Iterable[str]) -> list[Said]:
    """Node by node as a run gives them: who is further up first, then the predecessors."""
    ranks = {name: number for number, name in enumerate(predecessors, 1)}
    by_node: dict[str, list[Said]] = {}
    for one in all_said:
        by_node.setdefault(one.node, []).append(one)
    names = sorted(by_node, key=lambda name: ranks.get(name, 0))
    return [one for name in names for one in by_node[name]]


def said(emission: Emission, node: str, role: str | None, attempt: int = 1) -> Said:
    """One emission of an ancestor, by value."""
    return Said(type(emission), settle(emission, node)[0], node, role, attempt)


def encoded(values: Mapping[str, Any], name: str) -> dict[str, bytes]:
    """Values by key as JSON; ``name`` is the word for them in errors."""
    return {key: settle(value, f"{name}.{key}")[0] for key, value in values.items()}


def node_error(error: NodeError | BaseException) -> NodeError:
    """How a predecessor failed, in the form in which a role reads it."""
    return error if isinstance(error, NodeError) else NodeError(type(error).__name__, str(error))
