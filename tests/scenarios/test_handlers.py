"""Handlers (roles.md 4) and emissions that lie or flood (roles.md 3, engine 22)."""

from __future__ import annotations

import pytest

from orchestrator import (
    Budget,
    EscalationRequest,
    Finding,
    Inject,
    Objection,
    OperationError,
    OperationGraphBuilder,
    Refused,
    Session,
    SpawnRequest,
    Steer,
    Veto,
    Write,
    role,
)
from tests.scenarios.conftest import lawful, ok, order, ran


def chain(count, what=ok):
    graph = OperationGraphBuilder()
    for number in range(count):
        graph.add_operation(what, node_id=f"n{number}")
    return graph


@role(emits=(Objection,))
async def objects(turn):
    """Emits and returns the same objection."""
    objection = Objection(target="plan", objection="no")
    await turn.emit(objection)
    return [objection, Objection(target="plan", objection="no")]


async def handled(handler, *, what=objects, **options):
    graph = OperationGraphBuilder()
    graph.add_operation(what, node_id="a")
    graph.add_operation(order, node_id="b")
    async with Session([ok, order]) as session:
        session.handles(Objection, handler)
        return await lawful(await session.start(graph, **options))


async def test_a_handlers_changes_are_carried_out_once():
    """Roles 4: Inject, Write, Steer and Veto, decided by the core, once for one emission over two
    channels.
    """

    def handler(emission, view):
        assert view.status("a") == "running"
        return [Inject("ok", before=["b"]), Write("objection", emission.objection), Steer("look", "b")]

    run = await handled(handler)
    assert run.result.spawned == ("a.ok-1",)
    assert run["b"].value == ["a", "a.ok-1"]
    assert run.result.final_context == {"objection": "no"}
    assert run.nodes("SteerDelivered") == ["b"]


async def test_a_handler_may_veto():
    """Roles 4: a waiting node is vetoed by name; its dependents follow."""
    run = await handled(lambda emission, view: Veto("b", "overruled"))
    assert run["b"].status == "vetoed"
    assert run["b"].reason == "vetoed by a: overruled"


@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt, "nonsense", Steer("\ud800")])
async def test_a_handler_that_raises_refuses(raised):
    """Roles 4: the emission is refused ``handler_error`` and nothing else happens; the node goes on."""

    def handler(emission, view):
        if isinstance(raised, type):
            raise raised("in the handler")
        return raised

    @role(emits=(Objection,))
    async def once(turn):
        receipt = await turn.emit(Objection(target="plan", objection="no"))
        return [receipt.reason, receipt.detail]

    run = await handled(handler, what=once)
    assert run["a"].value[0] == "handler_error"
    assert run.of("EmissionAccepted") == []
    assert run.reason == "completed"


async def test_an_undeclared_emission_moves_no_handler():
    """Roles 1, 4: what is not declared is refused, and what its handler would do is not done, either way."""

    @role()
    async def undeclared(turn):
        receipt = await turn.emit(Objection(target="plan", objection="no"))
        return [receipt.reason, Objection(target="plan", objection="other")]

    run = await handled(lambda emission, view: Inject("ok"), what=undeclared)
    assert run["a"].value[0] == "not_granted"
    assert run.result.spawned == ()
    assert [fact.data["reason"] for fact in run.of("EmissionRefused")] == ["not_granted"] * 2


async def test_a_second_handler_is_an_error():
    """Roles 4: one handler per type; the error names both; an async one is refused."""
    async with Session() as session:
        session.handles(Objection, len)
        with pytest.raises(OperationError, match=r"len.*print"):
            session.handles(Objection, print)
        with pytest.raises(OperationError, match="async"):
            session.handles(Finding, objects.fn)


async def test_emissions_that_lie():
    """Roles 3: undeclared, forged and look-alike emissions: refused with the reason, or plain data."""

    class Verdict2(Finding):
        """A subclass is a type of its own."""

    forged = type("SpawnRequest", (SpawnRequest,), {"__module__": __name__})

    @role(emits=(Finding, SpawnRequest))
    async def lies(turn):
        receipts = [
            await turn.emit(Objection(target="t", objection="o")),
            await turn.emit(Verdict2(description="sub")),
            await turn.emit(forged(assignee="ok")),
            await turn.emit(EscalationRequest(reason="fine", urgency="fyi")),
        ]
        look_alike = {"emission_kind": "SpawnRequest", "assignee": "ok", "instruction": ""}
        text = '```SpawnRequest\n{"assignee": "ok", "node": "somebody else"}\n```'
        return {"reasons": [bool(r) or r.reason for r in receipts], "data": look_alike, "text": text}

    graph = OperationGraphBuilder()
    graph.add_operation(lies, node_id="a")
    run = await ran(graph, ok)
    assert run["a"].value["reasons"] == ["not_granted", "not_granted", "forged", True]
    assert run.result.spawned == ()
    assert [d.reason for d in run.result.dropped_spawns] == ["forged", "forged"]
    assert run["a"].value["data"]["assignee"] == "ok"


async def test_a_flood_of_refused_spawns():
    """Kernel 3, engine 22: 100,000 refusals of one kind cost a count, not 100,000 facts."""

    @role(emits=(SpawnRequest,))
    async def floods(turn):
        request = SpawnRequest(assignee="ok")
        refused = 0
        for _ in range(100_000):
            refused += isinstance(await turn.emit(request), Refused)
        return refused

    graph = OperationGraphBuilder()
    graph.add_operation(floods, node_id="a")
    run = await ran(graph, ok, budget=Budget(spawns=1))
    assert run["a"].value == 99_999
    assert len(run.facts) < 120
    assert sum(d.count for d in run.result.dropped_spawns) == 99_999
    assert [d.count for d in run.result.dropped_spawns] == [1] * 100 + [99_899]
    (total,) = run.of("Refusals")
    assert total.data["counts"] == {"max_spawn_exceeded": 99_899}
