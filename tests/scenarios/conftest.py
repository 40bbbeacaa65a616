"""What every scenario shares: run a graph, read its facts, and hold them to the laws that no run may break.

``ran`` runs a graph to its stop and hands back its result with its facts, checked. ``lawful`` does the same
for a live handle. The checks read nothing but what a reader of the stream sees.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from orchestrator import Envelope, NodeStatus, Role, Run, RunReason, RunResult, Session, role

TERMINAL = {
    "NodeCompleted": NodeStatus.COMPLETED,
    "NodeFailed": NodeStatus.FAILED,
    "NodeSkipped": NodeStatus.SKIPPED,
    "NodeVetoed": NodeStatus.VETOED,
    "NodeCancelled": NodeStatus.CANCELLED,
    "NodeEscalated": NodeStatus.ESCALATED,
}
ENDED = {"completed", "failed", "gate_rejected", "refusals_exhausted", "cancelled"}
GROUPS = ("completed", "failed", "skipped", "vetoed", "cancelled", "escalated")
#: Facts after which a node that was running holds no slot.
_PAUSES = {"NodeRetryScheduled", "QuestionAsked", "AttemptGivenBack"}


@dataclass(frozen=True)
class Ran:
    """A run that has stopped: what it came to, and every fact of it in order."""

    result: RunResult
    facts: list[Envelope]
    run: Run

    @property
    def reason(self) -> RunReason:
        return self.result.reason

    def __getitem__(self, name: str) -> Any:
        return self.result[name]

    def of(self, kind: str) -> list[Envelope]:
        """Facts of one kind, in order."""
        return [fact for fact in self.facts if fact.kind == kind]

    def nodes(self, kind: str) -> list[str | None]:
        """The nodes of facts of one kind, in order."""
        return [fact.node for fact in self.of(kind)]

    def place(self, kind: str, node: str) -> int:
        """The seq of the only fact of this kind about a node."""
        (seq,) = (fact.seq for fact in self.of(kind) if fact.node == node)
        assert seq is not None
        return seq

    def statuses(self) -> dict[str, str]:
        """Node -> status, as the result says."""
        return {name: str(node.status) for name, node in self.result.nodes.items()}


async def lawful(run: Run) -> Ran:
    """Wait for a run, read its facts, check every law that they can break."""
    result = await run.wait()
    async with run.events() as events:
        facts = [event async for event in events]
    faults = broken_laws(facts, result)
    assert not faults, "\n".join(faults)
    return Ran(result, facts, run)


async def ran(graph: Any, *roles: Role, session: dict[str, Any] | None = None, **options: Any) -> Ran:
    """Run a graph in a session of its own until it stops, and hold its facts to the laws."""
    async with Session(roles, **(session or {})) as live:
        return await lawful(await live.start(graph, **options))


# --- the laws ------------------------------------------------------------------------------------


def broken_laws(facts: list[Envelope], result: RunResult) -> list[str]:
    """Every law that a stopped run's facts break, as text; empty if none."""
    return [
        *_shape(facts, result),
        *_terminals(facts, result),
        *_disjoint(result),
        *_starts(facts),
        *_vetoes(facts),
        *_growth(facts, result),
        *_capacity(facts),
    ]


def _shape(facts: list[Envelope], result: RunResult) -> list[str]:
    """Numbers without a gap; one beginning, first; one stop, last; one run."""
    faults = []
    if [fact.seq for fact in facts] != list(range(1, len(facts) + 1)):
        faults.append(f"seqs are not 1..{len(facts)}: {[fact.seq for fact in facts]}")
    if {fact.run for fact in facts} != {result.run}:
        faults.append("a fact of another run is in the stream")
    kinds = [fact.kind for fact in facts]
    if kinds[:1] != ["RunStarted"] or kinds.count("RunStarted") != 1:
        faults.append("RunStarted is not the one first fact")
    stop = "RunEnded" if result.reason in ENDED else "RunSuspended"
    stops = [kind for kind in kinds if kind in {"RunEnded", "RunSuspended"}]
    if stops != [stop] or kinds[-1] != stop:
        faults.append(f"{stop} is not the one last fact: {stops}, last {kinds[-1]}")
    if facts[-1].data.get("reason") != result.reason:
        faults.append(f"the last fact says {facts[-1].data.get('reason')}, the result {result.reason}")
    return faults


def admitted(facts: list[Envelope]) -> list[str]:
    """Every node that the run ever had, planned and grown, in order."""
    names: list[str] = []
    for fact in facts:
        if fact.kind == "GraphPlanned":
            names += [operation["name"] for operation in fact.data["plan"].get("operations", [])]
        elif fact.kind == "NodeAdded":
            names.append(fact.data["operation"]["name"])
        elif fact.kind == "RoundStarted":
            names += [one["operation"]["name"] for one in fact.data["nodes"]]
    return names


def _terminals(facts: list[Envelope], result: RunResult) -> list[str]:
    """Law 2: one terminal fact per node; law 11: an ended run has no node without one."""
    names = admitted(facts)
    faults = [f"{name} was admitted twice" for name, count in Counter(names).items() if count > 1]
    if list(result.nodes) != names:
        faults.append(f"the result lists {list(result.nodes)}, admitted were {names}")
    settled: dict[str, list[str]] = {name: [] for name in names}
    for fact in facts:
        if fact.kind in TERMINAL:
            settled[fact.node or ""].append(fact.kind)
    for name, kinds in settled.items():
        if len(kinds) > 1:
            faults.append(f"{name} settled {len(kinds)} times: {kinds}")
        status = result.nodes[name].status
        told = TERMINAL[kinds[-1]] if kinds else None
        if told is None and (result.reason in ENDED or status in set(TERMINAL.values())):
            faults.append(f"{name} is {status} and has no terminal fact (run {result.reason})")
        if told is not None and told is not status:
            faults.append(f"{name} settled as {told}, the result says {status}")
    return faults


def _disjoint(result: RunResult) -> list[str]:
    """The tuples of names share nothing and, once ended, leave nothing out."""
    groups = {group: getattr(result, f"{group}_operations") for group in GROUPS}
    listed = [name for names in groups.values() for name in names]
    faults = [f"{name} is in two groups" for name, count in Counter(listed).items() if count > 1]
    faults += [
        f"{name} is {result.nodes[name].status} but listed as {group}"
        for group, names in groups.items()
        for name in names
        if result.nodes[name].status != group
    ]
    if result.reason in ENDED and set(listed) != set(result.nodes):
        faults.append(f"in no group: {sorted(set(result.nodes) - set(listed))}")
    overlap = set(result.not_run) & {*result.completed_operations, *result.escalated_operations}
    restored = {name for name in overlap if result.nodes[name].restored}
    return faults + [f"{name} ran and is in not_run" for name in sorted(overlap - restored)]


def edges_of(facts: list[Envelope], *, spliced: bool = False) -> list[tuple[int, str, str]]:
    """(seq, source, target) of every edge as it was written; ``spliced``: those that an escalation moves."""
    return [
        (fact.seq or 0, edge["source"], edge["target"])
        for fact in facts
        for edge in _edges_in(fact)
        if not (spliced and edge.get("kind") == "child")
    ]


def _edges_in(fact: Envelope) -> list[dict[str, Any]]:
    if fact.kind == "GraphPlanned":
        return list(fact.data["plan"].get("edges", []))
    if fact.kind == "RoundStarted":
        moved = [
            {"source": move["to"], "target": move["target"]} for move in fact.data["moved"] if move.get("to")
        ]
        return [*fact.data["edges"], *moved]
    return list(fact.data["edges"]) if fact.kind == "NodeAdded" else []


def _starts(facts: list[Envelope]) -> list[str]:
    """A node starts after all that it waits for has settled, never after it settled itself."""
    settled: dict[str, int] = {}
    started: dict[str, int] = {}
    successor: dict[str, str] = {}
    faults = []
    for fact in facts:
        name, seq = fact.node or "", fact.seq or 0
        if fact.kind in TERMINAL:
            settled.setdefault(name, seq)
        if fact.kind == "NodeEscalated" and fact.data["child"]:
            successor[name] = fact.data["child"]
        if fact.kind == "NodeStarted":
            started.setdefault(name, seq)
            if name in settled:
                faults.append(f"{name} started at {seq}, after it settled at {settled[name]}")
    moved = {(source, target) for _, source, target in edges_of(facts, spliced=True)}
    for added, source, target in edges_of(facts):
        if target not in started:
            continue
        holder = source
        while (source, target) in moved and holder in successor and successor[holder] != target:
            holder = successor[holder]
        faults += [
            f"{target} started at {started[target]} before {waited} settled"
            for waited in {source, holder}
            if settled.get(waited, len(facts) + 1) > started[target]
        ]
        if added > started[target]:
            faults.append(f"{target} got an edge from {source} after it had started")
    return faults


def _vetoes(facts: list[Envelope]) -> list[str]:
    """Law 6: no transitive dependent of a rejected gate starts, nodes added later included."""
    below: dict[str, list[str]] = {}
    for _, source, target in edges_of(facts):
        below.setdefault(source, []).append(target)
    started = {fact.node for fact in facts if fact.kind == "NodeStarted"}
    faults = []
    for fact in facts:
        if fact.kind != "GateRejected":
            continue
        found, queue = set(), [fact.node or ""]
        while queue:
            for target in below.get(queue.pop(), ()):
                if target not in found:
                    found.add(target)
                    queue.append(target)
        faults += [f"{name} started below the rejected gate {fact.node}" for name in found & started]
    never = {fact.node for fact in facts if fact.kind == "NodeVetoed"}
    return faults + [f"{name} started and was vetoed" for name in never & started]


def _growth(facts: list[Envelope], result: RunResult) -> list[str]:
    """Laws 3 and 4: accepted spawns are nodes, once each; the cap holds at every prefix."""
    (plan,) = (fact.data["plan"] for fact in facts if fact.kind == "GraphPlanned")
    cap = plan.get("budget", {}).get("spawns", 50)
    raised = [fact for fact in facts if fact.kind == "BudgetRaised" and fact.data["name"] == "spawns"]
    faults = []
    added = [fact for fact in facts if fact.kind == "NodeAdded" and fact.data["counted"]]
    spawned = [fact.node for fact in facts if fact.kind == "NodeSpawned"]
    if [fact.node for fact in added] != spawned:
        faults.append(f"added {[fact.node for fact in added]}, but NodeSpawned says {spawned}")
    for count, fact in enumerate(added, 1):
        limit = max([cap, *(r.data["limit"] for r in raised if (r.seq or 0) < (fact.seq or 0))])
        if count > limit:
            faults.append(f"{fact.node} is spawn {count}, the cap was {limit}")
    if list(result.spawned) != spawned or result.spawned_operations != len(spawned):
        faults.append(f"the roster says {result.spawned}, spawned were {spawned}")
    children = [fact.data["child"] for fact in facts if fact.kind == "EmissionAccepted"]
    made = [child for child in children if child is not None and "+" not in child.rpartition(".")[2]]
    faults += [f"{child} was accepted and is no node" for child in made if child not in result.nodes]
    return faults


def _capacity(facts: list[Envelope]) -> list[str]:
    """No prefix has more running nodes than slots."""
    (plan,) = (fact.data["plan"] for fact in facts if fact.kind == "GraphPlanned")
    limit = plan.get("budget", {}).get("concurrency", 5)
    for fact in facts:
        if fact.kind == "BudgetRaised" and fact.data["name"] == "concurrency":
            limit = max(limit, fact.data["limit"])
    running: set[str | None] = set()
    most = 0
    for fact in facts:
        if fact.kind == "NodeStarted":
            running.add(fact.node)
        elif fact.kind in TERMINAL or fact.kind in _PAUSES:
            running.discard(fact.node)
        most = max(most, len(running))
    return [f"{most} nodes ran at once, allowed are {limit}"] if most > limit else []


# --- roles that many scenarios use -----------------------------------------------------------------


@role()
async def ok(turn: Any) -> str:
    """Completes with its own name."""
    return turn.node


@role()
async def boom(turn: Any) -> None:
    """Fails."""
    message = f"{turn.node} broke"
    raise ValueError(message)


@role()
async def reads(turn: Any) -> dict[str, Any]:
    """Completes with what it was given."""
    return dict(turn.inputs)


@role()
async def order(turn: Any) -> list[str]:
    """Completes with the names of what it was given, in order (a mapping's keys are stored sorted)."""
    return list(turn.inputs)
