"""COST: what is new of counts that an agent keeps over its session."""

from __future__ import annotations

from orchestrator.agents.jobs import Spent
from orchestrator.agents.metering import SessionMeter


def test_what_is_new():
    """Each prompt costs the difference; a count that falls began anew; nothing counted costs one request."""
    meter = SessionMeter()
    assert meter.read({}) == Spent(requests=1)
    meter.cost_usd = 0.5
    assert meter.read({"input_tokens": 10, "output_tokens": 2}) == Spent(1, 10, 2, cost_usd=0.5)
    meter.cost_usd = 0.75
    assert meter.read({"input_tokens": 15, "output_tokens": 2}) == Spent(1, 5, 0, cost_usd=0.25)
    assert meter.read({"input_tokens": 4, "output_tokens": 1}) == Spent(1, 4, 1, cost_usd=0.0)


def test_a_session_that_was_loaded_has_cost_something_before():
    """What it said of its cost while it was loaded is of earlier turns."""
    meter = SessionMeter()
    meter.cost_usd = 3.0
    meter.past()
    meter.cost_usd = 3.5
    assert meter.read({}).cost_usd == 0.5
