"""``evolve`` for facts about conversations and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orchestrator.core import facts as f
from orchestrator.core.frames import Frame
from orchestrator.core.resources import closed_as
from orchestrator.core.state import RunState
from orchestrator.core.supersteps.apply_agents import branch_made

__all__ = ["TALKING"]


def _usage(state: RunState, fact: f.UsageRecorded, _frame: Frame) -> None:
    node = state.nodes[fact.node]
    node.requests += fact.requests
    node.input_tokens += fact.input_tokens
    node.output_tokens += fact.output_tokens
    state.tokens += fact.input_tokens + fact.output_tokens
    if fact.cost_usd is not None:
        node.cost_usd = (node.cost_usd or 0.0) + fact.cost_usd
        state.cost_usd += fact.cost_usd


def _branch_created(state: RunState, fact: f.BranchCreated, frame: Frame) -> None:
    state.nodes[fact.node].branch = fact.branch
    if state.steps is not None:
        state.conversations[fact.branch] = branch_made(state, fact.node, fact.branch, fact.source)
    elif fact.messages is not None:
        state.conversations[fact.branch] = (frame.values[fact.messages],)
    elif fact.source is not None:
        state.conversations[fact.branch] = state.conversations.get(fact.source, ())
    else:
        state.conversations[fact.branch] = ()


def _branch_extended(state: RunState, fact: f.BranchExtended, frame: Frame) -> None:
    if fact.kept:
        said = state.conversations.get(fact.branch, ())
        state.conversations[fact.branch] = (*said, frame.values[fact.messages])


def _model_closed(state: RunState, fact: f.ModelClosed, _frame: Frame) -> None:
    state.closed[closed_as(state.nodes[fact.node], fact.model)] = fact.detail


TALKING: Mapping[type[f.Fact], Callable[[RunState, Any, Frame], None]] = {
    f.UsageRecorded: _usage,
    f.BranchCreated: _branch_created,
    f.BranchExtended: _branch_extended,
    f.ModelClosed: _model_closed,
}
