"""Random histories of plans with refusing gates: every law after every command, replayed and decided again.

``Small`` checks the state and replays each record; the laws of the facts are checked at the end.
"""

from __future__ import annotations

from collections import Counter

import pytest

from emissions import VerdictValue
from orchestrator.core import commands as c
from orchestrator.core import facts as f
from orchestrator.core.laws import check_facts
from orchestrator.core.spec import Edge, Gate, Operation, Undecided
from orchestrator.core.status import Status
from tests.core.driver import WRITES, Seeded
from tests.core.small import Small, plan

VERDICTS = (*(verdict.value for verdict in VerdictValue), "REJECT", "REJECT")


def random_plan(choose: Seeded):
    """A small graph; most nodes below others are gates that may refuse, back to any node above."""
    names = [f"n{number}" for number in range(choose.number(2, 7))]
    links = [
        (source, target)
        for place, target in enumerate(names)
        for source in names[:place]
        if choose.number(0, 99) < 45
    ]
    above: dict[str, set[str]] = {}
    for name in names:
        direct = {source for source, target in links if target == name}
        above[name] = direct.union(*(above[source] for source in direct))
    operations = []
    for name in names:
        gate = None
        if choose.number(0, 99) < 45:
            back_to = choose.pick([None, *sorted(above[name])])
            policy = choose.pick(tuple(Undecided))
            gate = Gate(refusals=choose.number(0, 2), back_to=back_to, on_undecided=policy)
        needs = choose.pick(("any", "all"))
        operations.append(Operation(name=name, role="worker", gate=gate, needs=needs))
    accepts = (("completed",), ("completed", "failed"))
    edges = [Edge(source=source, target=target, accept=choose.pick(accepts)) for source, target in links]
    return plan(*operations, edges=edges, reducers={"log": "append"})


def step(run: Small, choose: Seeded) -> None:
    """One random command to a node that runs."""
    name = choose.pick([one for one, node in run.state.nodes.items() if node.status is Status.RUNNING])
    kind = choose.number(0, 9)
    if kind == 0:
        run.finish(name, "failed")
    elif kind == 1:
        before = choose.pick(("successors", (), tuple(run.state.plan.operations[-1:] and ("n1",))))
        run.emit(name, "SpawnRequest", instruction="more", before=before, independent=choose.number(0, 1) > 0)
    elif kind == 2:
        run.emit(name, "EscalationRequest", reason="hard", urgency="blocked", route=None, context={})
    elif kind == 3:
        run.tell(c.Cancel(name, "not this"))
        if run.status(name) is Status.STOPPING:
            run.stopped(name)
    elif kind in (4, 5):
        value = choose.pick(tuple(WRITES))
        write = c.WriteIn(choose.pick(("log", "log", name)), 1, WRITES[value], False)
        run.finish(name, writes=(write,), values=(value,))
    elif run.state.nodes[name].op.gate is not None:
        run.verdict(name, choose.pick(VERDICTS))
    else:
        run.finish(name)


@pytest.mark.parametrize("seed", range(120))
def test_any_history_of_refusing_gates(seed: int) -> None:
    """Laws 2, 4, 5, 6, 9, 11 with rounds: refusals bounded, nothing below a refused gate runs on it."""
    choose = Seeded(seed)
    run = Small(random_plan(choose))
    for _ in range(400):
        if run.state.ended or run.state.suspended:
            break
        step(run, choose)
    assert run.state.ended or run.state.suspended
    assert check_facts(run.records) == []
    run.decided_again()
    refused = Counter(
        run.state.planned_name(run.state.nodes[one.node]) for one in run.facts_of(f.GateRefused)
    )
    outer = {name: node.op.gate.refusals for name, node in run.state.nodes.items() if node.op.gate}
    for name, count in refused.items():
        # a loop around a gate's own gives it its refusals anew, once for each of that loop's rounds
        around = [gate for gate, loop in run.state.loops.items() if name in loop and gate != name]
        most = outer[name]
        for gate in around:
            most *= 1 + outer[gate]
        assert count <= most
    for node in run.state.nodes.values():
        for edge in node.ins:
            assert run.state.nodes[edge.source].judgement != "refused" or node.early or node.attempt == 0
