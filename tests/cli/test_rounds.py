"""Rounds on the command line: lines, exit code, show --rounds, roles --effect, and the fork that goes on."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.program import flow

LOOP = """
  a: {role: echo}
  g: {role: judge, gate: {refusals: 2, back_to: a}, after: [a], with: {verdict: REJECT, why: too thin}}
  z: {role: echo, after: [g]}
"""


def test_a_loop_that_gives_up(cli, tmp_path: Path):
    """D5, D7: exit 3; each refusal has its line; the rounds and the roles' effect are on record."""
    flow(tmp_path, LOOP)
    code, out, _ = cli("run")
    assert code == 3
    assert "refused    g: REJECT: too thin -> round 2 of 3" in out
    assert "refused    g@2: REJECT: too thin -> round 3 of 3" in out
    assert "rejected   g@3: gave up after 2 refusals: too thin" in out
    _, out, _ = cli("show", "last", "--rounds")
    rows = [line.split()[:5] for line in out.splitlines()[1:4]]
    assert rows == [
        ["g", "1", "REJECT", "refused", "2"],
        ["g", "2", "REJECT", "refused", "no"],
        ["g", "3", "REJECT", "rejected", "no"],
    ]
    rounds = json.loads(cli("show", "last", "--json")[1])["rounds"]
    assert [one["judgement"] for one in rounds] == ["refused", "refused", "rejected"]
    _, out, _ = cli("roles", "--effect")
    assert ["judge", "1", "3", "3", "0"] in [line.split()[:5] for line in out.splitlines()]
    code, out, _ = cli("fork", "last", "--at", "g", "--answer", "APPROVE", "--because", "enough")
    assert code == 0, out


def test_check_and_draw_show_the_loop(cli, tmp_path: Path):
    """flows.md: the sentence, what REJECT does, and the arrow back."""
    flow(tmp_path, LOOP)
    out = cli("check")[1]
    assert "if it refuses, a and what follows run again, at most 2 times" in out
    assert "REJECT: sends the work back to a, 2 times, then vetoes z" in out
    assert "a <- g [refused, at most 2 times]" in cli("draw", "flow.yaml")[1]
