"""A naive model of a run: small, slow, and written without the machine.

It keeps a graph of plain records and works out from it, anew after every command, what each node must be.
It knows nothing of counters, queues, views or facts. What it cannot know (which of several ready nodes got
the last slot) it is told by `active`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.core.naive_rounds import latest, over, send_back

LIVE = {"waiting", "ready", "running", "stopping", "asking", "backing_off"}
BUSY = {"running", "stopping"}
DEAD = {"skipped", "vetoed", "cancelled"}

#: Conditions that plans use, and what they mean to the model: (value, status of the source) -> bool or None.
#: None stands for a condition that does not give a bool, which fails the target.
CONDITIONS: dict[str, Callable[[object, str], bool | None]] = {
    "result == 1": lambda value, status: value == 1 and value is not True,
    "status == 'failed'": lambda value, status: status == "failed",
    "result": lambda value, status: value if isinstance(value, bool) else None,
}
WHENS = {"args.go": True, "args.stop": False, "args.word": None}


@dataclass
class Link:
    source: str
    accept: tuple[str, ...]
    kind: str = "flow"
    required: bool = False
    when: str | None = None


@dataclass
class Sketch:
    """One node as the model sees it; `origin` is the planned or injected node that it descends from."""

    name: str
    origin: str = ""
    ins: list[Link] = field(default_factory=list)
    needs: str = "any"
    when: str | None = None
    #: None, or on_undecided
    gate: str | None = None
    refuse_on: tuple[str, ...] = ("REJECT",)
    stop_on_failure: bool = False
    tries: int = 1
    tiers: int = 1
    rungs: int = 0
    depth: int = 0
    status: str = "waiting"
    value: object = None
    judgement: str = ""
    early: bool = False
    attempt: int = 0
    given_back: int = 0
    escalating: str = ""
    gave_up: bool = False
    verdicts: list[str] = field(default_factory=list)
    settles: str = ""
    resumes: bool = False
    successor: str = ""
    handled: bool = False
    #: of a node that was skipped for its edges: where the first of them that barred it comes from
    blocked: str = ""
    writes: dict[str, list[str]] = field(default_factory=dict)
    #: of a gate: how often it may refuse, back to where, and how often it did before this round
    refusals: int = 0
    back_to: str | None = None
    refused: int = 0
    #: rejected because no refusal was left
    spent: bool = False
    #: of a copy: the planned node, the round, and who did its work in the round before
    copies: str = ""
    round: int = 1
    previous: str = ""
    speaks: bool = False
    fresh: bool = False

    @property
    def let_go(self) -> bool:
        return self.status not in LIVE and self.judgement != "undecided"


class Model:
    """The run as it must be."""

    def __init__(self) -> None:
        self.nodes: dict[str, Sketch] = {}
        self.reducers: set[str] = set()
        self.spawns = self.escalations = 0
        self.max_spawns = self.max_escalations = self.max_depth = 0
        self.paused = False
        self.draining = self.cancelling = ""
        self.tokens = 0
        self.max_tokens: int | None = None
        self.waits_for_answers = False
        self.order = ["interrupted", "deadline", "drained"]
        #: edges of the plan, by planned names
        self.planned: list[tuple[str, str]] = []
        #: (gate, round) -> its judgement, and whether that moved from the round before
        self.rounds: dict[tuple[str, int], tuple[str, bool | None]] = {}

    # --- the graph -----------------------------------------------------------------------------

    def resolve(self, name: str) -> Sketch | None:
        node = self.nodes.get(latest(self, name))
        while node is not None and node.successor:
            node = self.nodes[node.successor]
        return node

    def below(self, name: str) -> list[Sketch]:
        return [node for node in self.nodes.values() if any(link.source == name for link in node.ins)]

    def ancestors(self, name: str) -> set[str]:
        """Every node above; a node that settled before what is above it did hides that."""
        found: set[str] = set()
        stack = [name]
        while stack:
            node = self.nodes[stack.pop()]
            for link in () if node.early else node.ins:
                if link.source not in found:
                    found.add(link.source)
                    stack.append(link.source)
        return found

    def reaches(self, start: str, goal: str) -> bool:
        """Depth first over the whole graph."""
        return start == goal or any(self.reaches(node.name, goal) for node in self.below(start))

    def used_escalations(self) -> int:
        return self.escalations + sum(bool(node.escalating) for node in self.nodes.values())

    # --- judging -------------------------------------------------------------------------------

    def gates_above(self, node: Sketch) -> bool:
        """A rejecting gate or a vetoed node stands directly above, or above one that was cancelled early."""
        for link in node.ins:
            source = self.nodes[link.source]
            if source.status == "vetoed" or source.judgement == "rejected":
                return True
            if source.early and source.status == "cancelled" and self.gates_above(source):
                return True
        return False

    def lives(self, link: Link) -> bool | None:
        source = self.nodes[link.source]
        if link.kind == "join" and not link.required:
            return source.status not in DEAD
        if source.status not in link.accept:
            return False
        if link.when is None:
            return True
        return CONDITIONS[link.when](source.value, source.status)

    def judge(self, node: Sketch) -> str:
        if self.gates_above(node):
            return "vetoed"
        living = [self.lives(link) for link in node.ins]
        if None in living:
            return "failed"
        carrying = [
            (link.source, bool(alive), node.needs == "all" and not alive and self.discounted(link.source))
            for link, alive in zip(node.ins, living, strict=True)
            if link.kind != "join" or link.required
        ]
        if carrying and not self.carried(node.needs, carrying):
            barring = [source for source, alive, discounted in carrying if not alive and not discounted]
            node.blocked = [*barring, node.ins[0].source][0]
            return "skipped"
        if node.when is not None and WHENS[node.when] is not True:
            return "skipped" if WHENS[node.when] is False else "failed"
        if self.conflict(self.ancestors(node.name)):
            return "failed"
        for link, alive in zip(node.ins, living, strict=True):
            source = self.nodes[link.source]
            source.handled |= bool(alive) and source.status == "failed"
        return "ready"

    @staticmethod
    def carried(needs: str, carrying: list[tuple[str, bool, bool]]) -> bool:
        if needs == "any":
            return any(alive for _, alive, _ in carrying)
        counted = [alive for _, alive, discounted in carrying if not discounted]
        return bool(counted) and all(counted)

    def discounted(self, name: str) -> bool:
        """A skipped node does not count, unless it is a gate that could not judge for somebody's failure."""
        source = self.nodes[name]
        if source.status != "skipped":
            return False
        if source.gate is None:
            return True
        while source.status == "skipped" and source.blocked:
            source = self.nodes[source.blocked]
        return source.status not in ("failed", "cancelled")

    def conflict(self, seen: set[str]) -> bool:
        """Two writers of one leaf, neither above the other, on a key without a reducer."""
        for left in seen:
            for right in seen:
                if left >= right or left in self.ancestors(right) or right in self.ancestors(left):
                    continue
                a, b = self.nodes[left].writes, self.nodes[right].writes
                for key in (a.keys() & b.keys()) - self.reducers:
                    if any(overlap(one, two) for one in a[key] for two in b[key]):
                        return True
        return False

    def settle_all(self) -> None:
        """Judge every node whose predecessors have let go, until nothing changes."""
        changed = True
        while changed:
            changed = False
            for node in list(self.nodes.values()):
                if node.status == "waiting" and all(self.nodes[link.source].let_go for link in node.ins):
                    node.status = self.judge(node)
                    if node.status == "failed":
                        self.judge_gate(node, failed=True)
                        self.failed(node)
                    changed = True

    # --- settling ------------------------------------------------------------------------------

    def settle(self, node: Sketch, status: str) -> None:
        node.early = node.status == "waiting" and any(not self.nodes[li.source].let_go for li in node.ins)
        ran = node.status in BUSY
        node.status = status
        node.escalating = ""
        if status in ("completed", "failed") or (status == "skipped" and ran):
            self.judge_gate(node, failed=status != "completed")
        if status == "failed":
            self.failed(node)

    def failed(self, node: Sketch) -> None:
        if node.stop_on_failure:
            # what waited for this node alone is judged before the run is stopped
            self.settle_all()
            self.stop("failed")

    def judge_gate(self, node: Sketch, *, failed: bool) -> None:
        if node.gate is None:
            return
        verdicts = set(node.verdicts)
        if failed or len(verdicts) != 1:
            if node.gate == "reject":
                self.refuse(node)
            else:
                self.judged(node, {"hold": "undecided", "pass": "approved"}[node.gate])
        elif verdicts & set(node.refuse_on):
            self.refuse(node)
        else:
            self.judged(node, "approved")

    def refuse(self, node: Sketch, *, person: bool = False) -> None:
        """The work goes back, if there is any and refusals are left; else what depends on it is vetoed."""
        if (node.attempt or person) and send_back(self, node):
            return
        node.spent = 0 < node.refusals <= node.refused
        self.judged(node, "rejected")
        for other in list(self.nodes.values()):
            # ready, because a node on the way was cancelled before the gate had judged
            if other.status == "ready" and not other.attempt and self.reaches(node.name, other.name):
                self.settle(other, "vetoed")

    def judged(self, node: Sketch, judgement: str) -> None:
        node.judgement = judgement
        if not node.refusals or judgement == "undecided":
            return
        first = self.nodes[node.origin or node.name]
        before = self.nodes.get(first.previous)
        moved = None if before is None else self.word(before) != self.word(node)
        self.rounds[first.copies or first.name, node.round] = judgement, moved

    @staticmethod
    def word(node: Sketch) -> tuple[str | None, bool]:
        return (node.verdicts[0] if node.verdicts else None), node.judgement == "approved"

    def stop(self, reason: str) -> None:
        if self.cancelling:
            return
        self.cancelling = reason
        for node in list(self.nodes.values()):
            if node.status == "running":
                node.status, node.settles = "stopping", "cancelled"
            elif node.status in LIVE - BUSY:
                self.settle(node, "cancelled")

    def suspend(self, reason: str) -> None:
        reasons = [known for known in (self.draining, reason) if known]
        self.draining = min(reasons, key=self.order.index)
        for node in self.nodes.values():
            if node.status == "running":
                node.status, node.settles = "stopping", "ready"

    def stopped(self, node: Sketch) -> None:
        if node.settles == "ready" and not self.cancelling:
            node.status, node.settles, node.escalating = "ready", "", ""
            node.given_back += 1
        else:
            self.settle(node, "cancelled" if node.settles == "ready" else node.settles)

    # --- the run -------------------------------------------------------------------------------

    def held(self) -> bool:
        spent = self.max_tokens is not None and self.tokens >= self.max_tokens
        return bool(self.paused or self.draining or self.cancelling or spent)

    def verdict(self) -> tuple[str, str]:
        """("ended" | "suspended" | "", why) as the run must stand after a command."""
        statuses = [node.status for node in self.nodes.values()]
        undecided = any(node.judgement == "undecided" for node in self.nodes.values())
        live = [status for status in statuses if status in LIVE]
        if not live and (not undecided or self.cancelling):
            return "ended", self.ended()
        if set(statuses) & BUSY:
            return "", ""
        if "backing_off" in statuses and not self.draining:
            return "", ""
        why = self.suspended(statuses, undecided=undecided)
        return ("suspended", why) if why else ("", "")

    def ended(self) -> str:
        if self.cancelling == "cancelled":
            return "cancelled"
        nodes = self.nodes.values()
        failed = [node for node in nodes if node.status == "failed" and not over(self, node)]
        unhandled = any(not node.handled for node in failed)
        if unhandled or self.cancelling or self.conflict(set(self.nodes)):
            return "failed"
        if any(node.spent for node in nodes):
            return "refusals_exhausted"
        rejected = any(node.judgement == "rejected" for node in nodes)
        return "gate_rejected" if rejected else "completed"

    def suspended(self, statuses: list[str], *, undecided: bool) -> str:
        if self.draining:
            return self.draining
        spent = self.max_tokens is not None and self.tokens >= self.max_tokens
        if spent and "ready" in statuses:
            return "budget_exhausted"
        if self.paused or ("asking" in statuses and self.waits_for_answers):
            return ""
        if "asking" in statuses:
            return "awaiting_answer"
        return "gate_undecided" if undecided else "stuck"


def overlap(left: str, right: str) -> bool:
    """Two leaf paths set the same place, or one sets what the other is a part of."""
    a, b = left.split("/"), right.split("/")
    shorter = min(len(a), len(b))
    return a[:shorter] == b[:shorter]
