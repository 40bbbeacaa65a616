"""`@role`: a function becomes a role."""

import inspect
from collections.abc import Callable
from typing import Any, TypedDict, Unpack, overload

from emissions import Emission
from roles.declaration import Artifact, Retry, Role, check_function
from roles.errors import RoleError
from roles.turn import Turn


class RoleKeys(TypedDict, total=False):
    """The keys of `@role(...)`: those of Role, all optional."""

    name: str
    body: str
    description: str
    emits: tuple[type[Emission], ...] | list[type[Emission]]
    returns: Any
    models: tuple[str, ...] | list[str]
    fallback: tuple[str, ...] | list[str]
    effort: str | None
    tools: tuple[Any, ...] | list[Any]
    artifacts: tuple[Artifact, ...] | list[Artifact]
    modes: tuple[str, ...] | list[str]
    escalates_to: str | None
    retry: Retry | int | None
    timeout: float | None


@overload
def role(fn: Callable[..., Any], /) -> Role: ...
@overload
def role(**keys: Unpack[RoleKeys]) -> Callable[[Callable[..., Any]], Role]: ...
def role(fn: Callable[..., Any] | None = None, /, **keys: Any) -> Role | Callable[[Callable[..., Any]], Role]:
    """Make a role of a function that takes a turn: `@role`, `@role()` or `@role(emits=(Finding,))`.

    An `async def` runs on the event loop, a plain `def` in a thread. The name is the function's unless given,
    the description its docstring's first line. The role can still be called like the function.

    Args:
        fn: the function, if the decorator stands without parentheses.
        keys: those of Role.

    Raises:
        RoleError: it is not a function of exactly one parameter, or a key does not hold what it should.
    """
    if fn is not None:
        return _make(fn, keys)

    def decorate(function: Callable[..., Any]) -> Role:
        return _make(function, keys)

    return decorate


def _make(fn: Callable[[Turn], Any], keys: dict[str, Any]) -> Role:
    name = keys.get("name") or getattr(fn, "__name__", "")
    check_function(f"@role on {name or fn!r}", fn)
    if unknown := sorted(keys.keys() - RoleKeys.__annotations__.keys()):
        raise RoleError(
            f"@role on {name}: unknown key {unknown[0]!r}; there are {', '.join(RoleKeys.__annotations__)}"
        )
    first_line = (inspect.getdoc(fn) or "").partition("\n")[0].strip()
    declared: dict[str, Any] = {"description": first_line, **keys, "name": name}
    return Role(**declared, fn=fn, origin=_place(fn))


def _place(fn: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""
