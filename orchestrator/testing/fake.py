"""``fake_turn``: a turn with no engine, for tests that call a role like the function it is."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from inspect import isawaitable
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar, cast

import msgspec

from emissions import Emission, Malformed, Receipt, emission_stamp, parse_text, stamp
from orchestrator.core.births import Birth
from orchestrator.core.scopes import Lazy
from orchestrator.core.spec import Operation
from orchestrator.core.state import NodeState
from orchestrator.core.status import Status
from orchestrator.runtime import writes as context_writes
from orchestrator.runtime.steering import rendered
from orchestrator.runtime.turns import RoleTurn
from orchestrator.runtime.values import EMISSION_DEPTH, Found, settle
from orchestrator.runtime.views import Inputs as Predecessors
from orchestrator.testing.desk import Desk, Grants, Receipts
from orchestrator.testing.given import (
    Ancestry,
    Asked,
    Given,
    Said,
    ancestors,
    by_value,
    encoded,
    in_order,
    node_error,
    said,
)
from orchestrator.testing.script_error import ScriptError
from roles import Artifact, Emitted, Inputs, NodeError, Rework, Role, Turn

__all__ = ["FakeTurn", "fake_turn"]

E = TypeVar("E", bound=Emission)
T = TypeVar("T")
_decode = msgspec.json.decode

#: When a fake turn's operator spoke: a fixed time, so that an instruction reads the same in every run.
_STEERED_AT = "2026-01-01T00:00:00Z"


class FakeTurn:
    """A turn that no engine stands behind (implements ``roles.Turn``); made by :func:`fake_turn`.

    Values go in and out by value, as JSON, and what has none is refused as in a run.

    Attributes:
        node, run, attempt, deadline, branch: as the role reads them.
        reports: texts that the role reported. asked: its questions.
    """

    def __init__(self, node: str, desk: Desk, given: Given) -> None:
        self.node, self.run, self.attempt = node, given.run, given.attempt
        self.deadline, self.branch = given.deadline, given.branch
        self._rework = None if given.rework is None else by_value(given.rework)
        self.parameters: dict[str, Any] = _decode(settle(dict(given.parameters), "parameters")[0])
        self.instruction = given.instruction
        if given.steers:
            self.instruction = rendered([(_STEERED_AT, text) for text in given.steers], given.instruction)
        self.reports: list[str] = []
        self.asked: list[Asked] = []
        self._desk = desk
        self._inputs, returned = _predecessors(given)
        self._said = in_order([*ancestors(given), *returned], given.inputs)
        self._failed = {name: node_error(error) for name, error in given.failed.items()}
        self._context = encoded(given.context, "context")
        self._answers = encoded(given.answers, "answers")
        self._steps = encoded(given.steps, "steps")
        self._unread = list(given.steers)
        self._pending: context_writes.Pending = []
        self._workdir = given.workdir
        self._artifacts = tuple(given.artifacts)
        self._mark = object()

    def __repr__(self) -> str:
        return f"<fake turn {self.node} attempt {self.attempt}>"

    # --- what the role reads -------------------------------------------------------------------

    @property
    def inputs(self) -> Inputs:
        """The values of predecessors, by name; read-only."""
        return self._inputs

    def input(self, name: str, model: type[T], /) -> T:
        """One predecessor's value, validated into a type.

        Raises:
            KeyError: no predecessor of this name. ValueError: its value does not fit.
        """
        # the real turn's method reads nothing but `inputs`: both refuse alike
        return RoleTurn.input(cast("RoleTurn", self), name, model)

    @property
    def failed(self) -> Mapping[str, NodeError]:
        """The predecessors that failed."""
        return dict(self._failed)

    @property
    def rework(self) -> Rework | None:
        """Why a gate sent the work back, as the test gave it; its value is a copy at each look."""
        return None if self._rework is None else by_value(self._rework)

    def emissions(self, type_: type[E], /, of: str | Sequence[str] | None = None) -> list[Emitted[E]]:
        """What ancestors emitted of a type, in the order in which the test gave it."""
        wanted = None if of is None else {of} if isinstance(of, str) else set(of)
        return [
            Emitted(type_.model_validate_json(said.payload), said.node, said.role, said.attempt)
            for said in self._said
            if said.type.emission_kind == type_.emission_kind and (wanted is None or said.node in wanted)
        ]

    @property
    def context(self) -> Mapping[str, Any]:
        """The shared context as the test gave it; what this turn writes is not in it, as in a run."""
        given = self._context
        return Lazy(dict.fromkeys(given), lambda key: _decode(given[key]))

    @property
    def idempotency_key(self) -> str:
        """``run/node``."""
        return f"{self.run}/{self.node}"

    @property
    def workdir(self) -> Path:
        """The node's folder: the one given, or a temporary one that goes when the turn goes."""
        if self._workdir is None:
            self._workdir = Path(mkdtemp(prefix="callboard-"))
            weakref.finalize(self, shutil.rmtree, self._workdir, ignore_errors=True)
        self._workdir.mkdir(parents=True, exist_ok=True)
        return self._workdir

    @property
    def artifacts(self) -> Mapping[str, Path]:
        """Where the files that the role declares belong."""
        return {artifact.name: self.workdir / artifact.path for artifact in self._artifacts}

    def steers(self) -> Sequence[str]:
        """What the operator has said since the last call."""
        unread, self._unread = self._unread, []
        return unread

    # --- what the role says --------------------------------------------------------------------

    async def emit(self, emission: Emission, /) -> Receipt:
        """Record an emission and answer it.

        Raises:
            TypeError: it is no emission.
        """
        return self.emit_sync(emission)

    def emit_sync(self, emission: Emission, /) -> Receipt:
        """``emit`` from a plain ``def`` role."""
        given: object = emission
        if not isinstance(given, Emission):
            message = f"turn.emit takes an emission, not {type(given).__name__}"
            raise TypeError(message)
        receipt = self._desk.take(emission)
        stamp(emission, self._mark)
        return receipt

    def write(self, key: str, value: Any, *, replace: bool = False) -> None:
        """Record a write to the shared context.

        Raises:
            NotExactError: the value is not JSON data.
        """
        context_writes.add(self._pending, key, settle(value, key)[2], replace=replace)

    def report(self, text: str, /) -> None:
        """Record what is going on."""
        self.reports.append(str(text))

    async def step(self, key: str, fn: Callable[[], Awaitable[T] | T], /) -> T:
        """Call ``fn`` unless the test, or an earlier call, has a value for this step.

        Raises:
            NotExactError: the value is not JSON data.
        """
        if key not in self._steps:
            made = fn()
            value = await made if isawaitable(made) else made
            self._steps[key] = settle(value, f"step {key}")[0]
        recorded: T = _decode(self._steps[key])
        return recorded

    async def ask(
        self,
        question: str,
        *,
        key: str | None = None,
        choices: Sequence[str] = (),
        schema: Any = None,
        expires: float | None = None,
        default: Any = None,
    ) -> Any:
        """Answer from the script; where it says nothing, a question that may expire has its default.

        Raises:
            ScriptError: nothing answers, or the answer is none of the choices.
        """
        identity = key or question
        raw = self._answers.get(identity)
        if raw is None and expires is not None:
            raw = settle(default, "default")[0]
        if raw is None:
            message = f"{self.node} asks {question!r} and nobody answers; give answers={{{identity!r}: ...}}"
            raise ScriptError(message)
        answer = _decode(raw)
        if choices and identity in self._answers and answer not in choices:
            message = f"answers[{identity!r}] is {answer!r}; the choices are {', '.join(choices)}"
            raise ScriptError(message)
        self._answers[identity] = raw
        self.asked.append(Asked(question, identity, tuple(choices), schema, expires, default, answer))
        return answer

    # --- what the test reads and does ----------------------------------------------------------

    @property
    def emitted(self) -> list[Any]:
        """Every emission of the role, in order, refused ones too; one emitted and returned stands once."""
        return [entry.emission for entry in self._desk.entries]

    @property
    def receipts(self) -> list[Receipt]:
        """The answers, one for each of :attr:`emitted`."""
        return [entry.receipt for entry in self._desk.entries]

    @property
    def accepted(self) -> list[Any]:
        """The emissions that were accepted."""
        return [entry.emission for entry in self._desk.entries if entry.receipt]

    @property
    def writes(self) -> dict[str, Any]:
        """What the role wrote to the shared context, by key, merged as a run merges one node's writes."""
        plain = context_writes.merged(self._pending)
        return {key: _decode(settle(value, key)[0]) for key, value in plain.items()}

    @property
    def steps(self) -> dict[str, Any]:
        """Values of steps, given and done."""
        return {key: _decode(raw) for key, raw in self._steps.items()}

    def tell(self, text: str) -> None:
        """Say something as the operator while the role works: the next ``turn.steers()`` has it."""
        self._unread.append(text)

    async def play(self, role: Role | Callable[[Turn], Any]) -> Any:
        """Call a role with this turn and settle what it returns as a run would.

        Emissions in the value are answered like emitted ones, a mapping under ``context`` is written.

        Returns:
            The value as its dependents would read it: JSON data.

        Raises:
            NotExactError: the value is not JSON data. ExecutionError: ``context`` is no mapping.
        """
        value = role(self)
        return self.settle(await value if isawaitable(value) else value)

    def settle(self, value: object) -> Any:
        """Settle a returned value; see :meth:`play`, which calls the role as well."""
        raw, found, plain = settle(value)
        for item in found:
            self._take_returned(item)
        self._take_fenced(plain)
        context_writes.gather(None, plain, None, [])  # refuses a `context` that is no mapping
        if isinstance(plain, dict):
            for key, written in plain.get("context", {}).items():
                context_writes.add(self._pending, key, written, replace=False)
        return _decode(raw)

    def _take_returned(self, item: Found) -> None:
        if emission_stamp(item.emission) is self._mark:
            return
        if item.depth > EMISSION_DEPTH:
            self._desk.refuse(item.emission, "too_deep", item.path)
            return
        stamp(item.emission, self._mark)
        self._desk.take(item.emission, "result")

    def _take_fenced(self, plain: object) -> None:
        """Take emissions out of the text that a program or a model gave."""
        text = plain.get("text") if isinstance(plain, dict) else plain
        for item in parse_text(text) if isinstance(text, str) and "```" in text else ():
            if isinstance(item, Malformed):
                self._desk.refuse(item, item.reason, item.detail)
            else:
                self._desk.take(item, "text")


def fake_turn(
    parameters: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | None = None,
    grants: Grants = None,
    *,
    node: str | None = None,
    instruction: str = "",
    context: Mapping[str, Any] | None = None,
    emissions: Ancestry = (),
    failed: Mapping[str, NodeError | BaseException] | None = None,
    roles: Mapping[str, str] | None = None,
    receipts: Receipts = (),
    spawns: int | None = None,
    answers: Mapping[str, Any] | None = None,
    steps: Mapping[str, Any] | None = None,
    steers: Iterable[str] = (),
    workdir: str | Path | None = None,
    artifacts: Iterable[Artifact] = (),
    attempt: int = 1,
    deadline: float | None = None,
    branch: Any = None,
    rework: Rework | None = None,
    run: str = "run",
) -> FakeTurn:
    """Make a turn with no engine: it records what a role emits, writes, reports and asks, and answers.

    Args:
        parameters: ``turn.parameters``.
        inputs: values of predecessors that completed, by name. An emission in one counts as emitted by it.
        grants: what the role may emit: the role itself, types, or None for everything.
        node: the node's name; the role's, or ``node``.
        instruction: ``turn.instruction``, as it reads after rendering.
        context: the shared context as ancestors wrote it.
        emissions: what ancestors emitted: node -> emissions; or emissions, of ``upstream``; or Emitted.
        failed: predecessors that failed, by name: their exception or NodeError.
        roles: node -> role of predecessors, for ``inputs.of(role=)``; where it says nothing, the name
            tells: ``scout.inspector-1`` is an inspector, ``scan`` and ``scan_2`` are scans.
        receipts: scripted answers to granted emissions, in order: Accepted, Refused, or a refusal's reason
            as text; None, and the end of them, leaves the answer to the turn. Or a function of the emission.
        spawns: how many nodes the turn may grow; None is no limit.
        answers: answers to ``turn.ask``, by key or question.
        steps: values of steps that an earlier attempt did.
        steers: what an operator said before the node started.
        workdir: its folder; a temporary one if omitted.
        artifacts: files that it declares beside the role's.
        attempt: from 1.
        deadline: seconds on the loop's clock.
        branch: ``turn.branch``.
        rework: ``turn.rework``: why a gate sent this work back.
        run: the run's id.

    Returns:
        The turn, with ``emitted``, ``receipts``, ``accepted``, ``writes``, ``reports``, ``asked``, ``steps``.

    Raises:
        NotExactError: something given is not JSON data. TypeError: grants or receipts make no sense.
    """
    role = grants if isinstance(grants, Role) else None
    name = node or ("node" if role is None else role.name)
    given = Given(
        parameters=parameters or {},
        inputs=inputs or {},
        instruction=instruction,
        context=context or {},
        emissions=emissions,
        failed=failed or {},
        rework=rework,
        roles=roles or {},
        answers=answers or {},
        steps=steps or {},
        steers=tuple(steers),
        workdir=None if workdir is None else Path(workdir),
        artifacts=(*(() if role is None else role.artifacts), *artifacts),
        attempt=attempt,
        deadline=deadline,
        branch=branch,
        run=run,
    )
    return FakeTurn(name, Desk(name, grants, receipts, spawns, given.roles), given)


def _predecessors(given: Given) -> tuple[Inputs, list[Said]]:
    """Completed nodes that hold the values; an emission in a value was emitted by its node."""
    nodes: dict[str, NodeState] = {}
    returned: list[Said] = []
    for number, (name, value) in enumerate(given.inputs.items()):
        raw, found, _ = settle(value, f"inputs.{name}")
        role = given.role_of(name)
        operation = Operation(name=name, role=role)
        nodes[name] = NodeState(operation, Birth(number), name, status=Status.COMPLETED, value=raw, attempt=1)
        returned += [said(item.emission, name, role) for item in found]
    # a mapping's `get` is written as overloads, which is one signature less than the protocol's
    return cast("Inputs", Predecessors(nodes)), returned
