"""What reaches stdout and stderr: envelopes, plain lines, nothing of strangers that a terminal would obey."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.runtime.envelopes import FIELDS
from tests.cli.program import COMMAND, PATIENCE, call, environment, flow

GATED = (
    "  g: {role: judge, gate: true, with: {verdict: REJECT, why: 'not yet'}}\n  b: {role: echo, after: [g]}"
)


def test_json_is_envelopes_and_the_result_last(tmp_path: Path):
    """CLI: stdout is one event per line, seq without a gap, and the RunResult with every field at the end."""
    flow(
        tmp_path,
        "  a: {role: grows, with: {count: 4}}\n  b: {role: echo, after: [a]}",
        "budget: {spawns: 3}\noutputs: {n: '${a}'}",
    )
    done = call("run", "--json", cwd=tmp_path)
    *lines, last = done.stdout.splitlines()
    envelopes = [json.loads(line) for line in lines]
    assert {tuple(envelope) for envelope in envelopes} == {FIELDS}
    assert [envelope["seq"] for envelope in envelopes] == list(range(1, len(envelopes) + 1))
    assert (envelopes[0]["kind"], envelopes[-1]["kind"]) == ("RunStarted", "RunEnded")
    result = json.loads(last)
    assert result["kind"] == "RunResult"
    assert (result["reason"], result["ok"], result["ended"], result["exit"]) == ("completed", True, True, 0)
    assert result["outputs"] == {"n": 3}
    assert result["nodes"]["a"]["value"] == 3
    assert [refused["reason"] for refused in result["dropped_spawns"]] == ["max_spawn_exceeded"]
    assert len(result["spawned"]) == 3
    assert done.stderr.splitlines()[-1].startswith("tried completed: 5 nodes")


def test_plain_lines(tmp_path: Path):
    """A pipe gets a line per settlement and per event that matters, in a stable form, then the summary."""
    flow(tmp_path, GATED)
    done = call("run", cwd=tmp_path)
    lines = done.stdout.splitlines()
    words = [line[:10].rstrip() for line in lines[:6]]
    assert words == ["journal", "run", "started", "succeeded", "rejected", "vetoed"]
    assert lines[0] == "journal    .callboard/journal.db"
    assert lines[4:6] == ["rejected   g: not yet", "vetoed     b: by g"]
    assert lines[6].startswith("tried gate_rejected: 2 nodes: 1 succeeded, 1 vetoed")
    run = lines[1].split()[1].rstrip(":")
    fork = f"callboard fork {run} --at g --answer VERDICT --because TEXT"
    assert lines[-2] == f"  run       {run} in .callboard/journal.db"
    assert lines[-1] == f"  next      settle what the gate objects to and run again, or overrule it: {fork}"
    assert done.stderr == ""


def test_the_summary_tells_what_was_refused_skipped_and_failed(tmp_path: Path):
    """TRUTH: refused spawns with reason and count, failures with their error, and why others did not run."""
    flow(
        tmp_path,
        "  a: {role: grows, with: {count: 5}}\n  x: {role: boom}\n  y: {role: echo, after: [x]}",
        "budget: {spawns: 2}",
    )
    done = call("run", cwd=tmp_path)
    text = done.stdout.partition("tried failed")[2]
    assert "  refused   a: 3 spawns: max_spawn_exceeded" in text
    assert "  failed    x: ValueError: it went wrong" in text
    assert "  skipped   y: " in text
    assert done.returncode == 1


def test_an_output_that_a_completed_run_lacks_is_told_once(tmp_path: Path):
    """CLI: what is absent after a run that completed is a warning, and the rest is there."""
    nodes = "  a: {role: echo, with: {value: 5}}\n  b: {role: echo, after: [a], when: 'a == 6'}"
    flow(tmp_path, nodes, "outputs: {n: '${a}', gone: '${b}'}")
    done = call("run", "--json", cwd=tmp_path)
    assert json.loads(done.stdout.splitlines()[-1])["outputs"] == {"n": 5}
    assert done.stderr.count("output gone is absent") == 1


def test_quiet_is_one_line(tmp_path: Path):
    """--quiet prints the line that says what came of it, and nothing else."""
    flow(tmp_path, GATED)
    done = call("run", "--quiet", cwd=tmp_path)
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    assert line.startswith("tried gate_rejected: ")
    assert line.endswith("exit 3")


@pytest.mark.parametrize("form", ["--json", "--quiet"])
def test_what_roles_print_is_not_our_output(form: str, tmp_path: Path):
    """CLI: print() in a role, and the output of a program that it starts, go to stderr."""
    flow(tmp_path, "  a: {role: prints}")
    done = call("run", form, cwd=tmp_path)
    assert "noise" not in done.stdout
    assert {"noise of a role", "noise of a program"} <= set(done.stderr.splitlines())


@pytest.mark.parametrize(
    "words", [["run"], ["run", "--json"], ["events", "--schema"], ["schema"], ["--help"]]
)
def test_a_reader_that_leaves_is_no_error(words: list[str], tmp_path: Path):
    """CLI: `| head -1` is quiet, and the run goes on to its own end."""
    flow(tmp_path, "  a: {role: grows, with: {count: 300}}", "budget: {spawns: 300}")
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [*COMMAND, *words], cwd=tmp_path, env=environment(), stdout=write, stderr=subprocess.PIPE,
            encoding="utf-8", timeout=PATIENCE, check=False,
        )  # fmt: skip
    finally:
        os.close(write)
    assert done.returncode in ((0, 1) if words == ["--help"] else (0,))
    assert not [line for line in done.stderr.splitlines() if not line.startswith("tried completed")]


def test_a_full_disk_is_told(tmp_path: Path):
    """CLI 145: output that could not be written is not a success."""
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    flow(tmp_path, "  a: {role: echo}")
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [*COMMAND, "run"], cwd=tmp_path, env=environment(), stdout=full, stderr=subprocess.PIPE,
            encoding="utf-8", timeout=PATIENCE, check=False,
        )  # fmt: skip
    assert done.returncode == 74
    assert "Traceback" not in done.stderr
    assert "No space left" in done.stderr


@pytest.mark.parametrize("closed", [1, 2])
def test_a_closed_stream_is_no_fault(closed: int, tmp_path: Path):
    """A process that was started without stdout or stderr runs all the same."""
    flow(tmp_path, "  a: {role: prints}")
    script = f'exec {closed}>&-; exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *COMMAND, "run", "--quiet"], cwd=tmp_path, env=environment(),
        capture_output=True, encoding="utf-8", timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


EVIL = "a\x1b[2J\x07b\u202ec\x9b1md"


@pytest.mark.parametrize("form", ["", "--json", "--quiet"])
def test_no_control_character_reaches_the_output(form: str, tmp_path: Path):
    """TEXT: values, errors, rationales and reports of roles cannot steer a terminal."""
    evil = json.dumps(EVIL)
    flow(
        tmp_path,
        f"  a: {{role: boom, with: {{text: {evil}}}}}\n  e: {{role: echo, with: {{value: {evil}}}}}\n"
        f"  g: {{role: judge, gate: true, with: {{verdict: REJECT, why: {evil}}}}}\n"
        "  b: {role: echo, after: [g]}",
        "outputs: {said: '${e}'}",
    )
    done = call("run", *filter(None, [form]), cwd=tmp_path)
    for stream in (done.stdout, done.stderr):
        assert all(char == "\n" or ord(char) >= 32 for char in stream), repr(stream)
        assert not set(stream) & {"\x9b", "\u202e"}
    assert done.returncode == 1


def test_hostile_arguments_and_paths_are_shown_and_not_obeyed(tmp_path: Path):
    """TEXT: what a person typed comes back in an error without its control characters."""
    done = call("run", "\x1b[31mred.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    done = call("rnu\x1b[31m", cwd=tmp_path)
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_a_console_that_cannot_show_it(encoding: str, tmp_path: Path):
    """TEXT 139: replacement characters, the right exit code, the run unaffected; JSON stays UTF-8."""
    flow(tmp_path, "  a: {role: boom, with: {text: '日本語 ✓ ü'}}")
    for form in ("", "--json"):
        done = subprocess.run(
            [*COMMAND, "run", *filter(None, [form])], cwd=tmp_path,
            env=environment(PYTHONIOENCODING=encoding), capture_output=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert done.returncode == 1, done.stderr
        assert b"Traceback" not in done.stderr
        text = done.stdout.decode("utf-8" if form else encoding)
        assert ("日本語" in text) == (bool(form) or encoding == "utf-8")
    assert call("check", "gone.yaml", cwd=tmp_path, PYTHONIOENCODING=encoding).returncode == 2
    done = call("check", "flow.yaml", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0


HOOK = """
import json, os, sys
told = {name: value for name, value in os.environ.items() if name.startswith("CALLBOARD_")}
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump({"stdin": sys.stdin.read(), "words": sys.argv[2:], **told}, file)
sys.exit(7)
"""


def test_on_end_gets_the_result(tmp_path: Path):
    """--on-end: the command reads the result and knows the reason; its failure changes nothing."""
    flow(tmp_path, GATED)
    (tmp_path / "hook.py").write_text(HOOK, encoding="utf-8")
    command = shlex.join([sys.executable, "hook.py", "end.json", "$HOME; $(touch no)"])
    done = call("run", "--json", "--on-end", command, cwd=tmp_path)
    assert done.returncode == 3
    told = json.loads((tmp_path / "end.json").read_text(encoding="utf-8"))
    result = json.loads(done.stdout.splitlines()[-1])
    assert json.loads(told["stdin"]) == result
    assert result["kind"] == "RunResult"
    assert (told["CALLBOARD_REASON"], told["CALLBOARD_EXIT"]) == ("gate_rejected", "3")
    assert told["CALLBOARD_RUN"] == result["run"]
    assert told["CALLBOARD_JOURNAL"] == result["journal"] == str(tmp_path / ".callboard" / "journal.db")
    assert told["words"] == ["$HOME; $(touch no)"], "no shell has read the command"
    assert "ended with exit code 7" in done.stderr


def test_on_ask_gets_the_question(tmp_path: Path):
    """--on-ask: the question's envelope on stdin, before the run is suspended for want of an answer."""
    flow(tmp_path, "  a: {role: asks}")
    (tmp_path / "hook.py").write_text(HOOK, encoding="utf-8")
    done = call(
        "run", "--quiet", "--on-ask", shlex.join([sys.executable, "hook.py", "ask.json"]), cwd=tmp_path
    )
    assert done.returncode == 6
    told = json.loads((tmp_path / "ask.json").read_text(encoding="utf-8"))
    envelope = json.loads(told["stdin"])
    assert tuple(envelope) == FIELDS
    assert (envelope["kind"], envelope["node"]) == ("QuestionAsked", "a")
    assert envelope["data"]["choices"] == ["red", "blue"]
    assert told["CALLBOARD_RUN"] == envelope["run"]


@pytest.mark.parametrize("command", ["'", "   "])
def test_a_hook_that_is_no_command_is_refused_first(command: str, tmp_path: Path):
    """A command that cannot be read as words is an error of usage: nothing has run."""
    flow(tmp_path, "  a: {role: echo}")
    done = call("run", "--on-end", command, cwd=tmp_path)
    assert done.returncode == 2
    assert "--on-end" in done.stderr
    assert not (tmp_path / ".callboard").exists()


def test_arguments_from_a_file_and_the_line(tmp_path: Path):
    """--args reads JSON and YAML with their types; --arg wins."""
    flow(
        tmp_path,
        '  a: {role: echo, with: {value: ["${args.x}", "${args.y}"]}}',
        "args: {x: {type: int, default: 0}, y: {type: any, required: true}}\noutputs: {both: '${a}'}",
    )
    (tmp_path / "args.yaml").write_text("x: 1\ny: {deep: [1, 2]}\n", encoding="utf-8")
    (tmp_path / "args.json").write_text('{"x": 1, "y": {"deep": [1, 2]}}', encoding="utf-8")
    for file in ("args.yaml", "args.json"):
        done = call("run", "--json", "--args", file, "--arg", "x=5", cwd=tmp_path)
        assert json.loads(done.stdout.splitlines()[-1])["outputs"] == {"both": [5, {"deep": [1, 2]}]}, (
            done.stderr
        )


def test_concurrency_and_environment(tmp_path: Path):
    """--concurrency replaces the document's; CALLBOARD_CONCURRENCY is the same in the environment."""
    flow(tmp_path, "  a: {role: echo}")
    for words, more in ((["--concurrency", "3"], {}), ([], {"CALLBOARD_CONCURRENCY": "3"})):
        done = call("run", "--json", *words, cwd=tmp_path, **more)
        planned = json.loads(done.stdout.splitlines()[1])
        assert planned["data"]["plan"]["budget"]["concurrency"] == 3


def test_logs_are_json_lines_elsewhere(tmp_path: Path):
    """Logs go to stderr: JSON lines where there is no terminal, from structlog and from logging alike."""
    flow(tmp_path, "  a: {role: logs}")
    cast = tmp_path / "cast.py"
    text = "\nimport logging, structlog\n@role()\nasync def logs(turn):\n"
    text += "    logging.getLogger('mine').warning('one %s', 'two')\n"
    text += "    structlog.get_logger().warning('three', four=5)\n"
    cast.write_text(cast.read_text(encoding="utf-8") + text, encoding="utf-8")
    done = call("run", "--quiet", cwd=tmp_path)
    entries = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(entry["event"], entry["level"]) for entry in entries] == [
        ("one two", "warning"),
        ("three", "warning"),
    ]
    assert entries[1]["four"] == 5
