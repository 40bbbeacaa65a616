"""``schedule: supersteps`` in a flow document: run, show, draw, answer, kill and resume (flows.md)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from orchestrator import Budget, OperationError, Session, load_flow
from orchestrator.cli.commands import invoke
from orchestrator.runtime.schedules import SCHEDULES, schedule
from tests.cli.program import call

FLOWS = Path(__file__).with_name("flows")


@pytest.fixture
def stage(tmp_path):
    """The documents and their cast in a folder of their own."""
    for path in FLOWS.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    return tmp_path


async def test_a_loop_runs_until_its_critic_approves(stage):
    async with Session() as session:
        result = await session.flow(stage / "loop.yaml", args={"topic": "tea"})
    assert result.reason == "completed", result.detail
    assert result.outputs == {"draft": "draft 3", "notes": ["act@2", "act@4", "act@6"]}
    assert list(result.nodes) == ["plan", "act", "critique"]
    assert result["plan"].value == {"plan": ["Plan tea.", {"depth": 2}]}
    assert result["critique"].name == "critique@7" and result["critique"].judgement == "approved"
    assert result.final_context["review"]["verdict"] == "APPROVE"


async def test_limits_of_a_document_and_of_a_run(stage):
    async with Session() as session:
        result = await session.flow(stage / "loop.yaml", args={"most": 4})
        assert result.reason == "budget_exhausted" and result.detail == "steps"
        assert "--budget steps=" in result.next
        again = await session.flow(stage / "loop.yaml", budget=Budget(steps=20, visits=2))
        assert again.detail == "visits"


async def test_the_context_that_is_given_is_the_input(stage):
    async with Session() as session:
        result = await session.flow(stage / "loop.yaml", context={"notes": "given"})
        assert result.outputs["notes"][0] == "given"
        with pytest.raises(OperationError, match="no state key"):
            await session.flow(stage / "loop.yaml", context={"nowhere": 1})
        with pytest.raises(OperationError, match="takes no known="):
            await session.flow(stage / "loop.yaml", known={"plan": 1})


async def test_no_true_edge_is_an_error_unless_one_has_else(stage):
    path = stage / "none.yaml"
    path.write_text(
        "version: 1\nname: none\nschedule: supersteps\ncast: [cast.py]\n"
        "context: {draft: {}, notes: {reduce: append}}\nbudget: {steps: 6}\n"
        "nodes: {a: {role: acting, writes: draft}}\n"
        "edges:\n  - {from: START, to: a}\n  - {from: a, to: END, when: \"result == 'never'\"}\n"
    )
    async with Session() as session:
        result = await session.flow(path)
    assert result.reason == "failed"
    assert "no edge of a is true; give one of them else: true" in str(result["a"].error)


async def test_both_true_edges_are_taken(stage):
    path = stage / "both.yaml"
    path.write_text(
        "version: 1\nname: both\nschedule: supersteps\ncast: [cast.py]\n"
        "context: {x: {}, y: {}, z: {}, notes: {reduce: append}}\nbudget: {steps: 6}\n"
        "nodes: {a: {role: acting, writes: x}, b: {role: acting, writes: y}, c: {role: acting, writes: z}}\n"
        "edges:\n  - {from: START, to: a}\n  - {from: a, to: b, when: \"context.x == 'draft 1'\"}\n"
        '  - {from: a, to: c}\noutputs: {notes: "${context.notes}"}\n'
    )
    async with Session() as session:
        result = await session.flow(path)
    assert result.outputs["notes"] == ["a@1", "b@2", "c@2"]


async def test_start_can_have_conditions_and_a_role_can_ask_for_tasks(stage):
    path = stage / "scout.yaml"
    path.write_text(
        "version: 1\nname: scouting_\nschedule: supersteps\ncast: [cast.py]\n"
        "args: {go: {type: bool, default: true}}\n"
        "context: {draft: {}, notes: {reduce: append}}\nbudget: {steps: 6, spawns: 5}\n"
        "nodes:\n  scout: {role: scouting}\n  look: {role: looking}\n"
        'edges:\n  - {from: START, to: scout, when: "args.go"}\n  - {from: START, to: look, else: true}\n'
        'outputs: {notes: "${context.notes}"}\n'
    )
    async with Session() as session:
        result = await session.flow(path)
    assert result.ok, result.detail
    assert result.outputs == {"notes": [1, 2]}


async def test_a_question_is_answered_and_the_run_goes_on(stage, tmp_path):
    """Also in another session: everything is on record but the code, which the document names."""
    journal = tmp_path / "j.db"
    async with Session(journal=journal) as session:
        run = await session.start(stage / "ask.yaml")
        result = await run.wait()
    assert result.reason == "awaiting_answer"
    async with Session(journal=journal) as session:
        run = await session.resume(run.id, answers={"sure": "no"})
        assert (await run.wait()).reason == "awaiting_answer"
    async with Session(journal=journal) as session:
        run = await session.resume(run.id, answers={"sure": "yes"})
        result = await run.wait()
    assert result.ok, result.detail
    assert result.outputs == {"draft": "draft 2"}


async def test_a_cast_that_has_changed_is_refused_until_it_is_wanted(stage, tmp_path):
    journal = tmp_path / "j.db"
    async with Session(journal=journal) as session:
        run = await session.start(stage / "ask.yaml")
        await run.wait()
    text = (stage / "cast.py").read_text()
    (stage / "cast.py").write_text(text.replace('f"draft {', 'f"DRAFT {'))
    async with Session(journal=journal) as session:
        with pytest.raises(OperationError, match="role acting has changed"):
            await session.resume(run.id, answers={"sure": "no"})
        live = await session.resume(run.id, answers={"sure": "no"}, new_definition=True)
        await live.wait()
        live = await session.resume(run.id, answers={"sure": "yes"}, new_definition=True)
        assert (await live.wait()).outputs == {"draft": "DRAFT 2"}


def test_a_session_that_does_not_know_the_schedule_says_where_it_is():
    before = SCHEDULES.pop("supersteps")
    try:
        with pytest.raises(OperationError, match="take Session from orchestrator"):
            schedule("supersteps")
    finally:
        SCHEDULES["supersteps"] = before


def test_what_check_says_of_a_loop(stage):
    flow = load_flow(stage / "loop.yaml")
    assert [str(one) for one in flow.check()] == []
    assert flow.sentences() == {
        "plan": "plan runs at the start; it writes plan",
        "act": "act runs after plan, and after critique if result.verdict != 'APPROVE'; it writes draft",
        "critique": "critique runs after act; it writes review",
    }


HEAD = "version: 1\nname: f\nschedule: supersteps\ncast: [cast.py]\ncontext: {draft: {}, notes: {}}\n"
TOP = f"{HEAD}budget: {{steps: 3}}\n"
GOOD = "nodes: {a: {role: acting, writes: draft}}\nedges: [{from: START, to: a}]\n"


def edge(text: str) -> str:
    """The good document with one more edge."""
    return TOP + GOOD.replace("edges: [", f"edges: [{text}, ")


def node(text: str, role: str = "acting") -> str:
    """The good document with another node."""
    return TOP + GOOD.replace("role: acting, writes: draft", f"role: {role}{text}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD + GOOD, "a stepped flow says how many steps"),
        (TOP + GOOD.replace("START", "a"), "no edge leads from START"),
        (TOP + GOOD.replace("to: a", "to: b"), "there is no node 'b'"),
        (TOP + "on_failure: stop\n" + GOOD, "a stepped flow has no on_failure"),
        (node(", writes: draft, after: [a]"), "a has after"),
        (node(", writes: draft, for_each: x, max: 2"), "has for_each"),
        (node(", writes: drafts"), "which context: does not hold"),
        (node(", writes: draft, gate: {refusals: 1}", "judging"), "a has refusals"),
        (node("", "writer"), "the value of a has nowhere to go"),
        (edge("{from: a, to: START}"), "nothing leads back to START"),
        (edge("{from: END, to: a}"), "nothing leads on from END"),
        (edge("{from: a, to: END, when: 'context.draft2 == 1'}"), "holds no key 'draft2'"),
        (edge("{from: a, to: END, when: 'a.x == 1'}"), "there is no 'a' here"),
        (TOP + GOOD.replace("{a:", "{b: {role: acting, writes: notes}, a:"), "b never runs"),
        (TOP.replace("schedule: supersteps\n", "") + "nodes: {a: {role: acting}}\n", "budget.steps is for"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(stage, text, says):
    path = stage / "bad.yaml"
    path.write_text(text)
    assert any(says in str(one) for one in load_flow(path).check()), [str(o) for o in load_flow(path).check()]


@pytest.fixture
def command(stage, monkeypatch, capsys):
    """A command in the folder of the documents: exit code, and what it printed."""
    monkeypatch.chdir(stage)
    monkeypatch.delenv("CALLBOARD_JOURNAL", raising=False)

    def run(*words):
        capsys.readouterr()
        code = invoke([*words])
        out, err = capsys.readouterr()
        return code, out if not code else out + err

    return run


def test_the_command_line_runs_shows_draws_answers_and_goes_on(command):
    code, out = command("run", "loop.yaml", "--json")
    assert code == 0, out
    assert json.loads(out.splitlines()[-1])["outputs"]["draft"] == "draft 3"
    assert "critique@7" in command("show", "last")[1]
    assert "act (acting), 3 visits" in command("draw", "last")[1]
    assert "critique (judging)" in command("draw", "loop.yaml")[1]
    assert "NodeCompleted" in command("story", "last", "act")[1]
    assert "well" in command("doctor", "last", "--replay")[1]
    assert "a run: at most 20 steps, 9 visits of one node" in command("check", "loop.yaml")[1]
    code, out = command("rehearse", "loop.yaml")
    assert code == 2 and "a rehearsal plays graphs" in out
    assert command("run", "ask.yaml")[0] == 6
    assert command("answer", "last", "sure", "yes")[0] == 0
    assert command("resume", "last")[0] == 0


def test_killed_in_the_loop_it_goes_on_where_it_was(stage):
    died = call("run", "loop.yaml", cwd=stage, DIE="act@4")
    assert died.returncode == -9
    done = call("resume", "last", "--json", cwd=stage)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["outputs"]["notes"] == ["act@2", "act@4", "act@6"]
    calls = (stage / "calls").read_text().split()
    # only what was under way runs once more
    assert calls == ["plan@1", "act@2", "critique@3", "act@4", "act@4", "critique@5", "act@6", "critique@7"]


def test_any_stepped_document_runs_with_a_test_model(stage, command):
    pytest.importorskip("pydantic_ai")
    (stage / "models.yaml").write_text(
        "version: 1\nname: models\nschedule: supersteps\ncontext: {draft: {}}\nbudget: {steps: 3}\n"
        "nodes: {a: {role: writer, writes: draft}, b: {role: critic, gate: {on_undecided: pass, "
        "refuse_on: [REQUEST-CHANGES]}}}\n"
        "edges: [{from: START, to: a}, {from: a, to: b}, {from: b, to: END}]\n"
        'outputs: {draft: "${context.draft}"}\n'
    )
    code, out = command("run", "models.yaml", "--model", "test", "--json")
    told = json.loads(out.splitlines()[-1])
    assert code == 0 and told["reason"] == "completed", out[-2000:]
    assert told["outputs"]["draft"]["text"]


def test_what_a_stepped_run_is_not_for_is_refused_by_name(command, stage):
    assert command("run", "loop.yaml", "--quiet")[0] == 0
    for words, says in (
        (("save-flow", "last"), "says it all"),
        (("fork", "last", "--at", "act"), "ran in steps"),
    ):
        code, out = command(*words)
        assert code == 2 and says in out
    (stage / "around.yaml").write_text("version: 1\nname: around\nnodes: {inner: {flow: loop.yaml}}\n")
    code, out = command("check", "around.yaml")
    assert code == 2 and "which has schedule: supersteps" in out
    budget = command("show", "last", "--budget")[1]
    assert "steps" in budget and "visits" in budget
