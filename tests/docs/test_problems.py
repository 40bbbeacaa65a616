"""Every message of ``check`` is explained in docs/flow-reference.md, and nothing else is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from docs.problems import PROBLEMS
from tests.docs.pages import ROOT

#: Modules of documents that say nothing about one: builders of graphs, drawings, what binds and compiles.
SILENT = frozenset(
    {
        *(
            "__init__",
            "arguments",
            "builder",
            "compile",
            "conditions",
            "document",
            "draft",
            "draw",
            "expansion",
        ),
        *(
            "expansion",
            "flow",
            "graph",
            "instances",
            "json_values",
            "names",
            "operations",
            "problems",
            "saving",
            "steps",
        ),
    }
)
CORE = ("expression_compiler", "expression_scan")
#: Literals that look like a message and are none.
NO_MESSAGES = frozenset({"run's wall_clock", "… is …; write True or some of …"})


def spoken() -> Iterator[tuple[str, str]]:
    """Every text of at least three words in the modules that check: where it stands, and the text."""
    flows = sorted((ROOT / "orchestrator/flows").glob("*.py"))
    paths = [path for path in flows if path.stem not in SILENT]
    paths += [ROOT / f"orchestrator/core/{name}.py" for name in CORE]
    for path in paths:
        for line, text in literals(ast.parse(path.read_text("utf-8"))):
            if (
                " " in text
                and len(re.findall(r"[a-z]{2,}", text)) >= 3
                and "(?" not in text
                and "[a-" not in text.lower()
            ):
                yield f"{path.relative_to(ROOT)}:{line}", text


def literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Texts of a module, … where something is put in; docstrings left out."""
    apart = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            apart.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            apart |= {id(part) for part in ast.walk(node) if part is not node}
    for node in ast.walk(tree):
        if id(node) in apart:
            continue
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def explained() -> list[str]:
    return [message for rows in PROBLEMS.values() for messages, _, _ in rows for message in messages]


def test_every_message_is_explained():
    """A new message gets a row in docs/problems/: what it means, and what to do."""
    known = {*explained(), *NO_MESSAGES}
    missing = [f"{where}: {text}" for where, text in spoken() if text not in known]
    assert not missing, "add these to docs/problems/:\n" + "\n".join(missing)


def test_every_explanation_is_of_a_message():
    """No row is left behind by a message that went."""
    files = [*(ROOT / "orchestrator/flows").glob("*.py"), *(ROOT / "orchestrator/core").glob("*.py")]
    said = {text for path in files for _, text in literals(ast.parse(Path(path).read_text("utf-8")))}
    gone = [message for message in explained() if message not in said]
    assert not gone, "no message reads so any more:\n" + "\n".join(gone)


def test_each_is_explained_once():
    """One message, one place to look."""
    found = explained()
    assert len(found) == len(set(found))
