"""Research over folders of texts: both arms of its gate, disagreement, gaps, and what cannot be read."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from orchestrator import Session, load_flow
from orchestrator.cli.commands import invoke

FLOW = Path(__file__).parents[2] / "docs" / "examples" / "research" / "flow.yaml"
QUESTION = "how is green tea steeped"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Two sources that disagree, and files that are none."""
    folder = tmp_path / "sources"
    (folder / ".hidden").mkdir(parents=True)
    (folder / ".hidden" / "x.md").write_text("Green tea is steeped for 9 minutes.\n", encoding="utf-8")
    (folder / "a.md").write_text("# Tea\n\n- Green tea is steeped for 2 minutes.\n", encoding="utf-8")
    (folder / "b.txt").write_text("Green tea is steeped 3 minutes. Water boils.\n", encoding="utf-8")
    (folder / "c.csv").write_text("green,tea,steeped\n", encoding="utf-8")
    return folder


async def researched(folder: Path, **args):
    """Run the flow, and read its report while the run's files are there."""
    async with Session() as session:
        given = {"sources": str(folder), "question": QUESTION, **args}
        result = await session.flow(load_flow(FLOW), args=given)
        if "report" not in result.outputs:
            return result, None
        return result, await anyio.Path(result.outputs["report"]).read_text(encoding="utf-8")


@pytest.mark.anyio
async def test_sources_that_disagree(sources: Path):
    """Findings have places; a conflict is approved with fixes and stands in the report."""
    result, report = await researched(sources)
    assert result.reason == "completed", result.detail
    assert "(a.md:3)" in report
    assert "(b.txt:1)" in report
    assert result["compare"].value == {"conflicts": 1, "gaps": 0}
    assert result.outputs["verdict"] == "APPROVE-WITH-FIXES"
    assert report.startswith(
        f"# {QUESTION}\n\n2 findings in 2 of 2 sources.\n\n## Found\n\n- Green tea is steeped"
    )
    assert "## Disagreement\n\n- a.md and b.txt: 2 against 3" in report
    assert report.endswith("APPROVE-WITH-FIXES: 2 sources, 1 conflicts, 0 gaps\n")


@pytest.mark.anyio
async def test_sources_that_agree(sources: Path):
    """Nothing is open: approved."""
    (sources / "b.txt").write_text("Green tea is steeped 2 minutes.\n", encoding="utf-8")
    result, report = await researched(sources)
    assert result.outputs["verdict"] == "APPROVE"
    assert "##" in report
    assert "Disagreement" not in report


@pytest.mark.anyio
async def test_too_few_sources_are_rejected(sources: Path):
    """The other arm: no report, and the verdict says what would change it."""
    result, report = await researched(sources, support=3)
    assert (result.reason, report) == ("gate_rejected", None)
    assert result["review"].value["rationale"] == "2 sources speak of it, 3 are needed"
    assert result["review"].value["reversible_by"]
    assert result.vetoed_operations == ("report",)


@pytest.mark.anyio
async def test_what_is_missing_or_cannot_be_read(sources: Path):
    """A word that nobody uses is a gap; a file that is no text is left out and counted."""
    (sources / "d.txt").write_bytes(b"\xff\xfe\x00")
    result, report = await researched(sources, question=f"{QUESTION} properly")
    assert result.reason == "completed", result.detail
    assert result["compare"].value["gaps"] == 1
    assert "- no source speaks of 'properly' here" in report
    assert "2 findings in 2 of 3 sources" in report
    assert "- 1 could not be read" in report


def test_on_the_command_line(sources: Path, monkeypatch: pytest.MonkeyPatch):
    """check and a rehearsal find nothing; an empty folder is rejected, exit 3."""
    monkeypatch.chdir(sources.parent)
    words = ["--arg", f"question={QUESTION}", "--arg"]
    assert invoke(["check", str(FLOW)]) == 0
    assert invoke(["rehearse", str(FLOW), "--seeds", "20", *words, "sources=sources"]) == 0
    (sources.parent / "empty").mkdir()
    assert invoke(["run", str(FLOW), "--journal", "none", *words, "sources=empty"]) == 3
