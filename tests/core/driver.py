"""Drives a GraphMachine and a naive model side by side, one random command at a time.

Whoever chooses is a `Chooser`: Hypothesis, which shrinks what fails, or a seeded `random.Random`, which is
fast. After each command every law is checked, the record is encoded, decoded and replayed into a second
machine whose state must be equal, and each node must stand where the model says.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from emissions import Accepted
from orchestrator.core import commands as c
from orchestrator.core import facts as f
from orchestrator.core import laws
from orchestrator.core.decisions import Decision
from orchestrator.core.machine import GraphMachine
from orchestrator.core.records import Record, decode_record, encode_record
from orchestrator.core.spec import Budget, Edge, Gate, Operation, Plan, Retry, RoleSpec, Undecided
from tests.core.naive import BUSY, CONDITIONS, LIVE, WHENS, Link, Model, Sketch
from tests.core.naive_rounds import latest
from tests.core.plainly import plainly

T = TypeVar("T")
RAISED = f.Failure("ValueError", "no", 1)
ALL = ("completed", "failed", "skipped", "vetoed", "cancelled", "escalated")
UNSTARTED = {"skipped", "vetoed", "cancelled"}
VERDICTS = ("APPROVE", "APPROVE-WITH-FIXES", "REQUEST-CHANGES", "REJECT")
VALUES = (b"1", b"2", b"true", b"false", b'{"a":1}')
USES: tuple[tuple[str, ...], ...] = ((), ("db",), ("db", "gpu"), ("gpu", "db"), ("db", "db"))
#: value -> leaves
WRITES = {b'{"a":1}': ("/a",), b'{"b":{"c":2}}': ("/b/c",), b'{"b":3}': ("/b",), b"7": ("",)}


class Chooser(Protocol):
    """Where the random comes from."""

    def pick(self, options: Sequence[T]) -> T: ...

    def number(self, low: int, high: int) -> int: ...


class Seeded:
    """A chooser by seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, options: Sequence[T]) -> T:
        return options[self._random.randrange(len(options))]

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)


class Log:
    """A machine with its records, a second machine that only replays them, and the checks of both."""

    def __init__(self) -> None:
        self.machine, self.shadow = GraphMachine(), GraphMachine()
        self.state = self.machine.state
        self.at = self.facts = 0
        self.records: list[Record] = []
        self.given: list[tuple[bytes, int, tuple[bytes, ...], tuple[str, ...]]] = []

    def tell(self, command: c.Command, *values: bytes) -> Decision:
        """Decide, record, replay, check."""
        self.at += 1
        decision = self.machine.handle(command, self.at, values)
        raw = [msgspec.Raw(value) for value in decision.values]
        seq = len(self.records) + 1
        record = Record(seq, self.facts + 1, self.at, command, list(decision.facts), raw, decision.cause)
        encoded = encode_record(record)
        self.given.append((encoded, self.at, values, tuple(map(repr, decision.receipts))))
        read = decode_record(encoded)
        assert read == record
        if decision.facts:
            self.facts += len(decision.facts)
            self.records.append(read)
            self.shadow.replay(read)
        assert self.state.facts == self.facts
        assert laws.check(self.state) == []
        assert plainly(self.shadow.state) == plainly(self.state)
        return decision

    def decided_again(self) -> None:
        """The same commands, read back, lead to the same facts and receipts (law 9)."""
        machine = GraphMachine()
        for encoded, at, values, receipts in self.given:
            record = decode_record(encoded)
            decision = machine.handle(record.command, at, values)
            assert list(decision.facts) == record.facts
            assert tuple(map(repr, decision.receipts)) == receipts


def can_be_waited_for(source: Sketch | None) -> bool:
    """What a new node may name in `after`."""
    dead = source is None or source.status in ("failed", "skipped", "cancelled", "vetoed")
    return not dead and source is not None and source.judgement not in ("rejected", "refused")


class Driver:
    """One history: a random plan, then commands until the run is over."""

    def __init__(self, choose: Chooser, *, limits: bool = False, rounds: bool = False) -> None:
        """``limits``: with limits and a shared branch. ``rounds``: with gates that refuse.

        Rounds write no key that could conflict: what a later round takes back is tested in test_context.
        """
        self.choose, self.limits, self.rounds = choose, limits, rounds
        self.log, self.model = Log(), Model()
        self.state = self.log.state
        self.counter = 0
        #: emissions that were met again; a second time over one channel would be a second emission
        self.repeated: set[tuple[str, int]] = set()
        self.begin()

    @property
    def over(self) -> bool:
        return bool(self.state.ended or self.state.suspended)

    def flag(self, percent: int) -> bool:
        return self.choose.number(0, 99) < percent

    def seldom(self, percent: int) -> int:
        """How often something happens that ends most histories before a round could begin."""
        return percent // 5 if self.rounds else percent

    # --- the plan ------------------------------------------------------------------------------

    def begin(self) -> None:
        choose = self.choose
        names = [f"n{number}" for number in range(choose.number(3 if self.rounds else 1, 7))]
        operations = [self.operation(name, names[:place]) for place, name in enumerate(names)]
        edges = [
            self.edge(source, target)
            for place, target in enumerate(names)
            for source in names[:place]
            if self.flag(55 if self.rounds else 35)
        ]
        tokens = choose.pick((None, None, None, 3))
        budget = Budget(
            spawns=choose.pick((0, 2, 5)), depth=choose.pick((1, 2)), escalations=choose.pick((0, 1, 2)),
            concurrency=choose.pick((1, 2, 5, None)), tokens=tokens,
            assignees=choose.pick((None, ("worker",))),
        )  # fmt: skip
        every = ("SpawnRequest", "Verdict", "Finding")
        retry = choose.pick((None, Retry(attempts=2)))
        roles = (
            RoleSpec(name="worker", emits=every, retry=retry, models=choose.pick(((), ("s", "l")))),
            RoleSpec(name="critic", emits=every, escalates_to="worker"),
        )
        limits = {"role:worker": 1, "name:db": 1, "name:gpu": 1} if self.limits else {}
        plan = Plan(
            operations=tuple(operations), edges=tuple(edges), roles=roles, budget=budget, limits=limits,
            reducers={"log": "append"}, args=msgspec.Raw(b'{"go":true,"stop":false,"word":"x"}'),
        )  # fmt: skip
        self.plan_model(plan)
        known = self.known(names)
        waits = self.flag(50)
        self.model.waits_for_answers = waits
        self.after(self.log.tell(c.Start("r", plan, known, waits_for_answers=waits), b"1"))

    def operation(self, name: str, above: Sequence[str]) -> Operation:
        choose = self.choose
        gate = None
        if self.flag(45 if self.rounds else 30):
            policy = choose.pick(tuple(Undecided))
            gate = Gate(
                on_undecided=policy, refuse_on=choose.pick((("REJECT",), ("REQUEST-CHANGES", "REJECT"))),
                refusals=choose.pick((0, 1, 2, 2, 2, 2)) if self.rounds else 0,
                back_to=choose.pick((None, None, *above[-3:])) if self.rounds else None,
            )  # fmt: skip
        role = choose.pick((None, "worker", "critic"))
        return Operation(
            name=name, gate=gate, role=role, needs=choose.pick(("any", "all")),
            when=choose.pick(tuple(WHENS)) if self.flag(self.seldom(15)) else None,
            emits=("Verdict", "SpawnRequest", "Finding"),
            retry=self.retry() if self.flag(30) else None,
            models=("s", "m", "l")[: choose.number(0, 3)],
            uses=choose.pick(USES) if self.limits else (),
            branch=choose.pick((None, None, "shared")) if self.limits else None,
            stop_on_failure=self.flag(self.seldom(10)),
            speaks=self.rounds and self.flag(30), fresh=self.rounds and self.flag(30),
        )  # fmt: skip

    def retry(self) -> Retry:
        return Retry(attempts=self.choose.number(2, 3), backoff=self.choose.pick((0.0, 1.0)))

    def edge(self, source: str, target: str) -> Edge:
        accept = self.choose.pick((("completed", "failed"), ("completed",)))
        when = self.choose.pick(tuple(CONDITIONS)) if self.flag(self.seldom(20)) else None
        return Edge(source=source, target=target, accept=accept, when=when)

    def known(self, names: list[str]) -> tuple[c.Known, ...]:
        """Sometimes the first node's outcome is given."""
        if not self.flag(10) or self.model.nodes[names[0]].gate is not None:
            return ()
        node = self.model.nodes[names[0]]
        node.value = 1
        self.model.settle(node, "completed")
        return (c.Known(names[0], "completed", 0),)

    def plan_model(self, plan: Plan) -> None:
        model, budget = self.model, plan.budget
        model.reducers = set(plan.reducers)
        model.max_spawns, model.max_depth = budget.spawns, budget.depth
        model.max_escalations, model.max_tokens = budget.escalations, budget.tokens
        for op in plan.operations:
            gate = op.gate
            model.nodes[op.name] = Sketch(
                op.name, needs=op.needs, when=op.when, gate=None if gate is None else gate.on_undecided.value,
                refuse_on=() if gate is None else gate.refuse_on, stop_on_failure=op.stop_on_failure,
                tries=op.retry.attempts if op.retry else 1, tiers=max(1, len(op.models)),
                refusals=0 if gate is None else gate.refusals, back_to=None if gate is None else gate.back_to,
                speaks=op.speaks, fresh=op.fresh,
            )  # fmt: skip
        model.planned = [(edge.source, edge.target) for edge in plan.edges]
        for edge in plan.edges:
            link = Link(edge.source, edge.accept, "flow", when=edge.when)
            model.nodes[edge.target].ins.append(link)

    # --- comparing -----------------------------------------------------------------------------

    def after(self, decision: Decision) -> None:
        """The model settles what follows; every node and the run must stand where it says."""
        model, state = self.model, self.state
        model.settle_all()
        self.starts(decision)
        for name, node in model.nodes.items():
            actual = state.nodes[name]
            if model.cancelling and {node.status, actual.status.value} <= UNSTARTED | {"failed"}:
                node.status, node.judgement = actual.status.value, actual.judgement or ""
            assert (name, actual.status.value) == (name, node.status)
            assert (name, actual.attempt) == (name, node.attempt)
            assert (name, actual.judgement or "") == (name, node.judgement)
        assert set(model.nodes) == set(state.nodes)
        judged = [one for one in state.rounds if one.judgement]
        assert {(one.gate, one.number): (one.judgement, one.moved) for one in judged} == model.rounds
        self.continued(decision)
        assert state.spawns == model.spawns
        assert state.escalations + state.escalating == model.used_escalations()
        stands, why = model.verdict()
        got = (
            ("ended", state.ended)
            if state.ended
            else ("suspended", state.suspended)
            if self.over
            else ("", "")
        )
        assert got == (stands, why)

    def continued(self, decision: Decision) -> None:
        """Each copy that speaks continues its conversation, or begins a fresh one."""
        for fact in decision.facts:
            if isinstance(fact, f.RoundStarted):
                speaking = [self.model.nodes[one.operation.name] for one in fact.nodes]
                speaking = [node for node in speaking if node.speaks]
                assert sorted(fact.fresh) == sorted(node.name for node in speaking if node.fresh)
                assert sorted(fact.continued) == sorted(node.name for node in speaking if not node.fresh)

    def starts(self, decision: Decision) -> None:
        """What started may start, in the order in which it became ready; no slot is left unused."""
        model = self.model
        limit = self.state.budget.concurrency or 10_000
        held = model.held()
        stopped_now = any(isinstance(fact, f.CancelRequested) for fact in decision.facts)
        for fact in decision.facts:
            if isinstance(fact, f.NodeStarted):
                node = model.nodes[fact.node]
                if stopped_now and node.status == "cancelled":
                    # it started in the decision that stopped the run, before the stop
                    node.status, node.settles = "stopping", "cancelled"
                else:
                    assert not held
                    assert node.status == "ready"
                    node.status = "running"
                if not node.resumes:
                    node.attempt += 1
                    node.verdicts, node.gave_up = [], False
                node.resumes = False
                assert fact.attempt == node.attempt
        busy = sum(node.status in BUSY for node in model.nodes.values())
        ready = [node.name for node in model.nodes.values() if node.status == "ready"]
        assert busy <= limit
        if not held and not self.limits:
            assert not ready or busy == limit
            self.in_turn(decision)

    def in_turn(self, decision: Decision) -> None:
        """First in, first out: whoever started was ready before all that are ready still."""
        started = [fact.node for fact in decision.facts if isinstance(fact, f.NodeStarted)]
        readied = {
            getattr(fact, "node", ""): number
            for record in self.log.records
            for number, fact in enumerate(record.facts, record.first)
            if isinstance(fact, f.NodeReady | f.AttemptGivenBack)
        }
        left = [readied[name] for name in self.state.ready]
        assert left == sorted(left)
        if started and left:
            assert max(readied[name] for name in started) < min(left)

    # --- what can be done ----------------------------------------------------------------------

    def of(self, *statuses: str) -> list[Sketch]:
        return [node for node in self.model.nodes.values() if node.status in statuses]

    def undecided(self) -> list[Sketch]:
        return [node for node in self.model.nodes.values() if node.judgement == "undecided"]

    def step(self) -> None:
        """One random command."""
        actions: list[Any] = [self.outside]
        if self.of("running"):
            actions += [self.finish, self.finish, self.spawn, self.spawn, self.say, self.say, self.stale]
            if self.model.waits_for_answers or self.flag(20):
                actions += [self.ask]
        if self.of("stopping"):
            actions += [self.stopped, self.stopped]
        if self.of("asking"):
            actions += [self.answer]
        if self.of("backing_off"):
            actions += [self.elapse]
        if self.undecided():
            actions += [self.decide]
        self.choose.pick(actions)()

    def text(self) -> str:
        self.counter += 1
        return f"work {self.counter}"

    def finish(self, outcome: str | None = None) -> None:
        """An attempt ends by itself, with everything that it may carry."""
        choose, model = self.choose, self.model
        node = choose.pick(self.of("running"))
        good = ("completed",) * (9 if self.rounds else 3)
        outcome = outcome or choose.pick((*good, "failed", "not_applicable"))
        values: list[bytes] = [choose.pick(VALUES)]
        emissions: tuple[c.EmissionIn, ...] = ()
        writes: tuple[c.WriteIn, ...] = ()
        proposals: tuple[c.Proposal, ...] = ()
        if outcome == "completed":
            emissions = self.verdicts(node, values)
            writes = self.writes(node, values)
        usage = None
        if self.flag(30):
            usage = c.Usage(1, 1, 0)
            model.tokens += 1
        retried = outcome == "failed" and node.attempt - node.given_back < node.tries and not model.cancelling
        settled = not retried and outcome != "not_applicable"
        if settled and self.flag(15):
            proposals = self.proposals(node)
        command = c.Finish(
            node.name, node.attempt, outcome, 0, RAISED if outcome == "failed" else None, emissions, writes,
            proposals=proposals, usage=usage, draw=0.5,
        )  # fmt: skip
        escalating = node.escalating
        self.settled(node, outcome, values[0], retried=retried)
        if node.status != "completed":
            node.writes = {}
        decision = self.log.tell(command, *values)
        if node.status == "escalated":
            assert escalating in self.state.nodes
        self.after(decision)

    def settled(self, node: Sketch, outcome: str, value: bytes, *, retried: bool) -> None:
        model = self.model
        if outcome == "not_applicable":
            model.settle(node, "skipped")
        elif retried:
            retry = self.state.nodes[node.name].op.retry
            delay = 0.0 if retry is None else retry.backoff
            node.status, node.escalating = ("backing_off" if delay else "ready"), ""
        elif node.escalating:
            self.hand_up(node)
        elif outcome == "failed" or node.gave_up:
            node.value = {"type": "?"}
            model.settle(node, "failed")
        else:
            node.value = msgspec.json.decode(value)
            model.settle(node, "completed")

    def hand_up(self, node: Sketch) -> None:
        """The child takes the node's place: what waits for the node waits for the child."""
        model, operation = self.model, self.state.nodes[node.name].op
        cast: dict[str, Any] = {"tries": node.tries, "tiers": node.tiers, "speaks": node.speaks}
        if operation.tier + 1 >= len(operation.models):
            # no further model: the role above takes over, with its retry if the node has none
            above = self.cast("worker")
            cast = {
                "tries": node.tries if operation.retry else above["tries"],
                "tiers": above["tiers"],
                "speaks": False,
            }
        emitter = Link(node.name, ("completed", "escalated"))
        child = Sketch(
            node.escalating, self.origin(node), [emitter], "all", None, node.gate, node.refuse_on,
            node.stop_on_failure, rungs=node.rungs + 1, depth=node.depth, refusals=node.refusals,
            back_to=node.back_to, refused=node.refused, round=node.round, fresh=node.fresh, **cast,
        )  # fmt: skip
        for other in model.nodes.values():
            for link in other.ins:
                if link.source == node.name and link.kind != "child" and other.status == "waiting":
                    link.source = child.name
        model.nodes[child.name] = child
        model.escalations += 1
        model.settle(node, "escalated")
        node.successor = child.name

    def verdicts(self, node: Sketch, values: list[bytes]) -> tuple[c.EmissionIn, ...]:
        emissions = []
        many = (0, 1, 1, 1, 2) if not self.rounds else (1, 1, 1, 1, 1, 1, 0, 2)
        for _ in range(self.choose.pick(many if node.gate else (0, 0, 0, 1))):
            verdict = self.choose.pick((*VERDICTS, *(("REJECT",) * 4 if self.rounds else ())))
            values.append(msgspec.json.encode({"verdict": verdict, "rationale": self.text()}))
            emissions.append(c.EmissionIn("Verdict", len(values) - 1, "result"))
            node.verdicts.append(verdict)
        return tuple(emissions)

    def writes(self, node: Sketch, values: list[bytes]) -> tuple[c.WriteIn, ...]:
        writes = []
        for key in ("log", "log") if self.rounds else ("log", "plan", "plan"):
            if self.flag(20):
                value = self.choose.pick(tuple(WRITES))
                values.append(value)
                writes.append(c.WriteIn(key, len(values) - 1, WRITES[value], replace=self.flag(20)))
                before = [] if writes[-1].replace else node.writes.get(key, [])
                node.writes[key] = [*before, *WRITES[value]]
        return tuple(writes)

    def proposals(self, node: Sketch) -> tuple[c.Proposal, ...]:
        """What ``on_settle`` asks for: a veto, or a node."""
        model, choose = self.model, self.choose
        if self.flag(50):
            target = choose.pick(sorted(model.nodes))
            found = model.resolve(target)
            if found is not None and found.status in ("waiting", "ready") and not found.attempt:
                model.settle(found, "vetoed")
            return (c.Proposal("veto", target, "no"),)
        independent = self.flag(50)
        name = f"extra{self.choose.number(0, 9)}"
        refused = self.refused(node, None) or name in model.nodes
        if not refused:
            ins = [] if independent else [Link(node.name, ("completed", "escalated"), "child")]
            needs = "any" if independent else "all"
            model.nodes[name] = Sketch(
                name, self.origin(node), ins, needs, depth=node.depth + 1, **self.cast("critic")
            )
            model.spawns += 1
        return (c.Proposal("inject", name, assignee="critic", independent=independent),)

    @staticmethod
    def origin(node: Sketch) -> str:
        return node.origin or node.name

    def cast(self, role: str | None) -> dict[str, Any]:
        spec = self.state.roles.get(role or "")
        if spec is None:
            return {}
        return {"tries": spec.retry.attempts if spec.retry else 1, "tiers": max(1, len(spec.models))}

    # --- growth --------------------------------------------------------------------------------

    def refused(self, node: Sketch | None, role: str | None) -> bool:
        """Caps and grants, the cheap half of what can be wrong."""
        model, budget = self.model, self.state.budget
        if model.spawns >= model.max_spawns or model.cancelling:
            return True
        if role is None:
            role = "critic"
        barred = budget.assignees is not None and role not in budget.assignees
        return barred or (node is not None and node.depth >= model.max_depth)

    def spawn(self) -> None:
        """A SpawnRequest, good or bad, or one from a stale attempt."""
        choose, model = self.choose, self.model
        node = choose.pick(self.of("running"))
        names = [*sorted(model.nodes), "nobody"]
        after = tuple(choose.pick(names) for _ in range(choose.pick((0, 0, 0, 1, 2))))
        before = tuple(choose.pick(names) for _ in range(choose.pick((0, 0, 1, 2))))
        if self.flag(15):
            before = tuple(
                link.target
                for link in self.state.nodes[node.name].outs
                if link.spec.kind != "child" and model.nodes[link.target].status == "waiting"
            )
            sent: object = "successors"
        else:
            sent = before
        role = choose.pick(("worker", "critic", "nobody"))
        request = {
            "instruction": self.text(), "assignee": role, "independent": self.flag(40), "after": after,
            "before": sent, "required": self.flag(30),
        }  # fmt: skip
        before = tuple(latest(model, name) for name in before)
        expected = self.allowed(node, role, after, before)
        emission = c.EmissionIn("SpawnRequest", 0)
        decision = self.log.tell(c.Emit(node.name, node.attempt, emission), msgspec.json.encode(request))
        (receipt,) = decision.receipts
        assert bool(receipt) == expected, (receipt, request)
        if receipt:
            assert receipt.node is not None
            self.grown(node, receipt.node, request, after, before)
        else:
            assert [type(fact) for fact in decision.facts] == [f.SpawnRefused]
        self.after(decision)

    def allowed(self, node: Sketch, role: str, after: tuple[str, ...], before: tuple[str, ...]) -> bool:
        model = self.model
        if model.max_spawns == 0 or role == "nobody" or self.refused(node, role):
            return False
        if not all(can_be_waited_for(model.resolve(name)) for name in after):
            return False
        for name in before:
            target = model.nodes.get(name)
            if target is None or target.status != "waiting":
                return False
        sources = [model.resolve(name) for name in after]
        return not any(model.reaches(b, a.name) for b in before for a in sources if a is not None)

    def grown(
        self,
        node: Sketch,
        name: str,
        request: dict[str, Any],
        after: tuple[str, ...],
        before: tuple[str, ...],
    ) -> None:
        model = self.model
        assert name not in model.nodes
        assert name.startswith(f"{self.origin(node)}.{request['assignee']}-")
        independent = request["independent"]
        child = Sketch(
            name, self.origin(node), needs="any" if independent else "all", depth=node.depth + 1,
            **self.cast(request["assignee"]),
        )  # fmt: skip
        if not independent:
            child.ins.append(Link(node.name, ("completed", "escalated"), "child"))
        for source in after:
            found = model.resolve(source)
            assert found is not None
            if independent or source != node.name:
                child.ins.append(Link(found.name, ("completed",)))
        accept = ("completed",) if request["required"] else ALL
        for target in before:
            model.nodes[target].ins.append(Link(name, accept, "join", request["required"]))
        model.nodes[name] = child
        model.spawns += 1

    # --- speaking ------------------------------------------------------------------------------

    def say(self) -> None:
        """A verdict, an escalation, a finding, or a kind that is not granted."""
        node = self.choose.pick(self.of("running"))
        kind = self.choose.pick(("Verdict", "EscalationRequest", "EscalationRequest", "Finding", "Gap"))
        payload: dict[str, Any] = {"description": self.text()}
        expected, child = kind != "Gap", None
        if kind == "Verdict":
            payload = {"verdict": self.choose.pick(VERDICTS), "rationale": self.text()}
            node.verdicts.append(payload["verdict"])
        elif kind == "EscalationRequest":
            route = self.choose.pick((None, "notify", "give_up"))
            payload = {"reason": self.text(), "urgency": "blocked", "route": route}
            node.gave_up |= route == "give_up"
            expected, child = (True, None) if route else self.tier_above(node)
        emission = c.EmissionIn(kind, 0)
        decision = self.log.tell(c.Emit(node.name, node.attempt, emission), msgspec.json.encode(payload))
        (receipt,) = decision.receipts
        assert bool(receipt) == expected, receipt
        if child is not None:
            assert isinstance(receipt, Accepted)
            assert receipt.node == child
            node.escalating = child
        self.after(decision)

    def tier_above(self, node: Sketch) -> tuple[bool, str | None]:
        if node.escalating:
            return True, node.escalating
        operation = self.state.nodes[node.name].op
        higher = operation.tier + 1 < len(operation.models) or operation.role == "critic"
        if node.rungs >= 2 or self.model.used_escalations() >= self.model.max_escalations or not higher:
            return False, None
        return True, f"{node.name.partition('+')[0]}+{node.rungs + 1}"

    def ask(self) -> None:
        node = self.choose.pick(self.of("running"))
        key = self.text()
        node.status = "asking"
        self.after(self.log.tell(c.Ask(node.name, node.attempt, key, "which?")))

    def answer(self) -> None:
        node = self.choose.pick(self.of("asking"))
        questions = self.state.nodes[node.name].questions or {}
        (key,) = (question.key for question in questions.values() if question.answer is None)
        node.status, node.resumes = "ready", True
        decision = self.log.tell(c.Answer(node.name, key, 0, "ann"), b'"this"')
        assert decision.receipts[0]
        self.after(decision)

    def decide(self, verdict: str | None = None) -> None:
        """A person decides an undecided gate."""
        node = self.choose.pick(self.undecided())
        verdict = verdict or self.choose.pick(VERDICTS)
        node.verdicts = [verdict]
        if verdict in node.refuse_on:
            self.model.refuse(node, person=True)
        else:
            self.model.judged(node, "approved")
        decision = self.log.tell(c.Answer(node.name, None, 0, "ann", "seen"), f'"{verdict}"'.encode())
        assert decision.receipts[0]
        self.after(decision)

    # --- stopping and time ---------------------------------------------------------------------

    def stopped(self) -> None:
        node = self.choose.pick(self.of("stopping"))
        if self.flag(70):
            how = self.choose.pick(("stopped", "ignored", "never_started"))
            command: c.Command = c.AttemptStopped(node.name, node.attempt, how)
        else:
            command = c.Finish(node.name, node.attempt, value=0)
        self.model.stopped(node)
        self.after(self.log.tell(command, b"1"))

    def elapse(self) -> None:
        node = self.choose.pick(self.of("backing_off"))
        node.status = "ready"
        self.after(self.log.tell(c.Elapsed("backoff", node.name, node.attempt)))

    def stale(self) -> None:
        """News of an attempt that is not the present one changes nothing."""
        node = self.choose.pick(self.of("running"))
        attempt = node.attempt + self.choose.pick((-1, 1))
        command = self.choose.pick(
            (
                c.Finish(node.name, attempt),
                c.AttemptStopped(node.name, attempt),
                c.AttemptStopped(node.name, node.attempt),
                c.Emit(node.name, attempt, c.EmissionIn("SpawnRequest", 0)),
                c.Ask(node.name, attempt, "late", "?"),
                c.Elapsed("backoff", node.name, node.attempt),
            )
        )
        before = plainly(self.state)
        decision = self.log.tell(command, b"{}")
        assert {type(fact) for fact in decision.facts} <= {f.ResultStale, f.SpawnRefused}
        changed = {key for key, value in plainly(self.state).items() if value != before[key]}
        assert changed <= {"facts", "refused", "refused_outside"}
        self.after(decision)

    def outside(self) -> None:
        """What people, timers and programs ask of a run."""
        choose = self.choose
        choose.pick(
            (
                self.pause, self.unpause, self.unpause, self.cancel_node, self.steer, self.inject,
                self.raise_budget, self.deadline, self.rare, self.again,
            )
        )()  # fmt: skip

    def rare(self) -> None:
        """What stops a run."""
        model = self.model
        kind = self.choose.number(0, 30 if self.rounds else 7)
        if kind == 0:
            model.draining = model.draining or ("" if model.cancelling else "drained")
            self.after(self.log.tell(c.Drain()))
        elif kind == 1:
            model.stop("cancelled")
            self.after(self.log.tell(c.Cancel(reason="enough")))
        elif kind == 2:
            model.suspend("interrupted")
            self.after(self.log.tell(c.Cancel(suspend="interrupted")))
        elif kind == 3:
            if not model.cancelling:
                model.suspend("deadline")
            self.after(self.log.tell(c.Elapsed("wall_clock")))

    def pause(self) -> None:
        self.model.paused = True
        self.after(self.log.tell(c.Pause()))

    def unpause(self) -> None:
        self.model.paused = False
        self.after(self.log.tell(c.Unpause()))

    def cancel_node(self) -> None:
        model = self.model
        name = self.choose.pick([*sorted(model.nodes), "nobody"])
        found = model.resolve(name)
        expected = found is not None and found.status in LIVE - {"stopping"}
        if found is not None and expected:
            if found.status == "running":
                found.status, found.settles = "stopping", "cancelled"
            else:
                model.settle(found, "cancelled")
        decision = self.log.tell(c.Cancel(name, "not this"))
        assert bool(decision.receipts[0]) == expected
        self.after(decision)

    def deadline(self) -> None:
        """A node's deadline; it is set when the node starts, so no waiting node has one."""
        nodes = [node for node in self.model.nodes.values() if node.attempt and node.status != "waiting"]
        if not nodes:
            return
        node = self.choose.pick(nodes)
        asks = self.log.state.nodes[node.name].asks
        # one that was set before it asked again is of no interest
        stale = asks > 0 and self.choose.pick((False, True))
        if node.status == "running" and not stale:
            node.status, node.settles = "stopping", "failed"
        elif node.status in ("ready", "backing_off") and not stale:
            self.model.settle(node, "failed")
        self.after(self.log.tell(c.Elapsed("deadline", node.name, asks=asks - stale)))

    def steer(self) -> None:
        target = self.choose.pick((None, *sorted(self.model.nodes)))
        self.after(self.log.tell(c.Steer("look there", "12:00", target)))
        running = self.of("running")
        if running and self.flag(50):
            node = self.choose.pick(running)
            self.after(self.log.tell(c.TakeSteers(node.name, node.attempt)))

    def inject(self) -> None:
        model, choose = self.model, self.choose
        name = choose.pick((None, "extra1", "n0"))
        after = tuple(choose.pick([*sorted(model.nodes), "nobody"]) for _ in range(choose.pick((0, 0, 1))))
        expected = not (model.draining or self.refused(None, "critic") or name in model.nodes)
        sources = [model.resolve(source) for source in after]
        expected = expected and all(can_be_waited_for(source) for source in sources)
        proposal = c.Proposal("inject", name, assignee="critic", after=after)
        decision = self.log.tell(c.Inject(proposal))
        (receipt,) = decision.receipts
        assert bool(receipt) == expected, receipt
        if expected:
            assert isinstance(receipt, Accepted)
            assert receipt.node is not None
            child = Sketch(receipt.node, needs="any", **self.cast("critic"))
            child.ins = [Link(source.name, ("completed",)) for source in sources if source is not None]
            model.nodes[child.name] = child
            model.spawns += 1
        self.after(decision)

    def raise_budget(self) -> None:
        model, budget = self.model, self.state.budget
        name = self.choose.pick(("spawns", "depth", "escalations", "concurrency", "tokens", "nonsense"))
        present = getattr(budget, name, None)
        limit = (present or 0) + self.choose.pick((-1, 0, 1))
        expected = present is not None and limit > present
        decision = self.log.tell(c.RaiseBudget(name, limit))
        assert bool(decision.receipts[0]) == expected
        if expected:
            field = {"spawns": "max_spawns", "depth": "max_depth", "escalations": "max_escalations"}
            if name in (*field, "tokens"):
                setattr(model, field.get(name, "max_tokens"), limit)
        self.after(decision)

    def again(self) -> None:
        """An emission that was taken before, over the channel of results: it is the same one."""
        for name in sorted(self.model.nodes):
            node, actual = self.model.nodes[name], self.state.nodes[name]
            for entry in actual.ledger if node.status == "running" else ():
                if entry.attempt != node.attempt or entry.kind in ("Verdict", "EscalationRequest"):
                    continue
                if (name, entry.number) in self.repeated:
                    continue
                self.repeated.add((name, entry.number))
                emission = c.EmissionIn(entry.kind, 0, "tool")
                decision = self.log.tell(c.Emit(name, node.attempt, emission), entry.payload)
                (receipt,) = decision.receipts
                assert receipt
                assert (receipt.node, receipt.emission) == (entry.child, entry.number)
                self.after(decision)
                return

    def too_late(self) -> None:
        """A run that is over takes nothing; its last fact stays the last."""
        node = min(self.model.nodes)
        for command in (
            c.Pause(),
            c.Finish(node, 1),
            c.AttemptStopped(node, 1),
            c.Inject(c.Proposal("inject")),
        ):
            decision = self.log.tell(command)
            assert decision.facts == []
            assert [bool(receipt) for receipt in decision.receipts] == [False]

    # --- the end -------------------------------------------------------------------------------

    def finish_all(self) -> None:
        """Everything that can run is finished: the run must end, or be suspended for a reason."""
        for _ in range(2000):
            if self.over:
                break
            if self.model.paused:
                self.unpause()
            elif self.of("stopping"):
                self.stopped()
            elif self.of("running"):
                self.finish()
            elif self.of("backing_off") and not self.model.draining:
                self.elapse()
            elif self.of("asking") and self.model.waits_for_answers:
                self.answer()
            else:
                break
        assert self.over, [node for node in self.model.nodes.values() if node.status in LIVE]
        self.too_late()
        assert laws.check_facts(self.log.records) == []
        self.log.decided_again()
