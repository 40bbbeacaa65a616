"""Refusal loops around questions and included flows; both arms of the gate."""

from __future__ import annotations

import pytest

from orchestrator import RunReason, Session, open_journal

pytestmark = pytest.mark.anyio

CAST = """
from orchestrator import Verdict, role

@role()
async def write(turn):
    return turn.node

@role(emits=(Verdict,))
async def judge(turn):
    return Verdict(verdict="APPROVE" if turn.node == "review@2" else "REJECT", rationale="not yet")

@role(emits=(Verdict,))
async def never(turn):
    return Verdict(verdict="REJECT", rationale="never")
"""
INNER = """
version: 1
name: inner
cast: [cast.py]
args: {text: {required: true}}
nodes:
  work: {role: write, with: {text: "${args.text}"}}
outputs: {said: "${work}"}
"""
INCLUDES = """
version: 1
name: parent
cast: [cast.py]
nodes:
  draft: {role: write}
  part: {flow: inner.yaml, after: [draft], with: {text: "${draft}"}}
  review: {role: judge, after: [part], gate: {refusals: 1, back_to: draft}}
  last: {role: write, after: [review, part]}
outputs: {said: "${part.said}"}
"""
ASKS = """
version: 1
name: parent
cast: [cast.py]
nodes:
  draft: {role: write}
  person: {ask: "How is ${draft}?", after: [draft]}
  review: {role: judge, after: [person], gate: {refusals: 1, back_to: draft}}
  last: {role: write, after: [review]}
"""
GATE = """
version: 1
name: parent
cast: [cast.py]
nodes:
  draft: {role: write}
  review: {ask: "Take ${draft}?", after: [draft], gate: {refusals: 1, back_to: draft}}
  last: {role: write, after: [review]}
"""


@pytest.fixture
def write(tmp_path):
    def write(parent):
        for name, text in {"cast.py": CAST, "inner.yaml": INNER, "parent.yaml": parent}.items():
            (tmp_path / name).write_text(text)
        return tmp_path / "parent.yaml"

    return write


@pytest.mark.parametrize("approves", [True, False])
async def test_an_included_flow_is_run_again_in_each_round(write, tmp_path, approves):
    """flows.md: a child run for each round; what is read afterwards is the last one's."""
    parent = INCLUDES if approves else INCLUDES.replace("role: judge", "role: never")
    async with Session(journal=tmp_path / "journal.db") as session:
        result = await session.flow(write(parent))
    children = [result[name].child_run for name in ("part@1", "part@2")]
    assert len(set(children)) == 2
    with open_journal(tmp_path / "journal.db") as reader:
        assert {info.run for info in reader.runs()} == {result.run, *children}
    assert result.reason is (RunReason.COMPLETED if approves else RunReason.REFUSALS_EXHAUSTED)
    assert result["last"].status == ("completed" if approves else "vetoed")
    assert result["part@2"].value == {"said": "work"}
    assert [one.judgement for one in result.rounds] == ["refused", "approved" if approves else "rejected"]


@pytest.mark.parametrize("approves", [True, False])
async def test_a_person_is_asked_again_in_each_round(write, tmp_path, approves):
    """kernel.md 5: a question inside the loop is another one in the next round; its answer is no verdict."""
    parent = ASKS if approves else ASKS.replace("role: judge", "role: never")
    async with Session(journal=tmp_path / "journal.db") as session:
        result = await session.flow(write(parent))
        for name, answer in (("person", "bad"), ("person@2", "good")):
            assert result.reason is RunReason.AWAITING_ANSWER
            result = await (await session.resume(result.run, answers={name: answer})).wait()
    assert result.reason is (RunReason.COMPLETED if approves else RunReason.REFUSALS_EXHAUSTED)
    assert (result["person@1"].value, result["person@2"].value) == ("bad", "good")


@pytest.mark.parametrize(
    ("second", "reason", "last"),
    [("APPROVE", RunReason.COMPLETED, "completed"), ("REJECT", RunReason.REFUSALS_EXHAUSTED, "vetoed")],
)
async def test_a_person_sends_the_work_back(write, tmp_path, second, reason, last):
    """flows.md: with gate the answer is the verdict, refusals and all."""
    async with Session(journal=tmp_path / "journal.db") as session:
        result = await session.flow(write(GATE))
        for name, answer in (("review", "REJECT"), ("review@2", second)):
            assert result.reason is RunReason.AWAITING_ANSWER
            result = await (await session.resume(result.run, answers={name: answer})).wait()
    assert result.reason is reason
    assert result["last"].status == last
    assert result.rounds[0].judgement == "refused"
