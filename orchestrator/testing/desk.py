"""The desk that answers a fake turn's emissions: the house's rules about one emission, without the house.

It knows what can be known from one turn alone: grants, forgeries, what has no JSON, what was said before,
what a child will be called. Whether a node exists, a cycle closes or a gate has rejected is the engine's
business; a test that needs such an answer scripts the receipt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

from emissions import (
    EMISSIONS,
    Accepted,
    Emission,
    EscalationRequest,
    Malformed,
    Receipt,
    Refused,
    Route,
    SpawnRequest,
    TaskAssignment,
)
from orchestrator.core.spec import name_fault
from orchestrator.runtime.values import NotExactError, dump
from roles import Role

__all__ = ["Desk", "Entry", "Grants", "Receipts", "origin_of", "role_in_name"]

#: What a role may emit: its declaration, types, or None for everything.
Grants = Role | Iterable[type[Emission]] | None
#: A scripted receipt: one, a refusal's reason as text, or None for what the desk says by itself.
Line = Receipt | str | None
#: Receipts in order, or a function that gives one for an emission.
Receipts = Iterable[Line] | Callable[[Emission], Line]

_ALWAYS: Final = EscalationRequest.emission_kind
_SPAWN: Final = SpawnRequest.emission_kind
_GROWING: Final = frozenset({_SPAWN, TaskAssignment.emission_kind})


def origin_of(node: str) -> str:
    """The planned node at the root of a derived name: the first part of its children's names."""
    return node.partition(".")[0].partition("+")[0]


def role_in_name(node: str) -> str:
    """The role that a node's name tells: ``scout.inspector-2`` is an inspector, ``scan_2`` a scan."""
    name = node.partition("+")[0]
    _, grown, suffix = name.rpartition(".")
    stem, separator, number = suffix.rpartition("-" if grown else "_")
    return stem if separator and stem and number.isdigit() else suffix


@dataclass(frozen=True, slots=True)
class Entry:
    """One emission as the desk took it.

    Attributes:
        emission: a copy of its own, or what a text held in its place. receipt: the answer.
    """

    emission: Emission | Malformed
    receipt: Receipt


class Desk:
    """Answers emissions of one turn; may be asked from any thread.

    Args:
        node: who emits. grants: what it may emit. script: receipts that stand before the desk's own.
        spawns: how many nodes it may grow; None is no limit. roles: node -> role, for assignees.
    """

    def __init__(
        self, node: str, grants: Grants, script: Receipts, spawns: int | None, roles: Mapping[str, str]
    ) -> None:
        self._node, self._roles = node, roles
        self._role = grants if isinstance(grants, Role) else None
        self._kinds = _kinds(grants)
        self._script = _reader(script)
        self._spawns, self._spawned = spawns, 0
        self._names: dict[str, int] = {}
        self._tasks: set[str] = set()
        self._moved_to: str | None = None
        self._identities: dict[tuple[str, str | bytes, int], Accepted] = {}
        self._sightings: dict[tuple[str, str, bytes], int] = {}
        self._accepted = 0
        self._lock = Lock()
        self.entries: list[Entry] = []

    def take(self, emission: Emission, channel: str = "call") -> Receipt:
        """Answer one emission and enter it, unless it only repeats what was taken over another channel."""
        with self._lock:
            return self._take(emission, channel)

    def refuse(self, emission: Emission | Malformed, reason: str, detail: str) -> Refused:
        """Enter a refusal that was found outside."""
        refused = Refused(reason, detail)
        with self._lock:
            self.entries.append(Entry(emission, refused))
        return refused

    def _take(self, emission: Emission, channel: str) -> Receipt:
        kind = emission.emission_kind
        known = EMISSIONS.get(kind)
        if known is not None and type(emission) is not known:
            detail = f"this {kind} is not the house's type; import it from emissions"
            return self._enter(emission, Refused("forged", detail))
        try:
            payload = dump(emission)
        except NotExactError as error:
            return self._enter(emission, Refused("invalid", str(error)))
        copy = type(emission).model_validate_json(payload)
        identity = self._identity(emission, payload, channel)
        seen = self._identities.get(identity)
        if seen is not None:
            return self._again(copy, seen, channel, keyed=identity[1] is not payload)
        receipt = self._judge(copy)
        if isinstance(receipt, Accepted):
            self._accepted += 1
            receipt = Accepted(receipt.node, receipt.emission or self._accepted)
            self._identities[identity] = receipt
        return self._enter(copy, receipt)

    def _enter(self, emission: Emission, receipt: Receipt) -> Receipt:
        self.entries.append(Entry(emission, receipt))
        return receipt

    def _identity(self, emission: Emission, payload: bytes, channel: str) -> tuple[str, str | bytes, int]:
        """The k-th equal payload over one channel is the k-th over another; a key stands for itself."""
        kind, key = emission.emission_kind, getattr(emission, "key", None)
        if isinstance(key, str):
            return kind, key, 1
        place = (channel, kind, payload)
        nth = self._sightings[place] = self._sightings.get(place, 0) + 1
        return kind, payload, nth

    def _again(self, emission: Emission, seen: Accepted, channel: str, *, keyed: bool) -> Receipt:
        if not (keyed and channel == "call"):
            return seen
        detail = f"this {emission.emission_kind} was taken as number {seen.emission}"
        if seen.node is not None:
            detail += f" and made {seen.node}"
        return self._enter(emission, Refused("duplicate", detail))

    def _judge(self, emission: Emission) -> Receipt:
        kind = emission.emission_kind
        denied = self._denied(kind)
        if denied is not None:
            return Refused("not_granted", denied)
        line = self._script(emission)
        if isinstance(line, str):
            return Refused(line, "as the test's script has it")
        if line is not None:
            return line
        if isinstance(emission, EscalationRequest):
            return self._escalated(emission)
        if kind not in _GROWING:
            return Accepted()
        if self._spawns is not None and self._spawned >= self._spawns:
            detail = f"all {self._spawns} spawns of this run are used; raise budget.spawns to allow more"
            return Refused("max_spawn_exceeded", detail)
        grown = self._assigned(emission) if isinstance(emission, TaskAssignment) else self._grown(emission)
        self._spawned += isinstance(grown, Accepted)
        return grown

    def _denied(self, kind: str) -> str | None:
        if self._spawns == 0 and kind == _SPAWN:
            return "the run's spawn budget is 0"
        if self._kinds is None or kind in self._kinds or kind == _ALWAYS:
            return None
        who = f"role {self._role.name!r}" if self._role is not None else f"node {self._node!r}"
        return f"{who} does not declare {kind}; add it to emits="

    def _grown(self, request: Any) -> Receipt:
        assignee = request.assignee or (None if self._role is None else self._role.name)
        suffix = self._roles.get(assignee, assignee) if assignee else request.operation
        number = self._names[suffix] = self._names.get(suffix, 0) + 1
        return Accepted(f"{origin_of(self._node)}.{suffix}-{number}")

    def _assigned(self, task: TaskAssignment) -> Receipt:
        wrong = name_fault(task.name)
        if wrong is not None:
            return Refused("invalid", wrong)
        if task.name in self._tasks:
            return Refused("exists", f"a node {task.name!r} exists; a node never runs twice")
        self._tasks.add(task.name)
        return Accepted(task.name)

    def _escalated(self, request: EscalationRequest) -> Receipt:
        if request.effective_route != Route.HIGHER_TIER:
            return Accepted()
        role = self._role
        if role is not None and len(role.models) < 2 and role.escalates_to is None:  # noqa: PLR2004
            return Refused("no_higher_tier", f"role {role.name!r} has no further model and no escalates_to")
        if self._moved_to is None:
            base, _, rungs = self._node.partition("+")
            self._moved_to = f"{base}+{int(rungs or 0) + 1}"
        return Accepted(self._moved_to)


def _kinds(grants: Grants) -> frozenset[str] | None:
    if grants is None:
        return None
    return frozenset(_kind(type_) for type_ in (grants.grants if isinstance(grants, Role) else grants))


def _kind(type_: object) -> str:
    if not (isinstance(type_, type) and issubclass(type_, Emission)):
        message = f"grants holds {type_!r}; give a Role, types such as (Finding,), or None for all"
        raise TypeError(message)
    return type_.emission_kind


def _reader(script: Receipts) -> Callable[[Emission], Line]:
    if callable(script):
        return script
    if isinstance(script, str):
        message = f"receipts is the text {script!r}; give a list of them: receipts=[{script!r}]"
        raise TypeError(message)
    lines: Iterator[Line] = iter(script)
    return lambda _: next(lines, None)
