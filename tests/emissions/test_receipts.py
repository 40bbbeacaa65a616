"""Receipts: the answer to an emission, usable as a condition."""

import dataclasses

import pytest

from emissions import Accepted, Receipt, RefusalReason, Refused


def test_truth():
    assert Accepted()
    assert Accepted(node="scout.inspector-1", emission=3).node == "scout.inspector-1"
    assert not Refused("cycle", "a -> b -> a")
    assert Refused(RefusalReason.CYCLE) == Refused("cycle")
    assert isinstance(Accepted(), Receipt) and isinstance(Refused("x"), Receipt)


def test_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Refused("cycle").reason = "other"  # type: ignore[misc]
    assert not hasattr(Accepted(), "__dict__")


def test_the_reasons_of_the_kernel_are_all_there():
    listed = """not_running closing not_granted invalid too_deep forged max_spawn_exceeded depth
    unknown_assignee assignee_not_allowed verb_not_allowed unknown_node too_late
    need_failed vetoed cycle duplicate exists builder_error null_child
    escalation_exhausted no_higher_tier handler_error unknown_kind malformed"""
    assert {str(reason) for reason in RefusalReason} == set(listed.split())
