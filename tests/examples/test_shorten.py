"""Shorten: the loop ends by its critic or by its gate, with functions and with a test model."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import Session, load_flow
from orchestrator.cli.commands import invoke

FOLDER = Path(__file__).parents[2] / "docs" / "examples" / "shorten"
TEXT = (
    "Tea is a plant. Green tea is tea that nobody lets ferment. It rains. "
    "Green tea wants water of 80 degrees."
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Four sentences, of which the first says little."""
    path = tmp_path / "tea.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.mark.anyio
async def test_the_loop_ends_when_the_critic_approves(source: Path):
    """The weakest sentences go first; what is left is in order."""
    async with Session() as session:
        result = await session.flow(FOLDER / "flow.yaml", args={"source": str(source), "most": 18})
    assert result.reason == "completed", result.detail
    assert len(result.outputs["text"].split()) <= 18
    assert result.outputs["text"].startswith("Green tea is tea")
    assert result.outputs["passes"] == 2
    assert result["critique"].judgement == "approved"


@pytest.mark.anyio
@pytest.mark.parametrize(("most", "reason"), [(0, "gate_rejected"), (100, "completed")])
async def test_both_arms_of_the_gate(source: Path, most: int, reason: str):
    """What cannot be short enough is rejected: the loop has no way on."""
    async with Session() as session:
        result = await session.flow(FOLDER / "flow.yaml", args={"source": str(source), "most": most})
    assert result.reason == reason, result.detail


@pytest.mark.parametrize("name", ["flow.yaml", "agents.yaml"])
def test_the_documents_are_well(name: str):
    """No error; of the one for models only that nobody names a model."""
    found = [str(one) for one in load_flow(FOLDER / name).check()]
    assert all("nothing names a model" in one for one in found), found


def test_with_a_test_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    """``--model test`` performs every role: it runs in CI without a key."""
    pytest.importorskip("pydantic_ai")
    monkeypatch.chdir(tmp_path)
    code = invoke(["run", str(FOLDER / "agents.yaml"), "--model", "test", "--quiet", "--journal", "none"])
    out, err = capsys.readouterr()
    assert code == 0, out + err
    assert "completed" in out
