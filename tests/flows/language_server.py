"""What a YAML language server says of documents: the protocol's few messages over its standard streams."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Server:
    """A language server that is told one schema for every document; they stand beside it."""

    def __init__(self, command: str, schema: Path) -> None:
        self.settings = {
            "yaml": {
                "schemas": {schema.as_uri(): "*.yaml"},
                "validate": True,
                "schemaStore": {"enable": False},
            }
        }
        self.folder = schema.parent.as_uri()
        self.process = subprocess.Popen(
            [command, "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        with self.process:
            pass

    def diagnose(self, documents: Mapping[str, str]) -> dict[str, list[str]]:
        """What is wrong with each document, by its name."""
        self._send(id=1, method="initialize", params={"processId": None, "rootUri": None, "capabilities": {}})
        found: dict[str, list[str]] = {}
        while set(found) != set(documents):
            message = self._read()
            if message.get("id") == 1 and "result" in message:
                self._open(documents)
            elif "method" in message and "id" in message:
                items = message.get("params", {}).get("items", [])
                self._send(id=message["id"], result=[self.settings.get(one.get("section")) for one in items])
            elif message.get("method") == "textDocument/publishDiagnostics":
                params = message["params"]
                found[params["uri"].rpartition("/")[2]] = [one["message"] for one in params["diagnostics"]]
        return found

    def _open(self, documents: Mapping[str, str]) -> None:
        self._send(method="initialized", params={})
        self._send(method="workspace/didChangeConfiguration", params={"settings": self.settings})
        for name, text in documents.items():
            item = {"uri": f"{self.folder}/{name}", "languageId": "yaml", "version": 1, "text": text}
            self._send(method="textDocument/didOpen", params={"textDocument": item})

    def _send(self, **message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        length = 0
        while line := self.process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        assert length, "the language server has ended"
        found: dict[str, Any] = json.loads(self.process.stdout.read(length))
        return found
