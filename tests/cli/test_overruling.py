"""A fork that overrules a gate says what it does, where it comes from, and who decided why."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest

from tests.cli.program import flow

GATED = """
  a: {role: echo}
  g: {role: judge, gate: true, after: [a], with: {verdict: REJECT, why: the old reason}}
  z: {role: echo, after: [g]}
"""


@pytest.fixture
def rejected(cli, tmp_path: Path) -> str:
    """The id of a run whose gate rejected."""
    flow(tmp_path, GATED)
    assert cli("run", "--quiet")[0] == 3
    return str(json.loads(cli("runs", "--json")[1])["run"])


def test_a_fork_that_approves(cli, rejected: str):
    """fork: what is given is counted apart; the first line names the origin; show tells who and why."""
    code, out, err = cli("fork", rejected, "--at", "g", "--answer", "APPROVE", "--because", "it is wrong")
    assert code == 0, err
    assert "reuses 1, given 1, will run 1" in err
    first = out.splitlines()[1]
    assert first.startswith("forked ")
    assert f"from {rejected} after #" in first
    assert first.endswith("g is answered APPROVE")
    assert "resumed" not in out
    _, out, _ = cli("show", "last")
    assert f"approved by {getpass.getuser()}: it is wrong" in out
    node = json.loads(cli("show", "last", "--json")[1])["nodes"]["g"]
    assert (node["decided_by"], node["because"]) == (getpass.getuser(), "it is wrong")


def test_a_fork_that_rejects(cli, rejected: str):
    """fork: the reason of a rejection is the person's, not the one that the gate had given."""
    assert "rejected  g: the old reason" in cli("show", rejected)[1]
    code, out, _ = cli("fork", rejected, "--at", "g", "--answer", "REJECT", "--because", "no")
    assert code == 3
    assert f"  rejected  g by {getpass.getuser()}: no\n" in out
    assert "old reason" not in out


def test_a_fork_with_a_value(cli, rejected: str):
    """fork --value: the node that is given a value does not run."""
    _, _, err = cli("fork", rejected, "--value", "a=3")
    assert "given 1, will run 2" in err
