"""What a role is shown: order, grants, provenance, cuts; and a snapshot of every role of the library."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emissions import EMISSIONS, Emission, Finding, SpawnRequest, Verdict, tag
from roles import Brief, Emitted, Handed, NodeError, Role, build_prompt, library
from roles.offers import OFFERS, offer_of

PLACE = Path(__file__).with_name("prompts")
ROLES = {role.name: role for role in library()}
OTHERS = {"helper": "Helps."}


def shown(role: Role, **more: Any) -> str:
    return str(build_prompt(Brief(role=role, grants=role.grants, **more)))


@pytest.mark.parametrize("name", ROLES)
def test_every_role_of_the_library(name: str):
    """The exact text, kept beside this test; CALLBOARD_SNAPSHOTS=write writes it anew."""
    text = shown(ROLES[name], assignees=OTHERS, spawns=5) + "\n"
    file = PLACE / f"{name}.md"
    if os.environ.get("CALLBOARD_SNAPSHOTS") == "write":
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ROLES)
def test_a_prompt_matches_its_grants(name: str):
    """Every grant is offered under its name; of what is not granted no word is said, in the body neither."""
    role = ROLES[name]
    text = shown(role, assignees=OTHERS)
    for kind in EMISSIONS.values():
        assert (f"`emit_{tag(kind)}`" in text) is (kind in role.grants)
        if kind not in role.grants:
            assert re.search(rf"\b{kind.emission_kind}\b", text) is None


def test_growth_is_offered_only_where_it_can_be_had():
    """Both arms: no budget, nobody to give work to, and both."""
    planner = ROLES["planner"]
    for less in ({"assignees": OTHERS, "spawns": 0}, {"assignees": {}, "spawns": 5}):
        text = shown(planner, **less)
        assert "SpawnRequest" not in text
        assert "TaskAssignment" not in text
    text = shown(planner, assignees=OTHERS, spawns=5)
    assert "- helper: Helps." in text
    assert '"assignee": "helper"' in text
    assert "5 more can be added" in text


@pytest.mark.parametrize("kind", EMISSIONS.values(), ids=tag)
def test_each_example_is_a_good_one(kind: type[Emission]):
    """An example that its own type refuses would teach a fault."""
    offer = offer_of(kind)
    assert offer.example is not None
    kind.model_validate(dict(offer.example))
    assert OFFERS.keys() == EMISSIONS.keys()


def test_the_order():
    """Kernel 6: body, modes, grants; then notices, instruction, values, emissions."""
    role = Role("judge", body="BODY", modes=("slow",), emits=(Verdict,))
    text = shown(
        role,
        gate="GATE",
        asks=True,
        notices=("NOTICE",),
        instruction="INSTRUCTION",
        parameters={"p": 1},
        inputs=(Handed("scan", {"v": 1}, "scanner"),),
        failed={"other": NodeError("OSError", "gone")},
        emissions=(Emitted(Finding(description="d"), "scan", "scanner"),),
        returns={"type": "object"},
    )
    words = (
        "BODY", "slow:", "emit_verdict", "emit_escalation_request", "GATE", "`ask`", '"type": "object"',
        "NOTICE", "INSTRUCTION", '"p": 1', "### scan, by scanner", '"v": 1', "### other: it failed",
        "OSError: gone",
        "Finding by scan, scanner",
    )  # fmt: skip
    places = [text.index(word) for word in words]
    assert places == sorted(places)


def test_what_is_not_there_is_not_mentioned():
    """No heading without something under it."""
    text = shown(Role("plain", body="BODY"), instruction="DO")
    assert "emit_escalation_request" in text
    for word in ("emitted before", "Parameters", "What you leave", "How you think"):
        assert word not in text
    assert "## Your tools" not in text
    assert "## What was handed over" not in text


def test_programs_are_told_of_blocks():
    """The channel decides how: a program prints tagged blocks."""
    text = shown(Role("judge", body="B", emits=(Verdict,)), channel="blocks")
    assert "```verdict\n{" in text
    assert "emit_verdict" not in text


def test_a_long_value_is_cut_at_a_mark_and_given_whole():
    """Kernel 6: above `handover` characters."""
    prompt = build_prompt(Brief(role=Role("r", body="B"), inputs=(Handed("scan", "x" * 100),), handover=30))
    assert "x" * 31 not in prompt.user
    assert "[cut here: 70 of 100 characters left out; the whole value is in inputs/scan.txt]" in prompt.user
    assert prompt.files == {"scan.txt": "x" * 100}


def test_a_value_that_the_instruction_names_in_full_is_not_repeated():
    """Rendered into the instruction it stands there once."""
    prompt = build_prompt(
        Brief(role=Role("r", body="B"), instruction="Read: long text", inputs=(Handed("scan", "long text"),))
    )
    assert prompt.user == "Read: long text"


@given(st.text(alphabet="`a\n", max_size=40))
def test_data_stays_data(text: str):
    """Whatever a value holds, its fence is longer than every one in it."""
    prompt = build_prompt(Brief(role=Role("r", body="B"), inputs=(Handed("scan", text + "."),)))
    fence = prompt.user.split("### scan\n\n")[1].split("\n")[0]
    assert set(fence) == {"`"}
    assert fence not in text
    assert prompt.user.endswith(fence)


def test_a_type_of_ones_own():
    """Offered under its name with its docstring."""

    class Sighting(Emission):
        """Emit one for each bird."""

        bird: str

    text = shown(Role("watcher", body="B", emits=(Sighting, SpawnRequest)))
    assert "`emit_sighting`: Sighting. Emit one for each bird.\n" in text
