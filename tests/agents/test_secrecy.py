"""A key goes where it is needed and nowhere else (issue 5, 11; bad input 41; S-cases of leaks)."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from orchestrator import OperationGraphBuilder, Session, role
from orchestrator.agents.secrecy import redacted, redacted_data
from tests.agents.provider import Answer, provider
from tests.cli.program import call

KEY = 'ca+na/ry "quoted" é-0123456789'


def forms(key: str) -> list[bytes]:
    """Every form in which a key is searched for."""
    raw = key.encode()
    found = [
        raw,
        quote(key, safe="").encode(),
        quote(key).encode(),
        quote_plus(key).encode(),
        raw.hex().encode(),
    ]
    found += [json.dumps(key)[1:-1].encode(), json.dumps(key, ensure_ascii=False)[1:-1].encode()]
    found += [base64.b64encode(raw).rstrip(b"="), base64.urlsafe_b64encode(raw).rstrip(b"=")]
    return list(dict.fromkeys(found))


def leaks(data: bytes, key: str) -> list[bytes]:
    return [form for form in forms(key) if form in data]


@pytest.mark.parametrize("before", ["", "a", "ab", "user:", "Bearer "])
def test_every_form_is_taken_out(before: str, monkeypatch: pytest.MonkeyPatch):
    """Raw, base64 wherever the key begins in the encoded bytes, percent-encoded, hex, inside JSON."""
    monkeypatch.setenv("SOME_API_KEY", KEY)
    said = before + KEY + " and more"
    for text in (
        said,
        quote(said),
        quote_plus(said),
        json.dumps(said),
        json.dumps(json.dumps(said, ensure_ascii=False), ensure_ascii=False).replace("\\\\", "\\"),
        said.encode().hex(),
    ):
        assert leaks(redacted(text).encode(), KEY) == [], text
    encoded = base64.b64encode(said.encode()).decode()
    left = redacted(encoded)
    assert "[secret]" in left
    assert KEY.encode()[3:-3] not in base64.b64decode(left.split("[")[0] + "==")


def test_what_is_no_secret_stays(monkeypatch: pytest.MonkeyPatch):
    """The other arm: a variable of another name, a short value, data of other types."""
    monkeypatch.setenv("SOME_PLACE", "elsewhere-0123456789")
    monkeypatch.setenv("SHORT_KEY", "a")
    monkeypatch.setenv("LONG_KEY", KEY)
    assert redacted("a place: elsewhere-0123456789") == "a place: elsewhere-0123456789"
    data = {"a": [1, None, True, "plain"], KEY: KEY}
    assert redacted_data(data) == {"a": [1, None, True, "plain"], "[secret]": "[secret]"}


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_an_exception_that_quotes_a_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Bad input 41: the exception of a role, and its traceback, are on record without it."""
    monkeypatch.setenv("SOME_API_KEY", KEY)

    @role()
    async def leaks_it(turn: Any) -> None:
        turn.report(f"calling with {KEY}")
        raise RuntimeError(f"401 for key {KEY}")

    graph = OperationGraphBuilder()
    graph.add_operation(leaks_it, depends_on=[])
    said: list[bytes] = []
    async with (
        Session(folder=tmp_path) as session,
        session.tap(lambda one: said.append(str(one.data).encode())),
    ):
        run = await session.start(graph)
        result = await run.wait()
    assert result["leaks_it"].error.message == "401 for key [secret]"
    assert leaks(b"".join(said), KEY) == []


CAST = '''\
import os, sys

from orchestrator import Finding, McpServer, Role, role
from roles import Program

ECHO = """
import base64, json, os, sys
from urllib.parse import quote
key = os.environ["SERVICE_KEY"]
print("raw", key)
print("base64", base64.b64encode(("user:" + key).encode()).decode())
print("url", quote(key))
print("json", json.dumps({"key": key}))
print(sys.argv, file=sys.stderr)
print(key, file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""
PEEK = "import os; print(sorted(name for name in os.environ if 'KEY' in name))"

echo = Role("echo", program=Program((sys.executable, "-c", ECHO, "0"), env=("SERVICE_KEY",)))
breaks = Role("breaks", program=Program((sys.executable, "-c", ECHO, "3"), env=("SERVICE_KEY",)))
peek = Role("peek", program=(sys.executable, "-c", PEEK))
asker = Role("asker", body="You ask.", models=("openai-chat:gpt-4o",))


@role()
def raises(turn):
    raise ValueError("the service said no to " + os.environ["SERVICE_KEY"])


def fetch() -> dict[str, str]:
    """Fetch something."""
    return {"header": "Bearer " + os.environ["SERVICE_KEY"]}


notes = McpServer("notes", argv=(sys.executable, os.environ["NOTES"]), env=("SERVICE_KEY",))
fetcher = Role("fetcher", tools=(fetch, "notes.key"))
coder = Role(
    "coder",
    emits=(Finding,),
    program=Program(
        (sys.executable, os.environ["CODER"], "tells its key", "."), protocol="acp", env=("SERVICE_KEY",)
    ),
)
'''
FLOW = """\
version: 1
name: canary
cast: [cast.py]
nodes:
  echo: {role: echo, instruction: Go.}
  breaks: {role: breaks, instruction: Go.}
  peek: {role: peek, instruction: Go.}
  raises: {role: raises}
  asks: {role: asker, instruction: Go.}
  fetched: {operation: act, with: {tool: fetch}}
  served: {operation: act, with: {tool: notes.key}}
  codes: {role: coder, instruction: Go.}
  shown: {role: asker, after: [echo, fetched, codes], instruction: "Say ${echo.text} ${codes.text}"}
"""


@pytest.mark.slow
def test_a_canary_is_nowhere(tmp_path: Path):
    """Issue 5, 11: in environment, errors, child output, tool results; in no file, log, prompt, terminal."""
    for extra in ("pydantic_ai", "mcp", "acp"):
        pytest.importorskip(extra)
    key = "canary+key/0123456789abcdef=="
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "cast.py").write_text(CAST)
    with provider(Answer(status=400, echoes=True)) as server:
        more = {"OPENAI_API_KEY": key, "SERVICE_KEY": key, "OPENAI_BASE_URL": server.url, "PYTHONUTF8": "1"}
        here = Path(__file__).parent
        more |= {"CALLBOARD_MODEL_CALLS": "", "NOTES": str(here / "mcp_server.py")}
        more["CODER"] = str(here / "acp_agent.py")
        done = [call("run", "--debug", cwd=tmp_path, **more)]
        done += [call("show", "last", "--json", cwd=tmp_path, **more)]
        done += [
            call("story", "last", node, cwd=tmp_path, **more)
            for node in ("raises", "breaks", "served", "codes", "shown")
        ]
        asked = json.dumps(server.asked).encode()
    shown = "".join(one.stdout + one.stderr for one in done).encode()
    assert b"[secret]" in shown
    assert b"the service said no to [secret]" in shown
    nodes = json.loads(done[1].stdout)["nodes"]
    assert nodes["served"]["status"] == nodes["codes"]["status"] == "completed", nodes
    assert "It is [secret]." in nodes["codes"]["value"]["text"]
    assert "KEY" not in nodes["peek"]["value"]["text"].replace("[]", "")
    assert len(server.asked) == 2
    assert [line for line in shown.splitlines() if leaks(line, key)] == []
    assert leaks(asked, key) == []
    kept = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any(file.suffix == ".db" for file in kept)
    assert [file.name for file in kept if leaks(file.read_bytes(), key)] == []
