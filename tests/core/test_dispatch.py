"""Slots, limits and branches: first in, first out, and no wake-up is ever lost."""

from __future__ import annotations

from orchestrator.core import commands as c
from orchestrator.core import facts as f
from orchestrator.core.spec import Budget, Operation
from tests.core.small import Small, plan

ONE = Budget(concurrency=1)
TWO = Budget(concurrency=2)


def uses(name: str, *resources: str, **more: str) -> Operation:
    return Operation(name=name, role="worker", uses=resources, **more)  # type: ignore[arg-type]


def started(run: Small) -> list[str]:
    return [fact.node for fact in run.facts_of(f.NodeStarted)]


def test_a_question_gives_the_slot_on():
    """kernel.md 7: a node that asks holds no slot: who waits for one starts at once."""
    run = Small(plan("a", "b", budget=ONE), waits_for_answers=True)
    decision = run.tell(c.Ask("a", 1, "colour", "which?"))
    assert [type(fact) for fact in decision.facts] == [f.QuestionAsked, f.NodeStarted]
    assert started(run) == ["a", "b"]


def test_a_question_does_not_suspend_a_run_that_can_go_on():
    """Nobody answers: everything else finishes first, then the run is suspended (kernel.md 7)."""
    run = Small(plan("a", "b", budget=ONE))
    run.tell(c.Ask("a", 1, "colour", "which?"))
    assert run.state.suspended == ""
    run.finish("b")
    assert run.state.suspended == "awaiting_answer"


def test_a_question_gives_limits_on_and_keeps_its_branch():
    """engine.md 20, 23: limits are freed while it asks, the branch is held from start to settling."""
    operations = (
        uses("a", "db", branch="talk"), uses("b", "db"), Operation(name="c", role="worker", branch="talk"),
    )  # fmt: skip
    run = Small(plan(*operations, limits={"name:db": 1}), waits_for_answers=True)
    assert started(run) == ["a"]
    run.tell(c.Ask("a", 1, "colour", "which?"))
    assert started(run) == ["a", "b"]
    run.tell(c.Cancel("a"))
    assert started(run) == ["a", "b", "c"]


def test_first_in_first_out():
    """Whoever was ready first starts first, also when other nodes settle without having run."""
    run = Small(plan("a", "b", "c", "d", "w", "x", edges=["a>w", "w>x"], budget=ONE))
    run.tell(c.Cancel("w"))
    run.finish("a")
    for name in ("b", "c", "d"):
        run.finish(name)
    assert started(run) == ["a", "b", "c", "d"]


def test_skipped_nodes_take_nobodys_turn():
    """One settling wakes one waiter; two nodes that are skipped beside it must not move the queue on."""
    names = [f"q{number}" for number in range(4)]
    skipped = [f"s{number}" for number in range(3)]
    edges = [f"a>{name}" for name in skipped]
    run = Small(plan("a", *names, *skipped, edges=edges, budget=ONE))
    run.finish("a", "not_applicable")
    for name in names:
        run.finish(name)
    assert started(run) == ["a", *names]


def test_a_waiter_for_two_things_passes_on_the_one_that_is_free():
    """`both` is woken for db, lacks gpu, parks there: db is free, and `one` gets it."""
    run = Small(
        plan(
            uses("d", "db"), uses("g", "gpu"), uses("both", "db", "gpu"), uses("one", "db"),
            limits={"name:db": 1, "name:gpu": 1},
        )
    )  # fmt: skip
    assert started(run) == ["d", "g"]
    run.finish("d")
    assert started(run) == ["d", "g", "one"]
    run.finish("g")
    run.finish("one")
    assert started(run) == ["d", "g", "one", "both"]


def test_a_waiter_that_is_cancelled_passes_its_call_on():
    """`x` was called to take the branch and has to wait for a slot: cancelled, `y` is called."""
    operations = (uses("a", branch="talk"), "b", uses("x", branch="talk"), uses("y", branch="talk"), "z")
    run = Small(plan(*operations, budget=TWO), waits_for_answers=True)
    assert started(run) == ["a", "b"]
    run.tell(c.Ask("a", 1, "colour", "which?"))
    assert started(run) == ["a", "b", "z"]
    run.tell(c.Cancel("a"))
    run.tell(c.Cancel("x"))
    run.finish("b")
    assert started(run) == ["a", "b", "z", "y"]


def test_the_queue_for_slots_keeps_its_order_beside_limits():
    """A freed limit comes with a slot: who waits for the limit takes both, the queue for slots stands."""
    run = Small(
        plan(
            uses("a", "db"), "p", uses("b", "db"), "q", "r", limits={"name:db": 1}, budget=TWO,
        )
    )  # fmt: skip
    assert started(run) == ["a", "p"]
    run.finish("p")
    assert started(run) == ["a", "p", "q"]
    run.finish("a")
    run.finish("q")
    assert started(run) == ["a", "p", "q", "b", "r"]


def test_naming_a_resource_twice_is_naming_it_once():
    """A capacity of 1 holds for a node that lists the resource twice."""
    run = Small(plan(uses("a", "db", "db"), uses("b", "db"), limits={"name:db": 1}))
    assert run.state.used == {"name:db": 1}
    run.finish("a")
    assert started(run) == ["a", "b"]


def test_a_pause_forgets_nobody():
    """What became ready while paused, and what waited for a slot, starts in order of readiness."""
    run = Small(plan("a", "b", "c", "d", edges=["a>d"], budget=TWO))
    run.tell(c.Pause())
    run.finish("a")
    run.finish("b")
    assert started(run) == ["a", "b"]
    run.tell(c.Unpause())
    assert started(run) == ["a", "b", "c", "d"]


def test_more_slots_start_more():
    """A raised budget is used at once."""
    run = Small(plan("a", "b", "c", budget=ONE))
    run.tell(c.RaiseBudget("concurrency", 3))
    assert started(run) == ["a", "b", "c"]
