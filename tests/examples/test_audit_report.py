"""The judgement, the report and the baseline: pure functions over what the inspectors found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def place(analysis):
    """Make a place with defaults."""

    def make(path="a.py", line=1, check="shell", severity="high", confidence=0.9, text="it is so"):
        return analysis.Place(path, line, check, severity, confidence, text)

    return make


@pytest.fixture
def audit(analysis):
    """Make an audit of these places in modules of 100 lines."""

    def make(*places, threshold="high", unseen=(), skipped=(), more=("clean.py",)):
        paths = sorted({p.path for p in places} | set(more))
        return analysis.Audit(
            "src", threshold, dict.fromkeys(paths, 100), tuple(places), tuple(unseen), tuple(skipped)
        )

    return make


def render(analysis, audit, file=Path("out/report.md"), root=Path("src"), **more):
    """The report of an audit."""
    page = analysis.report.Page(file, root, "callboard run flow.yaml --arg target=src", **more)
    return analysis.report.render(audit, analysis.judge(audit), page)


@pytest.mark.parametrize(
    ("severities", "threshold", "verdict"),
    [
        ([], "high", "APPROVE"),
        (["info"], "high", "APPROVE"),
        (["low", "medium"], "high", "APPROVE-WITH-FIXES"),
        (["high"], "high", "REJECT"),
        (["critical"], "high", "REJECT"),
        (["high"], "critical", "APPROVE-WITH-FIXES"),
        (["low"], "low", "REJECT"),
        (["info"], "info", "REJECT"),
    ],
)
def test_verdict_by_threshold(analysis, audit, place, severities, threshold, verdict):
    """Both arms at every threshold."""
    assert (
        analysis.judge(audit(*(place(severity=s) for s in severities), threshold=threshold)).verdict
        == verdict
    )


def test_the_rationale_counts_and_points(analysis, audit, place):
    """A reader knows at once how many, how bad and where."""
    judgement = analysis.judge(
        audit(place("b.py", 9), place("a.py", 3, severity="critical"), place(severity="low"))
    )
    assert judgement.rationale == (
        "2 findings at or above high (1 critical, 1 high), first a.py:3 (shell), b.py:9 (shell)"
    )
    assert [p.path for p in judgement.worst] == ["a.py", "b.py"]
    assert judgement.reversible_by


def test_what_was_not_looked_at_is_no_approval(analysis, audit, place):
    """A clean part is approved with fixes; a whole that nobody saw is rejected."""
    unseen = [analysis.Unseen("z.py", "max_spawn_exceeded")]
    judgement = analysis.judge(audit(unseen=unseen))
    assert judgement.verdict == "APPROVE-WITH-FIXES"
    assert "1 module not looked at" in judgement.rationale
    judgement = analysis.judge(audit(unseen=unseen, more=()))
    assert judgement.verdict == "REJECT"
    assert "none of 1 module was looked at: max_spawn_exceeded" in judgement.rationale


def test_no_modules_is_an_approval_that_says_so(analysis, audit):
    """An empty folder."""
    judgement = analysis.judge(audit(more=()))
    assert (judgement.verdict, judgement.rationale) == ("APPROVE", "there is no Python module to judge")


def test_an_unknown_threshold_names_the_known_ones(analysis, audit):
    """Not silently `high`."""
    with pytest.raises(
        ValueError, match="'hihg' is not a severity; choose one of info, low, medium, high, critical"
    ):
        analysis.judge(audit(threshold="hihg"))


def test_the_report_in_its_parts(analysis, audit, place):
    """Verdict, counts, worst first, links relative to the report, what was not seen, how to run it again."""
    text = render(
        analysis,
        audit(
            place("pkg/a.py", 7, text="bad"),
            place("pkg/b.py", 2, "todo", "info"),
            place("pkg/b.py", 5, "todo", "info"),
            unseen=[analysis.Unseen("z.py", "max_spawn_exceeded")],
            skipped=[analysis.Unseen(".git/", "hidden")],
        ),
    )
    assert text.startswith("# Audit of `src`\n\n**REJECT**: 1 finding at or above high")
    assert "- 3 of 4 modules looked at, 300 lines" in text
    assert "| high | 1 | rejects |" in text
    assert "| medium | 0 |  |" in text
    assert "| `todo` | 2 | 2 info |" in text
    assert "- **high** [`pkg/a.py:7`](../src/pkg/a.py#L7) bad `shell`" in text
    assert "- 2 info `todo`: lines [2](../src/pkg/b.py#L2), [5](../src/pkg/b.py#L5)" in text
    assert "1: max_spawn_exceeded\n\n- `z.py`" in text
    assert "1: hidden\n\n- `.git/`" in text
    assert text.index("pkg/a.py") < text.index("pkg/b.py")
    assert text.endswith("```sh\ncallboard run flow.yaml --arg target=src\n```\n")


def test_an_empty_report_is_still_a_report(analysis, audit):
    """No tables without rows."""
    text = render(analysis, audit(more=()), note="none yet")
    assert "0 of 0 modules" in text
    assert "|" not in text
    assert "what is new cannot be said: none yet" in text


def test_foreign_text_stays_text(analysis, audit, place):
    """A path or a comment cannot write Markdown, HTML or a second line into the report."""
    text = render(
        analysis,
        audit(
            place(
                "we ird/[x](y)`|.py",
                1,
                text="<script>alert(1)</script> [click](javascript:x)\n# Title | cell \u202ecba",
            ),
        ),
    )
    assert "<script>" not in text
    assert "[click](" not in text.replace("\\[click](", "")
    assert "\n# Title" not in text
    assert "\u202e" not in text
    assert "we%20ird/%5Bx%5D%28y%29%60%7C.py#L1" in text
    row = next(line for line in text.splitlines() if line.startswith("| [``"))
    assert row.replace("\\|", "").count("|") == 5


def test_the_report_is_deterministic(analysis, audit, place):
    """The order in which inspectors finish does not show."""
    places = [place(f"{n}.py", n, check) for n in range(1, 9) for check in ("shell", "sql")]
    assert render(analysis, audit(*places)) == render(analysis, audit(*reversed(places)))


def test_long_lists_are_cut_with_a_number(analysis, audit, place):
    """Twenty worst places; the others are counted and stand by module."""
    text = render(analysis, audit(*(place(line=n) for n in range(1, 31))))
    assert "and 10 more of medium or above" in text
    assert "a.py:30" in text


def test_the_baseline_tells_what_is_new(analysis, place, tmp_path):
    """A finding that moved is known; one more of the same kind is new."""
    file, root = tmp_path / "baseline.json", tmp_path / "src"
    analysis.baseline.save(file, root, [place(line=3, text="`f` is 90 lines long"), place("b.py")])
    known = analysis.baseline.load(file, root)
    moved, second, other = (
        place(line=40, text="`f` is 92 lines long"),
        place(line=50, text="`f` is 93 lines long"),
        place(),
    )
    assert not known.note
    assert analysis.baseline.new_places([second, moved, place("b.py", 77)], known) == [second]
    assert analysis.baseline.new_places([other], known) == [other]


def test_a_partial_audit_forgets_nothing(analysis, place, tmp_path):
    """Modules beyond the budget keep what was known of them; modules that are gone do not."""
    file, root = tmp_path / "b.json", tmp_path / "src"
    analysis.baseline.save(file, root, [place("seen.py"), place("unseen.py"), place("gone.py")])
    analysis.baseline.save(file, root, [], unseen=["unseen.py"])
    known = analysis.baseline.load(file, root)
    assert {path for path, _ in known.counts} == {"unseen.py"}


def test_the_same_baseline_from_anywhere(analysis, place, tmp_path, monkeypatch):
    """The target is kept relative to the file, so a checkout elsewhere has the same baseline."""
    analysis.baseline.save(tmp_path / "b.json", tmp_path / "src", [place()])
    text = (tmp_path / "b.json").read_text(encoding="utf-8")
    assert json.loads(text)["target"] == "src"
    monkeypatch.chdir(tmp_path)
    assert not analysis.baseline.load(Path("b.json"), Path("src")).note


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "no approved audit"),
        ("{", "cannot be read"),
        ("[]", "not a baseline"),
        ('{"version": 2}', "not a baseline of version 1"),
        ('{"version": 1, "target": "elsewhere", "findings": {}}', "another target"),
        ('{"version": 1, "target": "src", "findings": []}', "not a baseline"),
    ],
)
def test_a_baseline_that_is_none(analysis, tmp_path, content, says):
    """Missing, damaged, newer, foreign: said in the report, and no reason to fail."""
    file = tmp_path / "b.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    assert says in analysis.baseline.load(file, tmp_path / "src").note


def test_writing_is_whole_or_not_at_all(analysis, tmp_path, monkeypatch):
    """A write that fails leaves the report of before."""
    file = tmp_path / "deep" / "report.md"
    analysis.baseline.write(file, "old")

    def fail(self, *args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(OSError, match="No space"):
        analysis.baseline.write(file, "new")
    assert file.read_bytes() == b"old"
