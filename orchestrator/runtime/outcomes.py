"""From what a body did to the command that settles its attempt. Runs in the worker, outside the lock."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from pydantic import TypeAdapter, ValidationError

from emissions import (
    EMISSIONS,
    ArtifactProduced,
    Emission,
    EscalationRequest,
    Malformed,
    SpawnRequest,
    TaskAssignment,
    emission_stamp,
    parse_text,
    stamp,
)
from orchestrator.agents.jobs import QuotaError
from orchestrator.agents.secrecy import redacted
from orchestrator.core.commands import EmissionIn, Finish, Proposal
from orchestrator.core.context import view_of
from orchestrator.core.facts import Failure
from orchestrator.core.outcomes import would_retry
from orchestrator.core.scopes import context_mapping
from orchestrator.core.state import NodeState
from orchestrator.errors import ExecutionError, OrchestratorError
from orchestrator.flows.shapes import shape_fault
from orchestrator.runtime.artifacts import claim_fault, where
from orchestrator.runtime.changes import proposals_from
from orchestrator.runtime.preparing import said_by
from orchestrator.runtime.texts import said, storable
from orchestrator.runtime.turns import RoleTurn
from orchestrator.runtime.values import EMISSION_DEPTH, Found, NotExactError, dump, encode, settle
from orchestrator.runtime.verdicts import gate_value, verdicts_in
from orchestrator.runtime.views import RunView
from orchestrator.runtime.writes import gather, merged
from roles import NodeError, NotApplicable

if TYPE_CHECKING:
    from orchestrator.runtime.engine import Engine

__all__ = [
    "Settled",
    "checked",
    "emissions_in",
    "failed",
    "failure_of",
    "incoming",
    "judge_known",
    "only_escalation",
    "returned",
]

_MESSAGE_LIMIT = 10_000
_TRACE_LIMIT = 4_000
_FENCE = "```"


def returned(engine: Engine, node: NodeState, turn: RoleTurn, value: object) -> tuple[Finish, list[bytes]]:
    """The command for a body that returned ``value``."""
    try:
        if value is None and engine.plain and turn.pending_writes is None and turn.branch is None:
            return Finish(node.op.name, turn.attempt, value=0), _NULL
        raw, found, plain = settle(value)
        values = [raw]
        simple = engine.plain and node.op.gate is None and turn.pending_writes is None and turn.branch is None
        if simple and not found and not _speaks(plain):
            return Finish(node.op.name, turn.attempt, value=0), values
        return _whole(engine, node, turn, value, Settled(plain, found, values))
    except BaseException as error:  # noqa: BLE001 (whatever a returned object does fails its node)
        if inspect.iscoroutine(value):
            value.close()
        return failed(engine, node, turn, error)


_NULL = [b"null"]


def _speaks(plain: object) -> bool:
    """True if a value may hold more than data: text with blocks, or a ``context`` mapping."""
    if isinstance(plain, dict):
        return "context" in plain or "text" in plain
    return isinstance(plain, str) and _FENCE in plain


class Settled(msgspec.Struct):
    """A value after its walk."""

    plain: Any
    found: list[Found]
    values: list[bytes]


def _whole(
    engine: Engine, node: NodeState, turn: RoleTurn, value: object, settled: Settled
) -> tuple[Finish, list[bytes]]:
    operation, values = node.op, settled.values
    plain = checked(engine, node, settled)
    emissions, proposals = emissions_in(engine, node, turn, settled)
    top_level: str | None = None
    if operation.gate is not None:
        plain, top_level = gate_value(node, plain, verdicts_in(emissions, values))
        values[0] = encode(plain, "result")
    writes = gather(turn.pending_writes, plain, operation.writes, values)
    outcome = _decoder(values[0])
    proposals += _on_settle(engine, node, outcome, values)
    command = Finish(
        operation.name,
        turn.attempt,
        value=0,
        emissions=emissions,
        writes=writes,
        predicates=_predicates(engine, node, outcome, plain, turn),
        proposals=proposals,
        gate_verdict=top_level,
        only_escalation=only_escalation(value),
        artifacts=turn.left,
        said=said_by(turn, values, failed=False),
        usage=turn.usage,
    )
    return command, values


def _decoder(raw: bytes) -> Callable[[], Any]:
    return lambda: msgspec.json.decode(raw)


def checked(engine: Engine, node: NodeState, settled: Settled) -> Any:
    """The value against the shape that the node declared."""
    if node.op.returns is not None:
        fault = shape_fault(msgspec.json.decode(node.op.returns), settled.plain)
        if fault is not None:
            message = f"{fault} (the node declares returns=)"
            raise ExecutionError(message)
    base = node.origin if node.op.instance is not None else node.op.name
    model = engine.returns.get(engine.state.authored(engine.state.nodes[base]))
    if model is not None:
        try:
            checked = TypeAdapter(model).validate_python(settled.plain)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in ("result", *first["loc"]))
            message = f"{place}: {first['msg']} (the node declares returns=)"
            raise ExecutionError(message) from None
        settled.values[0], _, settled.plain = settle(checked)
    return settled.plain


# --- emissions ---------------------------------------------------------------------------------


def emissions_in(
    engine: Engine, node: NodeState, turn: RoleTurn, settled: Settled
) -> tuple[tuple[EmissionIn, ...], tuple[Proposal, ...]]:
    """What a value carries, as the core takes it; payloads go behind the values."""
    taken: list[EmissionIn] = []
    proposals: tuple[Proposal, ...] = ()
    for found in settled.found:
        if emission_stamp(found.emission) is turn:
            taken += _again(node, found, settled.values)
            continue
        if found.depth > EMISSION_DEPTH:
            kind = found.emission.emission_kind
            taken.append(EmissionIn(kind, channel="result", reason="too_deep", detail=found.path))
            continue
        stamp(found.emission, turn)
        one, more = incoming(engine, node, found.emission, settled.values, "result", len(taken))
        taken.append(one)
        proposals += more
    for item in _blocks(turn, settled.plain):
        if isinstance(item, Malformed):
            kind = item.kind or "unknown"
            taken.append(EmissionIn(kind, channel="text", reason=item.reason, detail=item.detail))
        else:
            one, more = incoming(engine, node, item, settled.values, "text", len(taken))
            taken.append(one)
            proposals += more
    return tuple(taken), proposals


def _again(node: NodeState, found: Found, values: list[bytes]) -> list[EmissionIn]:
    """A request to grow that was emitted and is returned as well is one; the second sight is on record."""
    emission = found.emission
    if not isinstance(emission, SpawnRequest | TaskAssignment):
        return []
    payload = dump(emission)
    made = [entry for entry in node.ledger if entry.child is not None and entry.payload == payload]
    if not made:
        return []
    values.append(payload)
    key, detail = getattr(emission, "key", None), f"this very request was emitted and made {made[-1].child}"
    position = len(values) - 1
    return [EmissionIn(emission.emission_kind, position, "result", key, reason="duplicate", detail=detail)]


def _blocks(turn: RoleTurn, plain: object) -> list[Emission | Malformed]:
    """Tagged blocks in what a program printed or a role gave; a model has tools and its text is only text."""
    text = _text_of(plain) if turn.text is None else turn.text
    return parse_text(text) if _FENCE in text else []


def _text_of(plain: object) -> str:
    """The text in which a program or model may have put tagged blocks."""
    text = plain.get("text") if isinstance(plain, dict) else plain
    return text if isinstance(text, str) else ""


def incoming(
    engine: Engine, node: NodeState, emission: Emission, values: list[bytes], channel: str, position: int = 0
) -> tuple[EmissionIn, tuple[Proposal, ...]]:
    """One emission as the core takes it, and what its handler proposes.

    Args:
        values: the command's values, which grow. position: the emission's place in the command.
    """
    kind = emission.emission_kind
    known = EMISSIONS.get(kind)
    if known is not None and type(emission) is not known:
        detail = f"this {kind} is not the house's type; import it from emissions"
        return EmissionIn(kind, channel=channel, reason="forged", detail=detail), ()
    try:
        payload = dump(emission)
    except NotExactError as error:
        return EmissionIn(kind, channel=channel, reason="invalid", detail=str(error)), ()
    if kind == ArtifactProduced.emission_kind:
        fault = claim_fault(where(engine, node), str(getattr(emission, "path", "")))
        if fault is not None:
            return EmissionIn(kind, channel=channel, reason="invalid", detail=fault), ()
    values.append(payload)
    key = getattr(emission, "key", None)
    # a type of somebody's own may call anything its key
    one = EmissionIn(kind, len(values) - 1, channel, key if type(key) is str else None)
    handler = engine.handlers.get(type(emission))
    if handler is None:
        return one, ()
    try:
        given = handler(emission, RunView(engine.state))
        return one, proposals_from(given, values, f"the handler of {kind}", engine.free_verbs, position)
    except BaseException as error:  # noqa: BLE001 (a handler that raises refuses the emission, nothing else)
        return EmissionIn(kind, channel=channel, reason="handler_error", detail=said(error, 500)), ()


def only_escalation(value: object) -> bool:
    """True if a role returned nothing but a request to be relieved."""
    items = value if isinstance(value, list | tuple) and value else [value]
    return all(
        isinstance(item, EscalationRequest) and item.effective_route == "higher_tier" for item in items
    )


# --- gates, edges, on_settle -------------------------------------------------------------------


def _predicates(
    engine: Engine, node: NodeState, outcome: Callable[[], Any], plain: object, turn: RoleTurn
) -> dict[int, bool | str]:
    """Judge the condition objects on the node's edges; an error is kept as its text."""
    wanted = {edge.spec.predicate for edge in node.outs if edge.spec.predicate is not None}
    if not wanted:
        return {}
    try:
        context = dict(context_mapping(engine.state, view_of(engine.state, node), engine.reducers))
    except BaseException as error:  # noqa: BLE001 (a reducer is its author's code: its error fails the target)
        return dict.fromkeys(sorted(wanted), f"could not be judged: {said(error)}")
    if isinstance(plain, dict) and isinstance(plain.get("context"), dict):
        context |= plain["context"]
    context |= merged(turn.pending_writes)
    return {index: _judge(engine, index, outcome(), context) for index in sorted(wanted)}


def judge_known(engine: Engine) -> dict[int, bool | str]:
    """The same for nodes whose outcome is known before the run starts."""
    prepared, judged = engine.prepared, {}
    context = msgspec.json.decode(prepared.plan.context)
    known = {one.node: one for one in prepared.known}
    for edge in prepared.plan.edges:
        one = known.get(edge.source)
        if edge.predicate is not None and one is not None:
            raw = b"null" if one.value is None else prepared.values[one.value]
            judged[edge.predicate] = _judge(engine, edge.predicate, msgspec.json.decode(raw), context)
    return judged


def _judge(engine: Engine, index: int, result: object, context: Mapping[str, Any]) -> bool | str:
    condition = engine.predicates[index]
    shown = f"({type(condition).__name__})"
    try:
        given: object = condition.apply(result, dict(context))
    except BaseException as error:  # noqa: BLE001 (the author's code: its error fails the target)
        return f"{shown} raised {said(error)}"
    if given is True or given is False:
        return given
    return f"{shown} gave {type(given).__name__}, not a bool"


def _on_settle(
    engine: Engine, node: NodeState, outcome: Callable[[], Any], values: list[bytes]
) -> tuple[Proposal, ...]:
    hook = engine.on_settle
    if hook is None:
        return ()
    try:
        given = hook(node.op.name, RunView(engine.state, outcome))
        return proposals_from(given, values, "on_settle", engine.free_verbs)
    except BaseException:  # the author's hook: it is told in the log and changes nothing
        engine.log.exception("on_settle raised for %s; it changes nothing", node.op.name)
        return ()


# --- failures ----------------------------------------------------------------------------------


def failed(
    engine: Engine, node: NodeState, turn: RoleTurn, error: BaseException, kind: str | None = None
) -> tuple[Finish, list[bytes]]:
    """The command for a body that raised ``error``."""
    name, attempt = node.op.name, turn.attempt
    failure = failure_of(error, attempt, kind)
    if issubclass(type(error), NotApplicable):
        given: list[bytes] = []
        said = said_by(turn, given, failed=False)
        return Finish(name, attempt, "not_applicable", error=failure, said=said, usage=turn.usage), given
    values: list[bytes] = []
    if issubclass(type(error), QuotaError):
        said = said_by(turn, values, failed=True)
        return Finish(name, attempt, "quota", error=failure, said=said, usage=turn.usage), values
    proposals: tuple[Proposal, ...] = ()
    predicates: dict[int, bool | str] = {}
    if not engine.plain and not would_retry(engine.state, node, failure):
        typed = NodeError(failure.type, failure.message, attempt)
        proposals = _on_settle(engine, node, lambda: typed, values)
        predicates = _predicates(engine, node, lambda: typed, None, turn)
    command = Finish(
        name,
        attempt,
        "failed",
        error=failure,
        proposals=proposals,
        predicates=predicates,
        draw=engine.random.random(),
        said=said_by(turn, values, failed=True),
        usage=turn.usage,
    )
    return command, values


def failure_of(error: BaseException, attempt: int, kind: str | None = None) -> Failure:
    """An exception as a record: type, text and trace, never the live object.

    Whatever the exception's own class does when it is looked at, there is a record.
    """
    source: Any = error.reason if issubclass(type(error), NotApplicable) else error  # type: ignore[attr-defined]
    name = kind or _looked_at(lambda: type(error).__name__, "name")
    trace = ""
    if not issubclass(type(error), OrchestratorError):
        trace = _looked_at(lambda: "".join(traceback.format_exception(error, limit=-8)), "traceback")
    message = storable(redacted(_looked_at(lambda: str(source), "text")), _MESSAGE_LIMIT)
    return Failure(storable(name), message, attempt, storable(redacted(trace)[-_TRACE_LIMIT:]))


def _looked_at(look: Callable[[], str], what: str) -> str:
    try:
        return str(look())
    except BaseException as broken:  # noqa: BLE001 (an exception that cannot even be looked at)
        return f"(its {what} raised {type(broken).__qualname__})"
