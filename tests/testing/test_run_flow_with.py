"""A flow with other actors in its roles runs in a real session, under the declarations that it has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from emissions import Finding, SpawnRequest
from orchestrator.core.spec import Budget
from orchestrator.core.status import RunReason, Status
from orchestrator.errors import CycleError, FlowError, OperationError
from orchestrator.flows.builder import OperationGraphBuilder
from orchestrator.flows.flow import load_flow
from orchestrator.testing import ScriptError, run_flow_with, run_seeded, run_virtual, scripted, waits
from roles import NotApplicable, Role, RoleError, Turn, role

pytestmark = pytest.mark.anyio

FLOW = """\
version: 1
name: audit
cast: [cast.py]
args:
  target: {type: str, required: true}
  most: {type: int, default: 2}
nodes:
  scan: {role: scout, with: {target: "${args.target}"}}
  review: {role: critic, after: [scan], gate: true}
  report: {role: scribe, after: [review]}
budget: {spawns: "${args.most}"}
outputs: {text: "${report}"}
"""

CAST = """\
from orchestrator import Finding, Role, SpawnRequest, Verdict, role

@role(emits=(SpawnRequest,))
async def scout(turn):
    raise RuntimeError("not in a test")

@role(emits=(Finding,))
async def inspector(turn):
    raise RuntimeError("not in a test")

@role(emits=(Verdict,))
def critic(turn):
    bad = list(turn.emissions(Finding))
    return Verdict(verdict="REJECT" if bad else "APPROVE", rationale=f"{len(bad)} findings")

scribe = Role("scribe", body="You write reports.", models=("test:none",))
"""


@pytest.fixture
def flow(tmp_path: Path) -> Path:
    (tmp_path / "cast.py").write_text(CAST, encoding="utf-8")
    (tmp_path / "flow.yaml").write_text(FLOW, encoding="utf-8")
    return tmp_path / "flow.yaml"


def request(key: str) -> SpawnRequest:
    return SpawnRequest(assignee="inspector", key=key, before="successors")


async def test_a_document_with_other_actors(flow: Path):
    """Arguments, budget, gate and outputs are the document's; the actors are the test's."""
    scout = scripted([request("a"), request("b"), request("c")])
    inspector = scripted(None, repeat=True)
    scribe = scripted("all is well")
    result = await run_flow_with(
        flow, {"scout": scout, "inspector": inspector, "scribe": scribe}, {"target": "src"}
    )
    assert result.reason is RunReason.COMPLETED
    assert result.completed_operations == ("scan", "review", "report", "scan.inspector-1", "scan.inspector-2")
    assert scout.turns[0].parameters == {"target": "src"}
    assert len(inspector.turns) == 2
    assert [dropped.reason for dropped in result.dropped_spawns] == ["max_spawn_exceeded"]
    assert result.outputs == {"text": "all is well"}


async def test_a_stand_in_is_held_to_the_declaration(flow: Path):
    """What the role does not declare is refused to who plays it; a stand-in that declares may more."""
    finding = Finding(description="a secret in the source")
    kept = await run_flow_with(flow, {"scout": scripted(finding), "scribe": scripted("")}, {"target": "."})
    assert kept.reason is RunReason.COMPLETED
    told = await run_flow_with(
        flow, {"scout": scripted(finding, emits=(Finding,)), "scribe": scripted("")}, {"target": "."}
    )
    assert told.reason is RunReason.GATE_REJECTED
    assert told["report"].status is Status.VETOED


async def test_functions_stand_in(flow: Path):
    """A plain function and an async one are actors too."""

    async def scout(turn: Turn) -> int:
        return len(turn.parameters["target"])

    result = await run_flow_with(flow, {"scout": scout, "scribe": lambda turn: turn.node}, {"target": "1234"})
    assert (result["scan"].value, result["report"].value) == (4, "report")


async def test_the_flow_is_not_changed(flow: Path):
    """The same Flow runs with its own cast afterwards, and with others again."""
    loaded = load_flow(flow)
    actors = {"scout": scripted(1, 2), "scribe": scripted("a", "b")}
    assert (await run_flow_with(loaded, actors, {"target": "."})).ok
    assert (await run_flow_with(loaded, actors, {"target": "."}))["report"].value == "b"
    assert (await run_flow_with(loaded, {"scribe": scripted("c")}, {"target": "."}))[
        "scan"
    ].status is Status.FAILED


async def test_an_unknown_role_is_refused(flow: Path):
    """With the nearest name; nothing runs."""
    with pytest.raises(
        RoleError, match=r"roles names 'scuot', which flow audit does not have; did you mean 'scout'"
    ):
        await run_flow_with(flow, {"scuot": scripted(1)}, {"target": "."})


async def test_a_stand_in_needs_a_function(flow: Path):
    with pytest.raises(RoleError, match="stand-in for 'scout' is a role without a function"):
        await run_flow_with(flow, {"scout": Role("model", models=("a",))}, {"target": "."})


async def test_usage_errors_come_bare(flow: Path, tmp_path: Path):
    """Not wrapped in a group: a missing argument or file, a role nobody plays, nothing to run, a cycle."""
    with pytest.raises(FlowError, match="target"):
        await run_flow_with(flow, {"scribe": scripted(1)})
    with pytest.raises(FlowError):
        await run_flow_with(tmp_path / "none.yaml")
    with pytest.raises(OperationError, match="scribe"):
        await run_flow_with(flow, args={"target": "."})
    with pytest.raises(OperationError, match="cannot run a int"):
        await run_flow_with(3)  # type: ignore[arg-type]
    graph = OperationGraphBuilder()
    graph.add_operation(scripted(name="a"))
    graph.add_operation(scripted(name="b"))
    graph.add_edge("b", "a")
    with pytest.raises(CycleError):
        await run_flow_with(graph)


@role()
async def one(turn: Turn) -> int:
    return 1


@role()
async def two(turn: Turn) -> int:
    return int(turn.inputs["one"]) + 1


def chain() -> OperationGraphBuilder:
    graph = OperationGraphBuilder("chain")
    graph.add_operation(one)
    graph.add_operation(two)
    return graph


async def test_graphs_and_builders():
    """Roles given by value are replaced by name; a role that only a spawn names is added."""
    assert (await run_flow_with(chain()))["two"].value == 2
    assert (await run_flow_with(chain(), {"one": scripted(41)}))["two"].value == 42
    assert (await run_flow_with(chain().get_graph(), {"two": scripted("x")}))["two"].value == "x"
    grown = await run_flow_with(
        chain(),
        {
            "one": scripted(SpawnRequest(assignee="inspector"), emits=(SpawnRequest,)),
            "inspector": scripted("seen"),
        },
    )
    assert grown["one.inspector-1"].value == "seen"


async def test_options_are_those_of_flow_and_session(tmp_path: Path):
    """Context, budget, known outcomes, hooks; limits and folder."""

    async def look(turn: Turn) -> Any:
        return [turn.context["k"], turn.workdir.is_relative_to(tmp_path), turn.inputs["one"]]

    settled = []
    result = await run_flow_with(
        chain(),
        {"two": look},
        context={"k": 1},
        budget=Budget(concurrency=1),
        known={"one": 7},
        on_settle=lambda node, view: settled.append(node),
        limits={"role:two": 1},
        folder=tmp_path,
        seed=1,
    )
    assert result["two"].value == [1, True, 7]
    assert settled == ["two"]


async def test_folders_are_temporary():
    """Without a folder, what nodes write is gone when the run is over."""
    seen: list[Path] = []

    async def look(turn: Turn) -> None:
        (turn.workdir / "x").write_text("y", encoding="utf-8")
        seen.append(turn.workdir)

    await run_flow_with(chain(), {"one": look, "two": scripted(1)})
    assert not seen[0].exists()


async def test_operations_for_nodes_without_a_role():
    async def double(turn: Turn) -> int:
        return int(turn.parameters["n"]) * 2

    graph = OperationGraphBuilder()
    graph.add_operation("double", n=4)
    assert (await run_flow_with(graph, operations={"double": double}))["double"].value == 8


async def ask(turn: Turn) -> list[Any]:
    return [await turn.ask("Ship it?", key="ship"), await turn.ask("When?")]


async def test_answers():
    """By key and by question, one after the other."""
    result = await run_flow_with(
        chain(), {"one": ask, "two": scripted(1)}, answers={"ship": True, "When?": "now"}
    )
    assert result["one"].value == [True, "now"]


async def test_a_question_without_an_answer():
    """An error that says what to give; with no answers at all the run is suspended, as it would be."""
    with pytest.raises(ScriptError, match=r"one asks 'When\?'; give answers=\{'When\?': ...\}"):
        await run_flow_with(chain(), {"one": ask}, answers={"ship": True})
    result = await run_flow_with(chain(), {"one": ask})
    assert result.reason is RunReason.AWAITING_ANSWER


async def test_outcomes_of_roles_are_values():
    """A role that raises, or has nothing to do, is in the result."""
    failed = await run_flow_with(chain(), {"one": scripted(ValueError("no"))})
    assert failed["one"].error is not None
    assert failed["one"].error.type == "ValueError"
    skipped = await run_flow_with(chain(), {"one": scripted(NotApplicable("nothing here"))})
    assert skipped["one"].reason == "nothing here"


async def test_cancelling_the_test_cancels_the_run():
    """A run that never ends does not outlive a time limit of the test's."""
    event = anyio.Event()
    with anyio.move_on_after(0.05) as scope:
        await run_flow_with(chain(), {"one": scripted(waits(event))})
    assert scope.cancelled_caught


def keys() -> Iterator[str]:
    yield from "abcdefgh"


def test_under_virtual_time_and_seeds():
    """The same flow, an hour long, under a virtual clock and under schedules that are bad on purpose."""

    async def main() -> tuple[Any, ...]:
        graph = OperationGraphBuilder()
        graph.add_operation(
            scripted(
                [SpawnRequest(assignee="slow", key=key, before="successors") for key in keys()], name="scout"
            )
        )
        graph.add_operation(scripted(lambda turn: len(turn.inputs), name="total"))
        result = await run_flow_with(
            graph, {"slow": scripted(waits(3600), repeat=True)}, budget=Budget(spawns=8)
        )
        return result.reason, result["total"].value, result.completed_operations

    for backend in ("asyncio", "trio"):
        expected = run_virtual(main, backend=backend)
        assert expected[:2] == (RunReason.COMPLETED, 9)
        for seed in range(5):
            assert run_seeded(main, seed=seed, backend=backend) == expected
