"""A real pseudo-terminal: the live view, questions, and what a terminal must never get."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from pathlib import Path
from typing import Self

import pytest

from tests.cli.program import COMMAND, PATIENCE, environment, flow


class Terminal:
    """The command on a terminal of its own: text can be waited for and typed."""

    def __init__(self, *words: str | Path, cwd: Path, **more: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, *map(str, words)], cwd=cwd, env=environment(COLUMNS="100", LINES="30", **more),
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self.text = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def _read(self) -> bool:
        """Read what there is; False at the end."""
        ready, _, _ = select.select([self._ours], [], [], 0.5)
        if not ready:
            return self.process.poll() is None
        try:
            raw = os.read(self._ours, 65_536)
        except OSError:  # Linux says so when the other side has closed
            return False
        self.text += raw.decode("utf-8", "replace")
        return bool(raw)

    def wait_for(self, text: str) -> None:
        end = time.monotonic() + PATIENCE
        while text not in self.text:
            if not self._read() or time.monotonic() > end:
                message = f"{text!r} did not come; there was:\n{self.text}"
                raise AssertionError(message)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def end(self) -> int:
        end = time.monotonic() + PATIENCE
        while self._read() and time.monotonic() < end:
            pass
        return self.process.wait(PATIENCE)


def test_the_live_view_shows_what_runs_and_what_it_said(tmp_path: Path):
    """A terminal gets nodes with their states, what runs, what it said last; then the summary."""
    flow(tmp_path, "  a: {role: until_file, with: {path: go}}\n  b: {role: echo, after: [a]}")
    with Terminal("run", cwd=tmp_path) as terminal:
        terminal.wait_for("waiting")
        assert "running" in terminal.text
        assert "queued" in terminal.text
        (tmp_path / "go").touch()
        terminal.wait_for("tried completed: 2 nodes: 2 succeeded")
        assert terminal.end() == 0
    assert "Traceback" not in terminal.text


def test_no_color(tmp_path: Path):
    """NO_COLOR: the view still moves the cursor, but sets no colour."""
    flow(tmp_path, "  a: {role: until_file, with: {path: go}}")
    with Terminal("run", cwd=tmp_path, NO_COLOR="1") as terminal:
        terminal.wait_for("waiting")
        (tmp_path / "go").touch()
        assert terminal.end() == 0
    assert "\x1b[3" not in terminal.text.replace("\x1b[3m", "").replace("\x1b[?", "")


def test_a_dumb_terminal_gets_plain_lines(tmp_path: Path):
    """Where the cursor cannot move there is one line per event."""
    flow(tmp_path, "  a: {role: echo}")
    with Terminal("run", cwd=tmp_path, TERM="dumb") as terminal:
        assert terminal.end() == 0
    assert "succeeded  a" in terminal.text
    assert "\x1b" not in terminal.text


@pytest.mark.parametrize(("typed", "value"), [("blue\n", "blue"), ("2\n", "blue"), ("green\n1\n", "red")])
def test_a_question_is_asked_on_the_terminal(typed: str, value: str, tmp_path: Path):
    """turn.ask: choices by name or number; what does not fit is asked again."""
    flow(tmp_path, "  a: {role: asks}", "outputs: {colour: '${a}'}")
    with Terminal("run", cwd=tmp_path) as terminal:
        terminal.wait_for("a asks: Which colour?")
        terminal.wait_for("> ")
        terminal.type(typed)
        assert terminal.end() == 0, terminal.text
    assert f"colour = {value}" in terminal.text
    assert ("write one of red, blue" in terminal.text) == typed.startswith("green")


def test_an_answer_of_a_type_is_read_as_json(tmp_path: Path):
    """A schema that wants a number gets a number."""
    flow(tmp_path, "  a: {role: asks_number}", "outputs: {n: '${a}'}")
    with Terminal("run", cwd=tmp_path) as terminal:
        terminal.wait_for("> ")
        terminal.type("many\n7\n")
        assert terminal.end() == 0, terminal.text
    assert "n = 7" in terminal.text


def test_nobody_answers(tmp_path: Path):
    """The end of input is no answer: the run is suspended, exit 6, and the rest of it has been done."""
    flow(tmp_path, "  a: {role: asks}\n  b: {role: until_file, with: {path: go}}")
    with Terminal("run", cwd=tmp_path) as terminal:
        terminal.wait_for("> ")
        terminal.type("\x04")
        terminal.wait_for("no answer")
        (tmp_path / "go").touch()
        assert terminal.end() == 6, terminal.text
    assert "1 succeeded, 1 asking" in terminal.text or "1 asking, 1 succeeded" in terminal.text


def test_ctrl_c_in_the_live_view(tmp_path: Path):
    """Typed twice it interrupts: exit 130, no traceback, and the terminal's cursor is back."""
    flow(tmp_path, "  a: {role: sleeps}")
    with Terminal("run", cwd=tmp_path) as terminal:
        terminal.wait_for("asleep")
        terminal.process.send_signal(2)
        terminal.wait_for("draining")
        terminal.process.send_signal(2)
        assert terminal.end() == 130, terminal.text
    assert "Traceback" not in terminal.text
    assert terminal.text.rindex("\x1b[?25h") > terminal.text.rindex("\x1b[?25l")


def test_what_nodes_say_cannot_steer_the_terminal(tmp_path: Path):
    """TEXT: a report, a value and an error with control characters are written out."""
    cast = "from orchestrator import role\n@role()\nasync def evil(turn):\n"
    cast += "    turn.report('x\\x1b]0;owned\\x07')\n"
    cast += "    raise ValueError('\\x1b]0;owned\\x07')\n"
    flow(tmp_path, "  a: {role: evil}")
    (tmp_path / "cast.py").write_text(cast, encoding="utf-8")
    with Terminal("run", cwd=tmp_path) as terminal:
        assert terminal.end() == 1
    assert "\x1b]0;" not in terminal.text
    assert "\x07" not in terminal.text


def test_quiet_and_ci_never_ask(tmp_path: Path):
    """Nobody is asked where nobody looks: the run is suspended, exit 6."""
    flow(tmp_path, "  a: {role: asks}")
    for words, more in ((["--quiet"], {}), ([], {"CI": "true"})):
        with Terminal("run", *words, cwd=tmp_path, **more) as terminal:
            assert terminal.end() == 6, terminal.text
        assert "asks: " not in terminal.text
