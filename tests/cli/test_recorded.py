"""Commands that read recorded runs: one of them writes the journal, others look at it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from orchestrator.core.facts import GateRejected
from orchestrator.journal.reading import open_journal
from orchestrator.runtime.envelopes import FIELDS
from orchestrator.runtime.recorded import read_run
from orchestrator.runtime.replaying import replay
from tests.cli.program import call, flow

GROWN = """
  scan: {role: grows, with: {count: 4}}
  review: {role: judge, gate: true, after: [scan], with: {verdict: REJECT, why: 'not <b>yet</b>'}}
  publish: {role: echo, after: [review]}
  broken: {role: boom}
  behind: {role: echo, after: [broken]}
"""
MADE = """
def _make(n):
    @role(name="made")
    async def inner(turn):
        return n
    return inner

made = _make(4)
"""
HEAD = "budget: {spawns: 3}\non_failure: continue"


@pytest.fixture
def grown(cli, tmp_path: Path) -> str:
    """The id of a run with growth, a refusal, a rejection and a failure."""
    flow(tmp_path, GROWN, HEAD)
    assert cli("run", "--quiet")[0] == 1
    with open_journal(tmp_path / ".callboard" / "journal.db") as reader:
        return reader.find_run("last")


def test_runs_lists_where_each_stands(cli, grown: str, tmp_path: Path):
    """runs: one line each, oldest first, by reason; --json is one object a line."""
    flow(tmp_path, "  a: {role: echo}")
    assert cli("run", "--quiet")[0] == 0
    code, out, _ = cli("runs")
    assert code == 0
    assert [line.split()[1:3] for line in out.splitlines()[1:]] == [
        ["tried", "failed"],
        ["tried", "completed"],
    ]
    _, out, _ = cli("runs", "--status", "failed", "--json")
    (line,) = out.splitlines()
    assert {"run": grown, "standing": "failed", "live": False}.items() <= json.loads(line).items()
    code, _, err = cli("runs", "--status", "broken")
    assert (code, "no run stands at 'broken'" in err) == (2, True)


def test_a_run_is_named_by_a_prefix(cli, grown: str):
    """S69: an unambiguous prefix or `last`; an ambiguous or unknown one is an error of usage."""
    assert cli("run", "--quiet")[0] == 1
    assert grown in cli("show", grown[:-1])[1]
    code, _, err = cli("show", "20")
    assert (code, "means several runs" in err) == (2, True)
    code, _, err = cli("show", "nobody")
    assert (code, "has no run 'nobody'" in err) == (2, True)


def test_show_tells_all_that_the_run_told(cli, grown: str):
    """show: headline, refusals, failures, vetoes, each node, and the command that goes on."""
    code, out, _ = cli("show", "last")
    assert code == 0
    assert out.startswith("tried failed: 8 nodes: ")
    for line in (
        "  refused   scan: 1 spawn: max_spawn_exceeded",
        "  rejected  review: not <b>yet</b>",
        "  failed    broken: ValueError: it went wrong",
        "  vetoed    publish: by review",
        f"  see       how broken failed, with its traceback: callboard story {grown} broken",
        f"  next      mend what failed, then: callboard retry {grown}",
    ):
        assert line in out
    assert re.search(r"^succeeded +scan\.echo-1 .*role echo +spawned by scan", out, re.MULTILINE)
    assert "Traceback" in cli("story", grown, "broken")[1]
    code, _, err = cli("show")
    assert (code, "or `last` for the newest" in err) == (2, True)
    _, out, _ = cli("show", "last", "--budget")
    assert ["spawns", "3", "3"] in [line.split() for line in out.splitlines()]
    _, out, _ = cli("show", "last", "--json")
    result = json.loads(out)
    assert (result["kind"], result["reason"], result["next"]) == (
        "RunResult",
        "failed",
        f"callboard retry {grown}",
    )
    assert result["nodes"]["scan.echo-2"]["spawned_by"] == "scan"


def test_story_tells_facts_and_the_exact_text(cli, tmp_path: Path):
    """story: every fact with its cause, the instruction as it was rendered, inputs, value."""
    flow(
        tmp_path,
        "  a: {role: echo, with: {value: 7}}\n"
        "  b: {role: echo, after: [a], instruction: 'take ${a} and go', with: {value: '${a}'}}",
    )
    assert cli("run", "--quiet")[0] == 0
    code, out, _ = cli("story", "last", "b")
    assert code == 0
    assert re.search(r"^#\d+ \+\d+ms NodeStarted attempt=1 <- Finish of 'a' \(#\d+\)$", out, re.MULTILINE)
    assert "instruction\n  take 7 and go\n" in out
    assert '"value": 7' in out
    told = json.loads(cli("story", "last", "b", "--json")[1])
    assert told["given"]["instruction"] == "take 7 and go"
    assert told["given"]["inputs"] == {"a": 7}
    assert told["value"] == 7
    code, _, err = cli("story", "last", "bb")
    assert (code, "did you mean b?" in err) == (2, True)


def test_watch_gives_every_fact_once(cli, grown: str):
    """watch --json: envelopes with their row, all of them; --since goes on behind one; --kind narrows."""
    code, out, _ = cli("watch", "last", "--json", "--no-follow")
    assert code == 0
    envelopes = [json.loads(line) for line in out.splitlines()]
    assert {tuple(one) for one in envelopes} == {(*FIELDS, "row")}
    assert [one["seq"] for one in envelopes] == list(range(1, len(envelopes) + 1))
    _, out, _ = cli("watch", grown, "--json", "--since", "10")
    assert [json.loads(line) for line in out.splitlines()] == envelopes[10:]
    _, out, _ = cli("watch", "--json", "--kind", "GateRejected", "--kind", "SpawnRefused")
    assert [json.loads(line)["kind"] for line in out.splitlines()] == ["SpawnRefused", "GateRejected"]
    _, out, _ = cli("watch", "--all", "--no-follow", "--json", "--since", str(envelopes[4]["row"]))
    assert [json.loads(line) for line in out.splitlines()] == envelopes[5:]
    assert cli("watch", "--kind", "Nothing")[0] == 2
    assert cli("watch", "last", "--all")[0] == 2


def test_watch_says_what_run_said(cli, tmp_path: Path):
    """watch: the same lines as the run itself printed, and the same end."""
    flow(tmp_path, GROWN, HEAD)
    ran = cli("run")[1].splitlines()
    watched = cli("watch")[1].splitlines()
    assert watched[: len(ran) - 20] == ran[1 : len(ran) - 19]
    assert watched[-1] == ran[-1]


def test_ledger_lists_what_was_said(cli, grown: str):
    """ledger: accepted emissions in order with their receipts; --type narrows; an unknown type is usage."""
    _, out, _ = cli("ledger", "last", "--json")
    entries = [json.loads(line) for line in out.splitlines()]
    assert [one["type"] for one in entries] == ["SpawnRequest"] * 3 + ["Verdict"]
    assert [one["child"] for one in entries[:3]] == ["scan.echo-1", "scan.echo-2", "scan.echo-3"]
    assert [one["seq"] for one in entries] == sorted(one["seq"] for one in entries)
    code, out, _ = cli("ledger", grown, "--type", "Verdict")
    assert (code, len(out.splitlines())) == (0, 1)
    assert "review: Verdict" in out
    assert cli("ledger", "last", "--type", "Verdicts")[0] == 2


def test_diff_marks_the_cause(cli, grown: str, tmp_path: Path):
    """diff: 0 if outcomes are equal, 1 if not; the first node that was given something else is the cause."""
    assert cli("run", "--quiet")[0] == 1
    code, out, _ = cli("diff", grown, "last")
    assert (code, "outcomes are equal" in out) == (0, True), out
    flow(tmp_path, GROWN.replace("verdict: REJECT", "verdict: APPROVE"), HEAD)
    assert cli("run", "--quiet")[0] == 1
    code, out, _ = cli("diff", grown, "last")
    assert code == 1
    assert "review  <- cause: it was given something else (parameters)" in out
    told = json.loads(cli("diff", grown, "last", "--json")[1])
    assert (told["equal"], told["cause"]) == (False, "review")
    assert [node["node"] for node in told["nodes"]] == ["review", "publish"]
    assert [one["what"] for one in told["nodes"][1]["outcome"]] == ["status", "value"]


def test_draw_a_run(cli, grown: str, tmp_path: Path):
    """draw RUN: with what grew and where each node stands; an existing path wins over a run."""
    code, out, _ = cli("draw", "last")
    assert code == 0
    assert "scan.echo-1 (echo) + [succeeded]" in out
    assert "review (judge): rejected <gate> [succeeded]" in out
    assert "flowchart LR" in cli("draw", grown, "--format", "mermaid")[1]
    (tmp_path / "last").mkdir()
    flow(tmp_path / "last", "  only: {role: echo}")
    assert cli("draw", "last")[1].startswith("only (echo)")


class _Page(HTMLParser):
    """What a browser would load, and what it would show."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[tuple[str, str]] = []
        self.tags: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.loads += [
            (tag, name) for name, _ in attrs if name in {"src", "href", "srcset", "data", "action"}
        ]
        self.loads += [(tag, name) for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_needs_nothing_and_shows_names_literally(cli, grown: str, tmp_path: Path):
    """show --html: no script, nothing loaded, markup of others is text; graph, verdicts, growth, refusals."""
    code, _, err = cli("show", "last", "--html", tmp_path / "run.html")
    assert (code, "written" in err) == (0, True)
    source = (tmp_path / "run.html").read_text(encoding="utf-8")
    page = _Page()
    page.feed(source)
    assert not page.loads
    assert not page.tags & {"script", "link", "img", "iframe", "object", "form"}
    assert not re.search(r"https?:|url\(|@import", source)
    shown = " ".join(page.text)
    assert "not <b>yet</b>" in shown
    for part in ("Graph", "Verdicts", "rejected", "Who spawned whom", "max_spawn_exceeded", "scan.echo-3"):
        assert part in shown


def test_prompts_are_on_the_page_only_if_they_are_asked_for(cli, tmp_path: Path):
    """show --html --with-messages: what nodes were told and what was said; markup in it is text."""
    with (flow(tmp_path, '  a: {role: echo, instruction: "be <i>quiet</i>"}')).open("a") as document:
        document.write("  b: {role: teller, after: [a], instruction: Write it.}\n")
    with (tmp_path / "cast.py").open("a") as cast:
        cast.write("from orchestrator import Role\nteller = Role('teller', body='You write letters.')\n")
    assert cli("run", "--quiet", "--model", "test")[0] == 0
    assert cli("show", "last", "--html", tmp_path / "bare.html")[0] == 0
    assert cli("show", "last", "--html", tmp_path / "full.html", "--with-messages")[0] == 0
    bare, full = ((tmp_path / f"{name}.html").read_text(encoding="utf-8") for name in ("bare", "full"))
    for text in ("be &lt;i&gt;quiet&lt;/i&gt;", "Write it.", "You write letters."):
        assert text not in bare
        assert text in full
    assert "<i>quiet" not in full
    code, _, err = cli("show", "last", "--with-messages")
    assert (code, "--html" in err) == (2, True)


def test_a_page_of_a_thousand_nodes_is_below_a_megabyte(cli, tmp_path: Path):
    """show --html: 1,000 nodes with values fit."""
    flow(tmp_path, "  scan: {role: grows, with: {count: 1000}}", "budget: {spawns: 1000}")
    assert cli("run", "--quiet", "--fsync", "never")[0] == 0
    assert cli("show", "last", "--html", tmp_path / "run.html")[0] == 0
    assert (tmp_path / "run.html").stat().st_size < 1_000_000


def test_prune_keeps_what_can_go_on(cli, grown: str, tmp_path: Path):
    """runs prune: what has ended and is old enough goes; suspended runs stay; rows are not used again."""
    flow(tmp_path, "  a: {role: asks}")
    assert cli("run", "--quiet")[0] == 6
    _, out, _ = cli("runs", "prune", "--older", "1d")
    assert out == "0 runs removed\n"
    _, out, _ = cli("runs", "prune", "--older", "1ms", "--dry-run")
    assert out.splitlines()[-1] == "1 run would go"
    code, out, _ = cli("runs", "prune", "--older", "1ms")
    assert (code, grown in out) == (0, True)
    _, out, _ = cli("runs", "--json")
    assert [json.loads(line)["standing"] for line in out.splitlines()] == ["awaiting_answer"]
    assert cli("doctor", "--replay")[0] == 0
    assert cli("runs", "prune", "--older", "soon")[0] == 2


def test_doctor_finds_what_was_changed(cli, grown: str, tmp_path: Path):
    """doctor: well is 0; a changed record is named and is 74; --copy keeps what is before it."""
    code, out, _ = cli("doctor", "--replay")
    assert code == 0
    assert re.search(rf"^{grown}: well: \d+ records, \d+ decided again$", out, re.MULTILINE)
    assert cli("doctor", "--copy", tmp_path / "copy.db")[0] == 0
    assert cli("show", "last", "--journal", tmp_path / "copy.db")[0] == 0
    path = tmp_path / "copy.db"
    change = "UPDATE records SET payload = replace(payload, 'not <b>yet</b>', 'never was ok') WHERE seq > 8"
    script = f"import apsw; apsw.Connection({str(path)!r}).execute({change!r})"
    subprocess.run([sys.executable, "-c", script], check=True)
    code, out, _ = cli("doctor", "--journal", path, "--copy", tmp_path / "all.db")
    assert code == 74
    assert "is not what was written (checksum)" in out
    code, out, _ = cli("doctor", "last", "--journal", path, "--copy", tmp_path / "cut.db")
    assert (code, "the copy ends before it" in out) == (74, True)
    assert cli("doctor", "--journal", tmp_path / "cut.db", "--json")[0] == 0


def test_replay_names_the_first_difference(cli, grown: str, tmp_path: Path):
    """doctor --replay: a fact that nobody would decide is named, with what would be decided."""
    with open_journal(tmp_path / ".callboard" / "journal.db") as reader:
        records = list(reader.records(grown))
    assert replay(records) == (len(records), None)
    at, changed = next(
        (number, record)
        for number, record in enumerate(records)
        if any(isinstance(fact, GateRejected) for fact in record.facts)
    )
    facts = [fact for fact in changed.facts if not isinstance(fact, GateRejected)]
    records[at] = msgspec.structs.replace(changed, facts=facts)
    count, found = replay(records)
    assert count == at
    assert found is not None
    assert (found.record, found.command) == (changed.seq, "Finish of review")
    assert '"GateRejected"' in found.decided
    assert '"NodeVetoed"' in found.recorded


def test_try_a_node_again(cli, tmp_path: Path):
    """try RUN NODE: outside of the run, beside what is recorded; 1 if it came out otherwise."""
    flow(tmp_path, "  a: {role: echo, with: {value: 3}}\n  b: {role: finds, after: [a], with: {x: '${a}'}}")
    assert cli("run", "--quiet")[0] == 0
    code, out, _ = cli("try", "last", "b", "--times", "2")
    assert code == 0, out
    assert [line.split()[0] for line in out.splitlines() if not line.startswith(" ")] == [
        "recorded",
        "again",
        "again",
    ]
    assert out.count("emitted Finding") == 3
    cast = tmp_path / "cast.py"
    cast.write_text(
        cast.read_text(encoding="utf-8").replace('evidence="x:1"', 'evidence="x:2"'), encoding="utf-8"
    )
    code, out, _ = cli("try", "last", "b")
    assert (code, "<- differs" in out) == (1, True)
    assert cli("try", "last", "c")[0] == 2
    assert "callboard try RUN NODE" in cli("try", "last")[2]
    assert cli("try", "last", "b", "--with", "x=1")[0] == 2


def test_a_node_becomes_a_test(cli, tmp_path: Path):
    """try --as-test: a pytest that holds the outcome, and turns red when the role changes."""
    flow(tmp_path, "  a: {role: echo, with: {value: 3}}\n  b: {role: finds, after: [a], with: {x: '${a}'}}")
    assert cli("run", "--quiet")[0] == 0
    assert cli("try", "last", "b", "--as-test", tmp_path / "test_b.py")[0] == 0
    assert cli("try", "last", "b", "--as-test", tmp_path / "test_b.py")[0] == 2
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_b.py"]
    assert subprocess.run(words, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    cast = tmp_path / "cast.py"
    cast.write_text(
        cast.read_text(encoding="utf-8").replace('evidence="x:1"', 'evidence="x:2"'), encoding="utf-8"
    )
    assert subprocess.run(words, cwd=tmp_path, capture_output=True, check=False).returncode == 1


def test_a_rejecting_gate_comes_out_as_recorded(cli, tmp_path: Path):
    """try: what the engine adds to a gate's value by its verdict is no difference, nor in a test of it."""
    flow(tmp_path, "  g: {role: judge, gate: true, with: {verdict: REJECT}}\n  z: {role: echo, after: [g]}")
    assert cli("run", "--quiet")[0] == 3
    assert json.loads(cli("story", "last", "g", "--json")[1])["value"]["gate_verdict"] == "reject"
    code, out, _ = cli("try", "last", "g")
    assert (code, "<- differs" in out) == (0, False), out
    path = tmp_path / "test_g.py"
    assert cli("try", "last", "g", "--as-test", path)[0] == 0
    assert "from roles" not in path.read_text(encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_g.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, check=False, encoding="utf-8")
    assert done.returncode == 0, done.stdout
    cast = tmp_path / "cast.py"
    cast.write_text(cast.read_text(encoding="utf-8").replace('"because"', '"why not"'), encoding="utf-8")
    assert cli("try", "last", "g")[0] == 1
    assert subprocess.run(words, cwd=tmp_path, capture_output=True, check=False).returncode == 1


def test_where_the_journal_is(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The nearest folder with .callboard, pyproject.toml or .git; CALLBOARD_JOURNAL; --journal; none."""
    (tmp_path / "pyproject.toml").touch()
    below = tmp_path / "flows" / "one"
    below.mkdir(parents=True)
    flow(below, "  a: {role: echo}")
    monkeypatch.chdir(below)
    assert cli("run", "--quiet")[0] == 0
    assert (tmp_path / ".callboard" / "journal.db").exists()
    assert (tmp_path / ".callboard" / ".gitignore").read_text(encoding="utf-8").endswith("*\n")
    out = cli("run", "--journal", "mine.db")[1]
    assert "journal    mine.db" in out
    assert json.loads(cli("show", "last", "--json", "--journal", "mine.db")[1])["reason"] == "completed"
    monkeypatch.setenv("CALLBOARD_JOURNAL", str(tmp_path / "other.db"))
    assert cli("run", "--quiet")[0] == 0
    assert len(cli("runs")[1].splitlines()) == 2
    assert "journal" not in cli("run", "--journal", "none")[1]
    assert len(cli("runs")[1].splitlines()) == 2
    code, _, err = cli("runs", "--journal", "nowhere.db")
    assert (code, "there is no journal at nowhere.db" in err) == (2, True)
    assert cli("run", "--fsync", "sometimes")[0] == 2


def test_roles_made_in_any_way_run_with_a_journal(cli, tmp_path: Path):
    """A cast's role may be a closure: it is found again by its name in the document."""
    flow(tmp_path, "  a: {role: made}\n  b: {role: needs_file, after: [a], with: {path: go}}")
    cast = tmp_path / "cast.py"
    cast.write_text(cast.read_text(encoding="utf-8") + MADE, encoding="utf-8")
    assert cli("run", "--quiet")[0] == 1
    (tmp_path / "go").touch()
    code, _, err = cli("retry", "last")
    assert code == 0, err
    assert "reuses 1, will run 1" in err


def test_every_command_names_its_journal(cli):
    """--journal goes with every command that reads runs."""
    for name in ("show", "story", "watch", "diff", "ledger", "asks", "doctor", "resume", "retry", "pause",
                 "drain", "cancel", "steer", "answer", "inject", "runs", "draw", "try"):  # fmt: skip
        assert "--journal" in cli(name, "--help")[1], name


def test_records_fold_to_what_the_run_said(cli, grown: str, tmp_path: Path):
    """The result of a recorded run is the result that the run itself gave."""
    flow(tmp_path, GROWN, HEAD + "\noutputs: {n: '${scan}'}")
    done = call("run", "--json", cwd=tmp_path)
    ran = json.loads(done.stdout.splitlines()[-1])
    shown = json.loads(cli("show", "last", "--json")[1])
    for one in (ran, shown):
        one.pop("seconds")
    assert shown == ran
    with open_journal(tmp_path / ".callboard" / "journal.db") as reader:
        run = read_run(reader, reader.find_run("last"))
    assert run.standing == "failed"
