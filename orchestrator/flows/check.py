"""All checks of a document that need no run, reported at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from emissions import Verdict
from orchestrator.core.context import REDUCERS
from orchestrator.core.spec import name_fault
from orchestrator.core.templates import walk_texts
from orchestrator.errors import CycleError
from orchestrator.flows.budgets import Priced, check_budgets
from orchestrator.flows.casting import check_casting
from orchestrator.flows.check_files import check_files
from orchestrator.flows.check_gates import check_gates
from orchestrator.flows.check_kinds import around, kinds
from orchestrator.flows.check_steps import check_only_steps, check_steps
from orchestrator.flows.choices import check_choices, check_tools
from orchestrator.flows.graph import topological_order
from orchestrator.flows.includes import check_included
from orchestrator.flows.load import Place, Source
from orchestrator.flows.names import suggestion
from orchestrator.flows.operations import WORDS_OF_EXPRESSIONS
from orchestrator.flows.outline import Outline
from orchestrator.flows.problems import NO_MODEL, Problem, Severity
from orchestrator.flows.reach import check_reach
from orchestrator.flows.references import References, Surroundings
from orchestrator.flows.shapes import ShapeError
from orchestrator.flows.verbs import check_verb

__all__ = ["check"]

_SECRET: Final = re.compile(
    r"\b(?:sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16}|xox[abprs]-[A-Za-z0-9-]{10,}"
    r"|AIza[0-9A-Za-z_-]{30,}|-----BEGIN [A-Z ]*PRIVATE KEY-----)"
)
_SECRET_KEY: Final = re.compile(r"(?:^|_)(?:password|passwd|secret|token|api_?key)$", re.IGNORECASE)
_SECRET_LENGTH: Final = 8
_PERFORMERS: Final = {"role": "a role", "operation": "an operation", "flow": "a flow", "ask": "a question"}


def check(
    source: Source,
    outline: Outline,
    operations: Collection[str] = (),
    tools: Collection[str] = (),
    priced: Priced | None = None,
) -> Iterator[Problem]:
    """Yield every problem of a document that fits the schema.

    Args:
        operations, tools: what a session registered. priced: says whether a model's price is known.
    """
    yield from _Checker(source, outline, operations).run(priced)
    yield from check_tools(source, outline, tools)


class _Checker:
    def __init__(self, source: Source, outline: Outline, operations: Collection[str]) -> None:
        self.operations = operations
        self.source, self.outline, self.document = source, outline, outline.document
        self.references = References(source, outline)

    def run(self, priced: Priced | None) -> Iterator[Problem]:
        dependents, stepped = self.outline.dependents(), self.outline.stepped
        for name in self.document.nodes:
            yield from self._name(name)
            yield from self._performer(name)
            yield from () if stepped else self._after(name)
            yield from self._gate(name, dependents)
            yield from self._rest(name)
            yield from kinds(self.source, self.outline, self.references, name)
            yield from self._expressions(name)
        yield from check_steps(self.source, self.outline, self.references) if stepped else self._graph()
        yield from self._top()
        yield from check_files(self.source, self.outline)
        yield from check_choices(self.source, self.outline)
        yield from check_budgets(self.source, self.outline, self.references, priced)
        yield from self._secrets()

    def _graph(self) -> Iterator[Problem]:
        """What only a graph has, in which a node runs when its predecessors have settled."""
        yield from self._edges()
        yield from self._branches()
        yield from check_casting(self.source, self.outline)
        yield from check_gates(self.source, self.outline)
        yield from check_only_steps(self.source, self.outline)
        yield from check_reach(self.source, self.outline)

    def tell(
        self, place: Place, message: str, severity: Severity = Severity.ERROR, *, key: bool = False
    ) -> Problem:
        return self.source.problem(place, message, severity, key=key)

    def _name(self, name: str) -> Iterator[Problem]:
        fault = name_fault(name, WORDS_OF_EXPRESSIONS)
        if fault:
            yield self.tell(("nodes", name), fault, key=True)

    def _performer(self, name: str) -> Iterator[Problem]:
        node, place = self.document.nodes[name], ("nodes", name)
        given = [key for key in _PERFORMERS if getattr(node, key) is not None]
        if not given:
            message = (
                f"{name} says nobody to perform it; give it a role, an operation or a flow, or ask a person"
            )
            yield self.tell(place, message, key=True)
        if len(given) > 1:
            message = f"{name} names {' and '.join(map(_PERFORMERS.__getitem__, given))}; give exactly one"
            yield self.tell((*place, given[-1]), message, key=True)
        if node.flow is not None:
            flow = self.outline.flows.get(node.flow)
            yield from check_included(self.source, name, self.document, flow)
        catalogue = self.outline.cast.catalogue
        if node.role is not None and node.role not in catalogue and self.outline.cast.complete:
            message = f"there is no role {node.role!r}{suggestion(node.role, catalogue.names)}"
            if not self.outline.cast.own:
                named = "the cast: holds no role" if self.document.cast else "the document names no cast:"
                message += f" ({named})"
            yield self.tell((*place, "role"), message)
        yield from self._unperformed(name)

    def _unperformed(self, name: str) -> Iterator[Problem]:
        """Who would have to perform a node and cannot."""
        node, role, place = self.document.nodes[name], self.outline.role(name), ("nodes", name)
        modelled = node.model or self.outline.default("model") or (role is not None and role.models)
        if role is not None and role.fn is None and role.program is None and not modelled:
            message = (
                f"{name}: role {role.name} has no function and no program, and nothing names a model: write "
                "model:, or say it at the run: --model PROVIDER:NAME"
            )
            yield self.source.problem((*place, "role"), message, Severity.WARNING, code=NO_MODEL)
        if node.operation is not None and node.operation not in self.operations:
            yield from check_verb(self.source, self.outline, name, self.operations)

    def _after(self, name: str) -> Iterator[Problem]:
        seen: set[str] = set()
        order = self.outline.order
        for number, other, _ in self.outline.after(name):
            place: Place = ("nodes", name, "after", number)
            if other == name:
                yield self.tell(place, f"{name} cannot come after itself; remove the entry")
            elif other not in order:
                yield self.tell(
                    place, f"{name} comes after {other!r}, which does not exist{suggestion(other, order)}"
                )
            elif order[other] > order[name] and self.outline.is_above(name, other):
                message = f"{name} and {other} wait for each other; remove {other} here, or {name} there"
                yield self.tell(place, message)
            elif order[other] > order[name]:
                message = f"{name} comes after {other}, which stands below it; move {other} above {name}"
                yield self.tell(place, message)
            elif other in seen:
                yield self.tell(place, f"{name} names {other} twice in after; remove one")
            seen.add(other)

    def _gate(self, name: str, dependents: frozenset[str]) -> Iterator[Problem]:
        node, role = self.document.nodes[name], self.outline.role(name)
        place = ("nodes", name)
        judges = (
            role is not None and Verdict in role.emits and (node.emits is None or "Verdict" in node.emits)
        )
        if node.gate is None:
            if judges:
                message = f"{name} can REJECT, and nothing would happen; write gate: true"
                yield self.tell(place, message, Severity.WARNING, key=True)
            return
        if role is not None and not judges:
            message = f"{name} is a gate, but its role {role.name} does not declare Verdict; add it to emits="
            yield self.tell((*place, "gate"), message, key=True)
        if name not in dependents and not self.outline.stepped:
            yield self.tell(
                (*place, "gate"), f"nothing depends on the gate {name}", Severity.WARNING, key=True
            )

    def _rest(self, name: str) -> Iterator[Problem]:
        node, place = self.document.nodes[name], ("nodes", name)
        try:
            fields = (self.outline.returns(name) or {}).get("properties") or {}
        except ShapeError as error:
            yield self.tell((*place, "returns"), f"returns of {name}: {error}")
            fields = {}
        for field in ("status", "artifacts"):
            if field in fields:
                message = f"the field {field} of {name} cannot be named: {name}.{field} means ours; rename it"
                yield self.tell((*place, "returns"), message, Severity.WARNING, key=True)
        for number, use in enumerate(node.uses):
            known = self.document.limits.names
            if use not in known:
                message = f"{name} uses {use!r}, which limits.names does not hold{suggestion(use, known)}"
                yield self.tell((*place, "uses", number), message)
        if node.inherit is not None and not self.outline.is_above(node.inherit, name):
            message = f"{name} inherits from {node.inherit!r}, which is no node before it; add it to after"
            yield self.tell((*place, "inherit"), message)

    def _expressions(self, name: str) -> Iterator[Problem]:
        node, place = self.document.nodes[name], ("nodes", name)
        where = around(self.outline, self.references, name)
        yield from self.references.texts((*place, "instruction"), node.instruction, where)
        yield from self.references.texts((*place, "with"), node.parameters, where)
        if node.when is not None:
            yield from self.references.condition((*place, "when"), node.when, where)

    def _edges(self) -> Iterator[Problem]:
        order = self.outline.order
        pairs = {(other, name) for name in order for _, other, _ in self.outline.after(name)}
        otherwise: set[str] = set()
        for number, edge in enumerate(self.document.edges):
            place: Place = ("edges", number)
            ends = (("from", edge.source), ("to", edge.target))
            unknown = [(key, end) for key, end in ends if end not in order]
            for key, end in unknown:
                yield self.tell((*place, key), f"there is no node {end!r}{suggestion(end, order)}")
            if unknown:
                continue
            if (edge.source, edge.target) in pairs:
                yield self.tell(
                    place, f"{edge.source} -> {edge.target} is named twice; once is enough, in after or edges"
                )
            pairs.add((edge.source, edge.target))
            if edge.otherwise:
                if edge.when is not None or edge.source in otherwise:
                    yield self.tell(
                        place, f"one edge of {edge.source} has else: true, and no when; remove the other"
                    )
                otherwise.add(edge.source)
            if edge.when is not None:
                around = Surroundings(edge.source, source=edge.source)
                yield from self.references.condition((*place, "when"), edge.when, around)
        yield from self._cycle()

    def _cycle(self) -> Iterator[Problem]:
        order = self.outline.order
        pairs = [(e.source, e.target) for e in self.document.edges if e.source in order and e.target in order]
        earlier = [
            (other, name)
            for name in order
            for _, other, _ in self.outline.after(name)
            if other in order and order[other] < order[name]
        ]
        try:
            topological_order(order, pairs + earlier)
        except CycleError as error:
            yield self.tell(("edges",), str(error), key=True)

    def _branches(self) -> Iterator[Problem]:
        last: dict[str, str] = {}
        named = [node.branch for node in self.document.nodes.values() if node.branch is not None]
        for name, node in self.document.nodes.items():
            if node.branch is None:
                continue
            if named.count(node.branch) == 1:
                message = f"only {name} names the branch {node.branch!r}; a branch of its own it has anyway"
                yield self.tell(("nodes", name, "branch"), message, Severity.WARNING)
            before = last.get(node.branch)
            ordered = (
                before is None or self.outline.is_above(before, name) or self.outline.is_above(name, before)
            )
            if not ordered:
                message = (
                    f"{before} and {name} share the branch {node.branch!r} and could run at once; order them"
                )
                yield self.tell(("nodes", name, "branch"), message)
            last[node.branch] = name

    def _top(self) -> Iterator[Problem]:
        for key, spec in self.document.context.items():
            if spec.reduce is not None and spec.reduce not in REDUCERS:
                message = f"there is no reducer {spec.reduce!r}{suggestion(spec.reduce, REDUCERS)}"
                yield self.tell(("context", key, "reduce"), message)
        for name, arg in self.document.args.items():
            place = ("args", name)
            fault = name_fault(name)
            if fault:
                yield self.tell(place, f"argument {fault}", key=True)
            if arg.required and "default" in arg.model_fields_set:
                yield self.tell(
                    place, f"{name} is required and has a default; write one of the two", key=True
                )
        catalogue = self.outline.cast.catalogue
        for name in self.document.limits.roles if self.outline.cast.complete else ():
            if name not in catalogue:
                message = f"there is no role {name!r}{suggestion(name, catalogue.names)}"
                yield self.tell(("limits", "roles", name), message, key=True)
        around = Surroundings(None)
        if self.outline.stepped:
            around = Surroundings(None, ("args", "context"), bare=False)
        for name, text in self.document.outputs.items():
            yield from self.references.texts(("outputs", name), text, around)

    def _secrets(self) -> Iterator[Problem]:
        for place, text in walk_texts(self.source.data):
            # an argument is called by its key, and given its value one level below
            word = place[1] if place[:1] == ("args",) and place[2:] == ("default",) else place[-1:][0]
            named = isinstance(word, str) and _SECRET_KEY.search(word) and len(text) >= _SECRET_LENGTH
            literal = "${" not in text and place[:1] in (("nodes",), ("args",))
            if _SECRET.search(text) or (named and literal):
                message = "this looks like a secret; give it in the environment, not in the document"
                yield self.tell(place, message, Severity.WARNING)
