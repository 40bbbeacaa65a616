"""Declarations: what a role may say is checked where it is written."""

import dataclasses
import inspect
from types import SimpleNamespace

import pytest

import roles
from emissions import Emission, EscalationRequest, Finding, OrchestratorError, SpawnRequest, Verdict
from roles import Artifact, Retry, Role, RoleError, role


def test_exports_are_exact():
    assert sorted(roles.__all__) == sorted(set(roles.__all__))
    assert all(hasattr(roles, name) for name in roles.__all__)


def test_decorator_with_and_without_parentheses():
    @role
    def plain(turn):
        """Does one thing.

        And says more.
        """
        return turn

    @role()
    async def called(turn): ...

    @role(emits=[Finding], name="named", description="said", retry=3, timeout=1.5, models=["m"])
    async def other(turn): ...

    assert (plain.name, plain.description, plain.emits, plain.is_async) == (
        "plain",
        "Does one thing.",
        (),
        False,
    )
    assert (called.name, called.description, called.is_async) == ("called", "", True)
    assert (other.name, other.description, other.emits, other.models) == ("named", "said", (Finding,), ("m",))
    assert other.retry == Retry(attempts=3)
    assert other.timeout == 1.5


async def test_a_function_role_is_called_like_its_function():
    @role
    async def scout(turn):
        return turn.node

    @role
    def plain(turn):
        return turn.node

    turn = SimpleNamespace(node="n")
    assert await scout(turn) == "n"
    assert plain(turn) == "n"
    assert str(inspect.signature(scout)) == "(turn)"
    assert inspect.unwrap(scout) is scout.fn
    assert scout.origin.rpartition(":")[0] == __file__


def test_a_role_without_function_says_so():
    with pytest.raises(RoleError, match="writer has no function"):
        Role("writer", body="You write.")(None)
    assert not hasattr(Role("writer"), "__wrapped__")
    assert not Role("writer").is_async


def test_grants_are_the_emits_and_escalation():
    assert Role("a", emits=(Finding, SpawnRequest)).grants == (Finding, SpawnRequest, EscalationRequest)
    assert Role("a", emits=(EscalationRequest,)).grants == (EscalationRequest,)
    assert Role("a").grants == (EscalationRequest,)


def test_a_role_is_a_frozen_value():
    one, two = Role("a", emits=[Finding], returns={"x": []}), Role("a", emits=(Finding,), returns={"x": []})
    assert one == two
    assert hash(one) == hash(two)
    assert one != Role("a", emits=(Verdict,))
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "b"  # type: ignore[misc]
    assert dataclasses.replace(one, name="b").emits == (Finding,)
    assert not hasattr(one, "__dict__")
    with pytest.raises(TypeError):
        Role("a", "body")  # type: ignore[misc]


class Imposter:
    """Looks like nothing we know."""


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"name": ""}, "not a role's name"),
        ({"name": "1a"}, "not a role's name"),
        ({"name": "a b"}, "not a role's name"),
        ({"name": "a" * 65}, "not a role's name"),
        ({"name": None}, "not a role's name"),
        ({"name": "a\n"}, "not a role's name"),
        ({"emits": Finding}, "give a tuple or a list"),
        ({"emits": (Imposter,)}, "give emission types"),
        ({"emits": ("Finding",)}, "give emission types"),
        ({"emits": (Emission,)}, "give emission types"),
        ({"emits": (Finding(description="d"),)}, "give emission types"),
        ({"emits": (Finding, Finding)}, "twice"),
        ({"body": None}, "body is NoneType"),
        ({"models": "m"}, "models is one str"),
        ({"models": (1,)}, "models holds 1"),
        ({"fallback": ("",)}, "fallback holds ''"),
        ({"effort": 3}, "effort is int"),
        ({"tools": print}, "tools is one"),
        ({"artifacts": ("note",)}, "give Artifact"),
        ({"artifacts": (Artifact("n", "a"), Artifact("n", "b"))}, "two artifacts are called n"),
        ({"modes": ("hasty",)}, "no mode is called 'hasty'"),
        ({"modes": ("fast", "slow")}, "fast and slow contradict"),
        ({"modes": ("systematic", "fast")}, "fast and systematic contradict"),
        ({"escalates_to": "a"}, "escalates to itself"),
        ({"retry": 0}, "attempts is 0"),
        ({"retry": "3"}, "retry is '3'"),
        ({"retry": True}, "retry is True"),
        ({"timeout": 0}, "timeout is 0"),
        ({"timeout": float("nan")}, "timeout is nan"),
        ({"timeout": "90s"}, "timeout is '90s'"),
        ({"fn": 3}, "not a function"),
    ],
)
def test_wrong_declarations_name_role_and_key(keys, says):
    with pytest.raises(RoleError) as caught:
        Role(**{"name": "a", **keys})
    assert says in str(caught.value)
    assert "name" in keys or "a" in str(caught.value)
    assert isinstance(caught.value, OrchestratorError) and isinstance(caught.value, ValueError)


def test_library_names_are_role_names():
    assert Role("postmortem-lead").name == "postmortem-lead"
    assert Role("_x9").name == "_x9"


def generator(turn):
    yield turn


async def async_generator(turn):
    yield turn


def none(): ...
def two(turn, other): ...
def defaulted(turn, other=1): ...
def starred(*turn): ...
def keyword(*, turn): ...


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (generator, "generator is a generator"),
        (async_generator, "async_generator is an async generator"),
        (none, "takes nothing"),
        (two, "takes turn, other"),
        (defaulted, "takes turn, other=1"),
        (starred, r"takes \*turn"),
        (keyword, "takes turn"),
        ("text", "str is not a function"),
        (Role("a"), "Role is not a function"),
    ],
)
def test_wrong_functions_are_refused_where_they_are_decorated(function, says):
    """bad-inputs 12: what would fail in every run fails at import."""
    with pytest.raises(RoleError, match=says):
        role(function)
    with pytest.raises(RoleError, match=says):
        role(emits=())(function)


def test_unknown_key_of_the_decorator():
    with pytest.raises(RoleError, match="unknown key 'emit'"):
        role(emit=(Finding,))(lambda turn: None)
    with pytest.raises(RoleError, match="not a role's name"):
        role()(lambda turn: None)


def test_bound_methods_and_partials_can_be_roles():
    class Team:
        def work(self, turn):
            return turn

    assert role(Team().work).name == "work"
    assert role(Team().work)(3) == 3


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x", "", "a\\b"])
def test_artifacts_stay_inside(path):
    with pytest.raises(RoleError, match="artifact 'n'"):
        Artifact("n", path)


@pytest.mark.parametrize(
    "keys",
    [
        {"attempts": 0},
        {"attempts": 1.5},
        {"backoff": -1},
        {"factor": float("inf")},
        {"jitter": 2},
        {"on": "E"},
    ],
)
def test_retry_refuses_what_means_nothing(keys):
    with pytest.raises(RoleError, match="Retry"):
        Retry(**keys)


def test_retry_of_another_room_is_taken_by_its_fields():
    other = SimpleNamespace(attempts=3, backoff=1.0, factor=2.0, max_delay=9.0, jitter=0.5, on=["ValueError"])
    assert Role("a", retry=other).retry == Retry(3, 1.0, 2.0, 9.0, 0.5, ("ValueError",))
