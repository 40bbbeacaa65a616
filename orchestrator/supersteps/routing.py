"""Where a task leads: conditional edges, then ``also``, then ``goto``, as routes for the core."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from orchestrator.core.supersteps.facts import Route
from orchestrator.core.supersteps.plan import END
from orchestrator.runtime.values import settle
from orchestrator.supersteps.blueprint import Branching
from orchestrator.supersteps.errors import InvalidUpdateError
from orchestrator.supersteps.words import Command, Send

__all__ = ["Routing", "chosen", "routes_of"]


class Routing(msgspec.Struct):
    """Routes as they are collected.

    Attributes:
        routes: in order. values: the arguments that they refer to, behind those of the record so far.
        keys: (node, key) of the Sends so far: two under one key are an error.
    """

    routes: list[Route]
    values: list[bytes]
    keys: set[tuple[str, str]]


def routes_of(routing: Routing, targets: Any, nodes: Mapping[str, Any], where: str) -> None:
    """Add what a goto, an also or a path names.

    Raises:
        InvalidUpdateError: a node that does not exist, a key that comes twice, an argument that is no data.
    """
    for target in [targets] if isinstance(targets, str | Send) else targets or ():
        name = target.node if isinstance(target, Send) else target
        if not isinstance(name, str) or (name not in nodes and name != END):
            raise InvalidUpdateError(f"{where} names {name!r}; the nodes are {', '.join(nodes)}")
        if not isinstance(target, Send):
            routing.routes.append(Route(name))
            continue
        if isinstance(target.arg, Command | Send):
            raise InvalidUpdateError(
                f"{where} sends {name!r} a {type(target.arg).__name__}; send it JSON data"
            )
        if target.key is not None:
            _once(routing, name, target.key, where)
        routing.values.append(settle(_plain(target.arg), f"{where}.arg")[0])
        routing.routes.append(Route(name, len(routing.values) - 1, target.key, send=True))


def _plain(arg: Any) -> Any:
    """A state that is sent on is sent as data."""
    return dict(arg) if isinstance(arg, Mapping) and type(arg) is not dict else arg


def _once(routing: Routing, name: str, key: str, where: str) -> None:
    if (name, key) in routing.keys:
        raise InvalidUpdateError(f"{where} sends {name!r} two tasks under the key {key!r}")
    if not key or not key.isprintable() or len(key) > 64 or "." in key or "@" in key:  # noqa: PLR2004
        raise InvalidUpdateError(f"{where}: {key!r} is no key; give printable text without . and @, up to 64")
    if key.isdigit():
        raise InvalidUpdateError(
            f"{where}: the key {key!r} is a number, which unnamed tasks have; add a letter"
        )
    routing.keys.add((name, key))


async def chosen(branch: Branching, state: Any, where: str, result: object = None) -> Sequence[str | Send]:
    """What a conditional edge gives for a state.

    Raises:
        InvalidUpdateError: it gives what its mapping does not have, or nothing that names a node.
    """
    given = branch.path(state, result) if branch.reads_result else branch.path(state)
    if type(given) is str and branch.mapping is None:
        return (given,)
    if inspect.isawaitable(given):
        given = await given
    # a tuple may be a key of the mapping; a list cannot
    several = isinstance(given, list) or (
        isinstance(given, tuple) and (branch.mapping is None or given not in branch.mapping)
    )
    return [_mapped(branch, one, where) for one in (given if several else [given])]


def _mapped(branch: Branching, one: Any, where: str) -> str | Send:
    if isinstance(one, Send):
        return one
    if branch.mapping is not None:
        try:
            return branch.mapping[one]
        except (KeyError, TypeError):
            known = ", ".join(repr(key) for key in branch.mapping)
            raise InvalidUpdateError(f"{where} gave {one!r}; its mapping has {known}") from None
    if not isinstance(one, str):
        raise InvalidUpdateError(f"{where} gave {one!r}; give a node's name, END, a Send, or a list of them")
    return one
