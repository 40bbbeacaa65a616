"""A small agent that speaks the Agent Client Protocol on stdin and stdout, written on the wire format alone.

What it does is the first word of its command line. It keeps its sessions as files in the folder that is the
second, so that it can go on with one in another process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

MODE = sys.argv[1]
STORE = Path(sys.argv[2])


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def read() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def ask(method: str, **params: Any) -> Any:
    """Ask the client and wait for its answer."""
    send(id="ours", method=method, params=params)
    while True:
        said = read()
        if said.get("id") == "ours":
            return said.get("result", {"error": said.get("error")})


def tell(session: str, **update: Any) -> None:
    send(method="session/update", params={"sessionId": session, "update": update})


def say(session: str, text: str) -> None:
    tell(session, sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def finding(text: str) -> str:
    return "\n```finding\n" + json.dumps({"description": text}) + "\n```\n"


#: session -> turns of it in this process: the protocol counts over a session
TURNS: dict[str, int] = {}


def prompt(session: str, text: str, cwd: str) -> dict[str, Any]:
    """One turn; what it is told is kept in the session's file."""
    file = STORE / session
    before = file.read_text().splitlines() if file.exists() else []
    with file.open("a") as lines:
        lines.write(json.dumps(text) + "\n")
    stop = "end_turn"
    if MODE == "simple":
        tell(session, sessionUpdate="tool_call", toolCallId="1", title="look around", kind="read")
        tell(session, sessionUpdate="something_new", what="nobody knows")
        say(session, f"Turn {len(before) + 1} of {session}. ")
        say(session, f"told: {'Count the files.' in text}.{finding('seen')}")
    elif MODE == "mends":
        wrong = '\n```finding\n{"wrong": 1}\n```\n' if not before else finding("mended")
        say(session, wrong + ('```json\n{"n": "one"}\n```' if not before else '```json\n{"n": 1}\n```'))
    elif MODE == "asks":
        say(session, json.dumps(asks(session, cwd)))
    elif MODE == "tells its key":
        key = os.environ["SERVICE_KEY"]
        print(key, file=sys.stderr, flush=True)
        tell(session, sessionUpdate="tool_call", toolCallId="1", title=f"look for {key}", kind="read")
        say(session, f"It is {key}.{finding(key)}")
        say(session, '```finding\n{"wrong": "' + key + '"}\n```')
    elif MODE == "refuses":
        stop = "refusal"
    elif MODE == "crashes":
        say(session, "half of an ans")
        print("out of memory", file=sys.stderr, flush=True)
        os._exit(9)
    elif MODE == "hangs" or (MODE == "hangs once" and not before):
        stop = hang(session)
    else:
        say(session, f"Turn {len(before) + 1}: {'interrupted' in text}")
    turns = TURNS[session] = TURNS.get(session, 0) + 1
    tell(
        session,
        sessionUpdate="usage_update",
        used=12,
        size=100,
        cost={"amount": turns / 4, "currency": "USD"},
    )
    usage = {"totalTokens": 12, "inputTokens": 10, "outputTokens": 2, "cachedReadTokens": 4}
    usage = {name: turns * count for name, count in usage.items()}
    return {"stopReason": stop, "usage": usage}


def asks(session: str, cwd: str) -> dict[str, Any]:
    """Permissions, files, a terminal."""
    options = [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"},
        {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]
    Path(cwd, "here.txt").write_text("one\ntwo\nthree\n")
    return {
        kind: ask(
            "session/request_permission",
            sessionId=session,
            toolCall={"toolCallId": kind, "kind": kind, "title": f"to {kind}"},
            options=options,
        )["outcome"]["optionId"]
        for kind in ("edit", "execute")
    } | {
        "read": ask("fs/read_text_file", sessionId=session, path=f"{cwd}/here.txt", line=2, limit=1),
        "outside": ask("fs/read_text_file", sessionId=session, path="/etc/hostname"),
        "write": ask("fs/write_text_file", sessionId=session, path=f"{cwd}/new/a.txt", content="a"),
        "escape": ask("fs/write_text_file", sessionId=session, path=f"{cwd}/../a.txt", content="a"),
        "terminal": ask("terminal/create", sessionId=session, command="ls"),
    }


def hang(session: str) -> str:
    """Until it is cancelled; says so in a file."""
    if MODE == "hangs":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say(session, "thinking")
    Path("pid").write_text(str(os.getpid()))
    while True:
        if read().get("method") == "session/cancel":
            Path("cancelled").touch()
            if MODE == "hangs":
                time.sleep(600)
            return "cancelled"


def main() -> None:
    """Serve until the client closes."""
    if MODE == "mute":
        time.sleep(600)
    while True:
        said = read()
        method, params = said.get("method"), said.get("params") or {}
        answer: Any = {}
        if method == "initialize":
            able = {} if MODE == "forgets" else {"loadSession": True}
            answer = {"protocolVersion": 99 if MODE == "new" else 1, "agentCapabilities": able}
        elif method == "session/new":
            session = f"s{len(list(STORE.iterdir())) + 1}"
            (STORE / session).touch()
            answer = {"sessionId": session}
            cwd = params["cwd"]
        elif method == "session/load":
            session, cwd = params["sessionId"], params["cwd"]
            if not (STORE / session).exists():
                send(id=said["id"], error={"code": -32602, "message": "there is no such session"})
                continue
            say(session, "what was said long ago")
        elif method == "session/prompt":
            answer = prompt(params["sessionId"], params["prompt"][0]["text"], cwd)
        if "id" in said:
            send(id=said["id"], result=answer)


main()
