"""Runs that go on: killed, suspended, answered, steered; from another process than the one that ran."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from orchestrator.journal.control import request
from orchestrator.journal.reading import open_journal
from tests.cli.program import Program, call, flow
from tests.cli.test_terminal import Terminal

CHAIN = """
  a: {role: counts, with: {path: calls}}
  b: {role: until_file, after: [a], with: {path: go}}
  c: {role: counts, after: [b], with: {path: calls}}
"""


def killed(folder: Path, line: str) -> None:
    """Run the flow of a folder and kill it with -9 when it has said ``line``."""
    with Program("run", cwd=folder) as program:
        program.wait_for(line)
        program.process.kill()
        assert program.end() == -signal.SIGKILL


def standing(folder: Path) -> str:
    """Where the newest run stands."""
    done = call("runs", "--json", cwd=folder)
    word: str = json.loads(done.stdout.splitlines()[-1])["standing"]
    return word


def result_of(folder: Path) -> dict[str, object]:
    """The newest run's result."""
    found: dict[str, object] = json.loads(call("show", "last", "--json", cwd=folder).stdout)
    return found


def test_killed_and_resumed_by_another_process(tmp_path: Path):
    """RESUME: kill -9 while a node runs; resume says what it will do; what has settled is not run again."""
    flow(tmp_path, CHAIN)
    killed(tmp_path, "said       b: waiting")
    assert standing(tmp_path) == "interrupted"
    shown = call("show", "last", cwd=tmp_path).stdout
    assert re.search(r"^  next      callboard resume \d{8}-\d{6}-\w{6}$", shown, re.MULTILINE)
    (tmp_path / "go").touch()
    done = call("resume", "last", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "(interrupted): reuses 1, will run 2" in done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].startswith("resumed  ")
    assert not any(line.startswith("succeeded  a") for line in lines)
    assert (tmp_path / "calls").read_text(encoding="utf-8").count("/a\n") == 1
    nodes = result_of(tmp_path)["nodes"]
    assert isinstance(nodes, dict)
    assert [nodes[name]["attempts"] for name in "abc"] == [1, 2, 1]
    assert call("doctor", "--replay", cwd=tmp_path).returncode == 0


def test_killed_while_it_resumes(tmp_path: Path):
    """A second kill -9 during the resume: the third process ends the run; nothing settled runs again."""
    flow(tmp_path, CHAIN)
    killed(tmp_path, "said       b: waiting")
    with Program("resume", "last", cwd=tmp_path) as program:
        program.wait_for("said       b: waiting")
        program.process.kill()
        program.end()
    (tmp_path / "go").touch()
    assert call("resume", "last", "--json", cwd=tmp_path).returncode == 0
    assert (tmp_path / "calls").read_text(encoding="utf-8").count("/a\n") == 1
    assert call("doctor", "--replay", cwd=tmp_path).returncode == 0


def test_a_run_that_has_ended_is_not_resumed(tmp_path: Path):
    """resume of an ended run: exit 2 and what to do instead; retry without failures as well."""
    flow(tmp_path, "  a: {role: echo}\n  b: {role: needs_file, with: {path: go}}")
    assert call("run", cwd=tmp_path).returncode == 1
    done = call("resume", "last", cwd=tmp_path)
    assert done.returncode == 2
    assert "callboard retry" in done.stderr
    assert call("retry", "last", "a", cwd=tmp_path).returncode == 2
    (tmp_path / "go").touch()
    done = call("retry", "last", "b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "(failed): reuses 1, will run 1" in done.stderr
    assert call("retry", "last", cwd=tmp_path).returncode == 2
    assert call("steer", "last", "too late", cwd=tmp_path).returncode == 2


def test_code_that_has_changed_is_used_only_if_asked(tmp_path: Path):
    """--new-definition: a changed role is refused, exit 2, and named; with the option it is used."""
    flow(tmp_path, "  b: {role: needs_file, with: {path: go}}")
    assert call("run", cwd=tmp_path).returncode == 1
    cast = tmp_path / "cast.py"
    text = cast.read_text(encoding="utf-8").replace('return "it was there"', 'return "changed"')
    cast.write_text(text, encoding="utf-8")
    (tmp_path / "go").touch()
    done = call("retry", "last", cwd=tmp_path)
    assert done.returncode == 2
    assert "role needs_file has changed" in done.stderr
    assert call("retry", "last", "--new-definition", cwd=tmp_path).returncode == 0
    assert '"changed"' in call("show", "last", cwd=tmp_path).stdout


def test_a_question_outlives_its_process(tmp_path: Path):
    """A question, a kill -9, an answer while nothing runs, a resume: the answer is used once."""
    flow(tmp_path, "  a: {role: asks}\n  b: {role: echo, after: [a], with: {value: '${a}'}}")
    done = call("run", cwd=tmp_path)
    assert done.returncode == 6
    assert re.search(r"  next      callboard answer \S+ 'Which colour\?' VALUE", done.stdout)
    assert re.search(r"  then      callboard resume \S+", done.stdout)
    listed = call("asks", cwd=tmp_path).stdout
    assert "a: Which colour? [red, blue]" in listed
    done = call("answer", "last", "a", "green", cwd=tmp_path)
    assert (done.returncode, "write one of red, blue" in done.stderr) == (2, True)
    done = call("answer", "last", "a", "red", "--because", "it is warm", cwd=tmp_path)
    assert (done.returncode, done.stdout.startswith("queued: answer")) == (0, True)
    assert call("resume", "last", cwd=tmp_path).returncode == 0
    assert '"red"' in call("show", "last", cwd=tmp_path).stdout
    answered = call("watch", "--json", "--kind", "QuestionAnswered", cwd=tmp_path).stdout.splitlines()
    (data,) = [json.loads(line)["data"] for line in answered]
    assert (data["value"], data["because"], bool(data["by"])) == ("red", "it is warm", True)
    assert call("asks", cwd=tmp_path).stdout == ""


def test_a_gate_is_decided_by_a_person(tmp_path: Path):
    """An undecided gate: answer with a verdict and why, then resume; a wrong verdict is usage."""
    flow(
        tmp_path,
        "  g: {role: judge, gate: true, with: {verdict: nothing}}\n  b: {role: echo, after: [g]}",
    )
    done = call("run", cwd=tmp_path)
    assert done.returncode == 3
    assert re.search(r"callboard answer \S+ g VERDICT --because TEXT", done.stdout)
    assert call("retry", "last", "g", cwd=tmp_path).returncode == 3
    assert call("answer", "last", "g", "MAYBE", cwd=tmp_path).returncode == 2
    assert call("answer", "last", "g", "approve", "--because", "I read it", cwd=tmp_path).returncode == 0
    assert call("resume", "last", cwd=tmp_path).returncode == 0
    (line,) = call("watch", "--json", "--kind", "GateApproved", cwd=tmp_path).stdout.splitlines()
    data = json.loads(line)["data"]
    assert (data["verdict"], data["because"]) == ("APPROVE", "I read it")


def test_reuse_runs_what_has_changed(tmp_path: Path):
    """run --reuse: one changed parameter runs that node and what follows from it, and nothing else."""
    nodes = (
        "  a: {{role: counts, with: {{path: calls}}}}\n"
        "  b: {{role: counts, with: {{path: calls, x: {x}}}}}\n"
        "  c: {{role: counts, after: [a], with: {{path: calls}}}}\n"
        "  d: {{role: counts, after: [b], with: {{path: calls, text: '${{b}}'}}}}"
    )
    flow(tmp_path, nodes.format(x=1))
    assert call("run", "--reuse", "last", cwd=tmp_path).returncode == 2
    assert call("run", cwd=tmp_path).returncode == 0
    flow(tmp_path, nodes.format(x=2))
    (tmp_path / "calls").unlink()
    done = call("run", "--reuse", "last", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "(completed): reuses 2, will run 2" in done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    # what b gives is known when it has run: it is the same again, so d takes its outcome after all
    assert sorted(words[1:] for words in lines if words[0] == "reused") == [["a"], ["c"], ["d"]]
    assert [words[1] for words in lines if words[0] == "started"] == ["b"]
    assert not any("did not run" in line for line in done.stdout.splitlines())
    ran = {line.rpartition("/")[2] for line in (tmp_path / "calls").read_text(encoding="utf-8").split()}
    assert "b" in ran
    assert not ran & {"a", "c"}
    assert call("doctor", "--replay", cwd=tmp_path).returncode == 0
    assert call("run", "--journal", "none", "--reuse", "last", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("words", "typed", "runs"), [((), "n", False), ((), "y", True), (("--yes",), "", True)]
)
def test_reuse_asks_in_a_terminal(tmp_path: Path, words: tuple[str, ...], typed: str, runs: bool):
    """run --reuse: it says what it takes and asks, as resume and retry do; --yes does not ask."""
    flow(
        tmp_path,
        "  a: {role: counts, with: {path: calls}}\n  b: {role: counts, after: [a], with: {path: calls}}",
    )
    assert call("run", cwd=tmp_path).returncode == 0
    with Terminal("run", "--reuse", "last", *words, cwd=tmp_path) as terminal:
        terminal.wait_for("reuses 2, will run 0")
        if typed:
            terminal.wait_for("go on?")
            terminal.type(f"{typed}\n")
        assert terminal.end() == (0 if runs else 130)
    assert len(call("runs", "--json", cwd=tmp_path).stdout.splitlines()) == (2 if runs else 1)


def test_a_fork_overrules_a_gate(tmp_path: Path):
    """fork: a new run shares what was before the gate, a person's verdict stands, the origin is as it was."""
    flow(
        tmp_path,
        "  a: {role: counts, with: {path: calls}}\n"
        "  g: {role: judge, gate: true, after: [a], with: {verdict: REJECT}}\n"
        "  b: {role: counts, after: [g], with: {path: calls}}",
    )
    done = call("run", cwd=tmp_path)
    assert done.returncode == 3
    (origin, step) = re.search(r"callboard fork (\S+) (--at g --answer) VERDICT", done.stdout).groups()
    done = call("fork", origin, *step.split(), "approve", "--because", "seen", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "g is answered APPROVE: reuses 1, given 1, will run 1" in done.stderr
    assert (tmp_path / "calls").read_text(encoding="utf-8").count("/a\n") == 1
    assert f"  forked    from {origin}" in call("show", "last", cwd=tmp_path).stdout
    assert call("doctor", "--replay", cwd=tmp_path).returncode == 0
    assert json.loads(call("show", origin, "--json", cwd=tmp_path).stdout)["reason"] == "gate_rejected"
    assert call("diff", origin, "last", cwd=tmp_path).returncode == 1
    for words in (
        [],
        ["--at", "nobody"],
        ["--at", "1", "--answer", "APPROVE"],
        ["--at", "g", "--answer", "YES"],
    ):
        assert call("fork", origin, *words, cwd=tmp_path).returncode == 2, words
    assert call("fork", origin, "--value", "a=5", "--quiet", cwd=tmp_path).returncode == 3
    assert json.loads(call("show", "last", "--json", cwd=tmp_path).stdout)["nodes"]["a"]["value"] == 5


def test_control_of_a_live_run(tmp_path: Path):
    """pause, resume, steer, inject, cancel of a node and drain, each from a process of its own, applied."""
    flow(
        tmp_path,
        "  a: {role: listens}\n  b: {role: until_file, with: {path: go}}\n  c: {role: echo, after: [b]}",
    )
    with Program("run", cwd=tmp_path) as program:
        program.wait_for("said       b: waiting")
        assert call("doctor", "--replay", cwd=tmp_path).returncode == 0, "a live run is well"
        assert call("show", "last", cwd=tmp_path).stdout.startswith("tried live: 3 nodes: 2 running")
        assert call("pause", "last", cwd=tmp_path).stdout == "applied: pause\n"
        program.wait_for("paused   ")
        assert call("resume", "last", cwd=tmp_path).stdout == "applied: resume\n"
        program.wait_for("unpaused ")
        assert call("steer", "last", "hello a", "--node", "a", cwd=tmp_path).stdout == "applied: steer\n"
        program.wait_for("succeeded  a")
        done = call(
            "inject",
            "last",
            "echo",
            "--instruction",
            "more",
            "--with",
            "value=5",
            "--after",
            "a",
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == "applied: inject, the new node is echo.echo-1\n"
        program.wait_for("succeeded  echo")
        assert call("inject", "last", "nobody", "--instruction", "x", cwd=tmp_path).returncode == 2
        assert call("cancel", "last", "--node", "a", cwd=tmp_path).returncode == 2
        assert call("resume", "last", cwd=tmp_path).returncode == 2
        assert call("drain", "last", cwd=tmp_path).stdout == "applied: drain\n"
        program.wait_for("draining  ")
        (tmp_path / "go").touch()
        assert program.end() == 5
    assert call("pause", "last", cwd=tmp_path).returncode == 2
    assert call("resume", "last", cwd=tmp_path).returncode == 0
    assert '{"heard":"hello a"}' in call("show", "last", cwd=tmp_path).stdout
    assert call("doctor", "--replay", cwd=tmp_path).returncode == 0


def test_cancel_of_a_live_run(tmp_path: Path):
    """cancel: the run ends, exit 130, and says why and by whom."""
    flow(tmp_path, "  a: {role: sleeps}\n  b: {role: echo, after: [a]}")
    with Program("run", cwd=tmp_path) as program:
        program.wait_for("said       a: asleep")
        done = call("cancel", "last", "--because", "wrong branch", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "applied: cancel\n")
        assert program.end() == 130
    assert standing(tmp_path) == "cancelled"
    assert "wrong branch" in call("show", "last", cwd=tmp_path).stdout


def test_what_is_said_while_nobody_listens_waits(tmp_path: Path):
    """Two steers, a kill -9 before, a resume: both are heard once, in order; a stale pause is not obeyed."""
    flow(tmp_path, CHAIN)
    killed(tmp_path, "said       b: waiting")
    for text in ("first", "second"):
        done = call("steer", "last", text, cwd=tmp_path)
        assert (done.returncode, "queued: steer" in done.stdout) == (0, True)
    with open_journal(tmp_path / ".callboard" / "journal.db") as reader:
        run = reader.find_run("last")
    request(tmp_path / ".callboard" / "journal.db", run, "pause")  # the process died before it saw this
    request(tmp_path / ".callboard" / "journal.db", run, "cancel", {"node": 5})
    (tmp_path / "go").touch()
    done = call("resume", "last", cwd=tmp_path)
    assert done.returncode == 0
    assert "refused    a request: invalid: pause: the process that it was meant for is gone" in done.stdout
    assert "refused    a request: invalid: cancel: ValidationError" in done.stdout
    lines = call("watch", "--json", "--kind", "SteerReceived", cwd=tmp_path).stdout.splitlines()
    assert [json.loads(line)["data"]["text"] for line in lines] == ["first", "second"]
    told = json.loads(call("story", "last", "b", "--json", cwd=tmp_path).stdout)
    given = told["given"]["instruction"]
    assert given.index("first") < given.index("second")


def test_an_owner_that_is_stopped_answers_later(tmp_path: Path):
    """A process that hears nothing: the request is queued, said to be, and applied when it goes on."""
    flow(tmp_path, CHAIN)
    with Program("run", cwd=tmp_path) as program:
        program.wait_for("said       b: waiting")
        program.send(signal.SIGSTOP)
        done = call("steer", "last", "hello", cwd=tmp_path)
        assert (done.returncode, "has not applied steer yet" in done.stdout) == (0, True)
        assert call("resume", "last", cwd=tmp_path).returncode == 2
        program.send(signal.SIGCONT)
        program.wait_for("steered  ")
        (tmp_path / "go").touch()
        assert program.end() == 0


def test_watch_follows_from_another_process(tmp_path: Path):
    """watch: events as they become durable, the end when the run ends, and how to go on after a kill."""
    flow(tmp_path, CHAIN)
    with Program("run", cwd=tmp_path) as program:
        program.wait_for("said       b: waiting")
        with Program("watch", cwd=tmp_path) as watching, Program("watch", "--all", cwd=tmp_path) as every:
            watching.wait_for("started    b")
            every.wait_for("started    b")
            (tmp_path / "go").touch()
            watching.wait_for("succeeded  c")
            watching.wait_for("tried completed: 3 nodes")
            assert watching.end() == 0
            every.wait_for("succeeded  c")
            assert every.process.poll() is None
            every.send(signal.SIGINT)
            assert every.end() == 130
        assert program.end() == 0


def test_watch_notices_that_the_process_is_gone(tmp_path: Path):
    """watch of a run that is killed: it ends by itself and names the command that goes on."""
    flow(tmp_path, CHAIN)
    with Program("run", cwd=tmp_path) as program:
        program.wait_for("said       b: waiting")
        with Program("watch", cwd=tmp_path) as watching:
            watching.wait_for("started    b")
            program.process.kill()
            watching.wait_for("tried interrupted: 3 nodes")
            watching.wait_for("  next      callboard resume")
            assert watching.end() == 0


def test_budgets_are_raised_to_go_on(tmp_path: Path):
    """resume --budget: a limit can only be raised, must be there, and is recorded."""
    flow(tmp_path, CHAIN, "budget: {spawns: 3, wall_clock: 600s}")
    killed(tmp_path, "said       b: waiting")
    (tmp_path / "go").touch()
    for given in ("spawns=2", "tokens=5", "spawn=9", "spawns=many", "spawns=inf"):
        done = call("resume", "last", "--budget", given, cwd=tmp_path)
        assert done.returncode == 2, given
    done = call("resume", "last", "--budget", "spawns=9", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "budget     spawns: 9 from here on" in done.stdout


def test_a_live_run_is_resumed_by_nobody_else(tmp_path: Path):
    """Two resumes at once: one drives, the other says who does; nothing runs twice."""
    flow(tmp_path, CHAIN)
    killed(tmp_path, "said       b: waiting")
    with Program("resume", "last", cwd=tmp_path) as first:
        first.wait_for("said       b: waiting")
        done = call("resume", "last", cwd=tmp_path)
        assert done.returncode == 2
        assert "another process drives it" in done.stderr
        (tmp_path / "go").touch()
        assert first.end() == 0
    assert (tmp_path / "calls").read_text(encoding="utf-8").count("\n") == 2


def test_a_terminal_is_asked_first(tmp_path: Path):
    """resume in a terminal: says what it will do and asks; no does nothing, --yes does not ask."""
    flow(tmp_path, CHAIN)
    killed(tmp_path, "said       b: waiting")
    (tmp_path / "go").touch()
    with Terminal("resume", "last", cwd=tmp_path) as terminal:
        terminal.wait_for("reuses 1, will run 2")
        terminal.wait_for("go on? [Y/n]")
        terminal.type("n\n")
        terminal.wait_for("nothing was done")
        assert terminal.end() == 130
    assert standing(tmp_path) == "interrupted"
    with Terminal("resume", "last", "--yes", cwd=tmp_path) as terminal:
        terminal.wait_for("tried completed")
        assert terminal.end() == 0


@pytest.mark.parametrize("words", [["pause"], ["steer", "x"], ["answer", "k", "v"], ["inject", "r"]])
def test_control_of_a_run_that_is_not_there(words: list[str], tmp_path: Path):
    """Exit 2 where there is no journal, and no journal is made."""
    done = call(words[0], "last", *words[1:], cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no journal at .callboard/journal.db" in done.stderr
    assert not (tmp_path / ".callboard").exists()


def test_show_lists_the_files_that_nodes_left(tmp_path: Path):
    """Issue 5, artifacts: declared, hashed, listed by `show` with the place of each."""
    (tmp_path / "cast.py").write_text(
        "from roles import Artifact, role\n"
        "@role(artifacts=(Artifact('note', 'note.md', required=True),))\n"
        "def writer(turn):\n    turn.artifacts['note'].write_text('hello', encoding='utf-8')\n",
        encoding="utf-8",
    )
    document = "version: 1\nname: f\ncast: [cast.py]\nnodes:\n  w: {role: writer}\n"
    (tmp_path / "flow.yaml").write_text(document, encoding="utf-8")
    assert call("run", cwd=tmp_path).returncode == 0
    shown = call("show", "last", cwd=tmp_path).stdout
    assert "left note (sha256 2cf24dba5fb0)" in shown
    assert "w.note = " in shown
    assert "note.md (5 bytes)" in shown
