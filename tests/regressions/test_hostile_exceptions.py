"""Exceptions whose own class does something when they are looked at."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from orchestrator import OperationGraphBuilder, role
from tests.scenarios.conftest import ran

pytestmark = pytest.mark.anyio


class _Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise SystemExit("a name")


class Nameless(Exception, metaclass=_Nameless):
    """Its class has no name to show."""


class Untraced(BaseException):
    """It will not be given a traceback."""

    def with_traceback(self, tb: Any) -> Any:
        raise SystemExit("a traceback")


class Classless(Exception):
    """It does not say what it is."""

    @property
    def __class__(self) -> Any:
        raise SystemExit("a class")


def _broken_syntax_error() -> SyntaxError:
    error = SyntaxError("x")
    error.text, error.lineno = 5, 1  # type: ignore[assignment]
    return error


def _nameless() -> Nameless:
    return Nameless()


@pytest.mark.parametrize("make", [_nameless, Untraced, Classless, _broken_syntax_error])
@pytest.mark.parametrize("late", [False, True])
async def test_an_exception_that_raises_when_looked_at(make: Any, late: bool) -> None:
    """Fault: looking at the exception raised in the worker, which took the run and the session with it."""

    @role()
    async def hostile(turn: Any) -> None:
        if late:
            await anyio.lowlevel.checkpoint()
        raise make()

    @role()
    async def other(turn: Any) -> str:
        return "fine"

    graph = OperationGraphBuilder()
    graph.add_operation(hostile, depends_on=[])
    graph.add_operation(other, depends_on=[])
    run = await ran(graph)
    assert run["hostile"].status == "failed"
    assert run["other"].value == "fine"
    assert run.reason == "failed"
