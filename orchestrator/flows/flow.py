"""``load_flow``: a document that can be checked, bound to arguments, and then run as a graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from orchestrator.core.spec import Budget
from orchestrator.errors import FlowError, GraphError, OperationError
from orchestrator.flows.arguments import ArgumentError, bind_arguments, bind_budget
from orchestrator.flows.budgets import Priced
from orchestrator.flows.cast import Cast, hidden_modules, load_cast
from orchestrator.flows.check import check
from orchestrator.flows.compile import compile_flow, sentences
from orchestrator.flows.document import ArgSpec, Document, flow_schema
from orchestrator.flows.graph import Graph
from orchestrator.flows.includes import read_includes
from orchestrator.flows.load import Source, read_source
from orchestrator.flows.outline import Outline
from orchestrator.flows.problems import Problem, Severity, ordered
from orchestrator.flows.refusals import with_refusals
from orchestrator.flows.settings import Setting, Settings, settings_for
from orchestrator.flows.steps import compile_steps, step_sentences
from orchestrator.flows.validate import validate
from roles import Catalogue

__all__ = ["BoundFlow", "Flow", "flow_schema", "load_flow"]


@dataclass(frozen=True, slots=True)
class BoundFlow:
    """A flow with its arguments: everything that a run needs.

    Attributes:
        graph: the nodes and edges.
        args: values of the arguments, JSON data.
        context: the first context, JSON data.
        reducers: context key -> name of its reducer.
        budget: the limits of the run.
        limits: resource (``role:critic``, ``model:x``, ``name:db``) -> capacity.
        outputs: name -> text with ``${...}``, rendered when the run has ended.
        roles: every role that a node or a spawned node may name.
        keys: of the context, as the document declares them.
    """

    graph: Graph
    args: Mapping[str, object]
    context: Mapping[str, object]
    reducers: Mapping[str, str]
    budget: Budget
    limits: Mapping[str, int]
    outputs: Mapping[str, str]
    roles: Catalogue
    keys: tuple[str, ...] = ()


class Flow:
    """A flow document that could be read. ``check`` says what is wrong with it; ``bind`` makes it run.

    Attributes:
        path: the document.
        document: what it says, as far as it fits the schema.
        includes: the documents that its nodes include, by the path that they name.
    """

    def __init__(
        self,
        path: Path,
        source: Source,
        document: Document,
        problems: list[Problem],
        includes: Mapping[str, Flow] | None = None,
    ) -> None:
        """Made by ``load_flow``."""
        self.path, self.document, self.includes = path, document, dict(includes or {})
        self._source, self._problems = source, problems

    def __repr__(self) -> str:
        """Name and path."""
        return f"<Flow {self.name!r} from {self.path}>"

    @property
    def name(self) -> str:
        """What the flow is called."""
        return self.document.name

    @property
    def stepped(self) -> bool:
        """True if it is run in steps: ``schedule: supersteps``."""
        return self.document.schedule == "supersteps"

    @property
    def text(self) -> str:
        """The document as it was read."""
        return self._source.text

    @property
    def height(self) -> int:
        """How many documents stand below one another in it, itself counted."""
        return 1 + max((flow.height for flow in self.includes.values()), default=0)

    @property
    def description(self) -> str:
        """What it does, for people."""
        return self.document.description

    @property
    def args(self) -> Mapping[str, ArgSpec]:
        """The arguments that it takes."""
        return self.document.args

    @property
    def roles(self) -> Catalogue:
        """Its roles: those of ``cast:`` and the library's. Loading them runs the cast's Python files."""
        return self._cast[0].catalogue

    @property
    def own_roles(self) -> frozenset[str]:
        """Names of the roles that stand in its own ``cast:``."""
        return self._cast[0].own

    def check(
        self,
        operations: Collection[str] = (),
        tools: Collection[str] = (),
        *,
        priced: Priced | None = None,
    ) -> list[Problem]:
        """Everything that is wrong or doubtful, by place; nothing runs but the cast's Python files.

        Args:
            operations: names that the session registers, which nodes may perform.
            tools: names of the functions and servers that it registers, which roles may use.
            priced: says whether a model's price is known, None where that cannot be told
                (``orchestrator.agents.backends.priced``). Without it nothing is said of prices.
        """
        _, faults = self._cast
        hidden = hidden_modules(self._source, self.path.parent)
        found = [*self._problems, *hidden, *faults, *self._settings[1]]
        found += check(self._source, self._outline, operations, tools, priced)
        for flow in self.includes.values():
            inside = flow.check(operations, tools, priced=priced)
            found += [one for one in inside if one.severity is not Severity.NOTE]
        if any(problem.severity is Severity.ERROR for problem in self._problems):
            # What did not fit the schema was left out: advice about the rest might be about that.
            found = [problem for problem in found if problem.severity is not Severity.WARNING]
        return ordered(found)

    def bind(
        self,
        args: Mapping[str, object] | None = None,
        operations: Collection[str] = (),
        tools: Collection[str] = (),
    ) -> BoundFlow:
        """Bind the flow to its arguments.

        Args:
            args: values by name; texts are read by the argument's type.
            operations, tools: names that the session registers.

        Raises:
            FlowError: the document has an error, or an argument does not fit.
        """
        graph = self._compiled(operations, tools)
        document, catalogue = self.document, self.roles
        try:
            values = bind_arguments(document.args, args or {})
            budget = bind_budget(document.budget, values, self._assignees())
            graph = graph if graph.stepped else with_refusals(graph, document, values)
        except ArgumentError as error:
            raise FlowError(str(error), file=self._source.file) from error
        limits = document.limits
        kinds = {"role": limits.roles, "model": limits.models, "name": limits.names}
        kinds |= {"requests": limits.requests, "tokens": limits.tokens}
        return BoundFlow(
            graph=graph,
            args=values,
            context={},
            reducers={key: spec.reduce for key, spec in document.context.items() if spec.reduce is not None},
            keys=tuple(document.context),
            budget=budget,
            limits={f"{kind}:{name}": count for kind, some in kinds.items() for name, count in some.items()},
            outputs=dict(document.outputs),
            roles=catalogue,
        )

    @property
    def graph(self) -> Graph:
        """The graph, without arguments.

        Raises:
            FlowError: the document has an error.
        """
        return self._compiled((), ())

    def _compiled(self, operations: Collection[str], tools: Collection[str]) -> Graph:
        self._refuse_errors(operations, tools)
        try:
            return compile_steps(self._outline) if self.stepped else compile_flow(self._outline)
        except (GraphError, OperationError) as error:
            raise FlowError(str(error), file=self._source.file) from error

    def sentences(self) -> Mapping[str, str]:
        """For every node, when it runs: "publish runs if review and audit completed"."""
        return step_sentences(self._outline) if self.stepped else sentences(self._outline)

    def models(self) -> Mapping[str, Mapping[str, Setting]]:
        """Of every node that a model performs: its ``model`` and ``effort``, and who says so."""
        keys: tuple[Literal["model", "effort"], ...] = ("model", "effort")
        found: dict[str, dict[str, Setting]] = {}
        for name in self.document.nodes:
            said: dict[str, Setting] = {
                key: one for key in keys if (one := self._outline.chosen(name, key)) is not None
            }
            if said:
                found[name] = said
        return found

    def _refuse_errors(self, operations: Collection[str], tools: Collection[str]) -> None:
        found = self.check(operations, tools)
        first = next((one for one in found if one.severity is Severity.ERROR), None)
        if first is not None:
            raise FlowError(first.message, file=first.file, line=first.line, column=first.column)

    def _assignees(self) -> tuple[str, ...]:
        named = [node.role for node in self.document.nodes.values() if node.role is not None]
        return tuple(dict.fromkeys([*named, *sorted(self._cast[0].own)]))

    @cached_property
    def _cast(self) -> tuple[Cast, list[Problem]]:
        return load_cast(self._source, self.document, self.path.parent)

    @cached_property
    def _outline(self) -> Outline:
        return Outline(self.document, self._cast[0], self.path.parent, self.includes, self._settings[0])

    @cached_property
    def _settings(self) -> tuple[Settings, list[Problem]]:
        return settings_for(self.path.parent)


def load_flow(path: str | Path) -> Flow:
    """Read a flow document.

    Args:
        path: the YAML file.

    Returns:
        The flow; ``check`` tells what is wrong with it.

    Raises:
        FlowError: it cannot be used at all; names file, line and column.
    """
    return _load(Path(path), (), {})


def _load(path: Path, above: tuple[Path, ...], known: dict[Path, Flow]) -> Flow:
    """A document and those that it includes; each is read once."""
    whole = path.resolve()
    if whole not in known:
        source = read_source(path)
        document, problems = validate(source)
        around = (*above, whole)
        includes, faults = read_includes(source, document, around, lambda one: _load(one, around, known))
        known[whole] = Flow(path, source, document, [*source.problems, *problems, *faults], includes)
    return known[whole]
