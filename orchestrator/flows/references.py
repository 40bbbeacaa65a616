"""Static checks of expressions: every name exists, comes before, and holds what is asked of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from emissions import EMISSIONS
from orchestrator.core.expressions import Comparison, Expression, ExpressionError, Path, compile_expression
from orchestrator.core.kinds import ELEMENT, INDEX
from orchestrator.core.status import TERMINAL
from orchestrator.core.templates import compile_template, walk_texts
from orchestrator.flows.comparisons import KIND_WORDS, argument_schema, comparison_fault
from orchestrator.flows.load import Place, Source
from orchestrator.flows.names import suggestion
from orchestrator.flows.outline import Outline
from orchestrator.flows.problems import Problem, Severity
from orchestrator.flows.shapes import Schema, look_up

__all__ = ["References", "Surroundings"]

#: What a node that can be named stands in.
_ENDS = sorted(TERMINAL)
_PATH_ONLY = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")
#: What expressions call the kinds that schemas know by another word.
_KINDS = {"str": "string", "list": "array", "bool": "boolean"}


def _in_words(kind: object) -> object:
    """What an expression gives, by its own word for it or a schema's."""
    return KIND_WORDS.get(_KINDS.get(str(kind), str(kind)), kind)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an expression may name where it stands.

    Attributes:
        node: the node that it belongs to; None for outputs, which see every node.
        roots: names beside nodes.
        bare: nodes can be named.
        source: node whose ``result`` and ``status`` an edge's condition reads.
        elements: inside ``for_each``: names of the element and its place, with what they hold.
    """

    node: str | None
    roots: tuple[str, ...] = ("args", "context", "nodes", "emissions")
    bare: bool = True
    source: str | None = None
    elements: Mapping[str, Schema] = field(default_factory=dict)


class References:
    """Finds what is wrong with the expressions of one document."""

    def __init__(self, source: Source, outline: Outline) -> None:
        self.source, self.outline = source, outline

    def condition(self, place: Place, text: str, around: Surroundings) -> Iterator[Problem]:
        """Problems of a ``when``."""
        try:
            expression = compile_expression(text)
        except ExpressionError as error:
            yield self._at(place, text, error.column, error.message)
            return
        found = list(self._paths(place, text, 0, expression, around))
        yield from found
        kind = expression.kind
        if kind is None and not found and _PATH_ONLY.fullmatch(expression.text):
            kind = self._kind(expression.paths[0], around) if expression.paths else None
        if kind not in (None, "bool", "boolean"):
            message = (
                f"the condition `{expression.text}` gives {_in_words(kind)}, not true or false; compare it"
            )
            yield self._at(place, text, 1, message)
        elif not expression.names:
            yield self._at(
                place,
                text,
                1,
                f"the condition `{expression.text}` names nothing and never changes",
                Severity.WARNING,
            )

    def list(self, place: Place, text: str, around: Surroundings) -> Iterator[Problem]:
        """Problems of an expression that has to give a list."""
        try:
            expression = compile_expression(text)
        except ExpressionError as error:
            yield self._at(place, text, error.column, error.message)
            return
        found = list(self._paths(place, text, 0, expression, around))
        yield from found
        kind = expression.kind or (None if found else self._schema(expression, around).get("type"))
        if kind not in (None, "list", "array"):
            message = f"for_each: `{expression.text}` gives {_in_words(kind)}, not a list"
            yield self._at(place, text, 1, message)

    def element(self, text: str, around: Surroundings) -> Schema:
        """What an element of a list holds; ``{}`` if that is not known."""
        try:
            schema = self._schema(compile_expression(text), around)
        except ExpressionError:
            return {}
        items = schema.get("items")
        return {"$defs": schema.get("$defs", {}), **items} if isinstance(items, Mapping) else {}

    def _schema(self, expression: Expression, around: Surroundings) -> Schema:
        """What stands at the path that an expression is; ``{}`` if it is more, or not known."""
        if len(expression.paths) != 1 or not _PATH_ONLY.fullmatch(expression.text):
            return {}
        path = expression.paths[0]
        return self._found(path.root, path.steps[1:], around)

    def texts(self, place: Place, value: object, around: Surroundings) -> Iterator[Problem]:
        """Problems of every ``${...}`` in JSON data."""
        for path, text in walk_texts(value):
            if "${" not in text:
                continue
            where = (*place, *path)
            try:
                template = compile_template(text)
            except ExpressionError as error:
                yield self._at(where, text, error.column, error.message)
                continue
            for one in template.placeholders:
                lead = text[one.column + 1 :]
                offset = one.column + 1 + len(lead) - len(lead.lstrip())
                yield from self._paths(where, text, offset, one.expression, around)

    def _paths(
        self, place: Place, text: str, offset: int, expression: Expression, around: Surroundings
    ) -> Iterator[Problem]:
        for path in expression.paths:
            message = self._fault(path, around)
            if message:
                yield self._at(place, text, offset + path.column, message)
        for comparison in expression.comparisons:
            path = comparison.path
            message = None if self._fault(path, around) else self._compared(comparison, around)
            if message:
                yield self._at(place, text, offset + path.column, message)

    def _compared(self, comparison: Comparison, around: Surroundings) -> str | None:
        root, steps = comparison.path.root, comparison.path.steps[1:]
        if root == "nodes" and steps and isinstance(steps[0], str):
            root, steps = steps[0], steps[1:]
        return comparison_fault(self._found(root, steps, around), comparison)

    def _fault(self, path: Path, around: Surroundings) -> str | None:
        root, steps = path.root, path.steps[1:]
        if root in around.elements:
            return look_up(around.elements[root], steps, root)[1]
        rule: Callable[[Path], str | None] | None = {
            "args": self._arg,
            "emissions": self._kind_of_emission,
            **({"context": self._channel} if self.outline.stepped else {}),
        }.get(root)
        if rule is not None and root in around.roots:
            return rule(path)
        if root == "nodes" and root in around.roots:
            if not steps or not isinstance(steps[0], str):
                return None
            return self._node(steps[0], steps[1:], around, path)
        if root == "result" and around.source is not None:
            return self._result(around.source, steps)
        if root in around.roots or (root == "status" and around.source is not None):
            return None
        if not around.bare:
            return f"there is no {root!r} here{suggestion(root, around.roots)}"
        return self._node(root, steps, around, path)

    def _result(self, source: str, steps: tuple[str | int, ...]) -> str | None:
        outline = self.outline
        _, fault = look_up(outline.value(source), steps, "result")
        shapeless = outline.shapeless(source)
        if steps[:1] == ("text",) and shapeless and not outline.speaks(source):
            fault = f"result is the value of {source}; write {source}.text"
        elif fault and shapeless and isinstance(steps[0], str):
            fault = f"{fault}; say what {source} gives with returns: {{{steps[0]}: str}}"
        return fault

    def _node(self, name: str, steps: tuple[str | int, ...], around: Surroundings, path: Path) -> str | None:
        outline = self.outline
        if name not in outline.order and outline.document.prompt is not None and around.node is None:
            return None  # a planner names the nodes
        if name not in outline.order:
            if name in (ELEMENT, INDEX):
                return f"there is no {name!r} here: it belongs to an element, inside a node with for_each"
            known = [
                *around.roots,
                *around.elements,
                *(outline.order if around.node is None else outline.ancestors(around.node)),
            ]
            return f"there is no {name!r}{suggestion(name, known)}"
        if around.node is not None and name != around.source and not outline.is_above(name, around.node):
            if name == around.node:
                return f"{name} cannot read its own value"
            return f"{name} is not before {around.node}, so its value is not there; add it to after"
        if not steps:
            return None
        if steps[0] == "artifacts":
            return self._artifact(name, steps[1:], path)
        if steps[0] == "failed" and outline.node(name).for_each is not None:
            return None if len(steps) == 1 else f"{name}.failed is a number and has no {steps[1]!r}"
        if steps[0] == "status":
            return None if len(steps) == 1 else f"{name}.status is a text and has no {steps[1]!r}"
        _, fault = look_up(outline.value(name), steps, name)
        if fault and outline.node(name).for_each is not None:
            return fault
        own = outline.node(name)
        if fault and own.flow is not None:
            return f"{fault} (the outputs of {own.flow})"
        if fault and outline.shapeless(name) and isinstance(steps[0], str):
            return f"{fault}; say what {name} gives with returns: {{{steps[0]}: str}}"
        return fault

    def _artifact(self, node: str, steps: tuple[str | int, ...], path: Path) -> str | None:
        if not steps or not isinstance(steps[0], str) or self.outline.unknown(node):
            return None
        if self.outline.node(node).for_each is not None:
            return f"{node} leaves no files, its instances do; give their places in the value of {node}"
        left = self.outline.artifacts(node)
        name = steps[0]
        if name not in left:
            return f"{node} declares no artifact {name!r}{suggestion(name, left)}"
        if len(steps) > 1:
            return f"{node}.artifacts.{name} is a path, a text, and has no {steps[1]!r}"
        if not left[name].required and not path.asked:
            whole = f"{node}.artifacts.{name}"
            return f"{whole} can be missing; make it required: true, or write default({whole}, ...)"
        return None

    def _arg(self, path: Path) -> str | None:
        args = self.outline.document.args
        if len(path.steps) == 1 or not isinstance(path.steps[1], str):
            return None
        name = path.steps[1]
        if name not in args:
            return f"there is no argument {name!r}{suggestion(name, args)}"
        spec = args[name]
        if not spec.required and "default" not in spec.model_fields_set and not path.asked:
            return (
                f"args.{name} can be missing; give it a default, make it required, "
                f"or write default(args.{name}, ...)"
            )
        return None

    def _channel(self, path: Path) -> str | None:
        """In a stepped flow the context is the state, and has the keys that it declares."""
        known = self.outline.document.context
        name = path.steps[1] if len(path.steps) > 1 else None
        if not isinstance(name, str) or name in known:
            return None
        return f"context: holds no key {name!r}{suggestion(name, known)}"

    def _kind_of_emission(self, path: Path) -> str | None:
        kind = path.steps[1] if len(path.steps) > 1 else None
        if kind is None or kind in EMISSIONS:
            return None
        return f"there is no emission {kind!r}{suggestion(str(kind), EMISSIONS)}"

    def _kind(self, path: Path, around: Surroundings) -> str | None:
        """The JSON type of a path, where the shape of what it names is known."""
        kind = self._found(path.root, path.steps[1:], around).get("type")
        return str(kind) if isinstance(kind, str) else None

    def _found(self, root: str, steps: tuple[str | int, ...], around: Surroundings) -> Schema:
        """What stands at a path; ``{}`` if that is not known."""
        if root in around.elements:
            return look_up(around.elements[root], steps, root)[0]
        source = around.source if root == "result" else root if root in self.outline.order else None
        if source is not None and not steps:
            return self.outline.whole(source)
        if root == "result" and source is not None:
            return look_up(self.outline.value(source), steps, root)[0]
        if (
            root in self.outline.order
            and steps == ("failed",)
            and self.outline.node(root).for_each is not None
        ):
            return {"type": "integer"}
        if root in self.outline.order and steps[:1] not in (("status",), ("artifacts",)):
            return look_up(self.outline.value(root), steps, root)[0]
        if root == "args" and len(steps) == 1:
            spec = self.outline.document.args.get(str(steps[0]))
            return {} if spec is None else argument_schema(spec)
        ends = root == "status" and around.source is not None
        ends = ends or (root in self.outline.order and steps == ("status",))
        return {"type": "string", "enum": _ENDS} if ends else {}

    def _at(
        self, place: Place, text: str, column: int | None, message: str, severity: Severity = Severity.ERROR
    ) -> Problem:
        """A problem at a column of a text, if the text stands in the document as it is."""
        line, start = self.source.position(place)
        rows = self.source.text.splitlines()
        row = rows[line - 1][start - 1 :] if 0 < line <= len(rows) else ""
        lead = 1 if row[:1] in ("'", '"') else 0
        if column is not None and "\n" not in text and row[lead:].startswith(text):
            start += lead + column - 1
        return Problem(self.source.file, line, start, message, severity)
