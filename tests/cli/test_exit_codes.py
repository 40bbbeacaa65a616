"""CLI 145: a published table of exit codes, one mapping for every command, held by real processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator import FlowError, GraphError, InternalError, NeedsRecoveryError, RoleError, RunReason
from orchestrator.cli.commands import invoke
from orchestrator.cli.exits import EXIT_CODES, exit_code, told
from tests.cli.program import call, environment, flow

TABLE = {
    "completed": 0,
    "failed": 1,
    "gate_rejected": 3,
    "refusals_exhausted": 3,
    "cancelled": 130,
    "gate_undecided": 3,
    "awaiting_answer": 6,
    "budget_exhausted": 4,
    "deadline": 4,
    "quota": 4,
    "drained": 5,
    "interrupted": 130,
    "stuck": 1,
    "needs_recovery": 74,
}

BELOW = "  b: {role: echo, after: [a]}"
OUTCOMES = {
    "completed": "  a: {role: echo}",
    "failed": "  a: {role: boom}",
    "gate_rejected": f"  a: {{role: judge, gate: true, with: {{verdict: REJECT}}}}\n{BELOW}",
    "gate_undecided": f"  a: {{role: judge, gate: true, with: {{verdict: nothing}}}}\n{BELOW}",
    "awaiting_answer": "  a: {role: asks}\n  b: {role: echo, after: [a]}",
}

USAGE = {
    "no command": [],
    "unknown command": ["rnu"],
    "unknown option": ["run", "--cocurrency", "3"],
    "bad option value": ["run", "--concurrency", "none"],
    "no such flow": ["run", "missing.yaml"],
    "no such flow to check": ["check", "missing.yaml"],
    "no such flow to draw": ["draw", "missing.yaml"],
    "a document with errors": ["run", "broken.yaml"],
    "a document with errors, checked": ["check", "broken.yaml"],
    "not YAML": ["run", "not.yaml"],
    "an argument that is no pair": ["run", "flow.yaml", "--arg", "value"],
    "an unknown argument": ["run", "flow.yaml", "--arg", "vlaue=1"],
    "an argument of another type": ["run", "flow.yaml", "--arg", "value=x"],
    "an argument twice": ["run", "flow.yaml", "--arg", "value=1", "--arg", "value=2"],
    "arguments that are a list": ["run", "flow.yaml", "--args", "list.json"],
    "no such file of arguments": ["run", "flow.yaml", "--args", "missing.json"],
    "no such drawing": ["draw", "flow.yaml", "--format", "svg"],
    "no such role": ["roles", "critc"],
    "no such emission": ["emissions", "Findng"],
    "no such event": ["events", "NodeFaild"],
    "no role to try": ["try", "cast.py"],
    "no such role to try": ["try", "cast.py:nobody"],
    "no file to try": ["try", "missing.py:echo"],
    "an input that is no JSON": ["try", "cast.py:echo", "--input", "a=text"],
    "no such template": ["init", "new", "--template", "nothing"],
    "something in the way": ["init", "."],
    "a file in the way": ["init", "flow.yaml"],
}


def test_every_reason_has_its_code():
    """CLI 145: the table of the documentation is the table of the code."""
    assert {str(reason): code for reason, code in EXIT_CODES.items()} == TABLE
    assert {str(reason) for reason in RunReason} == TABLE.keys()


@pytest.mark.parametrize("reason", OUTCOMES)
def test_a_run_exits_as_it_stopped(reason: str, tmp_path: Path):
    """CLI 145: outcome by outcome, the process's own code; the result says the same."""
    flow(tmp_path, OUTCOMES[reason])
    done = call("run", "flow.yaml", "--json", cwd=tmp_path)
    result = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, result["reason"], result["exit"]) == (TABLE[reason], reason, TABLE[reason])


def test_a_deadline_is_not_a_failure(tmp_path: Path):
    """CLI 145: a run that used its time up is suspended, exit 4."""
    flow(tmp_path, "  a: {role: sleeps}", "budget: {wall_clock: 100ms}")
    done = call("run", cwd=tmp_path)
    assert done.returncode == 4, done.stderr
    assert "tried deadline" in done.stdout


@pytest.mark.parametrize("words", USAGE.values(), ids=USAGE.keys())
def test_usage_is_2_and_one_line(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """CLI 145: usage, flow and check errors are 2; the error says what and what next, with no traceback."""
    flow(
        tmp_path,
        '  a: {role: echo, with: {value: "${args.value}"}}',
        "args: {value: {type: int, default: 1}}",
    )
    (tmp_path / "broken.yaml").write_text(
        "version: 1\nname: broken\nnodes: {a: {role: nobody}}\n", encoding="utf-8"
    )
    (tmp_path / "not.yaml").write_text("a: [b\n", encoding="utf-8")
    (tmp_path / "list.json").write_text("[1]", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert invoke(words) == 2
    told = capsys.readouterr().err
    assert "Traceback" not in told
    if words[:1] != ["check"] or "missing.yaml" in words:
        (line,) = told.splitlines()
        assert len(line) > 20


@pytest.mark.parametrize("words", [["rnu"], ["check", "broken.yaml"], ["run", "missing.yaml"]], ids=" ".join)
def test_the_process_says_so_too(words: list[str], tmp_path: Path):
    """CLI 145: the console script hands the code on."""
    (tmp_path / "broken.yaml").write_text(
        "version: 1\nname: broken\nnodes: {a: {role: nobody}}\n", encoding="utf-8"
    )
    done = call(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_every_error_of_a_document_is_told_with_its_place(tmp_path: Path):
    """All problems at once, as file:line:col, whichever command meets them."""
    path = flow(tmp_path, "  a: {role: nobody}\n  b: {role: echo, after: [c]}")
    for command, stream in (("run", "stderr"), ("check", "stdout")):
        done = call(command, path.name, cwd=tmp_path)
        lines = getattr(done, stream).splitlines()
        assert any(line.startswith("flow.yaml:6:13: ") for line in lines), lines
        assert any(line.startswith("flow.yaml:7:") for line in lines), lines


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FlowError("x"), 2),
        (GraphError("x"), 2),
        (RoleError("x"), 2),
        (NeedsRecoveryError("x"), 74),
        (OSError(28, "No space left on device"), 74),
        (InternalError("x"), 70),
        (KeyError("x"), 70),
        (KeyboardInterrupt(), 130),
        (ExceptionGroup("group", [ExceptionGroup("inner", [FlowError("x")])]), 2),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_an_error_has_its_code_and_one_line(error: BaseException, code: int):
    """CLI 145: errors go through the same mapping; a bug says that it is one and how to see more."""
    line = told(error, debug=False)
    assert exit_code(error) == code
    assert "\n" not in line
    assert ("this is a bug" in line) == (code == 70)


def test_a_bug_is_one_line_and_debug_shows_the_rest(tmp_path: Path):
    """Never a bare traceback: an unexpected exception is one line; --debug gives the traceback."""
    code = (
        "import sys; from orchestrator.cli import commands\n"
        "commands._HOMES = {**commands._HOMES, 'schema': ('orchestrator.cli.nowhere', 'x')}\n"
        "sys.exit(commands.invoke(sys.argv[1:]))"
    )
    for words, traceback in ((["schema"], False), (["schema", "--debug"], True)):
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            cwd=tmp_path, env=environment(), capture_output=True, encoding="utf-8", check=False,
        )  # fmt: skip
        assert done.returncode == 70
        assert ("Traceback" in done.stderr) is traceback
        assert "this is a bug in callboard" in done.stderr.splitlines()[-1]
