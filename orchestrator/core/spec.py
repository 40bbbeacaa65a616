"""What a run is asked to do: operations, edges, gates, grants, budgets. Plain frozen data.

Everything here can be journaled as JSON. Nothing here is live: functions, branches and models stay
in the runtime and are looked up by the names that stand here.
"""

from __future__ import annotations

import keyword
import re
from enum import StrEnum

import msgspec

from orchestrator.core.kinds import ELEMENT, INDEX, ForEach, Inquiry, Instance
from orchestrator.errors import OperationError

__all__ = [
    "ALL_OUTCOMES",
    "BUILDER_ACCEPTS",
    "CHILD_ACCEPTS",
    "DEFAULT_CONCURRENCY",
    "DOCUMENT_ACCEPTS",
    "NAME_LIMIT",
    "RESERVED_NAMES",
    "UNLIMITED",
    "Artifact",
    "Budget",
    "Casting",
    "Definition",
    "Edge",
    "EdgeKind",
    "ForEach",
    "Gate",
    "Inquiry",
    "Instance",
    "Operation",
    "Plan",
    "Retry",
    "RoleSpec",
    "Undecided",
    "name_fault",
]

#: Slots when the caller says nothing (the operation-graph seed, D2).
DEFAULT_CONCURRENCY = 5
#: What ``concurrency=None`` means unless CALLBOARD_MAX_CONCURRENCY says otherwise (seed, D2).
UNLIMITED = 10_000
#: Derived names (grown nodes, rounds, tiers) may be this long.
NAME_LIMIT = 160

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
RESERVED_NAMES = frozenset(
    {
        *("args", "context", "nodes", ELEMENT, INDEX, "result", "status", "emissions"),
        *("true", "false", "null"),
    }
)

BUILDER_ACCEPTS = ("completed", "failed")
DOCUMENT_ACCEPTS = ("completed",)
CHILD_ACCEPTS = ("completed", "escalated")
#: What a joined (``before``) edge waits for: everything that can happen to a node.
ALL_OUTCOMES = ("completed", "failed", "skipped", "vetoed", "cancelled", "escalated")


def name_fault(name: str, functions: frozenset[str] = frozenset()) -> str | None:
    """Say what is wrong with a planned node's name, or None.

    Args:
        name: the proposed name.
        functions: names of the expression language's functions, which a node may not take.

    Returns:
        One clause that ends in the accepted form or a proposal, or None if the name is fine.
    """
    if _NAME.fullmatch(name):
        if keyword.iskeyword(name):
            return f"{name!r} is a Python keyword; try {name + '_'!r}"
        if name in RESERVED_NAMES or name in functions:
            return f"{name!r} has a meaning in expressions; try {name + '_'!r}"
        return None
    proposal = re.sub(r"[^A-Za-z0-9_]", "_", name)[:64]
    if not proposal or proposal[0].isdigit():
        proposal = f"_{proposal}"[:64]
    return f"{name!r} is not a node name (letters, digits, _; at most 64); try {proposal!r}"


class _Spec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of the plan's structs: keyword-only, frozen, unknown fields refused."""


class EdgeKind(StrEnum):
    """Why an edge exists (engine.md 18)."""

    FLOW = "flow"  #: planned; the emitter's "successors" are the targets of these
    CHILD = "child"  #: emitter -> dependent child
    JOIN = "join"  #: grown node -> a node that must wait for it; delivers, never makes live


class Edge(_Spec, frozen=True):
    """One dependency: ``target`` waits for ``source``.

    Attributes:
        when: expression over ``result``, ``status`` of the source, ``context`` and ``args``; None is true.
        predicate: index of a live ``EdgeCondition`` that the runtime judges; None if there is none.
        accept: outcomes of the source under which the edge can live.
        required: a join edge that was asked to be required makes its target fail to start if dead.
        reads_as: the name under which the target reads the source's value.
        way: one of several ways to a node that needs all of its other edges; it needs one of these beside.
    """

    source: str
    target: str
    kind: EdgeKind = EdgeKind.FLOW
    when: str | None = None
    predicate: int | None = None
    accept: tuple[str, ...] = BUILDER_ACCEPTS
    required: bool = False
    label: str | None = None
    reads_as: str | None = None
    way: bool = False


class Undecided(StrEnum):
    """What a gate without a readable verdict does to its dependents (kernel.md 5)."""

    HOLD = "hold"
    REJECT = "reject"
    PASS = "pass"


class Gate(_Spec, frozen=True):
    """A node whose verdict can veto everything that depends on it.

    Attributes:
        refusals: rounds after the first; each refusal sends the work back.
        back_to: the node from which a new round starts.
        refuse_on: verdicts that count as REJECT. APPROVE cannot be listed.
        on_undecided: ``hold`` (default), ``reject`` or ``pass``.
    """

    refusals: int = 0
    back_to: str | None = None
    refuse_on: tuple[str, ...] = ("REJECT",)
    on_undecided: Undecided = Undecided.HOLD

    def __post_init__(self) -> None:
        """Take the plain word for ``on_undecided``, and refuse one that is none of the three.

        Raises:
            OperationError: an unknown word.
        """
        given: str = self.on_undecided
        if not isinstance(given, Undecided):
            if given not in tuple(Undecided):
                raise OperationError(f"on_undecided is {given!r}; write hold, reject or pass")
            msgspec.structs.force_setattr(self, "on_undecided", Undecided(given))


class Artifact(_Spec, frozen=True):
    """A file that a node leaves in its folder.

    Attributes:
        name: how others refer to it: ``${draft.artifacts.note}``.
        path: relative to the folder, with ``/``; of a run's own artifact it may be empty.
        required: without it the node (or the run) fails. kind: what it is, for readers.
    """

    name: str
    path: str = ""
    required: bool = False
    kind: str | None = None


class Casting(_Spec, frozen=True):
    """A node whose TaskAssignments become the planned nodes of its run.

    Attributes:
        max_nodes: at most so many. assignees: roles that may be named. reactive: those that may spawn.
    """

    max_nodes: int
    assignees: tuple[str, ...] = ()
    reactive: tuple[str, ...] = ()


class Retry(_Spec, frozen=True):
    """How often and how a node is attempted again.

    Attributes:
        attempts: attempts in all; the first counts.
        backoff: seconds before the second attempt.
        factor: each further delay is this many times the one before.
        max_delay: no delay is longer, seconds.
        jitter: 0..1, the share of the delay that is drawn at random (seedable).
        on: names of error types that are retried; empty means every error.
    """

    attempts: int = 1
    backoff: float = 0.0
    factor: float = 2.0
    max_delay: float = 60.0
    jitter: float = 0.0
    on: tuple[str, ...] = ()

    def delay(self, attempt: int, draw: float) -> float:
        """Seconds to wait after ``attempt`` failed; ``draw`` is a number in 0..1 given from outside."""
        try:
            base = min(self.backoff * self.factor ** min(attempt - 1, 64), self.max_delay)
        except OverflowError:
            base = self.max_delay if self.backoff else 0.0
        return base * (1.0 - self.jitter * draw)


class Operation(_Spec, frozen=True):
    """One node of a graph, before it runs.

    Attributes:
        name: the node's identity end to end.
        verb: what is performed; ``operate`` for role nodes.
        role: name of the role that performs it, or None.
        parameters: a JSON object; the role reads it as ``turn.parameters``.
        instruction: what to do, in words.
        emits: kinds that the node may emit; None leaves the role's whole grant.
        needs: ``any`` edge must live (builder) or ``all`` of them (documents).
        when: expression judged when every predecessor has settled.
        retry, timeout, deadline: attempts; seconds per attempt; seconds per node.
        branch: name of a shared branch. inherit: node whose messages it starts from.
        speaks: the operation takes a branch (a conversational verb on a model or agent).
        uses: names of ``limits`` that the node takes while it runs.
        models: the tiers, cheapest first; tier: the one in use. effort: how hard the model thinks.
        tools: names of the role's tools that the node may use; None is all of them.
        asks: a model gets asking a person as a tool.
        inputs: predecessors that a model is shown; None is all of them.
        returns: JSON Schema of the value as JSON text, or None.
        writes: context key under which the value is also written.
        sources: names of the predecessors that an aggregation reads.
        renders: instruction and parameters hold ``${...}`` that is rendered when the node starts.
        stop_on_failure: a failure of this node cancels the run.
        artifacts: files that it leaves, beside those of its role.
        casting: it plans the run: see Casting.
        flow: path of the flow document that it includes, as the document wrote it.
        workdir: the folder it works in, relative to the document; None is a folder of its own.
        for_each: it runs once per element of a list; instance: it is one of those runs.
        inquiry: a person settles it.
    """

    name: str
    verb: str = "operate"
    role: str | None = None
    parameters: msgspec.Raw = msgspec.Raw(b"{}")
    instruction: str = ""
    emits: tuple[str, ...] | None = None
    needs: str = "any"
    when: str | None = None
    gate: Gate | None = None
    retry: Retry | None = None
    timeout: float | None = None
    deadline: float | None = None
    branch: str | None = None
    inherit: str | None = None
    fresh: bool = False
    speaks: bool = False
    uses: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    tier: int = 0
    effort: str | None = None
    tools: tuple[str, ...] | None = None
    asks: bool = False
    inputs: tuple[str, ...] | None = None
    returns: str | None = None
    writes: str | None = None
    sources: tuple[str, ...] = ()
    renders: bool = False
    stop_on_failure: bool = False
    description: str = ""
    artifacts: tuple[Artifact, ...] = ()
    workdir: str | None = None
    for_each: ForEach | None = None
    instance: Instance | None = None
    inquiry: Inquiry | None = None
    flow: str | None = None
    casting: Casting | None = None


class RoleSpec(_Spec, frozen=True):
    """What the core must know of a role to judge what its nodes ask for.

    Attributes:
        emits: kinds the role declared, ``EscalationRequest`` included.
        models: tiers, cheapest first. escalates_to: role that takes over above the last tier.
        speaks: nodes of this role hold a branch.
        verbs: verbs that a spawned node of this role may perform.
    """

    name: str
    emits: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    escalates_to: str | None = None
    speaks: bool = False
    verbs: tuple[str, ...] = ("operate",)
    retry: Retry | None = None
    timeout: float | None = None


class Budget(_Spec, frozen=True):
    """The named limits of a run (kernel.md 8). Initial nodes never count as spawns.

    Attributes:
        spawns: accepted spawn requests, task assignments and injects. 0: growth is not offered.
        depth: generations below a planned node.
        escalations: escalation children in all.
        concurrency: nodes at once; None means CALLBOARD_MAX_CONCURRENCY, 10,000 if unset.
        tokens, cost_usd: summed over every model call; None is no limit.
        wall_clock: seconds in which a process drives the run; None is no limit.
        assignees: roles that may be spawned; None means every role that the plan knows.
        steps, visits, tasks: of a stepped run since its last input: steps, tasks of one node, tasks in all.
    """

    spawns: int = 50
    depth: int = 8
    escalations: int = 10
    concurrency: int | None = DEFAULT_CONCURRENCY
    tokens: int | None = None
    cost_usd: float | None = None
    wall_clock: float | None = None
    assignees: tuple[str, ...] | None = None
    steps: int | None = None
    visits: int | None = None
    tasks: int | None = None


class Definition(_Spec, frozen=True):
    """Where a run's functions and texts come from, so that another process can go on with it.

    Attributes:
        source: path of the flow document; empty for a graph made in code.
        digest: hash of the plan and of every function's source.
        functions: what it is (``role:critic``, ``verb:hold``, ``reducer:findings``, ``condition:0``,
            ``returns:scan``) -> ``path::qualified.name::hash``.
        fields: JSON of the fields of condition objects, by index.
        outputs: name -> text with ``${...}``, rendered when the run has stopped.
    """

    source: str = ""
    digest: str = ""
    functions: dict[str, str] = {}
    fields: dict[str, msgspec.Raw] = {}
    outputs: dict[str, str] = {}


class Plan(_Spec, frozen=True):
    """Everything the core needs to run a graph: the fact GraphPlanned carries it.

    Attributes:
        operations: planned nodes in declaration order.
        edges: edges in declaration order.
        roles: every role a node or a spawn may name.
        verbs: what a node without a role may perform; empty is not known and not checked.
        models: the default model of grown nodes without a role, and none for nobody.
        reducers: context key -> reducer name (core/context.py); a name outside the table is the runtime's.
        limits: resource name -> capacity, e.g. ``role:critic``, ``model:x``, ``name:db``.
        artifacts: what the run must leave: files that its nodes leave under these names.
        args: the flow's arguments, a JSON object. context: the first context, a JSON object.
    """

    name: str = "flow"
    operations: tuple[Operation, ...] = ()
    edges: tuple[Edge, ...] = ()
    roles: tuple[RoleSpec, ...] = ()
    budget: Budget = Budget()
    limits: dict[str, int] = {}
    verbs: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    reducers: dict[str, str] = {}
    args: msgspec.Raw = msgspec.Raw(b"{}")
    context: msgspec.Raw = msgspec.Raw(b"{}")
    artifacts: tuple[Artifact, ...] = ()
