"""A finished run as a document: what grew becomes nodes, so that it runs to the same shape again."""

from __future__ import annotations

import copy
import heapq
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any, Final

from ruamel.yaml import YAML

from orchestrator.core.births import sort_key
from orchestrator.core.encoding import decoded
from orchestrator.core.expressions import FUNCTIONS
from orchestrator.core.spec import EdgeKind, Operation, name_fault
from orchestrator.core.state import EdgeState, NodeState, RunState

__all__ = ["Saved", "save_flow"]

_ANY: Final = ["completed", "failed", "cancelled"]
_LIMIT: Final = 64
#: Keys of the document that are written anew, or that only a planner reads.
_REWRITTEN: Final = frozenset({"nodes", "outputs", "edges", "prompt", "planner", "max_nodes", "reactive"})


@dataclass(frozen=True, slots=True)
class Saved:
    """A run as a document.

    Attributes:
        text: the document. renamed: grown node -> its key. notes: what was folded or left out, a line each.
    """

    text: str
    renamed: Mapping[str, str]
    notes: Sequence[str]


def save_flow(state: RunState, source: Mapping[str, Any], comment: str) -> Saved:
    """Make a document of a run.

    Args:
        state: of the run. source: the document that it ran, as plain data. comment: the first line.

    Returns:
        The document, which grows no further: its ``spawns`` are 0, for what was spawned stands in it.
    """
    return _Saving(state, source).document(comment)


class _Saving:
    def __init__(self, state: RunState, source: Mapping[str, Any]) -> None:
        self._state, self._source = state, source
        self._nodes: dict[str, dict[str, Any]] = {
            name: dict(copy.deepcopy(node)) for name, node in source.get("nodes", {}).items()
        }
        self._notes: list[str] = []
        #: every node of the run -> the key under which the document has it
        self._keys: dict[str, str] = {}
        self._renamed: dict[str, str] = {}
        self._grown: set[str] = set()
        #: what only plans: its plan stands in the document in its place
        self._planner = {one.name for one in state.plan.operations if one.casting is not None}

    def document(self, comment: str) -> Saved:
        grown = self._named()
        for node in grown:
            self._nodes[self._keys[node.op.name]] = self._written(node)
        for node in self._state.nodes.values():
            self._joins(node)
        head = {key: value for key, value in self._source.items() if key not in _REWRITTEN}
        head["args"] = self._arguments()
        if grown:
            head["budget"] = {**(head.get("budget") or {}), "spawns": 0}
        whole = {key: value for key, value in head.items() if value not in ({}, None)}
        whole["nodes"] = {name: self._nodes[name] for name in self._order()}
        whole |= {key: self._source[key] for key in ("edges", "outputs") if key in self._source}
        out = StringIO()
        yaml = YAML()
        yaml.width = 110
        yaml.dump(copy.deepcopy(whole), out)
        return Saved(f"# {comment}\n{out.getvalue()}", self._renamed, self._notes)

    # --- names ---------------------------------------------------------------------------------

    def _named(self) -> list[NodeState]:
        """Nodes that grew, in graph order; every node of the run has a key afterwards."""
        grown = []
        for node in sorted(self._state.nodes.values(), key=lambda node: sort_key(node.birth)):
            name = node.op.name
            if name in self._planner:
                continue
            if self._is_past(node):
                self._notes.append(f"{name} is left out: it grew in a round that was sent back")
                continue
            if name in self._nodes:
                self._keys[name] = name
            elif (planned := self._folded(node)) is not None:
                self._keys[name] = self._keys.get(planned, planned)
            else:
                self._keys[name] = key = self._key(name)
                self._grown.add(name)
                grown.append(node)
                if key != name:
                    self._renamed[name] = key
        return grown

    def _is_past(self, node: NodeState) -> bool:
        """True for what grew below a round that a gate sent back."""
        base = node
        while base.parent is not None and base.copies is None and base.op.name not in self._nodes:
            base = self._state.nodes[base.parent]
        planned = base.copies or base.op.name
        return base is not node and self._state.latest.get(planned, planned) != base.op.name

    def _folded(self, node: NodeState) -> str | None:
        """The node whose key stands for another one: an element of a list, a round, an escalation."""
        name = node.op.name
        if node.op.instance is not None:
            return node.op.instance.of.partition("@")[0]
        if node.rungs and node.parent is not None:
            self._notes.append(f"{name} is folded into {node.parent}: it took the work over")
            return node.parent
        if node.copies is not None:
            self._notes.append(f"{name} is folded into {node.copies}: a later round of it")
            return node.copies
        return None

    def _key(self, name: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)[-_LIMIT:]
        if name_fault(plain, frozenset(FUNCTIONS)) is not None:
            plain = f"_{plain}"[:_LIMIT]
        taken, number, key = {*self._keys.values(), *self._nodes}, 2, plain
        while key in taken:
            key = f"{plain[: _LIMIT - 5]}_{number}"
            number += 1
        return key

    # --- nodes ---------------------------------------------------------------------------------

    def _written(self, node: NodeState) -> dict[str, Any]:
        """A grown node: who, what, with what, after whom."""
        operation = node.op
        told: dict[str, Any] = {"role": operation.role} if operation.role else {"operation": operation.verb}
        if operation.instruction:
            told["instruction"] = _literal(operation, operation.instruction)
        parameters = _literal(operation, decoded(operation.parameters))
        if parameters:
            told["with"] = parameters
        after = [self._entry(edge) for edge in node.ins if self._keys.get(edge.source) is not None]
        own = self._keys[operation.name]
        after = [entry for entry in after if _named_in(entry) != own]
        if after:
            told["after"] = _once(after)
        if operation.timeout is not None and node.parent is None:
            told["timeout"] = operation.timeout
        return told

    def _entry(self, edge: EdgeState) -> str | dict[str, Any]:
        source = self._keys[edge.source]
        if edge.spec.kind is EdgeKind.JOIN and not edge.spec.required:
            return {"node": source, "accept": list(_ANY)}
        return source

    def _joins(self, node: NodeState) -> None:
        """Grown nodes that a planned one waits for stand in its ``after``."""
        key = self._keys.get(node.op.name)
        if key is None or (node.copies or node.op.name) not in self._source.get("nodes", {}):
            return
        more = [self._entry(edge) for edge in node.ins if edge.source in self._grown]
        if more:
            self._nodes[key]["after"] = _once([*self._nodes[key].get("after", ()), *more])

    def _arguments(self) -> dict[str, Any]:
        """The arguments, with what the run was given as their defaults."""
        given = decoded(self._state.plan.args)
        found = {}
        for name, spec in (self._source.get("args") or {}).items():
            kept = {key: value for key, value in spec.items() if key != "required" or name not in given}
            found[name] = {**kept, "default": given[name]} if name in given else kept
        return found

    def _order(self) -> list[str]:
        """Every key after all that it waits for; else as the document and the run had them."""
        place = {name: number for number, name in enumerate(self._nodes)}
        above = {
            name: {_named_in(entry) for entry in node.get("after", ())} & place.keys()
            for name, node in self._nodes.items()
        }
        below: dict[str, list[str]] = {}
        for name, sources in above.items():
            for one in sources:
                below.setdefault(one, []).append(name)
        free = [(place[name], name) for name, sources in above.items() if not sources]
        heapq.heapify(free)
        order = []
        while free:
            _, name = heapq.heappop(free)
            order.append(name)
            for target in below.get(name, ()):
                above[target].discard(name)
                if not above[target]:
                    heapq.heappush(free, (place[target], target))
        return order


def _named_in(entry: Any) -> str:
    return str(entry["node"]) if isinstance(entry, Mapping) else str(entry)


def _once(entries: Iterable[Any]) -> list[Any]:
    """Each predecessor once; the first entry goes."""
    found: dict[str, Any] = {}
    for entry in entries:
        found.setdefault(_named_in(entry), entry)
    return list(found.values())


def _literal(operation: Operation, value: Any) -> Any:
    """What a role asked for is data: characters that a document would render are escaped."""
    if operation.renders:
        return value
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, list):
        return [_literal(operation, item) for item in value]
    if isinstance(value, dict):
        return {key: _literal(operation, item) for key, item in value.items()}
    return value
