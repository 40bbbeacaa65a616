"""A compiled graph: invoke it, look at its threads, change and fork them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from orchestrator.core.spec import Budget
from orchestrator.runtime.session import Session
from orchestrator.supersteps.blueprint import Blueprint
from orchestrator.supersteps.driving import Drive, Driver, OnPending
from orchestrator.supersteps.holding import Durability
from orchestrator.supersteps.results import StateSnapshot, StepResult
from orchestrator.supersteps.streams import Mode, StepStream
from orchestrator.supersteps.words import Answer, Answers, Command

__all__ = ["CompiledGraph"]

Input = Mapping[str, Any] | Command | Answer | Answers | None


class CompiledGraph:
    """A graph that is ready to run. Made by ``StateGraph.compile``; use it for any number of threads."""

    def __init__(
        self,
        blueprint: Blueprint,
        session: Session,
        *,
        concurrency: int | None = None,
    ) -> None:
        self.blueprint = blueprint
        self._driver = Driver(blueprint, session, concurrency)

    async def invoke(
        self,
        input: Input,  # noqa: A002 (the field's name)
        *,
        thread_id: str | None = None,
        on_pending: OnPending = "error",
        budget: Budget | None = None,
        grant: Mapping[str, float] | None = None,
        durability: Durability = "sync",
        window: int = 1,
        interrupt_before: Sequence[str] | None = None,
        interrupt_after: Sequence[str] | None = None,
        at: int | None = None,
        rename: Mapping[str, str] | None = None,
        config: None = None,
    ) -> StepResult:
        """Run a thread until it stops.

        Args:
            input: state writes; None goes on with what is left; Answer, Answers or Command(resume=, update=,
                goto=) answer and steer.
            thread_id: which thread; None is a new one.
            on_pending: what a new input does to work that is left: an error; it waits until that has ended,
                which this call goes on with (``enqueue``); or it takes its place (``replace``).
            budget: of this run: ``Budget(steps=, visits=, tasks=, concurrency=)``.
            grant: named limits -> how much more a run that goes on may use.
            durability: ``sync``, ``async`` (at most ``window`` steps behind) or ``exit``.
            interrupt_before, interrupt_after: nodes at which it stops; None is what was compiled.
            at: go on from this checkpoint, in a fork; its id is the result's ``thread_id``.
            rename: node that is to run -> what it is called now.
            config: refused, with where each of its keys goes.

        Returns:
            The result; a run that fails is a value.

        Raises:
            OperationError: what was given does not fit the thread. RunOwnedError: somebody drives it.
            JournalError: the journal cannot be written. InternalError: a bug of ours.
        """
        drive = Drive(
            thread_id=thread_id,
            on_pending=on_pending,
            budget=budget,
            grant=grant or {},
            durability=durability,
            window=window,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            at=at,
            rename=rename or {},
            config=config,
        )
        return await self._driver.invoke(input, drive)

    def stream(
        self,
        input: Input,  # noqa: A002
        *,
        mode: Mode | Sequence[Mode] = "updates",
        subgraphs: bool = False,
        **options: Any,
    ) -> StepStream:
        """What happens while a thread runs: ``async with graph.stream(...) as stream``, then ``async for``.

        Args:
            input: as for :meth:`invoke`, whose other options are taken as well.
            mode: ``updates`` (node -> its writes, as tasks finish), ``values`` (the state behind each
                checkpoint), ``tasks`` (TaskSnapshots), ``events`` (Envelopes); of a list, pairs (mode, item).
            subgraphs: what happens in children as well; each item becomes a pair (namespace, item), where
                the namespace is the tasks above, empty for the thread itself.

        Leaving it early suspends the run: ``invoke(None)`` goes on.
        """
        return StepStream(self._driver, input, Drive(**options), mode, subgraphs=subgraphs)

    async def get_state(self, thread_id: str, *, at: int | None = None) -> StateSnapshot:
        """How a thread stands now, with the writes of finished tasks; or at a checkpoint, without.

        Raises:
            OperationError: no such thread or checkpoint.
        """
        return self._driver.snapshot(thread_id, at)

    async def get_state_history(self, thread_id: str, *, limit: int | None = None) -> list[StateSnapshot]:
        """A snapshot for each checkpoint, newest first.

        Raises:
            OperationError: no such thread.
        """
        newest = self._driver.history(thread_id)[::-1]
        return newest if limit is None else newest[:limit]

    async def update_state(
        self,
        thread_id: str,
        update: Mapping[str, Any] | Command | None,
        *,
        as_node: str | None = None,
        at: int | None = None,
    ) -> StateSnapshot:
        """Change a stopped thread's state, through its reducers.

        Args:
            as_node: as if that node had written it: its edges are followed, and it leaves what is to run.
                Without it the frontier, finished writes and questions stay. END: nothing is left to run.
            at: a checkpoint: the change is made in a fork, whose id is the snapshot's ``thread_id``.

        Raises:
            OperationError: no such thread, node or key. RunOwnedError: somebody drives it.
        """
        target = thread_id if at is None else self._driver.fork(thread_id, at, None)
        return await self._driver.edit(target, update, as_node or "")

    async def resolve(
        self,
        thread_id: str,
        task: str,
        how: Literal["drop", "value", "rerun"],
        value: Mapping[str, Any] | None = None,
    ) -> StateSnapshot:
        """Decide about a task whose write was refused: drop its writes, give others, or run it again.

        Raises:
            OperationError: no such task.
        """
        return await self._driver.resolve(thread_id, task, how, value)

    async def fork(self, thread_id: str, *, at: int | None = None, name: str | None = None) -> str:
        """Make a thread that shares a thread's history up to a checkpoint; no other thread changes.

        Args:
            at: the checkpoint; None is the head, with its pending writes and answers.
            name: the new thread's id; derived if omitted.

        Returns:
            The new thread's id.

        Raises:
            OperationError: no such thread or checkpoint, or the name is taken.
        """
        return self._driver.fork(thread_id, at, name)

    async def delete_thread(self, thread_id: str) -> bool:
        """Remove a thread with its history and its child runs; other threads and forks of it stay.

        Returns:
            False if there is none: that is no error.

        Raises:
            RunOwnedError: somebody drives it. OperationError: it is a run of a graph.
        """
        return self._driver.delete(thread_id)

    async def clear_cache(self, nodes: Sequence[str] | None = None) -> int:
        """Forget what cached nodes wrote, of all nodes or of these, for every thread of this graph's name.

        Returns:
            How many entries there were.

        Raises:
            JournalError: the journal cannot be written.
        """
        return self._driver.clear_cache(nodes)

    def drain(self, thread_id: str) -> bool:
        """Ask a thread that runs in this process to finish its step and stop.

        Returns:
            False if it does not run here.
        """
        return self._driver.drain(thread_id)
