"""What is committed holds no path of one machine, no registry's address, no secret, and is read as UTF-8."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from tests.architecture.tree import ROOT, examples, product, report, tracked

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT = {
    *(
        ".py",
        ".pyi",
        ".toml",
        ".txt",
        ".md",
        ".yaml",
        ".yml",
        ".json",
        ".jsonl",
        ".cfg",
        ".ini",
        ".sh",
        ".sql",
    ),
    *(".html", ".css", ".js", ".mjs", ".ts", ".tsx", ".svg", ".typed", ""),
}

# Samples of bad input live here and may be in any encoding.
ANY_BYTES = ("tests/data/", "docs/examples/audit/samples/")

# Written in halves, so that this file does not find itself.
FORBIDDEN = {
    "a path of one machine": (
        r"(?<![\w.])(/ho" r"me/\w|/Use" r"rs/\w|/ro" r"ot/|/wo" r"rk/|[A-Z]:\\Use" r"rs)"
    ),
    "the address of a package registry": (
        r"py" r"pi\.org|python" r"hosted\.org|registry\.np" r"mjs|--(extra-)?index" r"-url"
    ),
    "a private key": r"-----BEGIN [A-Z ]*PRIV" r"ATE KEY-----",
    "an access key": (
        r"\b(AK"
        r"IA[0-9A-Z]{16}|gh[pousr]"
        r"_[A-Za-z0-9]{36}"
        r"|sk"
        r"-[A-Za-z0-9_-]{32,}|xox"
        r"[abps]-[0-9A-Za-z-]{20,})"
    ),
}


def texts() -> Iterator[tuple[str, bytes]]:
    for path in tracked():
        if path.suffix in TEXT:
            yield path.relative_to(ROOT).as_posix(), path.read_bytes()


def test_nothing_of_one_machine_and_no_secret():
    """No machine paths, registry addresses or secrets in any committed text."""
    patterns = {what: re.compile(pattern) for what, pattern in FORBIDDEN.items()}
    faults = [
        f"{name}:{number}: {what}: {found.group(0)}"
        for name, raw in texts()
        for number, line in enumerate(raw.decode("utf-8", "replace").splitlines(), 1)
        for what, pattern in patterns.items()
        if (found := pattern.search(line))
    ]
    assert not faults, report(faults)


def test_text_is_utf8():
    """TEXT 138: every committed text is UTF-8 without a byte order mark, with newlines of one kind."""
    faults = []
    for name, raw in texts():
        if name.startswith(ANY_BYTES):
            continue
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as error:
            faults.append(f"{name}: byte {error.start} is not UTF-8")
        if raw.startswith(b"\xef\xbb\xbf"):
            faults.append(f"{name}: begins with a byte order mark")
        if b"\r" in raw:
            faults.append(f"{name}: holds a carriage return")
        if raw and not raw.endswith(b"\n"):
            faults.append(f"{name}: its last line does not end")
    assert not faults, report(faults)


OPENERS = {"open", "read_text", "write_text", "open_file", "NamedTemporaryFile", "TemporaryFile", "fdopen"}
CHILDREN = {"run", "Popen", "check_output", "check_call", "getoutput", "run_process", "open_process"}
BINARY_MODULES = {"os", "tarfile", "zipfile", "webbrowser", "wave", "shelve", "dbm"}


def opens_text_blindly(call: ast.Call) -> bool:
    """Whether a call opens a text file and leaves its encoding to the machine."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    owner = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    if name not in OPENERS or (name == "open" and owner in BINARY_MODULES):
        return False
    if owner[:1].isupper() and owner != "Path":
        return False  # a class of ours that opens something else
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if "encoding" in keywords or None in keywords:
        return False
    if name == "read_text":
        return not call.args
    if name == "write_text":
        return len(call.args) < 2
    place = 0 if name.endswith("TemporaryFile") or (name == "open" and owner and owner != "io") else 1
    mode = keywords.get("mode") or (call.args[place] if len(call.args) > place else None)
    if isinstance(mode, ast.Constant) and "b" in str(mode.value):
        return False
    return not (name.endswith("TemporaryFile") and mode is None)  # their default is binary


def decodes_blindly(call: ast.Call) -> bool:
    """Whether a call asks a child process for text and leaves its encoding to the machine."""
    called = ast.unparse(call.func).rpartition(".")[2]
    given = {keyword.arg for keyword in call.keywords}
    return called in CHILDREN and bool(given & {"text", "universal_newlines"}) and "encoding" not in given


def test_every_open_names_its_encoding():
    """TEXT 138: explicit encoding on every open, in the product and in its examples."""
    faults = [
        f"{source.name}:{node.lineno}: {ast.unparse(node)[:80]}: say encoding="
        for source in product() + examples()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and (opens_text_blindly(node) or decodes_blindly(node))
    ]
    assert not faults, report(faults)


@pytest.mark.parametrize(
    ("call", "blind"),
    [
        ("open(p)", True),
        ("open(p, 'w')", True),
        ("open(p, 'rb')", False),
        ("open(p, encoding='utf-8')", False),
        ("p.open()", True),
        ("p.open('rb')", False),
        ("os.open(p, flags)", False),
        ("p.read_text()", True),
        ("p.read_text('utf-8')", False),
        ("p.write_text(t)", True),
        ("await_me.write_text(t, encoding='utf-8')", False),
        ("anyio.open_file(p, 'a')", True),
        ("anyio.open_file(p, 'ab')", False),
        ("tempfile.NamedTemporaryFile()", False),
        ("tempfile.NamedTemporaryFile('w')", True),
        ("subprocess.run(c, text=True)", True),
        ("Problem(text=True)", False),
        ("subprocess.run(c, text=True, encoding='utf-8')", False),
    ],
)
def test_the_lint_itself(call: str, blind: bool):
    """The lint of TEXT 138 sees the calls that it is about."""
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    assert (opens_text_blindly(node) or decodes_blindly(node)) is blind
