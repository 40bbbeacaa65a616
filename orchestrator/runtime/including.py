"""Driving the flow that a node includes: a run of its own in the same session, the child.

The child's id is made from its parent's, its node and how often that was tried: an attempt that follows a
crash finds the same child and goes on with it, so that it is never started twice.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from anyio import CancelScope, get_cancelled_exc_class

from emissions import Refused
from orchestrator.core.commands import ChildEnded, ChildHeld, ChildStarted, Usage
from orchestrator.core.spec import Budget
from orchestrator.core.state import NodeState, RunState
from orchestrator.core.status import RunReason, Status
from orchestrator.errors import ExecutionError
from orchestrator.flows.flow import Flow
from orchestrator.runtime.options import RunOptions
from orchestrator.runtime.recorded import RecordedRun
from orchestrator.runtime.recovery import Recovery
from orchestrator.runtime.results import RunResult
from orchestrator.runtime.wiring import HELD, Child
from roles import NotApplicable

if TYPE_CHECKING:
    from orchestrator.runtime.engine import Engine
    from orchestrator.runtime.run import Run
    from orchestrator.runtime.session import Session
    from orchestrator.runtime.turns import RoleTurn

__all__ = ["Includes", "child_id"]

#: Escalations of a child whose document states none: one lineage of two tiers.
_LINEAGE: Final = 2
#: Budgets of which what is left may have grown when the child goes on.
_SUMMED: Final = ("tokens", "cost_usd", "wall_clock")
_SHORT: Final = re.compile(r"[A-Za-z0-9_]{1,16}")
_SECOND: Final = 1e9


def child_id(parent: str, node: NodeState) -> str:
    """The id of a node's child run: its parent's, a dot, the node, and which try of which life it is.

    Attempts that were given back (a crash, a pause of the process) are no tries: they keep the id.
    """
    name = node.op.name
    if not _SHORT.fullmatch(name):
        digest = hashlib.sha256(name.encode()).hexdigest()[:6]
        name = f"{re.sub('[^A-Za-z0-9_]', '_', name)[:9]}_{digest}"
    tries = node.attempt - node.given_back
    again = "" if (node.generation, tries) == (1, 1) else f"-{node.generation}-{tries}"
    return f"{parent}.{name}{again}"


class Includes:
    """The child runs of a session."""

    def __init__(self, session: Session) -> None:
        """``session`` keeps and drives them."""
        self._session = session

    async def run(self, engine: Engine, turn: RoleTurn) -> Any:
        """Drive the child run of a node to its stop.

        Returns:
            Its outputs, or HELD if it was suspended.

        Raises:
            ExecutionError: it ended in another way than completed.
            NotApplicable: every node of it was skipped.
        """
        node = engine.state.nodes[turn.node]
        path = node.op.flow or ""
        flow: Flow = engine.prepared.flows[path]
        run_id = child_id(engine.run_id, node)
        own = flow.bind(turn.parameters, self._session.operations, self._session.tools.names).budget
        command = ChildStarted(turn.node, turn.attempt, run_id, path, *_wanted(flow, own))
        receipts = engine.tell(command)
        if receipts and isinstance(receipts[-1], Refused):
            raise ExecutionError(f"run {run_id} was not started: {receipts[-1].detail}")
        await engine.kernel.durable(engine.kernel.submitted)
        result, state = await self._driven(engine, turn, run_id, flow, _share(own, engine.state, node))
        if result.reason is not RunReason.NEEDS_RECOVERY and not result.ended:
            engine.tell(ChildHeld(turn.node, turn.attempt, run_id, result.reason, result.detail))
            return HELD
        usage = result.usage
        total = Usage(usage.requests, usage.input_tokens, usage.output_tokens, usage.cost_usd)
        engine.tell(
            ChildEnded(turn.node, turn.attempt, run_id, result.reason, state.spawns, state.escalations, total)
        )
        if not result.ok:
            raise ExecutionError(f"run {run_id} of {path} ended {result.reason}: {_why(result)}")
        if all(one.status is Status.SKIPPED for one in state.nodes.values()):
            # what did not apply has not failed, on either side of the border
            first = next(iter(result.nodes.values()))
            raise NotApplicable(f"nothing of {path} applied (run {run_id}): {first.name}: {first.reason}")
        return dict(result.outputs)

    async def _driven(
        self, engine: Engine, turn: RoleTurn, run_id: str, flow: Flow, budget: Budget
    ) -> tuple[RunResult, RunState]:
        """What the child came to: read if it has ended before, else driven here."""
        session = self._session
        assert engine.family.slots is not None
        child = Child(run_id, engine.run_id, turn.node, engine.family.slots)
        options = RunOptions(
            args=turn.parameters, budget=budget, child=child, new_definition=engine.family.new_definition
        )
        records = session.recorded(run_id)
        if not records:
            live = await session.begin(flow, options)
        else:
            known = RecordedRun(run_id)
            known.take_all(records)
            if known.state.ended:
                return known.result(), known.state
            going = Recovery(epoch=0, budget=_raised(known.state.budget, budget))
            live = await session.go_on(run_id, options, going)
        result = await self._followed(engine, turn, live)
        return result, live.engine.state

    async def _followed(self, engine: Engine, turn: RoleTurn, child: Run) -> RunResult:
        """Wait for a live child; what is done to its parent is done to it."""
        engine.family.children[turn.node] = child
        try:
            if engine.state.paused:
                child.pause()
            if engine.state.draining:
                child.drain()
            await child.over()
        except get_cancelled_exc_class():
            _stop(engine, turn, child)
            with CancelScope(shield=True):
                await child.over()
            raise
        finally:
            engine.family.children.pop(turn.node, None)
        return await child.wait()


def _stop(engine: Engine, turn: RoleTurn, child: Run) -> None:
    """A node that is given back leaves its child as it can go on; any other takes it along."""
    node = engine.state.nodes[turn.node]
    if node.status is Status.STOPPING and node.settles == Status.READY:
        child.interrupt()
    else:
        child.cancel(reason=f"{turn.node} of run {engine.run_id} was stopped")


def _wanted(flow: Flow, own: Budget) -> tuple[int, int]:
    """Spawns and escalations that a child would have: what its document states."""
    stated = flow.document.budget
    spawns = 0 if stated.spawns is None else own.spawns
    return spawns, _LINEAGE if stated.escalations is None else own.escalations


def _share(own: Budget, state: RunState, node: NodeState) -> Budget:
    """The budget of a child: what its document says, and no more than its parent has left."""
    parent = state.budget
    spawns, escalations = node.share
    left = {
        "tokens": None if parent.tokens is None else max(0, parent.tokens - state.tokens),
        "cost_usd": None if parent.cost_usd is None else max(0.0, parent.cost_usd - state.cost_usd),
        "wall_clock": None if parent.wall_clock is None else max(0.0, parent.wall_clock - state.at / _SECOND),
    }
    return msgspec.structs.replace(
        own,
        spawns=spawns,
        escalations=escalations,
        depth=min(own.depth, parent.depth),
        concurrency=_least(own.concurrency, parent.concurrency),
        **{name: _least(getattr(own, name), limit) for name, limit in left.items()},
    )


def _least(one: Any, other: Any) -> Any:
    """The lower of two limits, of which None is none."""
    given = [limit for limit in (one, other) if limit is not None]
    return min(given, default=None)


def _raised(recorded: Budget, now: Budget) -> dict[str, float]:
    """Limits of a child that its parent, or its document, has more of by now."""
    return {
        name: getattr(now, name)
        for name in _SUMMED
        if getattr(recorded, name) is not None
        and getattr(now, name) is not None
        and getattr(now, name) > getattr(recorded, name)
    }


def _why(result: RunResult) -> str:
    """Why a child ended as it did, in one line."""
    gates = result.gate_rejected_operations
    if gates:
        value = result[gates[0]].value
        said = value.get("rationale") if isinstance(value, dict) else None
        return f"{', '.join(gates)} rejected{f': {said}' if said else ''}"
    failed = next((result.nodes[name] for name in result.failed_operations), None)
    if failed is not None:
        return f"{failed.name}: {failed.error}"
    return result.detail or "see callboard show"
