"""The pytest plugin: fixtures on both backends, no real model calls, and nothing heavy at pytest's start."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.testing.model_block import ENVIRONMENT, FORBIDDEN, ModelBlock
from tests.docs.pages import pages

HEAVY = (
    "orchestrator.core",
    "orchestrator.runtime",
    "orchestrator.flows",
    "orchestrator.agents",
    "emissions",
)
LIBRARIES = {"anyio", "blinker", "msgspec", "pydantic", "pydantic_ai", "structlog", "trio", "ruamel"}

TESTS = '''
import anyio
import os
import pytest
import pydantic_ai.models
from orchestrator import OperationGraphBuilder
from orchestrator.testing import LawfulSession, assert_laws, scripted, waits


def graph(*outcomes):
    made = OperationGraphBuilder()
    made.add_operation(scripted(*outcomes, name="worker"))
    return made


async def test_session(callboard_session, tmp_path):
    """open, lawful, its files in tmp_path"""
    assert isinstance(callboard_session, LawfulSession)
    result = await callboard_session.flow(graph(lambda turn: str(turn.workdir)))
    assert result["worker"].value.startswith(str(tmp_path))
    assert_laws(result)


def test_models():
    """no real model, in this process or a child"""
    assert pydantic_ai.models.ALLOW_MODEL_REQUESTS is ALLOWED
    assert (os.environ.get("CALLBOARD_MODEL_CALLS") == "forbidden") is not ALLOWED


class TestVirtual:
    @pytest.fixture
    def anyio_backend(self, virtual_backend):
        return virtual_backend

    async def test_an_hour(self, callboard_session):
        """passes at once, from 0 each time"""
        assert anyio.current_time() < 1
        await callboard_session.flow(graph(waits(3600)))
        assert 3600 <= anyio.current_time() < 3601

    async def test_another_hour(self, callboard_session):
        assert anyio.current_time() < 1


class TestSeeded:
    @pytest.fixture
    def anyio_backend(self, seeded_backend):
        return seeded_backend

    async def test_schedules(self, callboard_session):
        assert (await callboard_session.flow(graph(1))).ok
'''

BROKEN = """
from orchestrator import OperationGraphBuilder
from orchestrator.testing import scripted

async def test_broken(callboard_session):
    made = OperationGraphBuilder()
    made.add_operation(scripted(1, name="worker"))
    await callboard_session.flow(made)
    callboard_session.made[0].engine.state.live += 1
"""


def stub_of_the_library(folder: Path) -> None:
    (folder / "pydantic_ai").mkdir()
    (folder / "pydantic_ai" / "__init__.py").touch()
    (folder / "pydantic_ai" / "models.py").write_text("ALLOW_MODEL_REQUESTS = True\n", encoding="utf-8")


# The other plugins that are installed here are none of a user's.
QUIET = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:hypothesispytest")


def run(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *QUIET, "--anyio-mode=auto", "-W", "error", "-q", "-rA", *words],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != ENVIRONMENT},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("allowed", [False, True])
def test_fixtures_of_a_users_project(tmp_path: Path, allowed: bool):
    """A project that only installed callboard: session, virtual hour, seeds, and the block."""
    stub_of_the_library(tmp_path)
    (tmp_path / "test_it.py").write_text(TESTS.replace("ALLOWED", str(allowed)), encoding="utf-8")
    words = ["--allow-model-calls", "--callboard-seeds=3"] if allowed else []
    said = run(tmp_path, *words)
    seeded = 3 if allowed else 5
    assert f"{2 + 1 + 4 + 2 * seeded} passed" in said, said
    for name in (
        "test_session[asyncio]",
        "test_session[trio]",
        "test_an_hour[trio]",
        "test_schedules[asyncio-2]",
    ):
        assert f"{name}" in said, said


@pytest.mark.slow
def test_a_broken_law_is_the_test_s_error(tmp_path: Path):
    """The session's fixture holds the laws when the test is over."""
    (tmp_path / "test_it.py").write_text(BROKEN, encoding="utf-8")
    said = run(tmp_path)
    assert "LawError: run" in said, said
    assert "counter live is 1" in said, said


def test_pytest_starts_without_the_engine():
    """Loading the plugin loads nothing of the engine and none of its libraries."""
    script = (
        "import sys, json, pytest\n"
        "before = set(sys.modules)\n"
        "import orchestrator.testing.plugin\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    loaded = json.loads(done.stdout)
    heavy = [name for name in loaded if name.startswith(HEAVY) or name.partition(".")[0] in LIBRARIES]
    assert not heavy
    ours = [name for name in loaded if name.startswith("orchestrator")]
    assert ours == [
        "orchestrator",
        "orchestrator.testing",
        "orchestrator.testing.model_block",
        "orchestrator.testing.plugin",
    ]


def test_the_plugin_is_on_here():
    """Our own tests run under it."""
    assert os.environ[ENVIRONMENT] == FORBIDDEN


@pytest.mark.slow
def test_the_page_about_testing(tmp_path: Path):
    """The test files that docs/testing.md shows pass under pytest, with nothing but the plugin."""
    page = next(page for page in pages() if page.name == "docs/testing.md")
    for block in page.blocks():
        if block.word == "file":
            (tmp_path / block.rest).write_text(block.text, encoding="utf-8")
    assert "10 passed" in (said := run(tmp_path)), said


# --- the block ---------------------------------------------------------------------------------


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the model library, not imported yet."""
    stub_of_the_library(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("pydantic_ai", "pydantic_ai.models"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    return tmp_path


@pytest.fixture
def unblocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the plugin of this very session were not there."""
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    monkeypatch.setattr(
        sys, "meta_path", [f for f in sys.meta_path if type(f).__module__ != ModelBlock.__module__]
    )


@pytest.mark.usefixtures("library", "unblocked")
def test_a_library_that_comes_later_is_blocked():
    """It is not imported for the block; when it is, no request is allowed."""
    block = ModelBlock()
    block.on()
    try:
        assert "pydantic_ai" not in sys.modules
        models = importlib.import_module("pydantic_ai.models")
        assert models.ALLOW_MODEL_REQUESTS is False
        assert models.__spec__.loader.get_source("pydantic_ai.models") == "ALLOW_MODEL_REQUESTS = True\n"
        assert os.environ[ENVIRONMENT] == FORBIDDEN
    finally:
        block.off()
    assert models.ALLOW_MODEL_REQUESTS is True
    assert ENVIRONMENT not in os.environ


@pytest.mark.usefixtures("library", "unblocked")
@pytest.mark.parametrize("before", [True, False])
def test_a_library_that_is_there_is_blocked(before: bool):
    """And it is as it was afterwards."""
    models = importlib.import_module("pydantic_ai.models")
    models.ALLOW_MODEL_REQUESTS = before
    block = ModelBlock()
    block.on()
    block.on()
    assert models.ALLOW_MODEL_REQUESTS is False
    block.off()
    block.off()
    assert models.ALLOW_MODEL_REQUESTS is before


@pytest.mark.usefixtures("library")
def test_blocks_may_be_nested():
    """A second one, in a pytest that a test runs, neither loops nor opens the first."""
    block = ModelBlock()
    block.on()
    models = importlib.import_module("pydantic_ai.models")
    assert models.ALLOW_MODEL_REQUESTS is False
    block.off()
    assert models.ALLOW_MODEL_REQUESTS is False
    assert os.environ[ENVIRONMENT] == FORBIDDEN


@pytest.mark.usefixtures("unblocked")
def test_other_imports_go_their_way(monkeypatch: pytest.MonkeyPatch):
    """A library that is not installed stays not installed; the variable keeps what a user put there."""
    monkeypatch.setenv(ENVIRONMENT, "as before")
    block = ModelBlock()
    block.on()
    try:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("no_such_library.models")
    finally:
        block.off()
    assert os.environ[ENVIRONMENT] == "as before"
