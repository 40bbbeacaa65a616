"""The five roles with no engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import Document, Finding, SpawnRequest
from orchestrator.testing import fake_turn
from roles import load_roles

BAD = "import os\n\n\ndef run(name, log=[]):\n    log.append(name)\n    os.system('rm ' + name)\n"


@pytest.fixture(scope="module")
def cast(audit_folder):
    """The roles of the audit by name."""
    return {role.name: role for role in load_roles(audit_folder / "cast.py")}


@pytest.fixture
def code(tmp_path, monkeypatch):
    """A folder to audit; reports and journals stay beside it."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "code"
    folder.mkdir()
    return folder


def plant(folder, **files):
    """Write modules."""
    for name, text in files.items():
        data = text if isinstance(text, bytes) else text.encode()
        (folder / f"{name}.py").write_bytes(data)


def test_the_cast(cast):
    """What each may emit is declared, and no more."""
    assert {name: [kind.__name__ for kind in role.emits] for name, role in cast.items()} == {
        "scout": ["SpawnRequest"],
        "inspector": ["Finding"],
        "critic": ["Verdict"],
        "scribe": ["Document"],
        "keeper": [],
    }


def test_scout_asks_for_one_inspector_each(cast, code):
    """In order, idempotent by path, joined before what follows."""
    plant(code, b="x = 1", a="x = 1")
    turn = fake_turn(parameters={"target": str(code)}, grants=(SpawnRequest,))
    value = cast["scout"](turn)
    assert [(r.assignee, r.key, r.before) for r in turn.emitted] == [
        ("inspector", "a.py", "successors"),
        ("inspector", "b.py", "successors"),
    ]
    assert (value["modules"], value["spawned"], value["not_looked_at"]) == (2, 2, [])


def test_scout_names_what_was_refused(cast, code):
    """A role without the grant gets refusals, and says so in its value."""
    plant(code, a="x = 1")
    value = cast["scout"](fake_turn(parameters={"target": str(code)}, grants=()))
    assert value["not_looked_at"] == [{"path": "a.py", "why": "not_granted"}]
    assert (value["modules"], value["spawned"]) == (1, 0)


def test_inspector_returns_findings(cast, code):
    """Evidence is path:line, the source is the check."""
    plant(code, a=BAD)
    value = cast["inspector"](fake_turn(parameters={"root": str(code), "path": "a.py"}, grants=(Finding,)))
    found = {(f.source, f.evidence, str(f.severity)) for f in value["findings"]}
    assert {("shell", "a.py:6", "high"), ("mutable-default", "a.py:4", "medium")} <= found


def test_document_holds_the_head_of_the_report(cast, code):
    """The ledger gets what is worth reading, not a second copy of the page."""
    scouted = {"target": "code", "root": str(code), "inspectors": {}, "not_looked_at": [], "skipped": []}
    turn = fake_turn(
        parameters={"threshold": "high", "report": "out/r.md", "baseline": "b.json"},
        inputs={"scout": scouted},
        grants=(Document,),
    )
    value = cast["scribe"](turn)
    (document,) = turn.emitted
    assert document.content.startswith("**APPROVE**: there is no Python module to judge.")
    assert value["path"] == "out/r.md"
    assert Path("out/r.md").read_text(encoding="utf-8").startswith("# Audit of `code`")


def joined(code, **more):
    """A turn below two inspectors, of which the second one failed."""
    scouted = {
        "target": "code",
        "root": str(code),
        "inspectors": {"scout.inspector-1": "a.py", "scout.inspector-2": "b.py"},
        "not_looked_at": [{"path": "c.py", "why": "max_spawn_exceeded"}],
        "skipped": [{"path": ".git/", "why": "hidden"}],
    }
    finding = Finding(description="it is so", severity="high", evidence="a.py:3", source="shell")
    return fake_turn(
        parameters={"threshold": "high", "report": "r.md", "baseline": "b.json"},
        inputs={"scout": scouted, "scout.inspector-1": {"path": "a.py", "lines": 10, "findings": [finding]}},
        failed={"scout.inspector-2": RuntimeError("broken")},
        **more,
    )


def test_the_critic_counts_what_ancestors_emitted(cast, code):
    """The rationale names counts, places, and how much was not seen."""
    verdict = cast["critic"](joined(code, grants=cast["critic"]))
    assert verdict.verdict == "REJECT"
    assert verdict.rationale == (
        "1 finding at or above high (1 high), first a.py:3 (shell); 2 modules not looked at"
    )
    assert verdict.evidence == "a.py:3"


def test_an_inspector_that_failed_is_named_with_its_reason(cast, code):
    """Beside the modules that the budget refused, each with why."""
    value = cast["scribe"](joined(code, grants=cast["scribe"]))
    assert value["not_looked_at"] == ["b.py", "c.py"]
    text = Path("r.md").read_text(encoding="utf-8").partition("## Not looked at")[2]
    assert "RuntimeError: broken\n\n- `b.py`" in text
    assert "max_spawn_exceeded\n\n- `c.py`" in text
