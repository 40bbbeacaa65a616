"""A small server of tools, written on the wire format alone: over stdio, or over HTTP on this machine."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

NUMBERS = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
TOOLS = {"double": NUMBERS, **dict.fromkeys(("words", "fails", "hangs", "dies", "env", "key"), NOTHING)}


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    """What the server says to one message; None to a notification."""
    if "id" not in message:
        return None
    method, given = message["method"], message.get("params") or {}
    done: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    if method == "initialize":
        done["result"] = {
            "protocolVersion": given["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "notes", "version": "1"},
        }
    elif method == "tools/list":
        # in two pages
        names = list(TOOLS)[:3] if given.get("cursor") is None else list(TOOLS)[3:]
        tools = [{"name": name, "description": f"It {name}.", "inputSchema": TOOLS[name]} for name in names]
        done["result"] = {"tools": tools, **({} if given.get("cursor") else {"nextCursor": "2"})}
    elif method == "tools/call":
        done["result"] = call(given["name"], given.get("arguments") or {})
    else:
        done["error"] = {"code": -32601, "message": f"no method {method}"}
    return done


def call(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """One tool's answer."""
    if name == "hangs":
        time.sleep(600)
    if name == "dies":
        print("out of memory", file=sys.stderr, flush=True)
        os._exit(3)
    if name == "double":
        return {"content": [], "structuredContent": {"twice": given["a"] * 2}}
    if name == "env":
        return {"content": [], "structuredContent": {"names": sorted(os.environ), "pid": os.getpid()}}
    if name == "key":
        print("the key is", os.environ["SERVICE_KEY"], file=sys.stderr, flush=True)
        return {"content": [{"type": "text", "text": "it is " + os.environ["SERVICE_KEY"]}]}
    text = "it will not do" if name == "fails" else "some words"
    picture = [{"type": "image", "data": "AAAA", "mimeType": "image/png"}] if given.get("picture") else []
    return {"content": [{"type": "text", "text": text}, *picture], "isError": name == "fails"}


@contextmanager
def over_http(token: str = "") -> Any:
    """The address of the server on this machine; with a token it takes no others."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            allowed = not token or self.headers.get("authorization") == f"Bearer {token}"
            said = answer(json.loads(body)) if allowed else None
            self.send_response(401 if not allowed else 202 if said is None else 200)
            raw = b"" if said is None else json.dumps(said).encode()
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def do_GET(self) -> None:
            self.send_response(405)
            self.send_header("content-length", "0")
            self.end_headers()

        do_DELETE = do_GET

        def log_message(self, *_args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()


def main() -> None:
    """Speak on stdin and stdout."""
    if "mute" in sys.argv:
        time.sleep(600)
    if "broken" in sys.argv:
        sys.exit("no such folder")
    for line in sys.stdin:
        said = answer(json.loads(line))
        if said is not None:
            print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
