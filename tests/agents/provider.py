"""A provider that speaks the OpenAI-compatible wire format on a port of this machine, scripted by a test."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 10,
    "total_tokens": 110,
    "prompt_tokens_details": {"cached_tokens": 60},
}


@dataclass
class Answer:
    """One answer: an error status, or a stream that may be cut.

    Attributes:
        text: said in two parts. call: a tool's name and its arguments. status: 200 or an error's.
        headers: of an error. cut: the connection is closed in the middle. code: of an error.
        echoes: its error quotes the key that it was called with.
        slow: nothing comes after the first part until the test is over. ended: why it ends.
    """

    text: str = ""
    call: tuple[str, dict[str, Any]] | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    code: str = "error"
    slow: bool = False
    echoes: bool = False
    ended: str = ""


@dataclass
class Provider:
    """What the test scripts and reads."""

    answers: list[Answer]
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


@contextmanager
def provider(*answers: Answer) -> Iterator[Provider]:
    """Serve these answers in order, the last one for ever."""
    script = Provider(list(answers))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            script.asked.append(json.loads(body))
            answer = script.answers.pop(0) if len(script.answers) > 1 else script.answers[0]
            if answer.status != 200:
                self._refuse(answer)
            else:
                self._stream(answer)

        def _refuse(self, answer: Answer) -> None:
            said = f"no, {self.headers['authorization']}" if answer.echoes else "no"
            text = json.dumps({"error": {"message": said, "code": answer.code, "type": answer.code}}).encode()
            self.send_response(answer.status)
            for name, value in {"content-type": "application/json", **answer.headers}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def _stream(self, answer: Answer) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            for delta in deltas(answer):
                self._say({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
                if answer.cut:
                    self.connection.close()
                    return
                if answer.slow:
                    script.over.wait()
                    return
            reason = answer.ended or ("tool_calls" if answer.call else "stop")
            self._say({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
            self._say({"choices": [], "usage": USAGE})
            self.wfile.write(b"data: [DONE]\n\n")
            self.close_connection = True

        def _say(self, part: dict[str, Any]) -> None:
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o", **part}
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.flush()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield script
    finally:
        script.over.set()
        server.shutdown()
        server.server_close()


def deltas(answer: Answer) -> Iterator[dict[str, Any]]:
    """The parts in which an answer is streamed."""
    if answer.call is not None:
        name, fields = answer.call
        function = {"name": name, "arguments": json.dumps(fields)}
        call = {"index": 0, "id": "call_1", "type": "function", "function": function}
        yield {"role": "assistant", "tool_calls": [call]}
        return
    half = len(answer.text) // 2
    yield {"role": "assistant", "content": answer.text[:half]}
    yield {"content": answer.text[half:]}
