"""What ``show`` tells of a run in steps beside its nodes: its steps, its state, what is to run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from orchestrator.cli.edge import clean
from orchestrator.core.state import RunState
from orchestrator.core.status import TERMINAL

__all__ = ["step_lines"]

_KEYS: Final = 12
_TEXT: Final = 60


def step_lines(state: RunState) -> Iterator[str]:
    """Lines under the headline; none of a run that has no steps."""
    steps = state.steps
    if steps is None:
        return
    yield (
        f"  steps     {_count(steps.steps, 'step')} and {_count(steps.tasks, 'task')} since the last input; "
        f"step {steps.step:,} of the thread, checkpoint {steps.checkpoint:,}"
    )
    for key in sorted(steps.channels)[:_KEYS]:
        yield f"  state     {clean(key)} = {_cut(steps.channels[key].decode())}"
    if len(steps.channels) > _KEYS:
        yield f"  state     and {_count(len(steps.channels) - _KEYS, 'more key')}"
    under_way = [name for name in steps.active if state.nodes[name].status not in TERMINAL]
    waits = under_way or [one.name for one in steps.frontier]
    if waits:
        more = f" and {len(waits) - _KEYS:,} more" if len(waits) > _KEYS else ""
        yield f"  to run    {', '.join(clean(name) for name in waits[:_KEYS])}{more}"
    if steps.queue:
        yield f"  inputs    {len(steps.queue):,} waiting"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _cut(text: str) -> str:
    words = clean(text)
    return words if len(words) <= _TEXT else f"{words[: _TEXT - 3]}..."
