"""Importing the library costs what it must: no library that only some users or only the command line need."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.architecture.tree import ROOT

HEAVY = (
    *("structlog", "rich", "typer", "click", "ruamel", "apsw", "trio", "stamina", "pytest", "hypothesis"),
    *("starlette", "uvicorn", "mcp", "acp", "pydantic_ai", "openai", "anthropic", "nats", "opentelemetry"),
)

USE = """
from orchestrator import Budget, Finding, OperationGraphBuilder, Role, SpawnRequest, Verdict, role
graph = OperationGraphBuilder()

def one(turn): ...
graph.add_operation(role()(one))
graph.get_graph()
"""


def loaded(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after running some code."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.parametrize("package", ["emissions", "roles", "orchestrator"])
def test_import_is_lean(package: str):
    """Engine 12: `import orchestrator` loads nothing that only some users need."""
    heavy = loaded(f"import {package}") & set(HEAVY)
    assert not heavy, f"import {package} loads {sorted(heavy)}"


def test_building_a_graph_is_lean():
    """Declaring roles and building a graph needs neither the YAML reader nor the log nor a terminal."""
    heavy = loaded(USE) & set(HEAVY)
    assert not heavy, f"building a graph loads {sorted(heavy)}"


def test_roles_need_no_orchestrator():
    """A role can be declared and tested with no orchestrator present."""
    assert "orchestrator" not in loaded("import roles, emissions")
