"""The laws that can only be seen in the order of facts: ``check_facts(records)``, [] if all hold.

It keeps its own small account of what was said so far and asks no machine: a rule and the law that
holds it should not share their code. One pass, linear in facts and edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from orchestrator.core import facts as f
from orchestrator.core.payloads import GROWING
from orchestrator.core.records import Record
from orchestrator.core.round_laws import round_started
from orchestrator.core.spec import UNLIMITED, Budget, EdgeKind
from orchestrator.core.supersteps.fact_laws import STEP_RULES
from orchestrator.core.told import AFTERWARDS, OF_ATTEMPT, TERMINAL, Told

__all__ = ["check_facts"]


def check_facts(records: Iterable[Record]) -> list[str]:
    """Every law that the sequence of ``records``, the whole of a run from its first, breaks."""
    account = _Account()
    for record in records:
        account.take(record)
    return account.broken


class _Account:
    """Reads records in order; ``broken`` is what it found wrong."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.nodes: dict[str, Told] = {}
        self.budget = Budget()
        self.seq = self.fact = self.at = 0
        self.spawns = self.escalations = 0
        #: nodes that run: those that hold a slot, and those that wait for a child run
        self.running = {False: 0, True: 0}
        self.over = ""
        #: of the step that goes on
        self.tasks: tuple[str, ...] = ()
        #: tasks of the next step that were asked for
        self.sent: dict[str, None] = {}
        #: children that this record's emissions and injections have made, not yet announced
        self.planners: set[str] = set()
        self.added: dict[str, f.NodeAdded] = {}
        #: a gate of this record that refused and whose next round has not started
        self.refusing = ""
        self.steers: dict[int, bool] = {}
        self.questions: dict[tuple[str, str], bool] = {}

    def breach(self, text: str) -> None:
        self.broken.append(f"#{self.fact}: {text}")

    def take(self, record: Record) -> None:
        self._numbering(record)
        self.added = {}
        for fact in record.facts:
            self.fact += 1
            self._one(fact)
        if self.refusing:
            self.breach(f"{self.refusing} refused and no round starts")
            self.refusing = ""
        for name, added in self.added.items():
            if added.counted:
                self.breach(f"{name} was added and NodeSpawned does not follow")

    def _numbering(self, record: Record) -> None:
        """Facts and records have no gaps, time does not go back, a cause comes before its effect."""
        if record.seq != self.seq + 1:
            self.breach(f"record {record.seq} follows record {self.seq}")
        if record.first != self.fact + 1:
            self.breach(f"record {record.seq} begins at fact {record.first}")
        if record.at < self.at:
            self.breach(f"record {record.seq} is of {record.at} ns, the one before of {self.at} ns")
        if not 0 <= record.cause < record.first:
            self.breach(f"record {record.seq} is caused by #{record.cause}")
        if not record.facts:
            self.breach(f"record {record.seq} holds no fact")
        self.seq, self.at = record.seq, record.at
        self.fact = record.first - 1

    def _one(self, fact: f.Fact) -> None:
        kind = type(fact).__name__
        if self.over and not isinstance(fact, f.RunResumed):
            self.breach(f"{kind} after {self.over}")
        if (self.fact == 1) != isinstance(fact, f.RunStarted):
            self.breach(f"{kind} is fact {self.fact}")
        if (self.fact == 2) != isinstance(fact, f.GraphPlanned):  # noqa: PLR2004 (the second fact)
            self.breach(f"{kind} is fact {self.fact}")
        name = getattr(fact, "node", None)
        if name is not None and not isinstance(fact, f.NodeAdded):
            node = self.nodes.get(name)
            if node is None:
                self.breach(f"{kind} is about {name!r}, which is no node")
                return
            if node.settled and not isinstance(fact, (*AFTERWARDS, *TERMINAL)):
                self.breach(f"{kind} of {name}, which is {node.settled}")
        if isinstance(fact, TERMINAL):
            self._terminal(fact)
        rule = _RULES.get(type(fact))
        if rule is not None:
            rule(self, fact)

    # --- a node's way --------------------------------------------------------------------------

    def _terminal(self, fact: Any) -> None:
        """One terminal fact per generation (law 2)."""
        node, kind = self.nodes[fact.node], type(fact).__name__
        if node.settled:
            self.breach(f"{fact.node} settles as {kind} and is {node.settled}")
        if kind in ("NodeCompleted", "NodeEscalated") and not node.alive and not fact.restored:
            self._ended_without_running(fact.node, node, kind)
        if kind == "NodeVetoed" and node.attempt > node.before:
            self.breach(f"{fact.node} is vetoed and has started")
        node.settled, node.restored = kind, fact.restored
        self._stops(node)
        if kind == "NodeVetoed":
            self._taint([fact.node])

    def _ended_without_running(self, name: str, node: Told, kind: str) -> None:
        """Only a node whose instances have all settled completes without an attempt."""
        if node.instances is None:
            self.breach(f"{kind} of {name}, which does not run")
            return
        open_ = [one for one in node.instances if not self.nodes[one].settled]
        if open_:
            self.breach(f"{name} completes before {', '.join(open_)}")

    def instances(self, fact: f.InstancesAdded) -> None:
        """A list is told once; its instances follow, one by one, in the same record."""
        node = self.nodes[fact.node]
        if node.instances is not None or node.settled or node.running:
            self.breach(f"{fact.node} gets instances a second time, or too late")
        node.instances = []

    def _stops(self, node: Told) -> None:
        self.running[node.including] -= node.running
        node.running = node.ready = False

    def ready(self, fact: f.NodeReady) -> None:
        node = self.nodes[fact.node]
        if node.ready or node.running:
            self.breach(f"{fact.node} is ready a second time")
        node.ready = True

    def started(self, fact: f.NodeStarted) -> None:
        """Only what is ready starts, attempts count up by one, no rejected gate is above it (law 6)."""
        node = self.nodes[fact.node]
        if not node.ready:
            self.breach(f"{fact.node} starts and is not ready")
        if fact.attempt != node.attempt + (not node.asked):
            self.breach(f"{fact.node} starts attempt {fact.attempt} after {node.attempt}")
        if node.tainted and node.attempt == node.before:
            self.breach(f"{fact.node} starts below a gate that rejected")
        node.attempt, node.ready, node.asked, node.running = fact.attempt, False, False, True
        self.running[node.including] += 1
        limit = UNLIMITED if self.budget.concurrency is None else self.budget.concurrency
        if self.running[node.including] > limit:
            self.breach(f"{self.running[node.including]} nodes run, at most {limit}")

    def current(self, fact: Any) -> None:
        """What only an attempt can do that runs, or asks: its body may stop waiting for the answer."""
        node = self.nodes[fact.node]
        if not node.alive or fact.attempt != node.attempt:
            self.breach(f"{type(fact).__name__} of {fact.node}, whose attempt {fact.attempt} does not run")

    def pauses(self, fact: Any) -> None:
        self.current(fact)
        node = self.nodes[fact.node]
        self._stops(node)
        node.asked = isinstance(fact, f.QuestionAsked)
        node.ready = isinstance(fact, f.AttemptGivenBack | f.ChildRunHeld | f.PlanRefused)
        if isinstance(fact, f.QuestionAsked):
            self.questions[fact.node, fact.key] = False

    def answered(self, fact: f.QuestionAnswered) -> None:
        if self.questions.get((fact.node, fact.key)) is not False:
            self.breach(f"{fact.node} has no open question {fact.key!r}")
        self.questions[fact.node, fact.key] = True

    def reopened(self, fact: f.NodeReopened) -> None:
        node = self.nodes[fact.node]
        if not node.settled:
            self.breach(f"{fact.node} opens again and has not settled")
        node.settled = node.judged = ""
        node.asked = False
        node.before = node.attempt

    # --- growth --------------------------------------------------------------------------------

    def planned(self, fact: f.GraphPlanned) -> None:
        self.budget = fact.plan.budget
        for operation in fact.plan.operations:
            self.admit(operation.name, 0 if operation.gate is None else operation.gate.refusals)
            self.nodes[operation.name].including = operation.flow is not None
        self.planners = {one.name for one in fact.plan.operations if one.casting is not None}
        for edge in fact.plan.edges:
            self.nodes[edge.source].outs.append(edge)

    def cast(self, fact: f.NodesPlanned) -> None:
        """A planner's tasks enter together, while it runs."""
        self.current_node(fact.node)
        for operation in fact.operations:
            self.admit(operation.name)
        for edge in fact.edges:
            self.nodes[edge.source].outs.append(edge)

    def current_node(self, name: str) -> None:
        """Only what runs makes a plan, and it makes one."""
        if name not in self.planners or not self.nodes[name].running:
            self.breach(f"{name} plans, and is no planner that runs")
        self.planners.discard(name)

    def admit(self, name: str, refusals: int = 0) -> None:
        if name in self.nodes:
            self.breach(f"a second node is called {name!r}")
        self.nodes[name] = Told()
        self.nodes[name].allowed = refusals

    def grew(self, fact: f.NodeAdded) -> None:
        """A grown node enters with its edges; the caps hold with it (law 4)."""
        name = fact.operation.name
        self.admit(name)
        self.nodes[name].including = fact.operation.flow is not None
        self.added[name] = fact
        one = fact.operation.instance
        if one is not None:
            listed = self.nodes[one.of].instances
            if listed is None or (not fact.splice and one.index != len(listed) + 1):
                self.breach(f"{name} is instance {one.index} of {one.of} out of turn")
            if listed is not None:
                listed.append(name)
        for edge in fact.edges:
            self.nodes[edge.source].outs.append(edge)
        if fact.splice and fact.parent is not None:
            emitter = self.nodes[fact.parent]
            moved = [e for e in emitter.outs if e.target != name and e.kind is not EdgeKind.CHILD]
            self.nodes[name].outs += moved
            self.nodes[name].refused, self.nodes[name].allowed = emitter.refused, emitter.allowed
            self.escalations += 1
        self.spawns += fact.counted
        if self.spawns > self.budget.spawns:
            self.breach(f"{name} is spawn {self.spawns}, at most {self.budget.spawns}")
        if self.escalations > self.budget.escalations:
            self.breach(f"{name} is escalation {self.escalations}, at most {self.budget.escalations}")
        if fact.parent is not None:
            above_it = self.nodes[fact.parent].elements
            self.nodes[name].elements = above_it + (one is not None and one.of == fact.parent)
        generations = fact.depth - self.nodes[name].elements
        if generations > self.budget.depth:
            self.breach(f"{name} is {generations} generations down, at most {self.budget.depth}")
        above = [edge.source for edge in fact.edges if edge.target == name]
        if any(self.nodes[source].tainted or self.nodes[source].judged == "rejected" for source in above):
            self.taint_from([name])

    def spawned(self, fact: f.NodeSpawned) -> None:
        added = self.added.pop(fact.node, None)
        if added is None:
            self.breach(f"NodeSpawned of {fact.node} without NodeAdded in the same record")
        self.nodes[fact.node].spawned += 1
        if self.nodes[fact.node].spawned > 1:
            self.breach(f"{fact.node} is spawned twice")

    def emission(self, fact: f.EmissionAccepted) -> None:
        """Emissions count up by one; an accepted request to grow is exactly one node (law 3)."""
        self.current(fact)
        node = self.nodes[fact.node]
        plans = fact.node in self.planners and fact.emission == "TaskAssignment"
        said_again = (fact.emission in OF_ATTEMPT or plans) and 1 <= fact.number <= node.emitted
        if fact.number != node.emitted + 1 and not said_again:
            self.breach(f"{fact.node} emits number {fact.number} after {node.emitted}")
        node.emitted = max(node.emitted, fact.number)
        if fact.emission in GROWING and not plans:
            child = self.nodes.get(fact.child or "")
            if fact.child not in self.sent and (child is None or child.spawned != 1):
                self.breach(f"{fact.emission} of {fact.node} made {fact.child!r}, which was not spawned")

    def raised(self, fact: f.BudgetRaised) -> None:
        before = getattr(self.budget, fact.name)
        if before is None or fact.limit <= before:
            self.breach(f"budget {fact.name} goes from {before} to {fact.limit}")
        limits = {name: getattr(self.budget, name) for name in Budget.__struct_fields__}
        self.budget = Budget(**{**limits, fact.name: fact.limit})

    # --- gates, people, the end ----------------------------------------------------------------

    def judged(self, fact: Any) -> None:
        """Judged once, after it settled; undecided may be followed by a person's verdict."""
        node = self.nodes[fact.node]
        word = type(fact).__name__.removeprefix("Gate").lower()
        if not node.settled:
            self.breach(f"{fact.node} is {word} and has not settled")
        if node.judged not in ("", "undecided") or node.judged == word:
            self.breach(f"{fact.node} is {word} after it was {node.judged}")
        node.judged = word
        if word == "rejected":
            self._taint([fact.node])
        elif word == "refused":
            self.refusing = fact.node
            if node.refused >= node.allowed:
                self.breach(f"{fact.node} refuses a {node.refused + 1}. time, at most {node.allowed}")

    def _taint(self, names: Iterable[str]) -> None:
        self.taint_from(edge.target for name in names for edge in self.nodes[name].outs)

    def taint_from(self, names: Iterable[str]) -> None:
        """Mark ``names`` and all that depends on them: none of them may start from here on."""
        stack = list(names)
        while stack:
            node = self.nodes[stack.pop()]
            if not node.tainted and not node.restored:
                node.tainted = True
                stack += [edge.target for edge in node.outs]

    def steered(self, fact: f.SteerReceived) -> None:
        if fact.id != len(self.steers) + 1:
            self.breach(f"steer {fact.id} after {len(self.steers)}")
        self.steers[fact.id] = False

    def delivered(self, fact: f.SteerDelivered | f.SteerUndelivered) -> None:
        if self.steers.get(fact.id) is not False:
            self.breach(f"steer {fact.id} is given out a second time, or was never received")
        # what an ended run left undelivered is there for who tries it again
        self.steers[fact.id] = isinstance(fact, f.SteerDelivered)

    def ended(self, fact: f.RunEnded) -> None:
        """Ended means that every node settled (law 11)."""
        self.over = "RunEnded"
        unsettled = [name for name, node in self.nodes.items() if not node.settled]
        if unsettled:
            self.breach(f"the run ended as {fact.reason} with {', '.join(unsettled)} unsettled")

    def resumed(self, _fact: f.RunResumed) -> None:
        """What was over goes on; no body of before is alive."""
        self.over = ""
        for node in self.nodes.values():
            node.asked = False

    def dropped(self, fact: f.NodeDropped) -> None:
        """A grown node left the graph with its edges."""
        node = self.nodes.pop(fact.node)
        self.running[node.including] -= node.running
        for other in self.nodes.values():
            other.outs = [edge for edge in other.outs if edge.target != fact.node]

    def suspended(self, fact: f.RunSuspended) -> None:
        """A suspended run names every node that has not settled, and nothing of it runs."""
        self.over = "RunSuspended"
        held = {name for name, node in self.nodes.items() if not node.settled or node.judged == "undecided"}
        if held != set(fact.waiters):
            self.breach(f"suspended with waiters {sorted(fact.waiters)}, unsettled are {sorted(held)}")
        if any(self.running.values()):
            self.breach(f"suspended while {sum(self.running.values())} nodes run")


#: Any: the table pairs each kind of fact with the method that takes it.
_RULES: Mapping[type[f.Fact], Callable[[_Account, Any], None]] = {
    f.GraphPlanned: _Account.planned,
    f.NodesPlanned: _Account.cast,
    f.PlanRefused: _Account.pauses,
    f.NodeAdded: _Account.grew,
    f.NodeSpawned: _Account.spawned,
    f.NodeReady: _Account.ready,
    f.InstancesAdded: _Account.instances,
    f.NodeStarted: _Account.started,
    f.NodeStopping: _Account.current,
    f.NodeRetryScheduled: _Account.pauses,
    f.AttemptGivenBack: _Account.pauses,
    f.ChildRunHeld: _Account.pauses,
    f.QuestionAsked: _Account.pauses,
    f.QuestionAnswered: _Account.answered,
    f.NodeReopened: _Account.reopened,
    f.EmissionAccepted: _Account.emission,
    f.EmissionRepeated: _Account.current,
    f.BudgetRaised: _Account.raised,
    f.GateApproved: _Account.judged,
    f.GateRejected: _Account.judged,
    f.GateUndecided: _Account.judged,
    f.GateRefused: _Account.judged,
    f.RoundStarted: round_started,
    f.SteerReceived: _Account.steered,
    f.SteerDelivered: _Account.delivered,
    f.SteerUndelivered: _Account.delivered,
    f.RunResumed: _Account.resumed,
    f.NodeDropped: _Account.dropped,
    **STEP_RULES,
    f.RunEnded: _Account.ended,
    f.RunSuspended: _Account.suspended,
}
