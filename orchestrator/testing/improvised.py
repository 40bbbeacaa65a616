"""Stand-ins that improvise: any role of a flow, played at random within what it declares.

What a node does in an attempt is drawn from the seed, its name and the attempt, never from the schedule: one
seed is one behaviour of the whole cast, whatever runs first.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec
from pydantic import TypeAdapter, ValidationError

from emissions import Emission, EscalationRequest, SpawnRequest, TaskAssignment, Verdict, VerdictValue
from emissions import json_schema as emission_schema
from orchestrator.core.gates import REJECT, gate_verdict
from orchestrator.core.spec import Operation
from orchestrator.core.state import RunState
from orchestrator.flows.operations import json_schema
from orchestrator.runtime.run import Run
from orchestrator.testing.drawn import Drawer, Literals
from roles import NotApplicable, Role, Turn

__all__ = ["MOODS", "Improviser", "Mood", "RehearsedFailure"]

#: Requests to grow in one rehearsal: enough to meet the usual budgets, few enough to be quick.
REQUESTS: Final = 200
#: In virtual seconds: longer than any timeout that somebody writes.
_FOR_EVER: Final = 1e8
_TRIES: Final = 20
_FLOOD: Final = 40
#: How much longer than it has to be a list is drawn at most.
_SHORT: Final = 4
_LONG: Final = 24
_LONGEST_TURN: Final = 60.0
_TEXT_VALUE: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
}


@cache
def _schema_of(kind: type[Emission]) -> Mapping[str, Any]:
    return emission_schema(kind)


class RehearsedFailure(Exception):  # noqa: N818 (it is what a role raises on purpose)
    """What a stand-in raises to see what becomes of a failure."""


@dataclass(frozen=True, slots=True)
class Mood:
    """What the cast tends to do in one rehearsal: shares of all turns, from 0 to 1.

    Attributes:
        refuses: gates that refuse. undecided: gates without a readable verdict, or with two.
        fails, hangs, skips: turns that raise, that pass their time limit, that say there is nothing to do.
        escalates: turns that ask for a higher tier. spawns: turns of roles that may grow the graph and do.
        floods: those that ask for more than anybody would allow. silent: questions that nobody answers.
    """

    name: str
    refuses: float = 0.0
    undecided: float = 0.0
    fails: float = 0.0
    hangs: float = 0.0
    skips: float = 0.0
    escalates: float = 0.0
    spawns: float = 0.0
    floods: float = 0.0
    silent: float = 0.0


#: In turn, by seed: each rehearsal of ten has some of every mood.
MOODS: Final = (
    Mood("calm", spawns=0.5),
    Mood("ordinary", 0.3, 0.03, 0.05, 0.03, 0.02, 0.05, 0.6, 0.05, 0.1),
    Mood("refusing", refuses=0.8, spawns=0.3),
    Mood("bare"),
    Mood("failing", 0.2, 0.05, 0.3, 0.1, 0.05, 0.05, 0.5, 0.0, 0.3),
    Mood("growing", refuses=0.2, spawns=0.9, floods=0.3),
    Mood("calm", spawns=0.5, refuses=0.1),
    Mood("climbing", fails=0.1, escalates=0.5, refuses=0.2, spawns=0.3),
    Mood("silent", undecided=0.5, hangs=0.3, silent=0.9, refuses=0.2),
    Mood("ordinary", 0.3, 0.03, 0.05, 0.03, 0.02, 0.05, 0.6, 0.05, 0.1),
)


class Improviser:
    """Plays every role of one rehearsal.

    Args:
        seed: its luck. roles: the roles of the flow by name. literals: what its conditions compare with.

    Attributes:
        mood: how the cast behaves. active: turns at this moment; most: the highest number of them.
        run: the run that is played; set before the first turn. spoiled: nodes whose stand-in left out what
            they promise, on purpose.
    """

    def __init__(self, seed: int, roles: Mapping[str, Role], literals: Literals) -> None:
        self.seed, self.mood = seed, MOODS[seed % len(MOODS)]
        self._roles, self._literals = roles, literals
        self.active = self.most = self.requests = 0
        self.run: Run | None = None
        self.spoiled: set[str] = set()
        self._schemas: dict[str, Mapping[str, Any] | None] = {}

    @property
    def _state(self) -> RunState:
        assert self.run is not None
        return self.run.engine.state

    def drawer(self, *of: object) -> Drawer:
        """The luck of one part of the rehearsal, always the same."""
        luck = random.Random("/".join(map(str, (self.seed, *of))))  # noqa: S311 (a rehearsal is no secret)
        return Drawer(luck, self._literals, longest=_LONG if self.mood.floods else _SHORT)

    async def play(self, turn: Turn) -> Any:
        """One attempt of one node."""
        self.active += 1
        self.most = max(self.most, self.active)
        try:
            return await _Part(self, turn).play()
        finally:
            self.active -= 1

    def kinds(self, operation: Operation) -> list[type[Emission]]:
        """What a node may emit; nobody knows what stands behind a bare operation: what the run acts on."""
        role = self._roles.get(operation.role or "")
        granted = (SpawnRequest, Verdict, EscalationRequest) if role is None else role.grants
        return [kind for kind in granted if operation.emits is None or kind.emission_kind in operation.emits]

    def schema(self, operation: Operation) -> Mapping[str, Any] | None:
        """What a node's value has to look like, or None."""
        if operation.name not in self._schemas:
            role, text = self._roles.get(operation.role or ""), operation.returns
            if text is None and role is not None:
                text = json_schema(role.returns, operation.name)
            self._schemas[operation.name] = None if text is None else msgspec.json.decode(text)
        return self._schemas[operation.name]


class _Part:
    """One turn."""

    def __init__(self, cast: Improviser, turn: Turn) -> None:
        self._cast, self._turn, self._mood = cast, turn, cast.mood
        self._state = cast._state  # noqa: SLF001 (a part is the inside of its cast)
        self._operation = self._state.nodes[turn.node].op
        self._luck = cast.drawer(turn.node, turn.attempt)

    async def play(self) -> Any:
        # whoever works reads what there is to do first: a text that cannot be rendered is the flow's fault
        _ = self._turn.instruction, self._turn.parameters
        luck, mood = self._luck, self._mood
        await self._pause()
        for kind in self._cast.kinds(self._operation):
            for emission in self._drawn(kind):
                await self._turn.emit(emission)
                await self._pause()
        if luck.chance(mood.hangs) and self._is_stopped():
            await anyio.sleep(_FOR_EVER)
        if luck.chance(mood.fails):
            raise self._failure()
        if luck.chance(mood.skips):
            raise NotApplicable("rehearsal: nothing to do")
        self._leave_files()
        return self._value()

    async def _pause(self) -> None:
        luck = self._luck.draw.random()
        if luck > 0.7:  # noqa: PLR2004 (a share like any other)
            limit = self._operation.timeout or _LONGEST_TURN
            await anyio.sleep(self._luck.draw.uniform(0, min(limit, _LONGEST_TURN) / 10))
        elif luck > 0.4:  # noqa: PLR2004
            await anyio.lowlevel.checkpoint()

    def _is_stopped(self) -> bool:
        """True if something ends a turn that does not end by itself."""
        operation, budget = self._operation, self._state.budget
        return bool(operation.timeout or operation.deadline or budget.wall_clock)

    def _failure(self) -> Exception:
        """An error, now and then one of those that the node retries."""
        retry = self._operation.retry
        if retry is not None and retry.on and self._luck.chance(0.7):
            name = self._luck.draw.choice(retry.on)
            if name.isidentifier():
                error: type[Exception] = type(name, (RehearsedFailure,), {})
                return error("rehearsal: this attempt fails")
        return RehearsedFailure("rehearsal: this attempt fails")

    def _leave_files(self) -> None:
        for path in self._turn.artifacts.values():
            if self._luck.chance(self._mood.fails):
                self._cast.spoiled.add(self._turn.node)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(self._luck.text(), encoding="utf-8")

    # --- emissions -----------------------------------------------------------------------------

    def _drawn(self, kind: type[Emission]) -> list[Emission]:
        """What this turn emits of a kind."""
        luck, mood = self._luck, self._mood
        if kind is Verdict and self._operation.gate is not None:
            return [] if self._returns_verdict() else list(self._verdicts())
        if kind is EscalationRequest and not luck.chance(mood.escalates):
            return []
        if kind in (SpawnRequest, TaskAssignment):
            if not luck.chance(mood.spawns):
                return []
            count = luck.draw.randint(10, _FLOOD) if luck.chance(mood.floods) else luck.draw.randint(1, 3)
            count = min(count, REQUESTS - self._cast.requests)
            self._cast.requests += count
        else:
            count = 1 if kind is EscalationRequest else luck.draw.randint(0, 2)
        found = [self._emission(kind) for _ in range(count)]
        return [emission for emission in found if emission is not None]

    def _emission(self, kind: type[Emission]) -> Emission | None:
        """A valid emission of a kind; None if none came up."""
        for _ in range(_TRIES):
            fields = self._luck.value(_schema_of(kind))
            if kind is SpawnRequest:
                fields |= self._request()
            elif kind is TaskAssignment:
                fields |= {"name": f"task_{self._luck.draw.randint(1, 99)}", "depends_on": []}
                fields |= {"modes": [], "assignee": self._assignee() or ""}
            try:
                return kind.model_validate(fields)
            except ValidationError:
                continue
        return None

    def _request(self) -> dict[str, Any]:
        """Fields of a request that mean something in this run; sometimes something that is not there."""
        luck, nodes = self._luck, tuple(self._state.nodes)
        near: list[Any] = [(), (), "successors", [luck.draw.choice(nodes)]]
        return {
            "assignee": self._assignee(),
            "operation": "operate",
            "before": luck.draw.choice(near),
            "after": [luck.draw.choice(nodes)] if luck.chance(0.15) else [],
            "key": f"key{luck.draw.randint(1, 50)}" if luck.chance(0.4) else None,
            "independent": luck.chance(0.2),
            "required": luck.chance(0.2),
            "inherit": False,
        }

    def _assignee(self) -> str | None:
        assignees: Sequence[str] = self._state.budget.assignees or tuple(self._state.roles)
        if not assignees or self._luck.chance(0.1):
            return None if self._luck.chance(0.5) else "nobody"
        return self._luck.draw.choice(assignees)

    # --- verdicts and values -------------------------------------------------------------------

    def _returns_verdict(self) -> bool:
        """A gate whose value has no shape of its own may return its verdict; half of them do."""
        return self._cast.schema(self._operation) is None and self._cast.drawer(self._turn.node).chance(0.5)

    def _verdicts(self) -> list[Verdict]:
        luck, mood, gate = self._luck, self._mood, self._operation.gate
        assert gate is not None
        if luck.chance(mood.undecided):
            words = [[], [VerdictValue.APPROVE, VerdictValue.REJECT]][luck.chance(0.5)]
            return [self._verdict(word) for word in words]
        refuses = luck.chance(mood.refuses)
        words = [word for word in VerdictValue if (gate_verdict(gate, word) == REJECT) is refuses]
        return [self._verdict(luck.draw.choice(words))]

    def _verdict(self, word: VerdictValue) -> Verdict:
        fields = self._luck.value(_schema_of(Verdict))
        return Verdict.model_validate({**fields, "verdict": word.value})

    def _value(self) -> Any:
        operation = self._operation
        schema = self._cast.schema(operation)
        speaks = Verdict in self._cast.kinds(operation)
        if operation.gate is not None and schema is None and (not speaks or self._returns_verdict()):
            verdicts = self._verdicts()
            return verdicts[0] if len(verdicts) == 1 else {"text": self._luck.text()}
        value = self._fitting(_TEXT_VALUE if schema is None else schema)
        if operation.gate is not None and not speaks and isinstance(value, dict):
            value |= {"gate_verdict": "reject"} if self._luck.chance(self._mood.refuses) else {}
        return value

    def _fitting(self, schema: Mapping[str, Any]) -> Any:
        """A value of this shape; one that passes where a type checks more than its schema says."""
        assert self._cast.run is not None
        model: Any = self._cast.run.engine.returns.get(self._turn.node)
        value = self._luck.value(schema)
        if model is None:
            return value
        for _ in range(_TRIES):
            try:
                TypeAdapter(model).validate_python(value)
            except ValidationError:
                value = self._luck.value(schema)
            else:
                break
        return value
