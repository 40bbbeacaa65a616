"""``callboard save-flow``: a run that grew becomes a document that runs to the same shape."""

from __future__ import annotations

from pathlib import Path

from orchestrator import load_flow, run_sync
from tests.cli.program import call, flow

GROWN = (
    "  scan: {role: grows, with: {count: '${args.count}'}, returns: int}\n"
    "  review: {role: judge, after: [scan], gate: true, with: {verdict: REJECT}}\n"
    "  skipped: {role: echo, after: [scan], when: scan == 99}\n"
    "  each: {role: echo, for_each: '[1, 2]', max: 4, with: {value: '${item}'}}\n"
    "  report: {role: echo, after: [scan], with: {value: '${scan}'}}\n"
    "  publish: {role: echo, after: [review]}"
)
HEAD = "budget: {spawns: 5, depth: 2}\nargs: {count: {type: int, required: true}}"
#: As program.py's cast, growing what must not be taken for a placeholder.
ASKS = 'SpawnRequest(assignee="echo", key=str(n), before="successors", instruction="see ${x}")'


def test_a_run_becomes_a_document(tmp_path: Path):
    """Grown nodes under keys with `_`; skipped and vetoed ones kept; for_each stays; the same shape again."""
    path = flow(tmp_path, GROWN, HEAD)
    cast = tmp_path / "cast.py"
    plain = 'SpawnRequest(assignee="echo", key=str(n), before="successors")'
    cast.write_text(cast.read_text(encoding="utf-8").replace(plain, ASKS), encoding="utf-8")
    assert call("run", path, "--arg", "count=2", "--quiet", cwd=tmp_path).returncode == 3
    done = call("save-flow", "last", "--to", "grown.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "renamed  scan.echo-1 to scan_echo_1" in done.stdout
    saved = tmp_path / "grown.yaml"
    text = saved.read_text(encoding="utf-8")
    assert text.startswith("# run 20")
    assert "see $${x}" in text
    document = load_flow(saved).document
    names = list(document.nodes)
    assert sorted(names) == sorted(
        ["scan", "scan_echo_1", "scan_echo_2", "review", "skipped", "each", "report", "publish"]
    )
    assert names.index("scan_echo_2") < names.index("report")
    assert document.nodes["each"].for_each == "[1, 2]"
    assert document.budget.spawns == 0
    assert document.args["count"].default == 2
    again = run_sync(saved)
    assert again.reason == "gate_rejected"
    assert again.vetoed_operations == ("publish",)
    assert again.skipped_operations == ("skipped",)
    assert set(again.completed_operations) >= {"scan_echo_1", "scan_echo_2", "report", "each.2"}
    assert again.spawned_operations == 0


def test_nothing_is_overwritten(tmp_path: Path):
    """A file that exists, another folder: exit code 2, and nothing is written."""
    path = flow(tmp_path, "  a: {role: echo}")
    assert call("run", path, "--quiet", cwd=tmp_path).returncode == 0
    assert call("save-flow", "last", "--to", "flow.yaml", cwd=tmp_path).returncode == 2
    (tmp_path / "other").mkdir()
    done = call("save-flow", "last", "--to", "other/flow.yaml", cwd=tmp_path)
    assert (done.returncode, "same folder" in done.stderr) == (2, True)
    done = call("save-flow", "last", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("tried-20*.yaml"))) == 1


def test_the_run_is_drawn(tmp_path: Path):
    """Grown nodes, gates and vetoes are told apart, in both forms."""
    path = flow(tmp_path, GROWN, HEAD)
    assert call("run", path, "--arg", "count=2", "--quiet", cwd=tmp_path).returncode == 3
    text = call("draw", "last", cwd=tmp_path).stdout
    assert "publish (echo), vetoed by review [vetoed]" in text
    assert "scan.echo-1 (echo) + [succeeded]" in text
    assert "review (judge): rejected <gate> [succeeded]" in text
    assert "report <- scan, scan.echo-1 [joins], scan.echo-2 [joins]" in text
    mermaid = call("draw", "last", "--format", "mermaid", cwd=tmp_path).stdout
    lines = [line.strip() for line in mermaid.splitlines()]
    vetoed = next(line for line in lines if "vetoed by review" in line).partition("[")[0]
    assert f"class {vetoed} vetoed" in lines
    assert sum('(["scan.echo-' in line for line in lines) == 2


PLANNER = """
from orchestrator import TaskAssignment, role

@role(emits=(TaskAssignment,))
async def planner(turn):
    return [
        TaskAssignment(name="look", task="Look at ${it}", assignee="worker", inputs={"a": 1}),
        TaskAssignment(name="write", task="Write", assignee="worker", depends_on=["look"]),
    ]

@role()
async def worker(turn):
    return {"text": turn.instruction}
"""


def test_a_plan_becomes_nodes(tmp_path: Path):
    """A run that a planner cast becomes a document with nodes, which needs no planner."""
    (tmp_path / "cast.py").write_text(PLANNER, encoding="utf-8")
    (tmp_path / "flow.yaml").write_text(
        "version: 1\nname: planned\ncast: [cast.py]\nprompt: Do it.\nmax_nodes: 5\n", encoding="utf-8"
    )
    assert call("run", ".", "--quiet", cwd=tmp_path).returncode == 0
    done = call("save-flow", "last", "--to", "saved.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "renamed" not in done.stdout
    document = load_flow(tmp_path / "saved.yaml").document
    assert document.prompt is None
    assert list(document.nodes) == ["look", "write"]
    assert document.nodes["look"].parameters == {"a": 1}
    assert document.nodes["write"].after == ["look"]
    again = run_sync(tmp_path / "saved.yaml")
    assert again["look"].value == {"text": "Look at ${it}"}
    assert again.completed_operations == ("look", "write")


LOOP = """
from orchestrator import SpawnRequest, Verdict, role

@role(emits=(SpawnRequest,))
async def writer(turn):
    await turn.emit(SpawnRequest(assignee="reader", before="successors"))
    return {"text": turn.node}

@role()
async def reader(turn):
    return {"text": "read"}

@role(emits=(Verdict,))
async def critic(turn):
    verdict = "REJECT" if turn.node == "review" else "APPROVE"
    return Verdict(verdict=verdict, rationale="the first is never good")
"""


def test_rounds_are_folded(tmp_path: Path):
    """A loop is saved as the loop; what grew in a round that was sent back is left out."""
    (tmp_path / "cast.py").write_text(LOOP, encoding="utf-8")
    (tmp_path / "flow.yaml").write_text(
        "version: 1\nname: looped\ncast: [cast.py]\nbudget: {spawns: 5}\nnodes:\n  draft: {role: writer}\n"
        "  review: {role: critic, after: [draft], gate: {refusals: 2, back_to: draft}}\n"
        "  end: {role: reader, after: [review]}\n",
        encoding="utf-8",
    )
    assert call("run", ".", "--quiet", cwd=tmp_path).returncode == 0
    done = call("save-flow", "last", "--to", "saved.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "draft@2 is folded into draft" in done.stdout
    assert "draft.reader-1 is left out" in done.stdout
    document = load_flow(tmp_path / "saved.yaml").document
    assert len(document.nodes) == 4
    assert {"draft", "review", "end"} < set(document.nodes)
    again = run_sync(tmp_path / "saved.yaml")
    assert again.reason == "completed"
    assert "draft@2" in again.nodes
