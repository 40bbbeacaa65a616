"""Changes that handlers and ``on_settle`` may propose; the core judges each like any other request."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from orchestrator.core.commands import Proposal, WriteIn
from orchestrator.core.spec import Operation
from orchestrator.core.verbs import SPEAKING
from orchestrator.errors import OperationError
from orchestrator.runtime.clocks import utc_now
from orchestrator.runtime.values import settle
from orchestrator.runtime.writes import leaves_of
from roles import Role

__all__ = ["Change", "Inject", "Steer", "Veto", "Write", "proposals_from"]


@dataclass(frozen=True, slots=True)
class Inject:
    """Add a node.

    Attributes:
        what: a role, a role's name, or a verb of the session.
        node_id: its name; derived from its parent and role if omitted.
        instruction, parameters: what it is to do; parameters are JSON data.
        after, before: nodes that it waits for, and waiting nodes that are to wait for it.
        independent: it does not wait for the node that led to it.
        key: the same key again is the same node.
    """

    what: Role | str
    node_id: str | None = None
    instruction: str = ""
    parameters: Mapping[str, Any] | None = None
    after: Sequence[str] = ()
    before: Sequence[str] = ()
    independent: bool = False
    key: str | None = None
    reason: str = ""

    def proposal(self, verbs: Collection[str] = ()) -> Proposal:
        """The change as the core takes it; ``verbs``: names that mean a verb of the session, not a role."""
        raw, _, _ = settle(dict(self.parameters or {}), "parameters")
        return Proposal(
            "inject",
            self.node_id,
            self.reason,
            operation=_performing(self.what) if isinstance(self.what, str) and self.what in verbs else None,
            assignee=self.what.name if isinstance(self.what, Role) else self.what,
            instruction=self.instruction,
            parameters=msgspec.Raw(raw),
            after=tuple(self.after),
            before=tuple(self.before),
            independent=self.independent,
            key=self.key,
        )


def _performing(verb: str) -> Operation:
    return Operation(name=verb, verb=verb, speaks=verb in SPEAKING)


@dataclass(frozen=True, slots=True)
class Veto:
    """Keep a node that has not started from ever starting."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class Write:
    """Write a context key in the name of the node that emitted."""

    key: str
    value: Any
    replace: bool = False


@dataclass(frozen=True, slots=True)
class Steer:
    """Say something to a node, or to the next one that starts."""

    text: str
    node: str | None = None


Change = Inject | Veto | Write | Steer


def proposals_from(
    given: object, values: list[bytes], who: str, verbs: Collection[str] = (), emission: int | None = None
) -> tuple[Proposal, ...]:
    """What a handler returned, as the core takes it.

    Args:
        given: a change, a list of them, or None. values: the command's values; writes are added.
        who: whose return value it is, for the error.

    Raises:
        OperationError: it is something else.
    """
    if given is None:
        return ()
    changes = given if isinstance(given, list | tuple) else [given]
    made = [_sound(_proposal(change, values, who, verbs)) for change in changes]
    if emission is not None:
        made = [msgspec.structs.replace(one, emission=emission) for one in made]
    return tuple(made)


def _sound(proposal: Proposal) -> Proposal:
    """As a record gives it back: what none can hold is the fault of who proposes it, here."""
    return msgspec.json.decode(msgspec.json.encode(proposal), type=Proposal)


def _proposal(change: object, values: list[bytes], who: str, verbs: Collection[str]) -> Proposal:
    if isinstance(change, Inject):
        return change.proposal(verbs)
    if isinstance(change, Veto):
        return Proposal("veto", change.node, change.reason)
    if isinstance(change, Steer):
        return Proposal("steer", change.node, change.text, time=utc_now())
    if isinstance(change, Write):
        raw, _, plain = settle(change.value, change.key)
        values.append(raw)
        leaves = leaves_of(plain)
        return Proposal("write", write=WriteIn(change.key, len(values) - 1, leaves, change.replace))
    message = (
        f"{who} returned {type(change).__name__}; give Inject, Veto, Write, Steer, a list of them or None"
    )
    raise OperationError(message)
