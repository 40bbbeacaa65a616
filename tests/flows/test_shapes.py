"""Shapes of values: short form, look-ups, and values that do not fit."""

from __future__ import annotations

import pytest

from orchestrator.flows.durations import seconds
from orchestrator.flows.shapes import ShapeError, look_up, schema_of, shape_fault

SHAPE = {
    "summary": "str",
    "files": ["str"],
    "level": {"enum": ["low", "high"]},
    "more": {"n": "int", "x": "any"},
}


def test_short_form():
    """Types, lists, mappings and enums become JSON Schema."""
    assert schema_of(SHAPE) == {
        "type": "object",
        "properties": {
            "summary": {"type": "string"},
            "files": {"type": "array", "items": {"type": "string"}},
            "level": {"type": "string", "enum": ["low", "high"]},
            "more": {
                "type": "object",
                "properties": {"n": {"type": "integer"}, "x": {}},
                "required": ["n", "x"],
            },
        },
        "required": ["summary", "files", "level", "more"],
    }


@pytest.mark.parametrize(
    "shape", ["string", "", 3, None, True, [], ["str", "int"], {"a": "sr"}, {"enum": []}, {"enum": [1]}]
)
def test_what_is_no_shape(shape):
    """Each is refused; the empty mapping is a shape."""
    with pytest.raises(ShapeError):
        schema_of(shape)
    assert schema_of({})["properties"] == {}


def test_too_deep():
    """No recursion error."""
    deep: object = "str"
    for _ in range(100):
        deep = [deep]
    with pytest.raises(ShapeError, match="deeper"):
        schema_of(deep)


@pytest.mark.parametrize(
    ("steps", "kind", "fault"),
    [
        ((), "object", None),
        (("summary",), "string", None),
        (("files", 0), "string", None),
        (("more", "x", "anything", 3), None, None),
        (("sumary",), None, "v has no 'sumary'; did you mean 'summary'?"),
        (("summary", "x"), None, "v.summary is of type string"),
        (("files", "x"), None, "v.files is a list"),
        ((0,), None, "v is a mapping"),
        (("more", "z"), None, "v.more has no 'z'"),
    ],
)
def test_look_up(steps, kind, fault):
    """What a reference may count on, and what it may not."""
    found, told = look_up(schema_of(SHAPE), steps, "v")
    assert (told or "").startswith(fault or "")
    assert (told is None) is (fault is None)
    assert found.get("type") == kind


def test_references_inside_a_schema_are_followed():
    """pydantic writes nested models as $ref."""
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": schema_of({"b": "int"})},
    }
    assert look_up(schema, ("a", "b"), "v") == ({"type": "integer"}, None)
    assert look_up(schema, ("a", "c"), "v")[1] is not None


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"summary": "s", "files": [], "level": "low", "more": {"n": 1, "x": None}}, None),
        (
            {"summary": "s", "files": [1], "level": "low", "more": {"n": 1, "x": 1}},
            "v.files[0] is int, not string",
        ),
        (
            {"summary": "s", "files": [], "level": "mid", "more": {"n": 1, "x": 1}},
            "v.level is 'mid', not one of low, high",
        ),
        (
            {"summary": "s", "files": [], "level": "low", "more": {"n": True, "x": 1}},
            "v.more.n is bool, not integer",
        ),
        ({"summary": "s", "files": [], "level": "low"}, "v has no 'more'"),
        ([], "v is list, not object"),
    ],
)
def test_values_against_shapes(value, fault):
    """The first thing that does not fit, with its path."""
    assert shape_fault(schema_of(SHAPE), value, "v") == fault


@pytest.mark.parametrize(
    ("schema", "value", "fault"),
    [
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "integer"}}}, "x", "v is str, not integer"),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "integer"}}}, 1, None),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, 1, None),
        ({"items": {"$ref": "#/$defs/A"}, "$defs": {"A": {"const": 3}}}, [3, 4], "v[1] is 4, not 3"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, None, None),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 3, "v is int, not string"),
        ({"type": ["string", "null"]}, 3, "v is int, not string or null"),
        ({"type": ["string", "null"]}, None, None),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"b": 1},
            "v has 'b', which its shape does not hold; there is: a",
        ),
    ],
)
def test_what_schema_files_say_besides(schema, value, fault):
    """References, alternatives, constants, closed mappings."""
    assert shape_fault(schema, value, "v") == fault


def test_numbers():
    """A whole number is a number; a number is not whole."""
    assert shape_fault({"type": "number"}, 1) is None
    assert shape_fault({"type": "integer"}, 1.0) is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("2h", 7200),
        ("1d", 86400),
        ("500ms", 0.5),
        ("1.5h", 5400),
        (3, 3),
        (0.5, 0.5),
    ],
)
def test_durations(text, expected):
    """A number is seconds, a text carries its unit."""
    assert seconds(text) == expected


@pytest.mark.parametrize(
    "text", ["", "5", "s", "5 m", "-5s", "0s", 0, -1, True, None, "1e3s", "5w", "\u0665s", float("inf"), []]
)
def test_no_durations(text):
    """Everything else is refused."""
    with pytest.raises(ValueError, match="90s"):
        seconds(text)
