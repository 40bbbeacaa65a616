"""Which branch an operation speaks on, and what of it is on record (kernel.md 7).

The record holds conversations by delta: what a branch began with, and what each attempt added. A node reads
the record's conversation, so a run that goes on in another process continues where it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from dataclasses import dataclass

import msgspec
from anyio import Event

from orchestrator.agents import DEFAULT_BRANCH, Branch, Message
from orchestrator.agents.branches import from_data, to_data
from orchestrator.core.state import NodeState, RunState
from orchestrator.runtime.values import encode, settle

__all__ = ["Branches", "Taken", "encoded", "messages_of", "recorded", "takes_branch"]

_log = logging.getLogger("callboard.branches")


@dataclass(frozen=True, slots=True)
class Taken:
    """A branch as a turn gets it.

    Attributes:
        branch: the live conversation. name: what the record calls it, whatever it is called now.
        source: the branch that it is a copy of. made: it was made for this turn.
        unrecorded: what has been said on it that this run has not on record.
    """

    branch: Branch
    name: str
    source: str | None = None
    made: bool = False
    unrecorded: tuple[Message, ...] = ()


def takes_branch(node: NodeState) -> bool:
    """True for operations that speak, or that name a branch or one to start from."""
    operation = node.op
    return operation.speaks or operation.branch is not None or operation.inherit is not None


def encoded(messages: list[Message] | tuple[Message, ...]) -> bytes:
    """Messages as the record holds them.

    Raises:
        NotExactError: a message holds what JSON cannot.
    """
    return encode(settle(to_data(messages), "branch")[2], "branch")


def recorded(state: RunState, branch: str) -> Iterator[Message]:
    """A branch's conversation as far as it is on record."""
    yield from messages_of(state.conversations.get(branch, ()))


def messages_of(chunks: Iterable[bytes]) -> Iterator[Message]:
    """What a conversation's parts hold."""
    for chunk in chunks:
        yield from from_data(msgspec.json.decode(chunk))


class Branches:
    """A session's branches, as one run allocates them."""

    __slots__ = ("_default", "_free_again", "_hook", "_own", "_owned")

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
        #: node -> its branch and what the record calls it
        self._own: dict[str, Taken] = {}
        self._free_again: dict[int, Event] = {}

    async def take(self, state: RunState, node: NodeState) -> Taken:
        """A node's branch for its turn; waits while a node of another run of this session has it."""
        taken = self._of(state, node)
        branch = taken.branch
        while branch.taken:
            await self._free_again.setdefault(id(branch), Event()).wait()
        if not taken.made and taken.name not in state.conversations and branch.messages:
            taken = Taken(branch, taken.name, unrecorded=tuple(branch.messages))
        branch.take()
        return taken

    def leave(self, branch: Branch, kept: int) -> None:
        """A turn is over: the first ``kept`` messages that it added stay."""
        branch.leave(kept)
        waiting = self._free_again.pop(id(branch), None)
        if waiting is not None:
            waiting.set()

    def _of(self, state: RunState, node: NodeState) -> Taken:
        operation = node.op
        known = self._own.get(operation.name)
        if known is None and node.previous is not None:
            # a later round goes on with the conversation of the one before
            known = self._own.get(node.previous)
            if known is not None and not operation.fresh:
                self._own[operation.name] = known
        if known is not None and not operation.fresh:
            return known
        if operation.branch is not None:
            branch = self._named(operation.branch)
            if branch is None:
                # the run was prepared by another process, which had it
                branch = self._owned[operation.branch] = Branch(operation.branch)
            return Taken(branch, operation.branch)
        return self._made(state, node)

    def _made(self, state: RunState, node: NodeState) -> Taken:
        """A branch of the node's own: a copy of what it starts from, or empty."""
        operation = node.op
        source = None if operation.fresh else self._source(state, node)
        name = self._free(operation.name)
        made = Branch(name, operation.role, source=None if source is None else source.name)
        unrecorded: tuple[Message, ...] = ()
        if source is not None and source.name in state.conversations:
            made.include(recorded(state, source.name))
        elif source is not None:
            made.include(source.branch.settled)
            unrecorded = tuple(made.messages)
        self._own[operation.name] = Taken(made, name)
        self._owned[name] = made
        self._announce(made)
        if unrecorded or source is None or made.messages == list(recorded(state, source.name)):
            return Taken(made, name, made.source, made=True, unrecorded=unrecorded)
        # the hook had something to say: the copy is not what the record would make of its source
        return Taken(made, name, made.source, made=True, unrecorded=tuple(made.messages))

    def _free(self, name: str) -> str:
        """A name that no branch of the session has: another run may have had a node of this name."""
        number, free = 2, name
        while free in self._owned:
            free = f"{name}_{number}"
            number += 1
        return free

    def adopt(self, state: RunState) -> None:
        """Continue the conversations that an earlier process, or an earlier call, has on record."""
        speaking = [node for node in state.nodes.values() if node.branch is not None]
        roles = {node.branch: node.op.role for node in speaking}
        for name in state.conversations:
            said = list(recorded(state, name))
            live = self._named(name)
            if live is None:
                live = self._owned[name] = Branch(name, roles.get(name))
            if live.messages[: len(said)] != said:
                # the record goes further than this process knows, or another way: the record stands
                live.include(said)
        for node in speaking:
            assert node.branch is not None
            branch = self._owned.setdefault(node.branch, Branch(node.branch, node.op.role))
            self._own[node.op.name] = Taken(branch, node.branch)

    def _source(self, state: RunState, node: NodeState) -> Taken | None:
        """What a new branch starts from: the inherited node's, the emitter's, or the session's default."""
        operation = node.op
        if operation.inherit is not None:
            above = state.resolve(operation.inherit)
            inherited = None if above is None else self._spoken_by(above)
            if inherited is None:
                _log.info("%s inherits from %s, which has no branch; it starts empty", operation.name,
                          operation.inherit)  # fmt: skip
            return inherited
        if node.parent is not None:
            emitter = state.nodes[node.parent]
            if emitter.op.role == operation.role or operation.role is None:
                return self._spoken_by(emitter)
        return self._shared(DEFAULT_BRANCH) if operation.role is None else None

    def _spoken_by(self, node: NodeState) -> Taken | None:
        """The branch that a node has, its own or one that it names."""
        own = self._own.get(node.op.name)
        return own if own is not None or node.op.branch is None else self._shared(node.op.branch)

    def _shared(self, name: str) -> Taken | None:
        branch = self._named(name)
        return None if branch is None else Taken(branch, name)

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
