"""``for_each`` and ``ask`` from the command line: kill -9, resume, retry, answer, a gate on a terminal."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.cli.program import Program, call, flow
from tests.cli.test_terminal import Terminal

FAN = """\
  scan: {role: echo, with: {value: [x, y, z]}, returns: [any]}
  check: {role: %s, after: [scan], for_each: scan, max: %d, with: %s}
  total: {role: echo, after: [check], with: {value: '${check}'}}
"""


def kinds(folder: Path, kind: str) -> list[dict[str, object]]:
    """The data of a run's facts of one kind."""
    lines = call("watch", "--json", "--kind", kind, cwd=folder).stdout.splitlines()
    return [{"node": json.loads(line)["node"], **json.loads(line)["data"]} for line in lines]


def test_a_fan_that_is_killed_goes_on(tmp_path: Path):
    """A real kill -9 while instances run; the resume runs what had not settled, and nothing twice."""
    flow(tmp_path, FAN % ("until_file", 5, "{path: '${item}'}"), "budget: {concurrency: 3}")
    (tmp_path / "x").touch()
    with Program("run", cwd=tmp_path) as program:
        program.wait_for("fanned out check: 3 instances")
        program.wait_for("succeeded  check.1")
        program.send(signal.SIGKILL)
    for name in ("y", "z"):
        (tmp_path / name).touch()
    done = call("resume", "last", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = call("show", "last", cwd=tmp_path).stdout
    assert 'gave ["released","released","released"]' in shown
    assert "3 instances" in shown
    started = [one["node"] for one in kinds(tmp_path, "NodeStarted")]
    assert started.count("check.1") == 1
    assert len(kinds(tmp_path, "InstancesAdded")) == 1
    assert call("doctor", "last", "--replay", cwd=tmp_path).returncode == 0


def test_a_retry_runs_only_the_failed_instance(tmp_path: Path):
    """The exit codes of a run that failed and of its retry; story and draw tell of instances."""
    flow(tmp_path, FAN % ("needs_file", 5, "{path: '${item}'}"))
    for name in ("x", "z"):
        (tmp_path / name).touch()
    done = call("run", cwd=tmp_path)
    assert done.returncode == 1
    assert "1 of 3 instances failed: check.2 (FileNotFoundError" in done.stdout
    (tmp_path / "y").touch()
    assert call("retry", "last", cwd=tmp_path).returncode == 0
    started = [one["node"] for one in kinds(tmp_path, "NodeStarted")]
    assert [started.count(f"check.{index}") for index in (1, 2, 3)] == [1, 2, 1]
    story = call("story", "last", "check", cwd=tmp_path).stdout
    assert "InstancesAdded count=3" in story
    drawn = call("draw", "last", cwd=tmp_path).stdout
    assert "check (needs_file) * [succeeded]" in drawn
    assert "check.2 (needs_file) + [succeeded]" in drawn


def test_too_many_elements(tmp_path: Path):
    """kernel.md 8: the line on the terminal names both numbers; check counts the worst case."""
    flow(tmp_path, FAN % ("echo", 2, "{value: '${item}'}"))
    done = call("run", cwd=tmp_path)
    assert done.returncode == 1
    assert "scan has 3 elements and max is 2; raise max" in done.stdout
    checked = call("check", cwd=tmp_path).stdout
    assert "planned: 3 nodes and at most 2 instances" in checked
    assert "check runs once per element of scan, at most 2, if scan completed" in checked


ASK = """\
  draft: {role: echo, with: {value: Spring}, returns: str}
  approve: {ask: 'Publish ${draft}?', after: [draft], gate: true, show: 'It is ${draft}.'}
  publish: {role: echo, after: [approve], with: {value: done}}
"""


def test_a_question_of_the_document_outlives_its_process(tmp_path: Path):
    """Suspended, exit 6, listed, answered while nothing runs, resumed: a verdict with who and why."""
    flow(tmp_path, ASK)
    done = call("run", cwd=tmp_path)
    assert done.returncode == 6
    listed = call("asks", cwd=tmp_path).stdout
    assert (
        "approve: Publish Spring? It is Spring. [APPROVE, APPROVE-WITH-FIXES, REQUEST-CHANGES, REJECT]"
        in listed
    )
    done = call("answer", "last", "approve", "maybe", cwd=tmp_path)
    assert (done.returncode, "write one of APPROVE" in done.stderr) == (2, True)
    assert call("answer", "last", "approve", "approve", "--because", "read it", cwd=tmp_path).returncode == 0
    assert call("resume", "last", cwd=tmp_path).returncode == 0
    (judged,) = kinds(tmp_path, "GateApproved")
    assert (judged["verdict"], judged["because"], bool(judged["by"])) == ("APPROVE", "read it", True)
    assert len(kinds(tmp_path, "QuestionAnswered")) == 1
    assert call("asks", cwd=tmp_path).stdout == ""


def test_a_person_rejects_on_the_terminal(tmp_path: Path):
    """The live prompt: the question, what is shown with it, the four verdicts, then why; exit of a veto."""
    flow(tmp_path, ASK)
    with Terminal("run", cwd=tmp_path) as terminal:
        terminal.wait_for("approve asks: Publish Spring?")
        terminal.wait_for("It is Spring.")
        terminal.wait_for("4  REJECT")
        terminal.wait_for("> ")
        terminal.type("reject\n")
        terminal.wait_for("why? > ")
        terminal.type("too early\n")
        assert terminal.end() == 3, terminal.text
    assert "gate_rejected" in terminal.text
    (judged,) = kinds(tmp_path, "GateRejected")
    assert (judged["verdict"], judged["by"], judged["because"]) == ("REJECT", "terminal", "too early")


def test_the_live_view_shows_instances(tmp_path: Path):
    """Under its node: how many instances there are and how they stand, and those that run."""
    flow(tmp_path, FAN % ("until_file", 5, "{path: '${item}'}"))
    with Terminal("run", cwd=tmp_path) as terminal:
        terminal.wait_for("+ 3 instances: 3 running")
        terminal.wait_for("check.3")
        for name in ("x", "y", "z"):
            (tmp_path / name).touch()
        assert terminal.end() == 0, terminal.text
