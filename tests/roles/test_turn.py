"""What a role sees: typed, and readable the way people write it."""

import copy
import pickle
from typing import Any

import pytest

from emissions import Accepted, ArtifactProduced, Finding
from roles import Emitted, Inputs, NodeError, NotApplicable, Turn


def test_an_emitted_emission_reads_like_the_emission():
    """The example of the public surface: `f.severity in {"high", "critical"}`."""
    finding = Emitted(Finding(description="d", severity="high"), node="scout", role="scout", attempt=2)
    assert finding.severity in {"high", "critical"}
    assert finding.description == "d"
    assert (finding.node, finding.role, finding.attempt) == ("scout", "scout", 2)
    assert finding.model_dump()["severity"] == "high"
    with pytest.raises(AttributeError):
        _ = finding.unheard_of
    assert Emitted(ArtifactProduced(path="p", kind="report"), node="n").kind == "report"


def test_emitted_is_a_value():
    one = Emitted(Finding(description="d"), node="n")
    assert one == Emitted(Finding(description="d"), node="n")
    assert hash(one) == hash(copy.deepcopy(one))
    assert pickle.loads(pickle.dumps(one)) == one == copy.copy(one)


def test_node_error_and_not_applicable():
    assert str(NodeError("ValueError", "no", 2)) == "ValueError: no"
    assert str(NodeError("TimeoutError", "")) == "TimeoutError"
    with pytest.raises(NotApplicable) as caught:
        raise NotApplicable("no tests here")
    assert caught.value.reason == "no tests here" == str(caught.value)
    assert NotApplicable().reason == ""


class Values(dict[str, Any]):
    def of(self, *, role: str) -> "Values":
        return self


class Fake:
    node = run = instruction = idempotency_key = "x"
    parameters: dict[str, Any] = {}
    failed = context = artifacts = parameters
    inputs = Values()
    workdir = deadline = branch = rework = None
    attempt = 1

    def nothing(self, *args: Any, **kwargs: Any) -> Any:
        return ()

    async def emit(self, emission):
        return Accepted()

    input = emissions = write = emit_sync = ask = step = report = steers = nothing


def test_protocols_are_met_by_shape():
    assert isinstance(Fake(), Turn)
    assert isinstance(Values(), Inputs)
    assert not isinstance({}, Inputs)
    assert not isinstance(object(), Turn)


def test_the_turn_has_what_the_public_surface_lists():
    listed = """node parameters instruction inputs input failed emissions context write emit ask step
    report steers artifacts workdir attempt deadline idempotency_key branch run emit_sync rework"""
    assert {name for name in vars(Turn) if not name.startswith("_")} == set(listed.split())
