"""Another model for a run that goes on, and for a recorded node: ``--model`` on ``resume`` and ``try``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from orchestrator import OperationGraphBuilder, Role, Session
from orchestrator.agents.jobs import QuotaError
from orchestrator.errors import OperationError
from tests.agents.scripts import scripted
from tests.cli.program import call

FLOW = """\
version: 1
name: two
cast: [cast.py]
budget: {spawns: 0, tokens: 1}
nodes:
  first: {role: one}
  look: {role: scribe, after: [first], instruction: Look at rivers.}
  write: {role: writer, after: [look], instruction: Write it down.}
"""
CAST = """\
from orchestrator import role

@role()
def one(turn):
    return 1
"""


@pytest.fixture
def anyio_backend() -> str:
    """The library that calls models runs on asyncio only."""
    return "asyncio"


async def test_a_run_goes_on_with_another_model(tmp_path: Path):
    """api.md: ``resume --model`` performs what is left; the recorded model is not called."""

    def away(_messages: list[Any], _info: Any) -> Any:
        raise QuotaError("away takes no calls")

    scripted("away", away)
    scripted("here", lambda _messages, _info: "from here")
    cast = Role("writer", body="B", models=("away",))
    graph = OperationGraphBuilder()
    graph.add_operation(cast, depends_on=[], instruction="Go.")
    journal = tmp_path / "runs.db"
    async with Session(journal=journal, roles=[cast], folder=tmp_path) as session:
        assert (await session.flow(graph)).reason == "quota"
    async with Session(journal=journal, roles=[cast], folder=tmp_path, model="nonsense") as session:
        with pytest.raises(OperationError, match="PROVIDER:NAME"):
            await session.resume()
    async with Session(journal=journal, roles=[cast], folder=tmp_path, model="here") as session:
        result = await (await session.resume()).wait()
    assert result.reason == "completed"
    assert result["writer"].value == {"text": "from here"}


@pytest.mark.slow
def test_resume_and_try_take_a_model(tmp_path: Path):
    """The command line: a run that its budget suspended goes on; a node of it is tried again."""
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "cast.py").write_text(CAST)
    done = call("run", "--model", "test", "--quiet", cwd=tmp_path)
    assert "budget_exhausted" in done.stdout, done.stderr
    done = call("resume", "last", "--budget", "tokens=100000", "--model", "test", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = call("try", "last", "write", "--model", "test", "--times", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "again 2    succeeded" in done.stdout
    assert "emitted Document" in done.stdout
    done = call("try", "last", "first", "--model", "test", cwd=tmp_path)
    assert done.returncode == 2
    assert "performed by a function" in done.stderr
    done = call("try", "last", "write", "--as-test", "test_it.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "no function" in done.stderr
