"""The real command as a subprocess, and flows for it to run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import Empty, Queue
from subprocess import Popen
from threading import Thread
from typing import IO, Self

from tests.cli.warm import Process, start

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "orchestrator.cli"]
#: No test needs a tenth of it; a wait that fails must say so and not hang.
PATIENCE = 60.0

CAST = """
import os, subprocess, threading, time
import anyio
from orchestrator import EscalationRequest, Finding, SpawnRequest, Verdict, role

@role(description="Gives what it is given.")
async def echo(turn):
    return turn.parameters.get("value", 1)

@role()
async def boom(turn):
    raise ValueError(turn.parameters.get("text", "it went wrong"))

@role()
async def sleeps(turn):
    turn.report("asleep")
    await anyio.sleep_forever()

@role()
async def until_file(turn):
    turn.report("waiting")
    while not os.path.exists(turn.parameters["path"]):
        await anyio.sleep(0.01)
    return "released"

@role()
def in_thread(turn):
    turn.report("asleep")
    time.sleep(1000)

@role()
async def stubborn(turn):
    turn.report("asleep")
    while True:
        try:
            await anyio.sleep(1000)
        except BaseException:
            pass

@role()
async def shielded(turn):
    turn.report("asleep")
    with anyio.CancelScope(shield=True):
        await anyio.sleep_forever()

@role()
async def blocks(turn):
    turn.report("asleep")
    await anyio.sleep(0)
    print("blocking", flush=True)
    time.sleep(1000)

@role()
async def leaves_thread(turn):
    threading.Thread(target=time.sleep, args=(1000,)).start()
    return 1

@role()
async def prints(turn):
    print("noise of a role", flush=True)
    subprocess.run(["echo", "noise of a program"])
    return 1

@role()
async def asks(turn):
    return await turn.ask("Which colour?", choices=("red", "blue"))

@role()
async def asks_number(turn):
    return await turn.ask("How many?", schema=int)

@role()
async def needs_file(turn):
    if not os.path.exists(turn.parameters["path"]):
        raise FileNotFoundError(turn.parameters["path"])
    return "it was there"

@role()
async def listens(turn):
    turn.report("listening")
    while True:
        for text in turn.steers():
            return {"heard": text}
        await anyio.sleep(0.01)

@role()
async def counts(turn):
    with open(turn.parameters["path"], "a") as file:
        file.write(turn.idempotency_key + "\\n")
    return turn.attempt

@role(emits=(Verdict,))
async def judge(turn):
    verdict = turn.parameters["verdict"]
    if verdict == "nothing":
        return "I cannot say"
    return Verdict(verdict=verdict, rationale=turn.parameters.get("why", "because"))

@role(emits=(SpawnRequest,))
async def grows(turn):
    receipts = [
        await turn.emit(SpawnRequest(assignee="echo", key=str(n), before="successors"))
        for n in range(turn.parameters["count"])
    ]
    return sum(map(bool, receipts))

@role(emits=(Finding,))
async def finds(turn):
    turn.report("looking")
    await turn.emit(Finding(description="a thing", evidence="x:1"))
    receipt = await turn.emit(Verdict(verdict="APPROVE", rationale="undeclared"))
    return {"refused": receipt.reason, "given": dict(turn.parameters), "inputs": dict(turn.inputs)}
"""


def flow(folder: Path, nodes: str, head: str = "") -> Path:
    """Write a flow with the cast above; ``nodes`` is the YAML below ``nodes:``."""
    (folder / "cast.py").write_text(CAST, encoding="utf-8")
    text = f"version: 1\nname: tried\ncast: [cast.py]\n{head}\nnodes:\n{nodes}\n"
    (folder / "flow.yaml").write_text(text, encoding="utf-8")
    return folder / "flow.yaml"


def environment(**more: str) -> dict[str, str]:
    """This environment without what would change how the command behaves."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("CALLBOARD_")}
    for name in ("CI", "NO_COLOR", "FORCE_COLOR", "PYTHONIOENCODING"):
        kept.pop(name, None)
    return {**kept, "PYTHONPATH": str(ROOT), "TERM": "xterm", **more}


def call(*words: str | Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    with Program(*words, cwd=cwd, **more) as program:
        code = program.end()
    return subprocess.CompletedProcess([*COMMAND, *map(str, words)], code, *program.texts)


def started(words: Sequence[str], cwd: Path, env: Mapping[str, str], *streams: int) -> Process | Popen[bytes]:
    """The command, with standard output and error: forked from a process that has loaded it.

    A new interpreter where the environment says how one is to be, or where a process has no descriptor.
    """
    told = {key for key in env if key.startswith(("PYTHON", "LANG", "LC_"))} - {"PYTHONPATH"}
    with Path(os.devnull).open("rb") as nothing:
        if not hasattr(os, "pidfd_open") or any(env[key] != os.environ.get(key) for key in told):
            out, error = streams
            return Popen([*COMMAND, *words], cwd=cwd, env=env, stdin=nothing, stdout=out, stderr=error)
        return start(words, cwd, env, nothing.fileno(), *streams)


class Program:
    """The command while it runs: lines can be waited for, signals sent."""

    def __init__(self, *words: str | Path, cwd: Path, **more: str) -> None:
        pipes = [os.pipe(), os.pipe()]
        writing = [write for _, write in pipes]
        self.process = started([*map(str, words)], cwd, environment(**more), *writing)
        for descriptor in writing:
            os.close(descriptor)
        self.lines: list[str] = []
        #: all of standard output and of standard error, once it has ended
        self.texts = ["", ""]
        self._arrived: Queue[str] = Queue()
        self._readers = [
            Thread(target=self._read, args=(place, os.fdopen(read, encoding="utf-8")), daemon=True)
            for place, (read, _) in enumerate(pipes)
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join(PATIENCE)

    def _read(self, place: int, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self.texts[place] += line
                self._arrived.put(line.rstrip("\n"))

    def wait_for(self, text: str) -> str:
        """The next line, of either stream, that holds a text."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                line = self._arrived.get(timeout=0.5)
            except Empty:
                if self.process.poll() is not None and not any(map(Thread.is_alive, self._readers)):
                    break
                continue
            self.lines.append(line)
            if text in line:
                return line
        message = f"{text!r} did not come; there was:\n" + "\n".join(self.lines)
        raise AssertionError(message)

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """The exit code; ``lines`` is complete then."""
        code = self.process.wait(PATIENCE)
        for reader in self._readers:
            reader.join(PATIENCE)
        while not self._arrived.empty():
            self.lines.append(self._arrived.get())
        return code
