"""The runs of a session: those that live, and those that exist and go on: resume, retry, fork."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from orchestrator.agents.backends import check_model
from orchestrator.core.facts import RunStarted, StepsPlanned
from orchestrator.core.records import Record
from orchestrator.core.resuming import EVERY_FAILED
from orchestrator.errors import JournalError, OperationError, RunOwnedError
from orchestrator.journal import Journal
from orchestrator.runtime.branching import Branches
from orchestrator.runtime.casting import check_means
from orchestrator.runtime.engine import Engine
from orchestrator.runtime.forking import change_of, copy_history, cut, fold, in_rounds, outcomes_of
from orchestrator.runtime.identity import new_run_id
from orchestrator.runtime.including import Includes
from orchestrator.runtime.options import RunOptions
from orchestrator.runtime.rebuilding import rebuild
from orchestrator.runtime.recovery import Recovery
from orchestrator.runtime.registrations import Registrations
from orchestrator.runtime.reusing import Outcome, reusable
from orchestrator.runtime.reviving import refuse_thread, revive
from orchestrator.runtime.run import Run
from orchestrator.runtime.schedules import schedule
from orchestrator.runtime.stores import MemoryStore, Store
from orchestrator.runtime.wiring import DEFAULT_GRACE, Wiring
from roles import Role

__all__ = ["Runs"]


def _schedule_of(journal: Journal) -> str | None:
    """The schedule of a document that a run began from, if it has one of its own."""
    for record in journal.read(0, 1):
        stepped = any(isinstance(fact, StepsPlanned) for fact in record.facts)
        sources = [fact.definition.source for fact in record.facts if isinstance(fact, RunStarted)]
        return "supersteps" if stepped and any(sources) else None
    return None


class Runs(Registrations):
    """The part of a session that holds runs."""

    _includes: Includes

    def __init__(self, roles: Iterable[Role], store: Store) -> None:
        """``store`` keeps the logs of the runs."""
        super().__init__(roles)
        self._store = store
        self._runs: dict[str, Run] = {}
        self._grace, self._folder = DEFAULT_GRACE, Path()
        self._seed: int | None = None
        self._model: str | None = None
        self._clock: Callable[[], int] = time.monotonic_ns

    async def resume(
        self,
        run: str = "last",
        *,
        answers: Mapping[str, Any] | None = None,
        budget: Mapping[str, float] | None = None,
        new_definition: bool = False,
        waits_for_answers: bool = False,
        on_settle: Callable[..., Any] | None = None,
    ) -> Run:
        """Go on with a run that was suspended or whose process died; settled nodes are not run again.

        Args:
            run: an unambiguous prefix of its id, or ``last``. budget: named limits to raise first.
            answers: node -> the answer to its open question, or the verdict for an undecided gate.
            new_definition: use code and documents that have changed since the run began.
            waits_for_answers, on_settle: as for :meth:`start`.

        Raises:
            JournalError: no such run, it is driven by somebody (RunOwnedError), or its log is damaged.
            OperationError: it has ended, or one of its functions is gone or has changed.
        """
        options = RunOptions(
            waits_for_answers=waits_for_answers, on_settle=on_settle, new_definition=new_definition
        )
        going = Recovery(epoch=0, budget=budget or {}, answers=answers or {})
        return await self._continue(run, options, going, new_definition=new_definition)

    async def retry(
        self,
        run: str = "last",
        nodes: Iterable[str] | None = None,
        *,
        budget: Mapping[str, float] | None = None,
        new_definition: bool = False,
    ) -> Run:
        """Run failed nodes, or undecided gates, again, and what was skipped because of them.

        Args:
            run: as for :meth:`resume`. nodes: which; None is every failed node and undecided gate.

        Raises:
            OperationError: nothing is to be retried, or a node that was named did not fail.
        """
        wanted = (EVERY_FAILED,) if nodes is None else tuple(nodes)
        going = Recovery(epoch=0, budget=budget or {}, reopen=wanted)
        return await self._continue(run, RunOptions(), going, new_definition=new_definition)

    async def fork(
        self,
        run: str,
        *,
        at: str | int | None = None,
        values: Mapping[str, Any] | None = None,
        answers: Mapping[str, str] | None = None,
        by: str = "",
        because: str = "",
        new_definition: bool = False,
    ) -> Run:
        """Begin a new run that shares a run's history up to a record, and goes on with a change.

        Args:
            run: the origin, as for :meth:`resume`; it is only read. at: where they part: a node (before it
                settled) or the number of a fact; None is before the first node that is changed.
            values: node -> a value that it is given instead of running. answers: gate -> a person's verdict.
            by, because: who gives the verdict, and why; both are recorded.

        Raises:
            JournalError: no such run. OperationError: no such node or fact there.
        """
        self._open()
        origin = self._store.find(run)
        records = list(self._store.records(origin))
        whole = fold(records)
        refuse_thread(whole)
        if whole.steps is not None:
            raise OperationError(
                f"run {origin} ran in steps; begin it again, a fork of it is not made this way"
            )
        values, answers = in_rounds(whole, values or {}), in_rounds(whole, answers or {})
        at = whole.in_round(at) if isinstance(at, str) else at
        settled, raw = outcomes_of(whole, values, answers, by, because)
        shared = cut(records, at, [one.node for one in settled])
        if not shared:
            message = f"run {origin} has no history before that; start it again instead"
            raise OperationError(message)
        new = new_run_id()
        change = change_of(values, answers)
        log = self._store.new(new, whole.name, whole.definition.digest)
        copy_history(shared, log, new, origin, change)
        self._store.close(new)
        if isinstance(self._store, MemoryStore) and origin in self._store.prepared:
            self._store.prepared[new] = self._store.prepared[origin]
        going = Recovery(epoch=0, budget={}, settled=settled, values=tuple(raw))
        return await self._continue(new, RunOptions(), going, new_definition=new_definition)

    def _earlier(self, run: str | None) -> dict[str, Outcome]:
        """What a run may take from an earlier one.

        Raises:
            JournalError: no such run. OperationError: nothing is on disk that tells what code it ran.
        """
        if run is None:
            return {}
        if not self._store.durable:
            message = f"reuse={run!r} needs a journal on disk: Session(journal=PATH)"
            raise OperationError(message)
        return reusable(fold(self._store.records(self._store.find(run))))

    async def _continue(
        self,
        run: str,
        options: RunOptions,
        going: Recovery,
        *,
        new_definition: bool,
    ) -> Run:
        group = self._open()
        run_id = self._store.find(run)
        if run_id in self._runs:
            message = f"run {run_id} is live in this session; use its handle"
            raise RunOwnedError(message)
        if self._model is not None:
            check_model("Session(model=)", self._model)
        journal, epoch = self._store.own(run_id)
        try:
            going = dataclasses.replace(going, epoch=epoch)
            if (name := _schedule_of(journal)) is not None:
                engine = schedule(name).go_on(self, run_id, journal, options, going)  # type: ignore[arg-type]
                live = self._launch(engine)
                await group.start(self._drive, live)
                return live
            at_hand = self._store.prepared.get(run_id) if isinstance(self._store, MemoryStore) else None
            find = partial(
                rebuild, roles=self.roles, operations=self._operations, new_definition=new_definition
            )
            engine = revive(
                run_id,
                self.wiring(journal, options),
                going,
                find if at_hand is None else lambda _state: at_hand,
            )
            used = {node.op.role for node in engine.state.nodes.values()}
            check_means((one for one in engine.prepared.speakers.values() if one.name in used), self.tools)
        except BaseException:
            self._store.close(run_id)
            raise
        live = self._launch(engine)
        await group.start(self._drive, live)
        return live

    def recorded(self, run: str) -> Sequence[Record]:
        """Everything that is recorded of a run of this very id; nothing if there is none."""
        return list(self._store.records(run)) if self._store.exists(run) else []

    async def go_on(self, run: str, options: RunOptions, going: Recovery) -> Run:
        """Go on with the run of an included flow; its parent's drives it along."""
        return await self._continue(run, options, going, new_definition=options.new_definition)

    def runs(self, status: str | None = None) -> list[Run]:
        """Live runs of this session; ``status`` narrows by reason (``""`` is live)."""
        return [run for run in self._runs.values() if status is None or run.engine.reason == status]

    async def _drive(self, run: Run, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        task_status.started()
        try:
            await run.drive()
        finally:
            self._forget(run)

    def _forget(self, run: Run) -> None:
        self._runs.pop(run.id, None)
        try:
            self._store.close(run.id)
        except JournalError as error:
            # what was acknowledged is durable and what was not has halted the run: nothing more is lost
            run.engine.log.warning("the log of run %s could not be closed: %s", run.id, error)
        if (
            "." not in run.id  # what an included flow came to is of use as long as its parent
            and run.result is not None
            and run.result.ok
            and isinstance(self._store, MemoryStore)
        ):
            self._store.forget(run.id)

    @property
    def store(self) -> Store:
        """Where the logs of the session's runs are kept."""
        return self._store

    def wiring(self, journal: Journal, options: RunOptions) -> Wiring:
        """What a run takes from the session."""
        return Wiring(
            journal=journal,
            bus=self.bus,
            branches=Branches(self.branches, options.on_branch_created, options.branch),
            handlers=dict(self._handlers),
            on_settle=options.on_settle,
            folder=self._folder,
            grace=self._grace,
            seed=self._seed,
            clock=self._clock,
            waits_for_answers=options.waits_for_answers,
            tools=self.tools,
            providers=self.providers,
            model=self._model,
            include=self._includes.run,
            child=options.child,
            new_definition=options.new_definition,
        )

    def _launch(self, engine: Engine) -> Run:
        """A run of this session that has not begun to be driven."""
        run = Run(engine)
        self._runs[run.id] = run
        return run
