"""Cached writes: a node whose input was seen before is not run again (supersteps.md 11)."""

from __future__ import annotations

import inspect
import textwrap
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, get_type_hints
from weakref import WeakKeyDictionary

import msgspec
from anyio import Event

from orchestrator.core.state import NodeState
from orchestrator.core.supersteps.writes import Written
from orchestrator.errors import GraphError
from orchestrator.journal.caching import Cache, JournalCache, MemoryCache
from orchestrator.runtime.stores import FileStore, Store
from orchestrator.runtime.values import settle
from orchestrator.supersteps.blueprint import NodeSpec
from orchestrator.supersteps.channels import Channel
from orchestrator.supersteps.folding import writes_of
from orchestrator.supersteps.policies import CachePolicy
from orchestrator.supersteps.turns import StepTurn
from orchestrator.supersteps.words import Command, Overwrite, Send

if TYPE_CHECKING:
    from orchestrator.supersteps.engine import StepEngine

__all__ = ["Caching", "Flights", "cache_of", "caching_of", "memoised"]

#: Of what is kept: another number, and nothing that was kept before is found.
_CODEC: Final = 1
_PLAIN: Final = (str, bytes, int, float, bool, type(None))


class _Gives(Protocol):
    """What a task comes to."""

    cached: str


G = TypeVar("G", bound=_Gives)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caching:
    """How one node of one graph is cached.

    Attributes:
        policy: as it was given. graph, version: of the key. reads: the state keys of the key.
    """

    policy: CachePolicy
    graph: str
    version: str
    reads: tuple[str, ...]


class _Place(msgspec.Struct, frozen=True, array_like=True):
    """One target of a Command."""

    to: str
    send: bool = False
    arg: msgspec.Raw = msgspec.Raw(b"null")
    key: str | None = None

    @property
    def target(self) -> str | Send:
        """As a node would name it."""
        return Send(self.to, msgspec.json.decode(self.arg), key=self.key) if self.send else self.to


class _Entry(msgspec.Struct, frozen=True):
    """What is kept: updates and explicit Commands. Conditional edges are asked again."""

    writes: list[Written]
    goto: list[_Place]
    also: list[_Place]


_read = msgspec.json.Decoder(_Entry).decode


class Flights:
    """Of the step that goes on: what is being made, and what was made, by key."""

    __slots__ = ("_step", "made", "waiting")

    def __init__(self) -> None:
        self._step = -1
        self.made: dict[str, bytes] = {}
        self.waiting: dict[str, Event] = {}

    def of(self, step: int) -> Flights:
        """Those of ``step``."""
        if step != self._step:
            self._step, self.made, self.waiting = step, {}, {}
        return self

    def land(self, key: str, event: Event) -> None:
        """Whoever waits for ``key`` looks again."""
        if self.waiting.get(key) is event:
            del self.waiting[key]
        event.set()


_caches: WeakKeyDictionary[Store, Cache] = WeakKeyDictionary()


def cache_of(store: Store) -> Cache:
    """The cache of a store: in its journal file, or in memory. Every graph that uses the store shares it."""
    cache = _caches.get(store)
    if cache is None:
        cache = JournalCache(store.path.absolute()) if isinstance(store, FileStore) else MemoryCache()
        _caches[store] = cache
    return cache


# --- the key ---------------------------------------------------------------------------------------


def caching_of(graph: str, spec: NodeSpec, policy: CachePolicy | None, keys: Iterable[str]) -> Caching | None:
    """A node's policy with what the key needs of its code; None if it has none.

    Raises:
        GraphError: the node is no function, its function has no source and the policy no version, or the ttl
            is no time.
    """
    if policy is None:
        return None
    if policy.ttl is not None and not policy.ttl > 0:
        raise GraphError(
            f"node {spec.name!r}: CachePolicy(ttl={policy.ttl!r}); give seconds above 0, or None"
        )
    if spec.role is not None or spec.child is not None:
        raise GraphError(
            f"node {spec.name!r}: cache= is for a function; a role or a graph does more than it writes"
        )
    version = f"tag {policy.version}" if policy.version is not None else _source(spec.name, spec.fn)
    return Caching(policy=policy, graph=graph, version=version, reads=_reads(spec.fn, tuple(keys)))


def _source(name: str, fn: Callable[..., Any]) -> str:
    """A hash of a function's source, with the plain values that it was made with.

    Raises:
        GraphError: it has no source.
    """
    try:
        source = textwrap.dedent(inspect.getsource(fn))
    except (OSError, TypeError):
        raise GraphError(
            f"node {name!r}: {fn!r} has no source to tell its versions apart; give CachePolicy(version=...)"
        ) from None
    made_with: list[Any] = []
    if isinstance(fn, FunctionType):
        cells = zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)
        given = [*((of, _content(cell)) for of, cell in cells), *enumerate(fn.__defaults__ or ())]
        made_with = [(of, value) for of, value in given if isinstance(value, _PLAIN)]
    return sha256(f"{source}\0{made_with!r}".encode()).hexdigest()


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        # it is not bound yet
        return ...


def _reads(fn: Callable[..., Any], keys: tuple[str, ...]) -> tuple[str, ...]:
    """The state keys that the type of a node's first parameter declares, else all."""
    try:
        hints = get_type_hints(fn)
        first = next(iter(inspect.signature(fn).parameters))
    except (NameError, TypeError, ValueError, StopIteration):
        return keys
    declared = getattr(hints.get(first), "__annotations__", {})
    return tuple(key for key in keys if key in declared) or keys


def _key(caching: Caching, turn: StepTurn, node: str, read: Callable[[], Any]) -> str:
    """Graph, node, code, codec and input, as one hash."""
    if caching.policy.key is not None:
        given: Any = msgspec.Raw(settle(caching.policy.key(read()), "the key of a cache")[0])
    elif turn.task.send:
        given = [msgspec.Raw(turn.task.arg or b"null")]
    else:
        given = {key: msgspec.Raw(turn.snapshot[key]) for key in caching.reads if key in turn.snapshot}
    return sha256(msgspec.json.encode([caching.graph, node, caching.version, _CODEC, given])).hexdigest()


# --- a task ----------------------------------------------------------------------------------------


async def memoised(
    engine: StepEngine,
    node: NodeState,
    turn: StepTurn,
    read: Callable[[], Any],
    call: Callable[[], Awaitable[Any]],
    check: Callable[[Any], Awaitable[G]],
) -> G:
    """What a cached node comes to: as it was kept, as a task of this step makes it, or as ``call`` makes it.

    Args:
        read: the task's input, for the policy's ``key``. call: runs the node. check: takes what it gave.
    """
    spec = engine.blueprint.nodes[turn.task.node]
    caching = spec.cache
    assert caching is not None
    try:
        key = _key(caching, turn, spec.name, read)
    except Exception as error:  # noqa: BLE001 (a fault of the cache is a miss)
        _fault(engine, node, turn, error)
        return await check(await call())
    flights = engine.flights.of(engine.steps.step)
    # what an operator or a failure sends round again is to be made, not found
    while node.generation == 1:
        found = flights.made.get(key)
        if found is None and key in flights.waiting:
            await flights.waiting[key].wait()
            continue
        if found is None:
            found = _found(engine, node, turn, caching, key)
        if found is None:
            break
        gives = await check(_given(found))
        gives.cached = key
        return gives
    event = flights.waiting[key] = Event()
    turn.asks = lambda: flights.land(key, event)
    try:
        given = await call()
        gives = await check(given)
        if not node.questions:
            _keep(engine, node, turn, key, given)
    finally:
        flights.land(key, event)
    return gives


def _found(engine: StepEngine, node: NodeState, turn: StepTurn, caching: Caching, key: str) -> bytes | None:
    try:
        entry = engine.cache.get(key)
        if entry is None:
            return None
        ttl = caching.policy.ttl
        if ttl is not None and not 0 <= time.time_ns() - entry.created < ttl * 1e9:
            return None
        _read(entry.value)
    except Exception as error:  # noqa: BLE001 (a fault of the cache is a miss)
        _fault(engine, node, turn, error)
        return None
    return entry.value


def _keep(engine: StepEngine, node: NodeState, turn: StepTurn, key: str, given: Any) -> None:
    blueprint = engine.blueprint
    spec = blueprint.nodes[turn.task.node]
    entry = _entry(blueprint.channels, spec.name, given)
    if entry is None:
        return
    caching = spec.cache
    assert caching is not None
    engine.flights.made[key] = entry
    try:
        engine.cache.put(key, (caching.graph, spec.name), entry, caching.policy.ttl)
    except Exception as error:  # noqa: BLE001 (a fault of the cache is a miss)
        _fault(engine, node, turn, error)


def _fault(engine: StepEngine, node: NodeState, turn: StepTurn, error: Exception) -> None:
    """Say so to whoever watches; the task is as if it had no cache."""
    engine.progress(node, turn.attempt, f"cache: {type(error).__name__}: {error}"[:500])


def _entry(channels: Mapping[str, Channel], name: str, given: Any) -> bytes | None:
    """What is kept of what a node gave; None if it cannot be kept: it writes what is never recorded."""
    items = given if isinstance(given, list | tuple) else [given]
    commands = [one if isinstance(one, Command) else Command(update=one) for one in items]
    if any(one.graph is not None for one in commands):
        return None
    writes = [made for one in commands for made in writes_of(channels, one.update, name)]
    if not all(channels[made.key].tracked for made in writes):
        return None
    goto = [place for one in commands for place in _places(one.goto)]
    also = [place for one in commands for place in _places(one.also)]
    return msgspec.json.encode(_Entry(writes, goto, also))


def _places(targets: Any) -> Iterable[_Place]:
    for target in [targets] if isinstance(targets, str | Send) else targets:
        if isinstance(target, Send):
            arg = dict(target.arg) if isinstance(target.arg, Mapping) else target.arg
            yield _Place(target.node, True, msgspec.Raw(settle(arg, "arg")[0]), target.key)
        else:
            yield _Place(target)


def _given(raw: bytes) -> list[Command]:
    """What a node gave, of what was kept."""
    entry = _read(raw)
    commands = []
    for one in entry.writes:
        value = msgspec.json.decode(one.value)
        commands.append(Command(update={one.key: Overwrite(value) if one.overwrite else value}))
    steer = Command(goto=[one.target for one in entry.goto], also=[one.target for one in entry.also])
    return [*commands, steer] if entry.goto or entry.also else commands
