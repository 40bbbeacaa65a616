"""The story of a node: every fact about it, in order, with what led to it."""

from __future__ import annotations

from orchestrator.core import commands as c
from orchestrator.core.spec import Gate, Operation, Retry
from orchestrator.core.story import story
from tests.core.small import Small, plan


def test_a_story_in_full():
    """Planned, ready, tried twice, spawned, vetoed what follows; each line says the command and its cause."""
    gate = Operation(name="a", role="worker", gate=Gate(), retry=Retry(attempts=2))
    run = Small(plan(gate, "b", edges=["a>b"]))
    run.finish("a", "failed")
    run.emit("a", "SpawnRequest", instruction="look", independent=True, before=["b"])
    run.verdict("a", "REJECT")
    spawn = "EmissionAccepted attempt=2 emission=SpawnRequest number=1"
    verdict = "EmissionAccepted attempt=2 emission=Verdict number=2"
    asked = '{"instruction":"look","independent":true,"before":["b"]}'
    said = '{"verdict":"REJECT","rationale":"because"}'
    assert story(run.records, "a") == [
        "#2 +0ms GraphPlanned: holds back b <- Start",
        "#3 +0ms NodeReady <- Start",
        "#4 +0ms NodeStarted attempt=1 <- Start",
        "#5 +0ms NodeRetryScheduled attempt=1 error=ValueError: no delay=0 <- Finish of 'a' (#4)",
        "#6 +0ms NodeReady <- Finish of 'a' (#4)",
        "#7 +0ms NodeStarted attempt=2 <- Finish of 'a' (#4)",
        "#8 +0ms NodeAdded: its child a.worker-1 <- Emit of 'a' (#7)",
        f"#10 +0ms {spawn} payload={asked} child=a.worker-1 role=worker <- Emit of 'a' (#7)",
        f"#13 +0ms {verdict} payload={said} role=worker <- Finish of 'a' (#7)",
        "#14 +0ms NodeCompleted attempt=2 value=1 <- Finish of 'a' (#7)",
        "#15 +0ms GateRejected verdict=REJECT rationale=because <- Finish of 'a' (#7)",
    ]
    assert story(run.records, "b") == [
        "#2 +0ms GraphPlanned: waits for a <- Start",
        "#8 +0ms NodeAdded of a.worker-1: it waits for a.worker-1 <- Emit of 'a' (#7)",
    ]
    run.finish("a.worker-1")
    assert story(run.records, "b")[-1] == (
        "#17 +0ms NodeVetoed gates=('a',) reason=rejected by a <- Finish of 'a.worker-1' (#12)"
    )
    assert story(run.records, "a")[-1] == (
        "#17 +0ms NodeVetoed: b, because this gate rejected <- Finish of 'a.worker-1' (#12)"
    )


def test_what_is_told_to_all_is_told_in_every_story():
    """A cancelled run, a suspended run: each node's story says so."""
    run = Small(plan("a", "b", edges=["a>b"]))
    run.tell(c.Cancel(suspend="interrupted", reason="ctrl-c"))
    run.stopped("a")
    assert story(run.records, "b")[1:] == [
        "#5 +0ms DrainRequested reason=interrupted <- Cancel",
        "#8 +0ms RunSuspended (interrupted): it waits for a <- AttemptStopped of 'a' (#4)",
    ]


def test_a_failure_that_is_accepted():
    """The one who failed learns who takes it."""
    run = Small(plan("a", "b", edges=["a>b"]))
    run.finish("a", "failed")
    assert "#6 +0ms NodeReady of b accepts its failure <- Finish of 'a' (#4)" in story(run.records, "a")


def test_long_texts_are_cut_and_kept_on_one_line():
    """A story is read by people: one line per fact."""
    run = Small(plan("a"))
    run.emit("a", "EscalationRequest", reason="x\n" * 400, urgency="fyi")
    (line,) = [line for line in story(run.records, "a") if "NodeNotified" in line]
    assert "\n" not in line
    assert len(line) < 300


def test_nobody_has_no_story():
    """A name that no fact names."""
    assert story(Small(plan("a")).records, "nobody") == []
