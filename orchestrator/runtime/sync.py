"""Running a graph from plain code."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from inspect import signature
from typing import Any

import anyio

from orchestrator.runtime.results import RunResult
from orchestrator.runtime.session import Session
from orchestrator.runtime.sources import Runnable
from roles import Role

__all__ = ["run_sync"]


def run_sync(
    what: Runnable,
    *,
    roles: Iterable[Role] = (),
    model: str | None = None,
    backend: str = "asyncio",
    **options: Any,
) -> RunResult:
    """Run a graph from plain code or a notebook, and return what it came to.

    Args:
        what, options: as for ``Session.flow``. roles, model: as for ``Session``.
        backend: ``asyncio`` or ``trio``.

    Raises:
        TypeError: an option that belongs to a session.
        As ``Session.flow`` does.
    """
    for name in options.keys() & signature(Session).parameters.keys():
        message = f"run_sync knows no {name}=; give it to a session: async with Session({name}=...)"
        raise TypeError(message)

    async def main() -> RunResult:
        async with Session(roles, model=model) as session:
            return await session.flow(what, **options)

    if not _loop_is_running():
        return anyio.run(main, backend=backend)
    # a notebook's loop runs in this thread: the run gets a thread and a loop of its own
    outcome: list[RunResult | BaseException] = []

    def call() -> None:
        try:
            outcome.append(anyio.run(main, backend=backend))
        except BaseException as error:  # noqa: BLE001 (it is raised again in the caller's thread)
            outcome.append(error)

    thread = threading.Thread(target=call, name="callboard run_sync")
    thread.start()
    thread.join()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def _loop_is_running() -> bool:
    try:
        anyio.get_current_task()
    except Exception:  # noqa: BLE001 (each backend says "no loop" in its own way)
        return False
    return True
