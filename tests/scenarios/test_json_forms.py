"""Kernel 6: what a role may give, and the JSON form in which it is kept."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum

import msgspec
import pydantic

from orchestrator import OperationGraphBuilder, role
from tests.scenarios.conftest import ran


class Colour(enum.Enum):
    """A field that is no JSON value itself."""

    RED = 1


def giving(make):
    @role()
    async def gives(turn):
        return make()

    graph = OperationGraphBuilder()
    graph.add_operation(gives, node_id="a")
    return graph


class Model(pydantic.BaseModel):
    """A model, nested."""

    when: dt.date = dt.date(2026, 1, 2)
    parts: tuple[int, ...] = (1, 2)


class Struct(msgspec.Struct):
    """A struct with a model in it."""

    model: Model
    colour: Colour = Colour.RED


@dataclasses.dataclass
class Data:
    """A dataclass with a struct in it."""

    struct: Struct
    none: None = None


async def test_kernel_6_what_is_stored_as_its_json_form():
    """Kernel 6: pydantic, msgspec and dataclass instances become mappings, tuples lists, None null."""
    run = await ran(giving(lambda: Data(Struct(Model()))))
    assert run["a"].value == {
        "struct": {"model": {"when": "2026-01-02", "parts": [1, 2]}, "colour": 1},
        "none": None,
    }
    assert (await ran(giving(lambda: None)))["a"].value is None
    assert (await ran(giving(lambda: (1, (2,)))))["a"].value == [1, [2]]
