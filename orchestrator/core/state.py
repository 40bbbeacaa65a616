"""What is true of a run right now. Only ``apply`` changes it, and only from facts.

The structs refer to each other by name, never by reference: no cycles, so the collector need not
look at them, and a state can be compared and printed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from orchestrator.core.births import Birth
from orchestrator.core.facts import Failure, LeftArtifact
from orchestrator.core.round_records import Round
from orchestrator.core.spec import Budget, Definition, Edge, EdgeKind, Operation, Plan, RoleSpec
from orchestrator.core.status import Status
from orchestrator.core.supersteps.state import StepState

__all__ = [
    "EdgeState",
    "Emitted",
    "Escalation",
    "NodeState",
    "Question",
    "RunState",
    "SteerState",
    "Write",
]

Judged = bool | str
#: Ends the name of a node's first round where that is meant, and not the latest.
_FIRST = "@1"


class EdgeState(msgspec.Struct, gc=False):
    """One dependency while the run goes on. Splicing moves its source; ``spec`` stays as written."""

    source: str
    target: str
    spec: Edge
    #: what the predicate gave: a bool, or the text of its error; None until the source settled
    judged: Judged | None = None

    @property
    def reads_as(self) -> str:
        """The name under which the target reads the source."""
        return self.spec.reads_as or self.spec.source

    @property
    def waits_only(self) -> bool:
        """True for a joined edge: it delivers, and never makes its target live."""
        return self.spec.kind is EdgeKind.JOIN


class Emitted(msgspec.Struct, frozen=True, gc=False):
    """One accepted emission of the ledger."""

    kind: str
    number: int
    attempt: int
    payload: bytes
    key: str | None = None
    child: str | None = None
    role: str | None = None


class Escalation(msgspec.Struct, frozen=True, gc=False):
    """A request to hand the work up that is carried out when the node settles."""

    reason: str
    urgency: str
    child: str
    context: bytes = b"{}"
    more: tuple[str, ...] = ()


class Write(msgspec.Struct, frozen=True, gc=False):
    """One context write. ``prior`` are the writers of this key that its node had seen."""

    node: str
    key: str
    value: bytes
    leaves: tuple[str, ...]
    replace: bool
    prior: tuple[str, ...]
    #: 1 + the highest generation among ``prior``: an earlier writer has a lower one
    generation: int = 1
    #: what the same node wrote to the same key after ``value``
    more: tuple[bytes, ...] = ()


class Question(msgspec.Struct, gc=False):
    """A question of a node; ``answer`` is its JSON once somebody gave it."""

    node: str
    key: str
    text: str
    choices: tuple[str, ...] = ()
    schema: str | None = None
    default: bytes | None = None
    #: when the default becomes the answer, in active time; 0 is never
    expires_at: int = 0
    answer: bytes | None = None
    #: who answered, and why
    by: str = ""
    because: str = ""


class SteerState(msgspec.Struct, gc=False):
    """An operator's note and to whom it went."""

    id: int
    text: str
    time: str
    target: str | None = None
    delivered_to: str | None = None
    #: the attempt that has it; one that was given back leaves it to the next
    attempt: int = 0

    def left_by(self, node: str, attempt: int) -> None:
        """An attempt ended that was not the node's fault: the next one is told instead."""
        if self.delivered_to == node and self.attempt == attempt:
            self.attempt += 1


class NodeState(msgspec.Struct, gc=False):
    """One node. Each field is written by ``apply`` and by nothing else."""

    op: Operation
    birth: Birth
    #: planned ancestor (itself for planned nodes): the first part of its children's names
    origin: str
    parent: str | None = None
    depth: int = 0
    #: how many of the generations above it are elements of a list, which nobody asked for
    elements_above: int = 0
    status: Status = Status.WAITING
    ins: Sequence[EdgeState] = ()
    outs: Sequence[EdgeState] = ()
    #: those of ``outs`` that lead to no child of its own: what "successors" means
    onward: Sequence[EdgeState] = ()
    #: incoming edges whose source has not let go yet; 0 means due
    pending: int = 0
    #: it was settled while it still waited: what its predecessors do is nothing to it
    early: bool = False
    #: its outgoing edges have let go of their targets
    released: bool = False
    attempt: int = 0
    generation: int = 1
    value: bytes | None = None
    error: Failure | None = None
    #: the files that it left, as it completed
    artifacts: tuple[LeftArtifact, ...] = ()
    reason: str = ""
    blocked_by: str | None = None
    vetoed_by: tuple[str, ...] = ()
    restored: bool = False
    #: a failure of it was accepted by a living edge
    handled: bool = False
    #: the next start goes on with the present attempt (a question was answered)
    resumes: bool = False
    #: it asked, and the process that waited for the answer is gone: the next start is another attempt
    parted: bool = False
    #: attempts that ended without being the node's fault; they do not count as tries
    given_back: int = 0
    #: why the role gave up in this attempt
    gave_up: str = ""
    #: what the current stop will settle it as, and why
    settles: str = ""
    #: resources it holds beside its slot
    holds: tuple[str, ...] = ()
    #: number of accepted emissions, over all attempts
    emitted: int = 0
    ledger: Sequence[Emitted] = ()
    #: children accepted by it so far; numbers births, never reused
    children: int = 0
    #: it has an instance for every element of its list
    opened: bool = False
    #: instances whose value its own value lacks, because they failed or were cancelled
    left_out: int = 0
    #: identity of an emission -> its ledger number (engine.md 13)
    identities: dict[tuple[str, str | bytes, int], int] | None = None
    #: how often each payload came over each channel in this attempt
    sightings: dict[tuple[str, str, bytes], int] | None = None
    verdicts: list[str] | None = None
    rationale: str = ""
    escalation: Escalation | None = None
    #: gate: None open, else approved / refused / rejected / undecided
    judgement: str | None = None
    #: gate: it rejected because no refusal was left
    spent: bool = False
    #: gate: its refusals before this round
    refused: int = 0
    #: the planned node that it copies, in a later round; None for every other node
    copies: str | None = None
    round: int = 1
    #: whose work it takes up, and the gate that sent that back
    previous: str | None = None
    sent_back_by: str | None = None
    #: of a gate that a person judged: who
    decided_by: str = ""
    #: why it was judged so, in other words than the rationale of its own verdict
    because: str = ""
    superseded_by: str | None = None
    #: escalations above it in its lineage
    rungs: int = 0
    #: reason -> refusals so far (facts up to the limit, then only counted)
    refusals: dict[str, int] | None = None
    writes: dict[str, Write] | None = None
    #: context key -> names of the unordered last writers it sees; shared when nothing changed
    view: dict[str, tuple[str, ...]] | None = None
    #: view has been computed (every predecessor has settled)
    seen: bool = False
    questions: dict[str, Question] | None = None
    steps: dict[str, bytes] | None = None
    #: what was wrong with its plan, when that was returned to it
    plan_faults: tuple[str, ...] = ()
    #: the run of the flow that it includes, why that ended, and why it is suspended
    child_run: str = ""
    child_ended: str = ""
    held: str = ""
    #: spawns and escalations that the live child may use, and all that count for its children
    share: tuple[int, int] = (0, 0)
    child_used: tuple[int, int] = (0, 0)
    branch: str | None = None
    #: number of the fact that began the present attempt
    started_seq: int = 0
    #: when the present backoff is over, in active time
    backoff_until: int = 0
    ready_at: int = 0
    started_at: int = 0
    settled_at: int = 0
    #: how often it has stopped to ask, when it last did, and how long it has asked in this generation
    asks: int = 0
    asked_at: int = 0
    asked_for: int = 0
    paused_in: int = 0
    tokens: int = 0
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None

    @property
    def name(self) -> str:
        """The node's identity."""
        return self.op.name

    @property
    def generations(self) -> int:
        """Generations below a planned node, as budget.depth counts them."""
        return self.depth - self.elements_above

    def remaining(self, at: int) -> int | None:
        """Nanoseconds until its deadline if it does not ask, below 0 if it has passed; None without one."""
        if self.op.deadline is None:
            return None
        return int(self.op.deadline * 1e9) - (at - self.started_at - self.asked_for)


class RunState(msgspec.Struct):
    """One run."""

    run: str = ""
    name: str = ""
    plan: Plan = Plan()
    budget: Budget = Budget()
    roles: dict[str, RoleSpec] = {}
    nodes: dict[str, NodeState] = {}
    #: nodes that are not terminal
    live: int = 0
    #: nodes that are running or stopping
    running: int = 0
    backing_off: int = 0
    asking: int = 0
    undecided: int = 0
    #: nodes in status ready, in the order in which they became so
    ready: dict[str, None] = {}
    #: what waits for a resource: transient, rebuilt by trying every ready node in order
    parked: dict[str, deque[str]] = {}
    #: resource -> how much of it is taken
    used: dict[str, int] = {}
    slots: int = 0
    #: nodes that are running or stopping and include a flow: they hold no slot
    including: int = 0
    paused: bool = False
    #: counts pauses, so that a fresh pause announces its waiters anew
    pauses: int = 0
    draining: str = ""
    cancelling: str = ""
    cancel_detail: str = ""
    suspending: str = ""
    ended: str = ""
    suspended: str = ""
    detail: str = ""
    waiters: dict[str, str] = {}
    waits_for_answers: bool = False
    spawns: int = 0
    escalations: int = 0
    #: escalations that were accepted and are not carried out yet: they count towards the budget
    escalating: int = 0
    #: (planned ancestor, role) -> children so far: the number in a grown name
    name_counts: dict[tuple[str, str], int] = {}
    #: (emitter or None, key) of an injection -> the node that it added
    injections: dict[tuple[str | None, str], str] = {}
    rejected: list[str] = []
    #: some node settled before what is above it did
    cut_short: bool = False
    #: gate with refusals -> the planned nodes that it sends back, in topological order
    loops: dict[str, tuple[str, ...]] = {}
    #: planned node -> its copy in the latest round; only of nodes that were sent back
    latest: dict[str, str] = {}
    #: planned node or copy -> what descends from it, tiers included; kept where the plan has a loop
    families: dict[str, list[str]] = {}
    rounds: list[Round] = []
    failed_unhandled: int = 0
    #: roles whose models take no calls -> what the provider said
    closed: dict[str, str] = {}
    #: branch -> what was said on it as far as it is on record, oldest first: JSON lists of messages
    conversations: dict[str, tuple[bytes, ...]] = {}
    steers: list[SteerState] = []
    #: indices of steers that nobody has been given
    waiting_steers: int = 0
    injected: int = 0
    #: a budget sums up what model calls cost
    metered: bool = False
    tokens: int = 0
    cost_usd: float = 0.0
    refused: list[tuple[str | None, str, str, str | None, str | None]] = []
    counted_refusals: dict[tuple[str | None, str], int] = {}
    #: reason -> refusals of people outside that are facts
    refused_outside: dict[str, int] = {}
    #: reason -> further ones, of which the next stop records the number
    unrecorded: dict[str, int] = {}
    #: context keys that anybody wrote; empty means that no view needs to be built
    written: dict[str, None] = {}
    #: memo of core/order.py for nodes whose incoming edges are final
    orders: dict[str, tuple[Birth, int]] = {}
    #: which process drives the run, counted over restarts
    epoch: int = 0
    definition: Definition = Definition()
    #: the run that it was forked from, if it was
    origin: str = ""
    #: number of the last fact that it shares with its origin, and what it changes
    forked_at: int = 0
    change: str = ""
    #: the run that includes it, and the node there
    parent: str = ""
    parent_node: str = ""
    #: requests of other processes that were carried out
    controls: list[int] = []
    #: of a stepped run: its channels, its step, its frontier; None of a run that is a graph
    steps: StepState | None = None
    #: number of the last fact
    facts: int = 0
    at: int = 0

    def resolve(self, name: str) -> NodeState | None:
        """The node that a bare name means: its latest round and, through an escalation, the child.

        ``NAME@1`` means the first round.
        """
        node = self.nodes.get(self.in_round(name))
        while node is not None and node.superseded_by is not None:
            node = self.nodes.get(node.superseded_by)
        return node

    def in_round(self, name: str) -> str:
        """The node that a name means, whoever took its work over: a bare one means the latest round."""
        if name in self.latest:
            return self.latest[name]
        return name.removesuffix(_FIRST) if name not in self.nodes else name

    def planned_name(self, node: NodeState) -> str:
        """The planned node that ``node`` copies or descends from; an injected one is its own."""
        return self.nodes[node.origin].copies or node.origin

    def authored(self, node: NodeState) -> str:
        """The name under which the flow's author knows it: rounds and tiers of a planned node have one."""
        return node.op.name if node.depth else self.planned_name(node)

    def is_over(self, node: NodeState) -> bool:
        """True for what belongs to a round after which another one has started."""
        if not self.latest:
            return False
        planned = self.planned_name(node)
        return self.latest.get(planned, planned) != node.origin

    def family(self, node: NodeState) -> list[NodeState]:
        """What did and grew from a planned node's work in one round, its tiers included, oldest first."""
        names = (node.origin, *self.families.get(node.origin, ()))
        return [self.nodes[name] for name in names]
