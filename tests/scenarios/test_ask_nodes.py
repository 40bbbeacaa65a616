"""Nodes that a person settles (flows.md, kernel.md 5 and 7): a question, an answer, a verdict; both arms."""

from __future__ import annotations

import anyio
import pytest

from orchestrator import (
    Budget,
    OperationError,
    OperationGraphBuilder,
    Session,
    Verdict,
    create_operation,
    role,
)
from tests.scenarios.conftest import lawful, ok, ran, reads


@role()
async def draft(turn):
    return {"title": "Spring"}


def asks(after=reads, **more):
    """draft -> person -> after."""
    graph = OperationGraphBuilder()
    graph.add_operation(draft, node_id="draft")
    given = {"instruction": "Publish ${draft.title}?", "ask": True, "node_id": "person", **more}
    graph.add_operation(create_operation(**given), depends_on=["draft"])
    graph.add_operation(after, node_id="after", depends_on=["person"])
    return graph


async def answered(graph, *answers, node="person", **options):
    """Run, and give each answer when the node asks; returns the run and the receipts."""
    receipts = []
    async with Session(**options) as session:
        run = await session.start(graph, waits_for_answers=True)
        async with run.events(kinds=["QuestionAsked"]) as questions:
            async for _ in questions:
                receipts += [run.answer(node, value, by="ada", because=why) for value, why in answers]
                break
        return await lawful(run), receipts


async def test_the_answer_is_the_value():
    """The question is rendered, its key is the node's name, the answer is what the node gives."""
    run, _ = await answered(asks(), ("yes", ""))
    (asked,) = run.of("QuestionAsked")
    assert (asked.data["key"], asked.data["question"]) == ("person", "Publish Spring?")
    assert run["person"].value == "yes"
    assert run["after"].value == {"person": "yes"}
    assert run.reason == "completed"


async def test_what_is_shown_stands_under_the_question():
    """``show``: what the person is to look at."""
    run, _ = await answered(asks(ask={"show": "Title: ${draft.title}"}), ("yes", ""))
    assert run.of("QuestionAsked")[0].data["question"] == "Publish Spring?\n\nTitle: Spring"


async def test_only_a_choice_is_an_answer():
    """Another answer is refused with the choices, and the question stays open."""
    run, receipts = await answered(asks(ask={"choices": ["yes", "no"]}), ("maybe", ""), ("no", ""))
    assert [bool(receipt) for receipt in receipts] == [False, True]
    assert "'maybe' is not one of yes, no" in receipts[0].detail
    assert run["person"].value == "no"


async def test_an_answer_of_another_shape_is_asked_for_again():
    """``returns``: what does not fit does not fail the node; the person is told why and asked again."""
    graph = asks(returns={"type": "integer"})
    async with Session() as session:
        run = await session.start(graph, waits_for_answers=True)
        values = iter(["three", 3])
        async with run.events(kinds=["QuestionAsked"]) as questions:
            async for question in questions:
                value = next(values)
                run.answer("person", value, key=question.data["key"])
                if value == 3:
                    break
        ended = await lawful(run)
    first, second = (one.data["question"] for one in ended.of("QuestionAsked"))
    assert second == f"the answer is str, not integer; {first}"
    assert ended["person"].value == 3


async def test_it_holds_no_slot():
    """kernel.md 7: with one slot the rest of the run goes on while the person thinks."""
    graph = asks()
    graph.add_operation(ok, node_id="beside", depends_on=["draft"])
    async with Session() as session:
        run = await session.start(graph, waits_for_answers=True, budget=Budget(concurrency=1))
        async with run.events(kinds=["NodeCompleted"]) as events:
            async for event in events:
                if event.node == "beside":
                    break
        assert run.states()["person"] == "asking"
        run.answer("person", "yes")
        ended = await lawful(run)
    assert ended.reason == "completed"


async def test_nobody_is_there():
    """journal.md: everything else finishes and the run is suspended; the answer goes on with it."""
    graph = asks()
    graph.add_operation(ok, node_id="beside", depends_on=["draft"])
    run = await ran(graph)
    assert run.reason == "awaiting_answer"
    assert run["beside"].status == "completed"
    assert run.result.waiters["person"] == "an answer to person"


@pytest.mark.parametrize("gate", [False, True])
async def test_the_default_after_a_while(gate):
    """``expires``: the default is the answer, given by ``expired``; a gate's is its verdict."""
    default = "REQUEST-CHANGES" if gate else "no"
    run = await ran(asks(ask={"expires": 0.01, "default": default}, gate=gate))
    assert run.of("QuestionAnswered")[0].data["by"] == "expired"
    assert run.reason == "completed"
    if gate:
        assert (run["person"].judgement, run["person"].decided_by) == ("approved", "expired")
    else:
        assert run["person"].value == "no"


async def test_a_gate_that_nobody_answers_is_undecided():
    """Law 7: no answer and no default open nothing."""
    run = await ran(asks(ask={"expires": 0.01}, gate=True))
    assert run.reason == "gate_undecided"
    assert run["person"].judgement == "undecided"


@pytest.mark.parametrize(
    ("answer", "verdict", "opens"),
    [
        ("APPROVE", "APPROVE", True),
        ("approve with fixes", "APPROVE-WITH-FIXES", True),
        ("REQUEST-CHANGES", "REQUEST-CHANGES", True),
        ("reject", "REJECT", False),
    ],
)
async def test_a_person_as_a_gate(answer, verdict, opens):
    """kernel.md 5: the answer is one of the four verdicts, on record with who and why."""

    @role(name="last")
    async def last(turn):
        return [(one.node, one.verdict.value) for one in turn.emissions(Verdict)]

    run, receipts = await answered(asks(last, gate=True), ("perhaps", ""), (answer, "I read it"))
    assert [bool(receipt) for receipt in receipts] == [False, True]
    gate = run["person"]
    assert (gate.decided_by, gate.because) == ("ada", "I read it")
    assert (gate.value["verdict"], gate.value["rationale"]) == (verdict, "I read it")
    (judged,) = run.of("GateApproved" if opens else "GateRejected")
    assert (judged.data["verdict"], judged.data["by"], judged.data["because"]) == (
        verdict,
        "ada",
        "I read it",
    )
    if opens:
        assert (run.reason, gate.judgement) == ("completed", "approved")
        assert run["after"].value == [["person", verdict]]
    else:
        assert (run.reason, gate.judgement) == ("gate_rejected", "rejected")
        assert run["after"].vetoed_by == ("person",)


async def test_refuse_on_holds_for_a_person_as_well():
    """One total map per gate, whoever gives the verdict."""
    graph = asks(gate={"refuse_on": ["REQUEST-CHANGES"]})
    run, _ = await answered(graph, ("REQUEST-CHANGES", "not yet"))
    assert run.reason == "gate_rejected"


async def test_a_question_for_each_element():
    """A question is a node: it may be asked once per element."""
    graph = OperationGraphBuilder()
    each = {"over": "['a', 'b']", "max": 2}
    graph.add_operation(
        create_operation("ask", node_id="each", ask=True, instruction="Keep ${item}?", for_each=each)
    )
    async with Session() as session:
        run = await session.start(graph, waits_for_answers=True)
        async with run.events(kinds=["QuestionAsked"]) as questions:
            asked = []
            async for question in questions:
                asked.append(question)
                if len(asked) == len("ab"):
                    break
        for question in reversed(asked):
            run.answer(question.node, f"{question.data['question']} yes")
        ended = await lawful(run)
    assert ended["each"].value == ["Keep a? yes", "Keep b? yes"]


async def test_a_cancelled_question_is_not_asked_any_more():
    """It settles as every node does; what depends on it is skipped."""
    async with Session() as session:
        run = await session.start(asks(), waits_for_answers=True)
        async with run.events(kinds=["QuestionAsked"]) as questions:
            async for _ in questions:
                break
        with anyio.fail_after(5):
            run.cancel("person")
            ended = await lawful(run)
    assert ended["person"].status == "cancelled"
    assert ended["after"].status == "skipped"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ask": {"choices": "yes"}}, "give a list of texts"),
        ({"ask": {"choices": ["yes"], "default": "no"}}, 'the default "no" is not one of yes'),
        ({"ask": {"expires": 5}}, "it expires and has no default"),
        ({"ask": {"expires": "soon"}}, "expires of ask of person"),
        ({"ask": {"choices": ["fine"]}, "gate": True}, "the choices of a gate are verdicts, not 'fine'"),
        ({"ask": {"default": "fine"}, "gate": True}, 'the default "fine" is not one of APPROVE'),
        ({"ask": {"colour": 1}}, "write True or some of choices, expires, default, show"),
        ({"ask": True, "role": "critic"}, "asks a person and has the role 'critic'"),
        ({"ask": True, "instruction": " "}, "it has no question"),
    ],
)
async def test_what_does_not_fit_is_refused_where_it_is_made(options, message):
    """Nothing has run: the message names the node and what it may be."""
    given = {"node_id": "person", "instruction": "Publish?", **options}
    with pytest.raises(OperationError) as caught:
        create_operation("ask", **given)
    assert message in str(caught.value)
