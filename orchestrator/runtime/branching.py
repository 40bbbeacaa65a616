"""Which branch an operation speaks on: shared by name, its own, or a clone (kernel.md 7)."""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping

from orchestrator.agents import DEFAULT_BRANCH, Branch
from orchestrator.core.state import NodeState, RunState

__all__ = ["Branches", "takes_branch"]

_log = logging.getLogger("callboard.branches")


def takes_branch(node: NodeState) -> bool:
    """True for operations that speak, or that name a branch or one to start from."""
    operation = node.op
    return operation.speaks or operation.branch is not None or operation.inherit is not None


class Branches:
    """A session's branches, as one run allocates them."""

    __slots__ = ("_default", "_hook", "_own", "_owned")

    def __init__(
        self,
        owned: MutableMapping[str, Branch],
        hook: Callable[[Branch], None] | None = None,
        default: Branch | None = None,
    ) -> None:
        """``owned``: the session's branches by name. ``hook``: called for every clone, after inclusion.

        ``default``: this run's own default branch; the session's if None.
        """
        self._owned = owned
        self._default = default
        self._hook = hook
        self._own: dict[str, Branch] = {}

    def of(self, state: RunState, node: NodeState) -> tuple[Branch, str | None, bool]:
        """A node's branch, what it was cloned from, and whether it was made now."""
        operation = node.op
        known = self._own.get(operation.name)
        if known is not None and not operation.fresh:
            return known, None, False
        if operation.branch is not None:
            branch = self._named(operation.branch)
            if branch is None:
                # the run was prepared by another process, which had it
                branch = self._owned[operation.branch] = Branch(operation.branch)
            return branch, None, False
        source = self._source(state, node)
        name = self._free(operation.name)
        if source is None:
            made = Branch(name, operation.role)
        else:
            made = source.clone(name)
            made.role = operation.role
        self._own[operation.name] = made
        self._owned[name] = made
        self._announce(made)
        return made, None if source is None else source.name, True

    def _free(self, name: str) -> str:
        """A name that no branch of the session has: another run may have had a node of this name."""
        number, free = 2, name
        while free in self._owned:
            free = f"{name}_{number}"
            number += 1
        return free

    def adopt(self, node: str, branch: str, role: str | None) -> None:
        """A branch that an earlier process made for a node; a run that goes on continues it."""
        made = self._owned.get(branch)
        if made is None:
            made = self._owned[branch] = Branch(branch, role)
        self._own[node] = made

    def _source(self, state: RunState, node: NodeState) -> Branch | None:
        """What a new branch starts from: the inherited node's, the emitter's, or the session's default."""
        operation = node.op
        if operation.inherit is not None:
            source = state.resolve(operation.inherit)
            inherited = None if source is None else self._own.get(source.name)
            if inherited is None:
                _log.info("%s inherits from %s, which has no branch; it starts empty", operation.name,
                          operation.inherit)  # fmt: skip
            return inherited
        if node.parent is not None:
            emitter = state.nodes[node.parent]
            if emitter.op.role == operation.role or operation.role is None:
                return self._own.get(emitter.name)
        return self._named(DEFAULT_BRANCH) if operation.role is None else None

    def _named(self, name: str) -> Branch | None:
        own = self._default if name == DEFAULT_BRANCH else None
        return own or self._owned.get(name)

    def _announce(self, branch: Branch) -> None:
        if self._hook is None:
            return
        try:
            self._hook(branch)
        except BaseException:  # noqa: BLE001 (the author's hook: it changes nothing)
            _log.exception("on_branch_created raised for %s; it changes nothing", branch.name)
