"""A program as somebody would write one to perform a role: under `lines` it speaks JSON lines, else text."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def lines() -> None:
    told = json.loads(sys.stdin.readline())
    print(json.dumps({"report": f"asked by {told['node']}"}), flush=True)
    answers = []
    for kind, payload in (
        ("Finding", {"description": "one"}),
        ("Gap", {"area": "x", "what_is_unknown": "y"}),
        ("Finding", {"wrong": 1}),
    ):
        print(json.dumps({"emit": kind, "payload": payload}), flush=True)
        answers.append(json.loads(sys.stdin.readline()))
    print(json.dumps({"value": [answer.get("reason") for answer in answers]}), flush=True)


def text() -> None:
    told = sys.stdin.read()
    print(f"told {'Count the files.' in told}")
    print('```finding\n{"description": "seen"}\n```')


def file() -> None:
    told = Path(sys.argv[2]).read_text(encoding="utf-8")
    Path("out.json").write_text(json.dumps({"told": "Count the files." in told}), encoding="utf-8")
    print('```finding\n{"description": "beside the file"}\n```')


def env() -> None:
    print(json.dumps(sorted(name for name in os.environ if not name.startswith("LC_"))))


def prose() -> None:
    print("Dear reader,")


def fails() -> None:
    print("the disk is full", file=sys.stderr)
    sys.exit(3)


def floods() -> None:
    while True:
        print("x" * 1000)


def nothing() -> None:
    """Leaves a process of its own behind that would outlive it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path("pids").write_text(f"{os.getpid()} {child.pid}", encoding="utf-8")
    time.sleep(600)


def grandchild() -> None:
    """Ends at once; what it has started holds its output."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path("pids").write_text(f"{os.getpid()} {child.pid}", encoding="utf-8")
    print("done", flush=True)


def gigabyte() -> None:
    line = b"x" * (1024 * 1024 - 1) + b"\n"
    for _ in range(1024):
        sys.stdout.buffer.write(line)


def complains() -> None:
    while True:
        print("x" * 1000, file=sys.stderr)


def long_line() -> None:
    print("y" * 100_000)


def deaf() -> None:
    """Closes its output and lives."""
    Path("pids").write_text(str(os.getpid()), encoding="utf-8")
    os.close(1)
    time.sleep(600)


def segfault() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def garbled() -> None:
    sys.stdout.buffer.write(b"caf\xe9 \xff\n")


def reads() -> None:
    """Gives its value, then reads its input for ever."""
    told = json.loads(sys.stdin.readline())
    print(json.dumps({"value": told["node"]}), flush=True)
    for _ in sys.stdin:
        pass


def claims() -> None:
    """Says that it wrote two files; one of them is there."""
    Path("there.txt").write_text("x", encoding="utf-8")
    for path in ("there.txt", "missing.txt", "../outside.txt"):
        print("```artifact_produced\n" + json.dumps({"path": path, "kind": "text"}) + "\n```")


globals()[sys.argv[1]]()
