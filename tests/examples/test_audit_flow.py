"""The whole audit with the engine: approved, rejected, beyond the budget, on broken input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator import Session, VerdictValue, load_flow

pytestmark = pytest.mark.anyio

BAD = "import os\n\n\ndef run(name, log=[]):\n    log.append(name)\n    os.system('rm ' + name)\n"


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


def page():
    """The report as it was written, or an empty text."""
    report = Path("audit-report.md")
    return report.read_text(encoding="utf-8") if report.exists() else ""


def baseline():
    """What an approved audit remembered, or None."""
    file = Path("audit-baseline.json")
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


async def audit(audit_folder, target, **args):
    """Run the flow and return its result."""
    flow = load_flow(audit_folder / "flow.yaml")
    async with Session() as session:
        return await session.flow(flow, args={"target": str(target), **args})


async def test_rejected_and_reported(audit_folder, code):
    """The gate rejects, the report is there and says so, nothing is remembered."""
    plant(code, bad=BAD, good='"""Good."""\n')
    result = await audit(audit_folder, code)
    assert result.reason == "gate_rejected"
    assert set(result.completed_operations) >= {"scout", "report", "review"}
    assert result.vetoed_operations == ("remember",)
    report = page()
    assert "**REJECT**" in report
    assert "[`bad.py:6`](code/bad.py#L6)" in report
    assert baseline() is None


async def test_approved_and_remembered(audit_folder, code):
    """What an approved audit found is not new the next time."""
    plant(code, a="import os\n\n\ndef f(): ...\n")
    first = await audit(audit_folder, code)
    assert (first.reason, first["report"].value["new"]) == ("completed", None)
    assert baseline()["target"] == "code"
    plant(code, a="import os\nimport re\n\n\ndef f(): ...\n")
    second = await audit(audit_folder, code)
    assert second["report"].value["new"] == 1
    assert "`re` is imported and never used" in page().partition("## New")[2]


async def test_threshold_decides(audit_folder, code):
    """The same folder, approved and rejected."""
    plant(code, a="import os\n\n\ndef f(): ...\n")
    assert (await audit(audit_folder, code, threshold="low")).reason == "gate_rejected"
    assert (await audit(audit_folder, code, threshold="critical")).reason == "completed"


async def test_beyond_the_budget(audit_folder, code):
    """S: refused, counted, and named in the report as not looked at."""
    plant(code, **{f"m{n}": '"""M."""\n' for n in range(5)})
    result = await audit(audit_folder, code, spawns=2)
    assert result.spawned_operations == 2
    assert sum(drop.count for drop in result.dropped_spawns) == 3
    assert result["review"].value["verdict"] == VerdictValue.APPROVE_WITH_FIXES
    report = page()
    assert "2 of 5 modules looked at" in report
    assert report.partition("## Not looked at")[2].count("- `m") == 3


async def test_no_budget_is_no_approval(audit_folder, code):
    """Nobody looked, so nothing is said to be fine."""
    plant(code, a="x = 1\n")
    result = await audit(audit_folder, code, spawns=0)
    assert result.reason == "gate_rejected"
    assert "none of 1 module was looked at" in result["review"].value["rationale"]


async def test_broken_binary_and_empty(audit_folder, code):
    """A syntax error and a binary are findings; an empty folder is an answer."""
    assert (await audit(audit_folder, code)).reason == "completed"
    assert "0 of 0 modules" in page()
    plant(code, broken="def f(:\n", binary=b"\x7fELF\x00")
    result = await audit(audit_folder, code)
    assert result.reason == "gate_rejected"
    assert not result.failed_operations
    report = page()
    assert "broken.py:1" in report
    assert "null bytes" in report


async def test_a_missing_target_fails_the_scout(audit_folder, code):
    """One line that says what to do; nothing else runs."""
    result = await audit(audit_folder, code / "nowhere")
    assert result.reason == "failed"
    assert "--arg target=PATH" in result["scout"].error.message
    assert not page()


@pytest.mark.slow
async def test_five_thousand_modules(audit_folder, code):
    """All are inspected with budget enough; the default inspects 1,000 and names the other 4,000."""
    for n in range(5_000):
        (code / f"m{n:04}.py").write_bytes(b'"""M."""\n')
    result = await audit(audit_folder, code)
    assert result.spawned_operations == 1_000
    assert page().count("\n- `m") == 4_000
    result = await audit(audit_folder, code, spawns=5_000)
    assert (result.reason, result.spawned_operations) == ("completed", 5_000)
