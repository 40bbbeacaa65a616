"""``callboard pause``, ``drain``, ``cancel``, ``steer``, ``answer`` and ``inject``: asked of a run's owner.

A request is a row of the journal; the process that drives the run applies it, in order and once. Nobody
else changes anything. A run that nobody drives applies it when it goes on.
"""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any, Final

import msgspec

from emissions import VerdictValue
from orchestrator.cli.asking import answer_value
from orchestrator.cli.edge import clean, say
from orchestrator.cli.journals import Place, reading, recorded
from orchestrator.cli.ledgers import Open, open_of
from orchestrator.cli.opening import UsageError, any_value, pairs
from orchestrator.cli.options import ControlOptions
from orchestrator.core.facts import ControlApplied, Fact, NodeAdded
from orchestrator.core.state import RunState
from orchestrator.core.status import TERMINAL
from orchestrator.flows.names import suggestion
from orchestrator.journal.control import request
from orchestrator.journal.owning import owned
from orchestrator.journal.reading import POLL, JournalReader
from orchestrator.runtime.clocks import utc_now
from orchestrator.runtime.recorded import LIVE, RecordedRun

__all__ = ["ask_owner", "control", "who"]

#: Seconds that the owner has to apply a request before we say that it has not.
_PATIENCE: Final = 3.0
#: What means nothing to a run that nobody drives.
_OF_A_PROCESS: Final = frozenset({"pause", "drain"})

Payload = Mapping[str, Any]


def control(options: ControlOptions) -> int:
    """Ask something of a run and say what became of it.

    Raises:
        UsageError: the run has ended, it was refused, or it does not fit. JournalError: see ``reading``.
    """
    with reading(options.journal) as (reader, place):
        run = recorded(reader, options.run)
        state = run.state
        if state.ended:
            raise UsageError(f"run {run.run_id} has ended ({state.ended}); nothing of it can be changed")
        live = run.standing == LIVE
        if options.kind in _OF_A_PROCESS and not live:
            raise UsageError(
                f"no process drives run {run.run_id} ({run.standing}): nothing to {options.kind}"
            )
        payload = _PAYLOADS[options.kind](options, state)
        say(ask_owner(reader, place, run, options.kind, payload))
    return 0


def ask_owner(reader: JournalReader, place: Place, run: RecordedRun, kind: str, payload: Payload) -> str:
    """Put a request, and wait a little while until the owner has applied it.

    Returns:
        One line: applied, or queued and why.

    Raises:
        UsageError: the owner refused it. JournalError: it cannot be put.
    """
    number = request(place.path, run.run_id, kind, payload)
    ends, pause, seen = time.monotonic() + _PATIENCE, Event(), run.seq
    while True:
        alive = owned(place.path, run.run_id)
        for record in reader.records(run.run_id, seen):
            seen = record.seq
            for index, fact in enumerate(record.facts):
                if isinstance(fact, ControlApplied) and fact.control == number:
                    return _outcome(kind, fact, record.facts[:index])
        if not alive:
            resume = place.typed(f"callboard resume {run.run_id}")
            return f"queued: {kind} is applied when the run goes on: {resume}"
        if time.monotonic() > ends:
            return f"queued: the process that drives run {run.run_id} has not applied {kind} yet"
        pause.wait(POLL / 2)


def _outcome(kind: str, fact: ControlApplied, before: Sequence[Fact]) -> str:
    if fact.refused:
        raise UsageError(f"{kind} was refused: {fact.refused}: {clean(fact.detail)}")
    added = [one.operation.name for one in before if isinstance(one, NodeAdded) and one.parent is None]
    if kind == "inject" and added:
        return f"applied: inject, the new node is {clean(added[-1])}"
    return f"applied: {kind}"


# --- what is put -------------------------------------------------------------------------------


def _plain(_options: ControlOptions, _state: RunState) -> Payload:
    return {}


def _cancel(options: ControlOptions, state: RunState) -> Payload:
    why = options.because or f"cancelled by {who()}"
    if options.node is None:
        return {"reason": why}
    return {"node": _node(state, options.node), "reason": why}


def _steer(options: ControlOptions, state: RunState) -> Payload:
    said = {"text": options.text, "time": utc_now()}
    return said if options.node is None else {**said, "node": _node(state, options.node)}


def _inject(options: ControlOptions, state: RunState) -> Payload:
    role = options.text
    if role not in state.roles:
        raise UsageError(f"the run knows no role {role!r}{suggestion(role, state.roles)}")
    for name in options.after:
        if state.resolve(name) is None:
            raise UsageError(f"the run has no node {name!r}{suggestion(name, state.nodes)}")
    given = pairs(options.given, "--with")
    return {
        "role": role,
        "name": options.name,
        "instruction": options.value,
        "parameters": {key: any_value(text, f"--with {key}") for key, text in given.items()},
        "after": list(options.after),
    }


def _answer(options: ControlOptions, state: RunState) -> Payload:
    one = _meant(options, list(open_of(state)), state)
    if one.key is None:
        value: Any = options.value.upper()
        if value not in tuple(VerdictValue):
            raise UsageError(f"{options.value!r} is no verdict; write one of {', '.join(VerdictValue)}")
    else:
        schema = None if one.schema is None else msgspec.json.decode(one.schema)
        value, fault = answer_value(options.value, one.choices, schema)
        if fault is not None:
            raise UsageError(f"{one.node} asks {one.question!r}: {fault}")
    return {"node": one.node, "key": one.key, "value": value, "by": who(), "because": options.because}


def _meant(options: ControlOptions, waiting: list[Open], state: RunState) -> Open:
    """The one question or gate that a person means."""
    word = options.text
    if options.node is not None:
        waiting = [one for one in waiting if one.node == options.node]
    named = state.resolve(word)
    name = word if named is None else named.op.name
    found = [one for one in waiting if one.key == word] or [one for one in waiting if one.node == name]
    # of a stepped run a node's name means its task
    found = found or [one for one in waiting if one.node.partition("@")[0] == word]
    if len(found) == 1:
        return found[0]
    if found and found[0].key == word:
        nodes = ", ".join(one.node for one in found)
        raise UsageError(f"{nodes} ask by the key {word!r}; say which: --node {found[0].node}")
    listed = ", ".join(repr(one.key or one.node) for one in (found or waiting))
    raise UsageError(f"nothing waits for an answer to {word!r}; there is {listed or 'nothing that waits'}")


def _node(state: RunState, name: str) -> str:
    node = state.resolve(name)
    if node is None:
        raise UsageError(f"the run has no node {name!r}{suggestion(name, state.nodes)}")
    if node.status in TERMINAL:
        raise UsageError(f"{name} is {node.status.value} already")
    return node.op.name


def who() -> str:
    """The user of the operating system, as the record names who asked."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody"


_PAYLOADS: Final[Mapping[str, Callable[[ControlOptions, RunState], Payload]]] = {
    "pause": _plain,
    "drain": _plain,
    "cancel": _cancel,
    "steer": _steer,
    "answer": _answer,
    "inject": _inject,
}
