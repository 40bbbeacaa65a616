"""What checks and compilation need to know of a document: who comes before whom, and shapes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

from orchestrator.core.encoding import decoded
from orchestrator.core.spec import Artifact
from orchestrator.core.verbs import SPEAKING
from orchestrator.errors import OperationError
from orchestrator.flows.cast import Cast
from orchestrator.flows.document import AfterSpec, Document, EdgeSpec, NodeSpec
from orchestrator.flows.includes import Included
from orchestrator.flows.models import load_model
from orchestrator.flows.operations import json_schema
from orchestrator.flows.settings import Setting, Settings
from orchestrator.flows.shapes import GATE_FIELDS, Schema, ShapeError, schema_of
from roles import Role

__all__ = ["Outline"]

_SCHEMA_LIMIT: Final = 256 * 1024
_TEXT_VALUE: Final[Schema] = {"type": "object", "properties": {"text": {"type": "string"}}}
#: What a verb without a role gives where nothing says the shape; every other speaking one gives a text.
_VERB_VALUES: Final[Mapping[str, Schema]] = {
    "select": {"type": "object", "properties": {"selected": {"type": "array", "items": {"type": "string"}}}},
    "ReActStream": {"type": "array", "items": {"type": "object"}},
}


def _answer(node: NodeSpec, schema: Schema | None) -> Schema:
    """What a person's answer holds."""
    if node.gate is not None:
        return {"type": "object", "properties": dict(GATE_FIELDS)}
    if schema is not None:
        return schema
    return {"type": "string"} if node.choices or node.default is None or isinstance(node.default, str) else {}


class Outline:
    """A document with its cast, seen as a graph.

    Attributes:
        document: the validated document.
        cast: its roles.
        folder: where its files are.
        flows: the documents that it includes, by the path that names them.
        settings: the project's and the person's.
    """

    def __init__(
        self,
        document: Document,
        cast: Cast,
        folder: Path,
        flows: Mapping[str, Included] | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.document, self.cast, self.folder = document, cast, folder
        self.settings = settings or Settings()
        self.flows = flows or {}
        self.order = {name: number for number, name in enumerate(document.nodes)}
        self._models: dict[str, object] = {}
        #: a shape that a role or a model states -> it, and its schema: many nodes may be of one role
        self._schemas: dict[int, tuple[object, Schema | None]] = {}

    @property
    def stepped(self) -> bool:
        """True if the document is run in steps."""
        return self.document.schedule == "supersteps"

    def role(self, name: str) -> Role | None:
        """The role of a node, if it has one that is known."""
        role = self.document.nodes[name].role
        return self.cast.catalogue.get(role) if role is not None and role in self.cast.catalogue else None

    def unknown(self, name: str) -> bool:
        """True if a node's role is not known, so that nothing can be said of what it leaves."""
        return self.document.nodes[name].role is not None and self.role(name) is None

    def speaks(self, name: str) -> bool:
        """Whether a language model performs a node, as far as the document tells."""
        node, role = self.document.nodes[name], self.role(name)
        if node.role is not None:
            return role is not None and role.fn is None
        return node.operation in SPEAKING

    def default(self, key: Literal["model", "effort"]) -> Setting | None:
        """What nodes have that say nothing: the document's defaults, else the settings."""
        own = getattr(self.document.defaults, key)
        return getattr(self.settings, key) if own is None else Setting(own, "defaults")

    def chosen(self, name: str, key: Literal["model", "effort"]) -> Setting | None:
        """What a node that a model performs is called with, and who says so; None of any other node."""
        role = self.role(name)
        if not self.speaks(name) or (role is not None and role.program is not None):
            return None
        own = getattr(self.document.nodes[name], key)
        if own is not None:
            return Setting(own, "the node")
        default = self.default(key)
        if default is not None or role is None:
            return default
        said = next(iter(role.models), None) if key == "model" else role.effort
        return None if said is None else Setting(said, f"role {role.name}")

    def after(self, name: str) -> Iterator[tuple[int, str, tuple[str, ...]]]:
        """Entries of a node's ``after``: position, predecessor, accepted outcomes."""
        for number, entry in enumerate(self.document.nodes[name].after):
            if isinstance(entry, AfterSpec):
                yield number, entry.node, tuple(entry.accept)
            else:
                yield number, entry, ("completed",)

    @cached_property
    def edges_to(self) -> Mapping[str, list[EdgeSpec]]:
        """Edges by target."""
        found: dict[str, list[EdgeSpec]] = {}
        for edge in self.document.edges:
            found.setdefault(edge.target, []).append(edge)
        return found

    @cached_property
    def _above(self) -> Mapping[str, int]:
        """Bit sets of ancestors; nodes in a cycle see what a bounded number of passes finds."""
        above: dict[str, int] = dict.fromkeys(self.order, 0)
        passes = 1 if not self.document.edges else 1 + min(len(self.order), 50)
        for _ in range(passes):
            before = dict(above)
            for name in self.order:
                for source in self.sources(name):
                    if source in self.order:
                        above[name] |= above[source] | (1 << self.order[source])
            if before == above:
                break
        return above

    def sources(self, name: str) -> list[str]:
        """Direct predecessors as they are written, known or not."""
        return [
            *(source for _, source, _ in self.after(name)),
            *(e.source for e in self.edges_to.get(name, ())),
        ]

    def is_above(self, name: str, node: str) -> bool:
        """Whether ``name`` is an ancestor of ``node``."""
        return bool(self._above[node] >> self.order[name] & 1) if name in self.order else False

    def ancestors(self, node: str) -> list[str]:
        """Every ancestor, in file order."""
        return [name for name in self.order if self.is_above(name, node)]

    def dependents(self) -> frozenset[str]:
        """Nodes that something depends on."""
        return frozenset(source for name in self.order for source in self.sources(name))

    def returns(self, name: str) -> Schema | None:
        """The schema that a node's value was given, or None.

        Raises:
            ShapeError: ``returns`` of the node is no shape.
        """
        shape = self.document.nodes[name].returns
        if isinstance(shape, str) and shape.endswith(".json"):
            return self._schema_file(shape)
        model = self.model(name)
        if model is not None:
            return self._schema_of(model, name)
        if shape is not None:
            return schema_of(shape)
        role = self.role(name)
        if role is None or role.returns is None:
            return None
        return self._schema_of(role.returns, name)

    def model(self, name: str) -> object:
        """What ``module:Model`` in a node's ``returns`` names, or None where it names none.

        Raises:
            ShapeError: there is no such model.
        """
        shape = self.document.nodes[name].returns
        if not isinstance(shape, str) or ":" not in shape:
            return None
        if shape not in self._models:
            self._models[shape] = load_model(shape, self.folder)
        return self._models[shape]

    def _schema_of(self, shape: object, name: str) -> Schema | None:
        known = self._schemas.get(id(shape))
        if known is not None and known[0] is shape:
            return known[1]
        try:
            raw = json_schema(shape, name)
        except OperationError as error:
            raise ShapeError(str(error).removeprefix(f"returns of {name} ")) from error
        made = None if raw is None else dict(decoded(raw))
        self._schemas[id(shape)] = shape, made
        return made

    def artifacts(self, name: str) -> Mapping[str, Artifact]:
        """The files that a node is to leave, its role's included, by name."""
        role = self.role(name)
        found = {}
        for one in () if role is None else role.artifacts:
            found[one.name] = Artifact(name=one.name, path=one.path, required=one.required, kind=one.kind)
        for own in self.document.nodes[name].artifacts:
            found[own.name] = Artifact(name=own.name, path=own.path, required=own.required, kind=own.kind)
        return found

    def shapeless(self, name: str) -> bool:
        """Whether nobody says what a node's value looks like."""
        role = self.role(name)
        return self.document.nodes[name].returns is None and (role is None or role.returns is None)

    def value(self, name: str) -> Schema:
        """What references into a node's value may count on; ``{}`` if anything may stand there."""
        node = self.document.nodes[name]
        one = self._one(name)
        return (
            one if node.for_each is None else {"type": "array", "items": one, "$defs": one.get("$defs", {})}
        )

    def whole(self, name: str) -> Schema:
        """What a reference to a node's whole value finds; a function that says nothing may give anything."""
        node = self.document.nodes[name]
        said = node.flow is not None or node.ask is not None or node.for_each is not None
        return self.value(name) if said or self.speaks(name) or not self.shapeless(name) else {}

    def _one(self, name: str) -> Schema:
        """What a node gives, or each of its instances."""
        node = self.document.nodes[name]
        if node.flow is not None:
            flow = self.flows.get(node.flow)
            given: Schema = {} if flow is None else {key: {} for key in flow.document.outputs}
            return {} if flow is None else {"type": "object", "properties": given}
        try:
            schema = self.returns(name)
        except ShapeError:
            return {}
        if node.ask is not None:
            return _answer(node, schema)
        if schema is None:
            schema = _VERB_VALUES.get(node.operation or "", _TEXT_VALUE)
        if node.gate is not None and schema.get("type") == "object":
            return {**schema, "properties": {**GATE_FIELDS, **schema.get("properties", {})}}
        return schema

    def _schema_file(self, entry: str) -> Schema:
        path = self.folder / entry
        if Path(entry).is_absolute() or not path.resolve().is_relative_to(self.folder.resolve()):
            raise ShapeError(f"{entry} leaves the document's folder")
        if path.exists() and not path.is_file():
            raise ShapeError(f"{entry} is no regular file")
        try:
            with path.open("rb") as stream:
                data: Any = json.loads(stream.read(_SCHEMA_LIMIT))
        except (OSError, ValueError, RecursionError) as error:
            raise ShapeError(f"{entry} cannot be read as JSON: {error}") from error
        if not isinstance(data, dict):
            raise ShapeError(f"{entry} is no JSON Schema; it has to be a mapping")
        return data

    def node(self, name: str) -> NodeSpec:
        """The node of this name."""
        return self.document.nodes[name]
