"""Commands as processes that are forked from one which has loaded everything: a second less for each.

A process of its own runs the command's ``main``, with its own folder, environment, streams and end; what it
does not do is find and read three hundred modules again. :func:`start` is asked by ``program.py``; the module
itself is the server: ``python -m tests.cli.warm FD``.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
#: What the command loads late, beside its own modules.
LOADED = (
    *("apsw", "asyncio.runners", "asyncio.selector_events", "asyncio.unix_events", "rich.console"),
    *("rich.table", "rich.traceback", "ruamel.yaml", "structlog.dev", "typer", "typer.main"),
    *(
        "anyio._backends._asyncio",
        "typer.rich_utils",
        "orchestrator.runtime.session",
        "orchestrator.flows.load",
    ),
)
_MOST = 1 << 18


class Process:
    """A command that was started; what of ``subprocess.Popen`` is asked of it."""

    def __init__(self, pid: int, told: IO[str]) -> None:
        """``told`` gives how it ended, once it has."""
        self.pid = pid
        self.returncode: int | None = None
        self._told = told

    def poll(self) -> int | None:
        """How it ended, or None."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """How it ended.

        Raises:
            subprocess.TimeoutExpired: it goes on.
        """
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("callboard", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it has not ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """``kill -9``."""
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._told, selectors.EVENT_READ)
                if not selector.select(timeout):
                    return None
            line = self._told.readline()
            assert line, "the process that starts commands is gone"
            self.returncode = int(line)
            self._told.close()
        return self.returncode


_asked: list[socket.socket] = []


def _server() -> socket.socket:
    if not _asked:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.cli.warm", str(theirs.fileno())],
            cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        theirs.close()
        assert ours.recv(16) == b"ready"
        _asked.append(ours)
        atexit.register(_leave, ours, server)
    return _asked[0]


def _leave(ours: socket.socket, server: subprocess.Popen[bytes]) -> None:
    ours.close()
    assert server.stdout is not None
    server.stdout.close()
    server.wait()


def start(
    words: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: int, stdout: int, stderr: int
) -> Process:
    """Start the command with these words; the descriptors stay the caller's."""
    server = _server()
    told, tells = os.pipe()
    request = json.dumps({"words": list(words), "cwd": str(cwd), "env": dict(env)}).encode()
    descriptors = array.array("i", [stdin, stdout, stderr, tells])
    server.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
    os.close(tells)
    stream = os.fdopen(told, buffering=1)
    return Process(int(stream.readline()), stream)


# --- the server ------------------------------------------------------------------------------------


def _load() -> None:
    import orchestrator.cli

    for module in pkgutil.iter_modules(orchestrator.cli.__path__, "orchestrator.cli."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in LOADED:
        importlib.import_module(name)


def serve(asked: socket.socket) -> dict[str, Any] | None:
    """Fork a process for each request: there it gives the request, here None when nobody asks any more."""
    running: dict[int, tuple[int, int]] = {}
    with selectors.DefaultSelector() as selector:
        selector.register(asked, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is asked:
                    data, ancillary, *_ = asked.recvmsg(_MOST, socket.CMSG_SPACE(4 * 4))
                    if not data:
                        return None
                    descriptors = array.array("i", ancillary[0][2])
                    pid = os.fork()
                    if pid == 0:
                        selector.close()
                        asked.close()
                        _become(descriptors, running)
                        return dict(json.loads(data))
                    for descriptor in descriptors[:3]:
                        os.close(descriptor)
                    os.write(descriptors[3], f"{pid}\n".encode())
                    ended = os.pidfd_open(pid)
                    running[ended] = (pid, descriptors[3])
                    selector.register(ended, selectors.EVENT_READ)
                else:
                    selector.unregister(key.fd)
                    pid, tells = running.pop(key.fd)
                    os.close(key.fd)
                    _, status = os.waitpid(pid, 0)
                    with contextlib.suppress(BrokenPipeError):
                        os.write(tells, f"{os.waitstatus_to_exitcode(status)}\n".encode())
                    os.close(tells)


def _become(descriptors: Sequence[int], running: Mapping[int, tuple[int, int]]) -> None:
    """Hold the three streams of the request, and nothing of other commands."""
    for place, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, place)
    for descriptor in descriptors:
        os.close(descriptor)
    for ended, (_, tells) in running.items():
        os.close(ended)
        os.close(tells)
    # as an interpreter makes them: what they know of their descriptors is true of these
    form, errors = sys.stdout.encoding, sys.stdout.errors
    line = os.isatty(1)
    sys.stdin = sys.__stdin__ = _text(0, "r", form, errors, line=False)
    sys.stdout = sys.__stdout__ = _text(1, "w", form, errors, line=line)
    sys.stderr = sys.__stderr__ = _text(2, "w", form, "backslashreplace", line=True)


def _text(descriptor: int, mode: str, form: str, errors: str | None, *, line: bool) -> Any:
    raw = io.FileIO(descriptor, mode, closefd=False)
    buffer = io.BufferedReader(raw) if mode == "r" else io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, form, errors, "\n", line)


def main() -> None:
    """Serve; a process that was forked runs the command and ends as it ends."""
    # as in a terminal, also where whoever runs the tests was started in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _load()
    gc.freeze()
    asked = socket.socket(fileno=int(sys.argv[1]))
    asked.send(b"ready")
    request = serve(asked)
    if request is not None:
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["env"])
        sys.path[0] = request["cwd"]
        sys.argv = ["callboard", *request["words"]]
        runpy.run_module("orchestrator.cli", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
