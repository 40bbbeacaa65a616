"""The flow document: the one schema, from which validation, ``flow.schema.json`` and the docs come.

Everything is strict: a number is no text, a text is no bool, an unknown key is an error.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from orchestrator.flows.durations import DURATION_FORM, seconds
from orchestrator.flows.instances import MAX_LIMIT

__all__ = [
    "DURATION_SCHEMA",
    "MOST_REFUSALS",
    "VERSION",
    "AfterSpec",
    "ArgSpec",
    "ArtifactSpec",
    "BudgetSpec",
    "ContextSpec",
    "Defaults",
    "Document",
    "EdgeSpec",
    "GateSpec",
    "LimitsSpec",
    "NodeSpec",
    "RetrySpec",
    "RunArtifactSpec",
    "flow_schema",
]

#: The newest version of the format that is read; docs/flows.md says what it promises.
VERSION: Final = 1
#: A gate that sends work back more often than this is a mistake of its author's.
MOST_REFUSALS: Final = 1_000

_TYPES: Final = ("str", "int", "float", "bool", "path", "any")


def _duration(value: object) -> object:
    try:
        seconds(value)
    except ValueError as error:
        raise ValueError(f"write {DURATION_FORM}") from error
    return value


def _no_bool(value: object) -> object:
    """Python takes True and 1.0 for 1; a document does not."""
    if type(value) is not int:
        raise ValueError("write 1")
    return value


def _only_bool(value: object) -> object:
    """Python takes 1 for True; a document does not."""
    if type(value) is int:
        raise ValueError("write true")
    return value


DURATION_SCHEMA: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "string", "pattern": r"^[0-9.]+(ms|s|m|h|d)$"},
    ]
}
Duration = Annotated[Any, BeforeValidator(_duration), WithJsonSchema(DURATION_SCHEMA)]
_PLACEHOLDER = Annotated[str, Field(pattern=r"^\$\{.*\}$")]
Count = Annotated[int, Field(ge=0, le=10_000_000)] | _PLACEHOLDER
True_ = Annotated[Literal[True], BeforeValidator(_only_bool)]
Name = Annotated[str, Field(min_length=1, max_length=160)]
Outcome = Literal["completed", "failed", "cancelled"]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, populate_by_name=False)


class ArgSpec(_Part):
    """One argument of the flow."""

    type: Literal["str", "int", "float", "bool", "path", "any"] = Field(
        "str", description="What the value is."
    )
    enum: list[str] | None = Field(default=None, min_length=1, description="The texts that are accepted.")
    required: bool = Field(default=False, description="The run does not start without it.")
    default: Any = Field(default=None, description="The value if none is given.")
    help: str = Field(default="", description="One line for people.")


class ContextSpec(_Part):
    """One key of the shared context."""

    reduce: str | None = Field(
        default=None, description="How unordered writes are joined: last, append, extend, ..."
    )


class BudgetSpec(_Part):
    """The named limits of a run; a number or ``${args.NAME}``."""

    spawns: Count | None = Field(
        default=None, description="Accepted spawn requests; 0 does not offer growth."
    )
    depth: Count | None = Field(default=None, description="Generations below a planned node.")
    escalations: Count | None = Field(default=None, description="Escalation children in all.")
    concurrency: Annotated[int, Field(ge=1)] | _PLACEHOLDER | None = Field(
        default=None, description="Nodes at once."
    )
    tokens: Count | None = Field(default=None, description="Tokens of all model calls.")
    cost_usd: Annotated[float, Field(ge=0)] | int | _PLACEHOLDER | None = Field(
        default=None, description="US dollars."
    )
    wall_clock: Duration | _PLACEHOLDER | None = Field(
        default=None, description="Time in which a process drives the run."
    )
    assignees: list[Name] | None = Field(default=None, description="Roles that may be spawned.")
    steps: Count | None = Field(default=None, description="Of supersteps: steps of a run.")
    visits: Count | None = Field(default=None, description="Of supersteps: tasks of one node.")
    tasks: Count | None = Field(default=None, description="Of supersteps: tasks in all.")


class LimitsSpec(_Part):
    """How many nodes may hold a role, a model or a named resource at once, and how fast models are called."""

    roles: dict[Name, Annotated[int, Field(ge=1)]] = Field(
        default_factory=dict, description="How many nodes at once, by name."
    )
    models: dict[Name, Annotated[int, Field(ge=1)]] = Field(
        default_factory=dict, description="How many nodes at once, by name."
    )
    names: dict[Name, Annotated[int, Field(ge=1)]] = Field(
        default_factory=dict, description="How many nodes at once, by name."
    )
    requests: dict[Name, Annotated[int, Field(ge=1)]] = Field(
        default_factory=dict, description="Calls of a model in a minute, by its name."
    )
    tokens: dict[Name, Annotated[int, Field(ge=1)]] = Field(
        default_factory=dict, description="Tokens of a model in a minute, by its name."
    )


class RetrySpec(_Part):
    """How often and how a node is attempted again."""

    attempts: Annotated[int, Field(ge=1, le=1_000)] = Field(..., description="In all; the first counts.")
    backoff: Duration | None = Field(default=None, description="Before the second attempt.")
    on: list[str] = Field(default_factory=list, description="Names of error types; empty means every error.")


Retries = Annotated[int, Field(ge=1, le=1_000)] | RetrySpec


class Defaults(_Part):
    """What every node has unless it says otherwise."""

    model: Name | None = Field(default=None, description="For nodes that a language model performs.")
    effort: Name | None = Field(default=None, description="Likewise; in the provider's word.")
    retry: Retries | None = Field(default=None, description="Attempts in all.")
    timeout: Duration | None = Field(default=None, description="Per attempt.")


class GateSpec(_Part):
    """A node whose verdict can veto everything that depends on it."""

    refusals: Annotated[int, Field(ge=0, le=MOST_REFUSALS)] | _PLACEHOLDER = Field(
        default=0, description="How often it may send the work back."
    )
    back_to: Name | None = Field(
        default=None, description="Where a new round starts; without it at the nodes that it comes after."
    )
    refuse_on: list[Literal["APPROVE-WITH-FIXES", "REQUEST-CHANGES", "REJECT"]] = Field(
        default=["REJECT"], min_length=1, description="Verdicts that count as REJECT."
    )
    on_undecided: Literal["hold", "reject", "pass"] = Field(
        default="hold", description="Without a readable verdict."
    )


class AfterSpec(_Part):
    """A predecessor with the outcomes under which this node may still run."""

    node: Name = Field(..., description="The predecessor.")
    accept: list[Outcome] = Field(
        default=["completed"], min_length=1, description="Outcomes under which this node may run."
    )


class ArtifactSpec(_Part):
    """A file that a node leaves."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")] = Field(
        ..., description="How others refer to it: ${draft.artifacts.note}."
    )
    path: str = Field(..., min_length=1, max_length=1_000, description="In the node's folder, with /.")
    required: bool = Field(default=False, description="The node fails without it.")
    kind: str | None = Field(default=None, description="What it is, for readers: report, patch.")


class RunArtifactSpec(_Part):
    """A file that the run leaves: one of its nodes leaves it under this name."""

    name: Name
    required: bool = Field(default=False, description="Without it the run is failed.")
    path: str | None = Field(default=None, description="As the node declares it.")
    kind: str | None = Field(default=None, description="What it is, for readers.")


class EdgeSpec(_Part):
    """One of several ways; a node that ``to`` names runs if one of its edges is true."""

    source: Name = Field(..., alias="from", description="A node; of supersteps START as well.")
    target: Name = Field(..., alias="to", description="A node; of supersteps END as well.")
    when: str | None = Field(
        default=None, description="Expression over result, status, context, args, nodes."
    )
    otherwise: True_ | None = Field(
        default=None, alias="else", description="Taken if no other edge of its source is."
    )


class NodeSpec(_Part):
    """One node."""

    role: Name | None = Field(default=None, description="Who performs it.")
    operation: Name | None = Field(default=None, description="Or what is performed.")
    ask: Annotated[str, Field(min_length=1, max_length=4_000)] | None = Field(
        default=None, description="Or a question: a person settles the node."
    )
    choices: list[Name] = Field(default_factory=list, description="Of ask: what may be answered.")
    expires: Duration | None = Field(default=None, description="Of ask: then default is the answer.")
    default: Any = Field(default=None, description="Of ask: the answer if nobody gives one in time.")
    show: str = Field(default="", description="Of ask: what the person sees under the question; ${...}.")
    for_each: Name | None = Field(
        default=None, description="An expression that gives a list: one instance per element."
    )
    element: Name | None = Field(
        default=None,
        alias="as",
        description="What an element is called; item if omitted. index counts from 1.",
    )
    max: Annotated[int, Field(ge=1, le=MAX_LIMIT)] | None = Field(
        default=None, description="Of for_each: more elements fail the node."
    )
    flow: str | None = Field(
        default=None, min_length=1, description="Or the document that it includes: a run of its own."
    )
    instruction: str = Field(default="", description="What to do; ${...} is replaced when the node starts.")
    parameters: dict[str, Any] = Field(
        default_factory=dict, alias="with", description="turn.parameters of the role."
    )
    after: list[Name | AfterSpec] = Field(default_factory=list, description="Nodes that must have completed.")
    when: str | None = Field(default=None, description="A condition on top.")
    gate: True_ | GateSpec | None = Field(
        default=None, description="Its verdict can veto what depends on it."
    )
    returns: Any = Field(
        default=None,
        description="Shape of its value: {summary: str, files: [str]}, a JSON Schema file, or module:Model.",
    )
    writes: Name | None = Field(default=None, description="Context key that the value is also written to.")
    emits: list[Name] | None = Field(default=None, description="Narrows what the role may emit.")
    tools: list[Name] | None = Field(default=None, description="Narrows what the role may use.")
    model: Name | None = Field(default=None, description="Its first tier, as PROVIDER:NAME.")
    effort: Name | None = Field(default=None, description="How hard its model thinks.")
    asks: bool = Field(default=False, description="Its model may ask a person.")
    inputs: Literal["all", "none"] | list[Name] | None = Field(
        default=None, description="Which predecessors its model is shown."
    )
    retry: Retries | None = Field(default=None, description="Attempts in all.")
    timeout: Duration | None = Field(default=None, description="Per attempt.")
    deadline: Duration | None = Field(default=None, description="Per node.")
    artifacts: list[ArtifactSpec] = Field(default_factory=list, description="Files that it leaves.")
    workdir: str | None = Field(
        default=None, min_length=1, description="Folder it works in, beside the document, or ${args.NAME}."
    )
    shared: bool = Field(default=False, description="Others may work in its workdir at the same time.")
    uses: list[Name] = Field(default_factory=list, description="Names of limits.names.")
    branch: Name | None = Field(default=None, description="A conversation that several nodes share.")
    inherit: Name | None = Field(default=None, description="Node whose messages it starts from.")
    fresh: bool = Field(default=False, description="Start every turn with an empty conversation.")
    on_failure: Literal["continue", "stop", "skip"] | None = Field(
        default=None, description="What a failure does to the run; skip: an instance of for_each is left out."
    )
    description: str = Field(default="", description="For people.")


class Document(_Part):
    """A flow: who works, on what, in which order, within which limits."""

    version: Annotated[Literal[1], BeforeValidator(_no_bool)] = Field(
        ..., description="The version of this format."
    )
    name: str = Field(..., min_length=1, max_length=64, pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$")
    description: str = Field(default="", description="For people.")
    schedule: Literal["dataflow", "supersteps"] = Field(
        default="dataflow",
        description="When a node runs: once what it comes after has settled, or in steps, which may loop.",
    )
    cast: list[Name] = Field(
        default_factory=list, description="Role files (.py, .md) or folders beside the document."
    )
    args: dict[Name, ArgSpec] = Field(default_factory=dict, description="What a run is given.")
    context: dict[Name, ContextSpec] = Field(default_factory=dict, description="Keys of the shared context.")
    budget: BudgetSpec = Field(default=BudgetSpec(), description="The limits of a run.")
    limits: LimitsSpec = Field(default=LimitsSpec(), description="How many nodes at once hold one thing.")
    defaults: Defaults = Field(default=Defaults(), description="What nodes have that say nothing else.")
    on_failure: Literal["continue", "stop"] = Field(
        default="continue", description="What a failure of a node does to the run."
    )
    artifacts: list[RunArtifactSpec] = Field(default_factory=list, description="Files the run must leave.")
    prompt: str | None = Field(
        default=None, min_length=1, description="Instead of nodes: what a planner is to make nodes for."
    )
    planner: Name = Field(default="planner", description="The role that plans.")
    max_nodes: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=None, description="At most so many nodes does a plan have."
    )
    reactive: list[Name] = Field(default_factory=list, description="Roles of planned nodes that may spawn.")
    nodes: dict[str, NodeSpec] = Field(..., min_length=1, description="Who does what, in this order.")
    edges: list[EdgeSpec] = Field(default_factory=list, description="Alternatives: ways to nodes.")
    outputs: dict[Name, str] = Field(
        default_factory=dict, description="Results of the run; ${...} sees every node."
    )


def flow_schema() -> dict[str, Any]:
    """JSON Schema of the document, for editors: the same model that validates."""
    schema = Document.model_json_schema(by_alias=True)
    node = schema["$defs"]["NodeSpec"]
    node["oneOf"] = [{"required": [key]} for key in ("role", "operation", "flow", "ask")]
    schema["required"].remove("nodes")
    schema["oneOf"] = [{"required": ["nodes"]}, {"required": ["prompt"]}]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Callboard flow"}
