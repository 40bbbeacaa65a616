"""Two ways to stop that need more than a role: a model whose quota is used up, and joins of a stepped run."""

from __future__ import annotations

import operator
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai.exceptions import ModelQuotaExceededError
from pydantic_ai.models.function import FunctionModel

from orchestrator.agents.models import register_model
from orchestrator.supersteps import END, START, CompiledGraph, StateGraph
from tests.recovery import cast
from tests.recovery.canon import Told
from tests.recovery.crashing import Moment, Point, die, driven
from tests.recovery.test_stops import BACKENDS, KILLS, ONCE, Stop, chain, holds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from orchestrator.testing.loops import Backend

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

# --- quota ---------------------------------------------------------------------------------------------


async def says(_messages: Any, _info: Any) -> AsyncIterator[str]:
    """A provider that takes no calls until a file is there."""
    Told.say("call", "b", 0)
    if not (Told.path.parent / "file").exists():
        raise ModelQuotaExceededError("local:spent", "the quota is used up")
    yield "well"


@pytest.fixture
def provider() -> None:
    """The model that the cast's role names."""
    register_model("local:spent", FunctionModel(stream_function=says))


QUOTA = Stop(
    "quota", chain(cast.ok, cast.speaks, cast.ok), {"a": "completed", "b": "ready", "c": "waiting"},
    "completed", {"a": "completed", "b": "completed", "c": "completed"}, {**ONCE, "b": 2},
    mend=lambda folder, _run: cast.there(folder),
)  # fmt: skip


@KILLS
def test_a_model_whose_quota_is_used_up(ram: Path, provider: None, moment: Moment | None):
    """The attempt is given back, the run waits; killed, resumed, killed and resumed, it goes on once."""
    holds(QUOTA, ram, "asyncio", moment)


# --- stuck ---------------------------------------------------------------------------------------------

THREAD = "t"


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def crossed(folder: Path) -> CompiledGraph:
    """Two joins that wait for each other: each could arrive only behind the other."""

    def node(name: str) -> Any:
        async def body(_state: Any) -> dict[str, Any]:
            with (folder / "calls").open("a") as file:
                file.write(f"{name}\n")
            return {"log": [name]}

        return body

    graph = StateGraph(State)
    for name in ("a", "b", "p", "q", "x", "y"):
        graph.add_node(name, node(name))
    graph.add_edge(START, "a").add_edge(START, "b")
    graph.add_edge(["a", "x"], "p").add_edge(["b", "y"], "q").add_edge("q", "x")
    graph.add_conditional_edges("p", lambda at: END if "y" in at["log"] else "y", ["y", END])
    return graph.compile(journal=folder / "journal.db")


async def gets_stuck(folder: Path) -> None:
    """Run until nothing can go on and it says what is waited for; then die."""
    result = await crossed(folder).invoke({"log": []}, thread_id=THREAD)
    assert result.reason == "stuck"
    assert "p waits for x" in result.detail
    assert "q waits for y" in result.detail
    die()


async def goes_on(folder: Path) -> None:
    """What a person does about it: says what the missing parent would have written; the thread goes on."""
    app = crossed(folder)
    stands = await app.get_state(THREAD)
    if stands.values["log"] == ["a", "b"]:
        await app.update_state(THREAD, {"log": ["by hand"]}, as_node="x")
    result = await app.invoke(None, thread_id=THREAD)
    assert result.ok, (result.reason, result.detail)
    assert result.state["log"] == ["a", "b", "by hand", "p", "y", "q", "x", "p"]


@BACKENDS
@KILLS
def test_joins_that_wait_for_each_other(ram: Path, backend: Backend, moment: Moment | None):
    """Stuck is a stop of stepped runs: a graph's nodes wait for nothing but nodes that settle."""
    assert driven(ram, backend, drive=gets_stuck)
    if moment is not None:
        assert driven(ram, backend, Point(1, moment), drive=goes_on)
    assert not driven(ram, backend, drive=goes_on)
    calls = Counter((ram / "calls").read_text().split())
    assert calls["a"] == calls["b"] == 1
