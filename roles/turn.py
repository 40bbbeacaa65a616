"""What a role sees while it works: its turn, and what others have left for it."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from emissions import Emission, Receipt

E_co = TypeVar("E_co", bound=Emission, covariant=True)
E = TypeVar("E", bound=Emission)
T = TypeVar("T")


class NotApplicable(Exception):  # noqa: N818 - it reports no fault: the node is skipped, not failed
    """Raise it in a role to say that there is nothing to do here: the node settles as skipped.

    Attributes:
        reason: shown wherever the node is.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class NodeError:
    """How a node failed. Typed, so that no one takes it for output.

    Attributes:
        type: the name of the exception, or of the way it ended ("TimeoutError", "worker_lost").
        message: what it said.
        attempt: the attempt that failed last; the first is 1.
    """

    type: str
    message: str
    attempt: int = 1

    def __str__(self) -> str:
        """Read like the last line of a traceback."""
        return f"{self.type}: {self.message}" if self.message else self.type


@dataclass(frozen=True, slots=True)
class Emitted(Generic[E_co]):
    """An emission as it was taken, with its origin as the house stamped it.

    The emission's own fields are read directly: `finding.severity` is `finding.emission.severity`.

    Attributes:
        emission: the emission itself.
        node: who emitted it.
        role: the role of that node, or None for an operation without one.
        attempt: in which attempt; the first is 1.
    """

    emission: E_co
    node: str
    role: str | None = None
    attempt: int = 1

    def __getattr__(self, name: str) -> Any:
        """Read a field of the emission."""
        if name.startswith("__") or name == "emission":
            raise AttributeError(name)
        return getattr(self.emission, name)


@dataclass(frozen=True, slots=True)
class Rework:
    """Why a node does its work once more: a gate, or a person in its place, has sent it back.

    Attributes:
        gate: the gate's node in the round that was refused.
        round: which round this is; the first is 1 and has no rework.
        verdict: the verdict that refused, or None if a policy or a bare `gate_verdict` did.
        rationale: why, in the gate's or the person's words.
        reversible_by: what would turn the verdict, if the gate said so.
        by: who refused, if a person did; else empty.
        value: what this node had given, JSON data; a copy of this turn's own.
        artifacts: the files that it had left, by name.
        previous: the node that did this work in the round that was refused.
    """

    gate: str
    round: int
    verdict: str | None = None
    rationale: str = ""
    reversible_by: str | None = None
    by: str = ""
    value: Any = None
    artifacts: Mapping[str, Path] = field(default_factory=dict)
    previous: str = ""


@runtime_checkable
class Inputs(Protocol):
    """The values of the predecessors that completed, by name, in graph order; a read-only mapping.

    Values are JSON data, and each look-up gives a copy of its own.
    """

    def __getitem__(self, name: str, /) -> Any: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...
    def __contains__(self, name: object, /) -> bool: ...

    def get(self, name: str, default: Any = None, /) -> Any:
        """Return the value of a predecessor, or the default."""

    def keys(self) -> Any:
        """Return the names."""

    def values(self) -> Any:
        """Return the values."""

    def items(self) -> Any:
        """Return pairs of name and value."""

    def of(self, *, role: str) -> "Inputs":
        """Return those of the predecessors that have this role."""


@runtime_checkable
class Turn(Protocol):
    """One invocation of a node: the only parameter of a role's function.

    What it gives is a snapshot: changing it changes nothing elsewhere. A plain `def` role runs in a thread
    and uses `emit_sync`; `ask` and `step` are for `async def`.
    """

    @property
    def node(self) -> str:
        """The node's name."""

    @property
    def run(self) -> str:
        """The run's id."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What the node was given: `with:`, `add_operation(..., **more)`, `SpawnRequest.parameters`."""

    @property
    def instruction(self) -> str:
        """What to do, in words; empty if nothing was said."""

    @property
    def inputs(self) -> Inputs:
        """The values of predecessors that completed, by name."""

    def input(self, name: str, model: type[T], /) -> T:
        """Return one predecessor's value, validated into a type.

        Raises:
            KeyError: no predecessor of this name completed.
            ValueError: its value does not fit the type.
        """

    @property
    def failed(self) -> Mapping[str, NodeError]:
        """The predecessors that failed, by name."""

    @property
    def rework(self) -> Rework | None:
        """Why a gate sent this node's work back, and what it had given; None in the first round."""

    def emissions(self, type_: type[E], /, of: str | Sequence[str] | None = None) -> Sequence[Emitted[E]]:
        """Return what ancestors emitted of a type, in graph order; `of` names one or more nodes."""

    @property
    def context(self) -> Mapping[str, Any]:
        """The shared context as this node's ancestors wrote it."""

    def write(self, key: str, value: Any, *, replace: bool = False) -> None:
        """Write to the shared context when this node completes; mappings merge per leaf unless `replace`."""

    async def emit(self, emission: Emission, /) -> Receipt:
        """Say something to the house; the receipt is false if it was refused."""

    def emit_sync(self, emission: Emission, /) -> Receipt:
        """Do what `emit` does, from a plain `def` role."""

    async def ask(
        self,
        question: str,
        *,
        key: str | None = None,
        choices: Sequence[str] = (),
        schema: Any = None,
        expires: float | None = None,
        default: Any = None,
    ) -> Any:
        """Ask a person and wait, durably: no slot is held, no clock runs, a restart keeps the answer.

        Args:
            question: what is asked.
            key: the question's identity; the question itself if omitted.
            choices: the answers that are taken; empty: any.
            schema: the shape of the answer, a type or a JSON Schema.
            expires: seconds after which `default` is the answer.
            default: see `expires`.
        """

    async def step(self, key: str, fn: Callable[[], Awaitable[T] | T], /) -> T:
        """Do a part of the work once: after a restart its recorded value is returned without calling `fn`."""

    def report(self, text: str, /) -> None:
        """Say what is going on, for whoever watches; part of the record, not of the value."""

    def steers(self) -> Sequence[str]:
        """Return what an operator has said to this node since the last call."""

    @property
    def artifacts(self) -> Mapping[str, Path]:
        """Where the files that this node declares belong, by name."""

    @property
    def workdir(self) -> Path:
        """The folder that this node works in."""

    @property
    def attempt(self) -> int:
        """Which attempt this is; the first is 1."""

    @property
    def deadline(self) -> float | None:
        """When this attempt is stopped, in seconds on the event loop's clock; None: never."""

    @property
    def idempotency_key(self) -> str:
        """`run/node`: equal for every attempt, for services that take such a key."""

    @property
    def branch(self) -> Any:
        """The conversation of this node, or None if it has none."""
