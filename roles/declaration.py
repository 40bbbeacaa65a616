"""What a role declares."""

import inspect
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from emissions import Emission, EscalationRequest
from roles.errors import RoleError
from roles.modes import check_modes
from roles.programs import Program, program_of
from roles.tools import check_tools
from roles.turn import Turn

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")

_OPTIONAL_TEXTS: Final = ("effort", "escalates_to")
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that a node leaves.

    Attributes:
        name: how others refer to it: `${draft.artifacts.note}`.
        path: where it is, relative to the node's folder, with `/`.
        required: the node fails if it is missing.
        kind: what it is, for readers (report, patch).
    """

    name: str
    path: str
    required: bool = False
    kind: str | None = None

    def __post_init__(self) -> None:
        """Refuse a path that leaves the node's folder."""
        path = PurePosixPath(self.path)
        if not self.name or not self.path or path.is_absolute() or ".." in path.parts or "\\" in self.path:
            raise RoleError(
                f"artifact {self.name!r}: {self.path!r} is not a path inside the node's folder; "
                "give a relative one with '/' and without '..'"
            )


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how a node is attempted again.

    Attributes:
        attempts: attempts in all; the first counts.
        backoff: seconds before the second attempt.
        factor: each further delay is this many times the one before.
        max_delay: no delay is longer, seconds.
        jitter: 0..1, the share of the delay that is drawn at random.
        on: names of error types that are retried; empty: every error.
    """

    attempts: int = 1
    backoff: float = 0.0
    factor: float = 2.0
    max_delay: float = 60.0
    jitter: float = 0.0
    on: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        object.__setattr__(self, "on", _texts("Retry", "on", self.on))
        if not _is_count(self.attempts):
            raise RoleError(
                f"Retry: attempts is {self.attempts!r}; the first attempt counts, so give 1 or more"
            )
        for name in ("backoff", "factor", "max_delay", "jitter"):
            if not _is_amount(getattr(self, name)):
                raise RoleError(
                    f"Retry: {name} is {getattr(self, name)!r}; give a number that is not negative"
                )
        if self.jitter > 1:
            raise RoleError(f"Retry: jitter is {self.jitter!r}; it is a share from 0 to 1")


@dataclass(frozen=True, slots=True)
class Role:
    """A declaration: what a worker is called, what it does, and what it may say to the house.

    Made by `@role()` from a function, by hand for a model (`body` is its system prompt), or from a Markdown
    file. `emits` is a contract: what is declared is routed and acted on, what is not declared is refused.

    Attributes:
        name: `[A-Za-z_][A-Za-z0-9_-]*`, at most 64 characters.
        body: what the role is told about itself.
        description: one line for lists.
        emits: the emission types it may emit, EscalationRequest always besides.
        returns: the shape of its value: a type, or a JSON Schema as a mapping.
        models: its tiers, the lowest first; an escalation moves one up.
        fallback: models that step in for one that has no quota.
        effort: how hard a model thinks, in its provider's word.
        tools: what it may use: functions, or names of those of its cast and session: `look_up`, `files.read`,
            `files.*`.
        artifacts: the files it leaves.
        modes: names of ways of working that are laid over the body.
        escalates_to: the role that takes over above the last model.
        retry: how it is attempted again; a number means attempts in all.
        timeout: seconds for one attempt.
        program: the program that performs it: its arguments, or a Program.
        fn: the function of a function role.
        origin: where it was declared, for error messages; takes no part in equality.

    Raises:
        RoleError: an attribute does not hold what it should.
    """

    name: str
    _: KW_ONLY
    body: str = ""
    description: str = ""
    emits: tuple[type[Emission], ...] = ()
    returns: Any = None
    models: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
    effort: str | None = None
    tools: tuple[Any, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    modes: tuple[str, ...] = ()
    escalates_to: str | None = None
    retry: Retry | None = None
    timeout: float | None = None
    program: Program | None = None
    fn: Callable[[Turn], Any] | None = field(default=None, repr=False)
    origin: str = field(default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check every attribute, and make tuples of lists."""
        if not _is_name(self.name):
            raise RoleError(
                f"{self.name!r} is not a role's name; give a letter or '_', then up to 63 letters, digits, "
                "'_' or '-'"
            )
        where = f"role {self.name}"
        for key in ("body", "description", "effort", "escalates_to"):
            value = getattr(self, key)
            if not isinstance(value, str) and not (value is None and key in _OPTIONAL_TEXTS):
                raise RoleError(f"{where}: {key} is {type(value).__name__}; give text")
        for key in ("models", "fallback", "modes"):
            object.__setattr__(self, key, _texts(where, key, getattr(self, key)))
        check_modes(self.modes, where)
        object.__setattr__(self, "emits", _emits(where, self.emits))
        object.__setattr__(self, "tools", check_tools(where, _items(where, "tools", self.tools)))
        object.__setattr__(self, "artifacts", _artifacts(where, self.artifacts))
        object.__setattr__(self, "retry", _retry(where, self.retry))
        object.__setattr__(self, "program", program_of(self.program, where))
        if self.program is not None and (self.fn is not None or self.models):
            raise RoleError(f"{where}: a program performs it; leave out its function and its models")
        if self.program is not None and self.tools:
            raise RoleError(f"{where}: a program performs it, which has tools of its own; leave tools out")
        if self.timeout is not None and not (_is_amount(self.timeout) and self.timeout > 0):
            raise RoleError(f"{where}: timeout is {self.timeout!r}; give seconds, more than 0")
        if self.escalates_to == self.name:
            raise RoleError(f"{where}: it escalates to itself; name another role, or give more models")
        if self.fn is not None:
            check_function(where, self.fn)

    def __hash__(self) -> int:
        """Hash by name; tools and return shapes need not be hashable."""
        return hash(self.name)

    def __call__(self, turn: Turn, /) -> Any:
        """Call the role's function as it was written: `await scout(turn)` if it is `async def`.

        Raises:
            RoleError: the role has no function; a session runs it on a model.
        """
        if self.fn is None:
            raise RoleError(
                f"role {self.name} has no function to call; give it to add_operation and let a session run it"
            )
        return self.fn(turn)

    @property
    def __wrapped__(self) -> Callable[[Turn], Any]:
        """The function, for tools that look through wrappers (`inspect.signature`)."""
        if self.fn is None:
            raise AttributeError("__wrapped__")
        return self.fn

    @property
    def grants(self) -> tuple[type[Emission], ...]:
        """What it may emit: its `emits`, and EscalationRequest, which everybody may."""
        return self.emits if EscalationRequest in self.emits else (*self.emits, EscalationRequest)

    @property
    def is_async(self) -> bool:
        """Whether its function is `async def`; a plain one runs in a thread."""
        return self.fn is not None and inspect.iscoroutinefunction(self.fn)


def check_function(where: str, fn: object) -> None:
    """Refuse what cannot be a role's function.

    Raises:
        RoleError: it is not callable, a generator, or does not take exactly the turn.
    """
    if isinstance(fn, Role) or not callable(fn):
        raise RoleError(f"{where}: {type(fn).__name__} is not a function; decorate a `def` or an `async def`")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        form = "an async generator" if inspect.isasyncgenfunction(fn) else "a generator"
        raise RoleError(
            f"{where}: {_called(fn)} is {form}; return one value and use turn.report for progress"
        )
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        raise RoleError(f"{where}: {_called(fn)} has no signature to read; wrap it in a `def`") from None
    if len(parameters) != 1 or parameters[0].kind not in _POSITIONAL:
        found = ", ".join(str(parameter) for parameter in parameters) or "nothing"
        raise RoleError(
            f"{where}: {_called(fn)} takes {found}; a role's function takes exactly one parameter, the turn "
            "(what it is given is in turn.parameters and turn.inputs)"
        )


def _called(fn: object) -> str:
    return str(getattr(fn, "__qualname__", type(fn).__qualname__))


def _is_name(value: object) -> bool:
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_amount(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")


def _items(where: str, key: str, value: object) -> tuple[Any, ...]:
    if isinstance(value, (list, tuple)):
        return tuple(value)
    raise RoleError(f"{where}: {key} is one {type(value).__name__}; give a tuple or a list: {key}=(...,)")


def _texts(where: str, key: str, value: object) -> tuple[str, ...]:
    texts = _items(where, key, value)
    for text in texts:
        if not isinstance(text, str) or not text:
            raise RoleError(f"{where}: {key} holds {text!r}; give names as text")
    return texts


def _emits(where: str, value: object) -> tuple[type[Emission], ...]:
    types = _items(where, "emits", value)
    kinds: set[str] = set()
    for type_ in types:
        if not (isinstance(type_, type) and issubclass(type_, Emission)) or type_ is Emission:
            raise RoleError(f"{where}: emits holds {type_!r}; give emission types, such as emits=(Finding,)")
        if type_.emission_kind in kinds:
            raise RoleError(f"{where}: emits names {type_.emission_kind} twice; leave one out")
        kinds.add(type_.emission_kind)
    return types


def _artifacts(where: str, value: object) -> tuple[Artifact, ...]:
    artifacts = _items(where, "artifacts", value)
    names: set[str] = set()
    for artifact in artifacts:
        if not isinstance(artifact, Artifact):
            raise RoleError(f"{where}: artifacts holds {artifact!r}; give Artifact(name, path)")
        if artifact.name in names:
            raise RoleError(f"{where}: two artifacts are called {artifact.name}; name them apart")
        names.add(artifact.name)
    return artifacts


def _retry(where: str, value: object) -> Retry | None:
    """Take a Retry, a number of attempts, or another struct with the same fields (the node's own Retry)."""
    if value is None or isinstance(value, Retry):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Retry(attempts=value)
    try:
        return Retry(**{name: getattr(value, name) for name in Retry.__dataclass_fields__})
    except AttributeError:
        raise RoleError(
            f"{where}: retry is {value!r}; give Retry(attempts=3) or the attempts in all"
        ) from None
