"""Making an ``Operation``: every argument is checked here, once, for every way to make one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import pydantic

from emissions import Verdict
from orchestrator.core.expressions import FUNCTIONS, LITERALS, ExpressionError
from orchestrator.core.spec import NAME_LIMIT, Gate, Operation, Retry, Undecided, name_fault
from orchestrator.core.templates import compile_template, needs_rendering, walk_texts
from orchestrator.errors import GraphError, OperationError
from orchestrator.flows.conditions import check_condition
from orchestrator.flows.durations import seconds
from orchestrator.flows.json_values import json_object
from roles import Role

__all__ = ["BRANCH_VERBS", "WORDS_OF_EXPRESSIONS", "create_operation", "default_name", "resolve"]

#: Verbs that hold a conversation: a node that performs one without a function role takes a branch.
BRANCH_VERBS: Final = frozenset(
    {"operate", "chat", "communicate", "ReAct", "ReActStream", "parse", "select", "interpret"}
)
#: Names that a node may not take because expressions know them.
WORDS_OF_EXPRESSIONS: Final = FUNCTIONS | frozenset(LITERALS)
_ATTEMPT_LIMIT = 1_000
_NEEDS = ("any", "all")
_REFUSABLE = ("APPROVE-WITH-FIXES", "REQUEST-CHANGES", "REJECT")


def create_operation(
    operation: str | Role = "operate",
    parameters: object = None,
    *,
    node_id: str | None = None,
    role: str | Role | None = None,
    instruction: str = "",
    gate: object = False,
    when: str | None = None,
    needs: str = "any",
    returns: type | Mapping[str, object] | None = None,
    retry: object = None,
    timeout: float | str | None = None,
    deadline: float | str | None = None,
    fresh: bool = False,
    uses: Iterable[str] = (),
    emits: Iterable[str] | None = None,
    models: Iterable[str] = (),
    branch: str | None = None,
    inherit: str | None = None,
    writes: str | None = None,
    renders: bool = False,
    stop_on_failure: bool = False,
    description: str = "",
    **more: object,
) -> Operation:
    """Make one operation without a builder.

    Args:
        operation: a verb, or a role (the verb is then ``operate``).
        parameters: a mapping or a pydantic model; ``more`` is merged into it.
        node_id: the node's name; the role's or verb's if omitted.
        role: the role that performs it, or its name.
        instruction: what to do, in words.
        gate: True, a Gate, or its fields.
        when: expression over ``args``, ``context`` and nodes before this one.
        needs: ``any`` or ``all``.
        returns: a type (pydantic model, dataclass, ``list[str]``) or a JSON Schema.
        retry: attempts in all, a Retry, or its fields.
        timeout: per attempt; seconds, or a text such as ``90s``.
        deadline: per node, likewise.
        fresh: start every turn with an empty conversation.
        uses: names of limits.
        emits: kinds, narrowing the role's.
        models: tiers, cheapest first.
        branch: name of a shared branch.
        inherit: node whose messages it starts from.
        writes: context key that the value is also written to.
        renders: instruction and parameters hold ``${...}``.
        stop_on_failure: a failure of this node cancels the run.
        description: for people.
        more: further parameters.

    Raises:
        OperationError: an argument does not fit; the message names it and the accepted form.
        GraphError: the name is no node name.
    """
    verb, cast = resolve(operation, role)
    name = node_id if node_id is not None else default_name(verb, cast)
    check_name(name)
    if "is_gate" in more:
        gate = more.pop("is_gate") is True or gate
    text, predicate = check_condition(when, name)
    if predicate is not None:
        raise OperationError(f"when of {name} is an object; it judges an edge: give it to add_edge")
    if needs not in _NEEDS:
        raise OperationError(f"needs of {name} is {needs!r}; write 'any' or 'all'")
    data = json_object({} if parameters is None else parameters, f"parameters of {name}")
    data.update(json_object(more, f"parameters of {name}"))
    shape = returns if returns is not None or not isinstance(cast, Role) else cast.returns
    if renders:
        _check_templates(name, instruction, data)
    return Operation(
        name=name,
        verb=verb,
        role=cast.name if isinstance(cast, Role) else cast,
        parameters=msgspec.Raw(msgspec.json.encode(data)),
        instruction=_text(instruction, f"instruction of {name}"),
        emits=None if emits is None else _texts(emits, f"emits of {name}"),
        needs=needs,
        when=text,
        gate=make_gate(gate, name, cast),
        retry=make_retry(retry, name),
        timeout=_duration(timeout, f"timeout of {name}"),
        deadline=_duration(deadline, f"deadline of {name}"),
        branch=branch,
        inherit=inherit,
        fresh=_flag(fresh, f"fresh of {name}"),
        speaks=_speaks(verb, cast),
        uses=_texts(uses, f"uses of {name}"),
        models=_texts(models, f"models of {name}"),
        returns=json_schema(shape, name),
        writes=writes,
        renders=renders and (needs_rendering(instruction) or needs_rendering(data)),
        stop_on_failure=stop_on_failure,
        description=description,
    )


def resolve(operation: object, role: object) -> tuple[str, str | Role | None]:
    """The verb and the role (or its name) that ``operation`` and ``role`` mean together."""
    if role is not None and not isinstance(role, str | Role):
        raise OperationError(
            f"role is {type(role).__name__}; give a Role, a function under @role(), or a name"
        )
    if isinstance(operation, Role):
        if role is not None and role != operation:
            message = f"two roles are given, {operation.name} and {getattr(role, 'name', role)}; give one"
            raise OperationError(message)
        return "operate", operation
    if isinstance(operation, str):
        if not operation or not operation.isprintable() or len(operation) > NAME_LIMIT:
            raise OperationError(f"{operation!r} is not the name of a verb")
        return operation, role
    if callable(operation):
        named = getattr(operation, "__name__", type(operation).__name__)
        message = f"{named} is a plain function; put @role() above it, or use session.register_operation"
        raise OperationError(message)
    raise OperationError(f"an operation is a verb or a role, not {type(operation).__name__}")


def default_name(verb: str, role: str | Role | None) -> str:
    """The role's or the verb's name, turned into one that a node may have."""
    base = role.name if isinstance(role, Role) else role or verb
    cleaned = "".join(char if char.isascii() and char.isalnum() else "_" for char in base)[:50]
    if not cleaned or cleaned[0].isdigit():
        cleaned = f"_{cleaned}"
    return f"{cleaned}_" if name_fault(cleaned, WORDS_OF_EXPRESSIONS) else cleaned


def check_name(name: object) -> None:
    """Refuse what is no node name, with a proposal."""
    if not isinstance(name, str):
        raise GraphError(f"node_id is {type(name).__name__}; give a text")
    fault = name_fault(name, WORDS_OF_EXPRESSIONS)
    if fault:
        raise GraphError(fault)


def make_gate(gate: object, name: str, role: str | Role | None) -> Gate | None:
    """The Gate that ``gate`` means; a role that is known must declare Verdict."""
    if gate is False or gate is None:
        return None
    if isinstance(role, Role) and Verdict not in role.emits:
        message = f"{name} is a gate, but its role {role.name} does not declare Verdict; add it to emits="
        raise OperationError(message)
    if gate is True:
        return Gate()
    try:
        found = gate if isinstance(gate, Gate) else msgspec.convert(gate, Gate)
    except (msgspec.ValidationError, TypeError) as error:
        raise OperationError(
            f"gate of {name}: {error}; write true or {{refusals, back_to, refuse_on}}"
        ) from error
    unknown = [verdict for verdict in found.refuse_on if verdict not in _REFUSABLE]
    if unknown or not found.refuse_on:
        shown = ", ".join(_REFUSABLE)
        raise OperationError(f"refuse_on of {name} holds {unknown or 'nothing'}; it may hold {shown}")
    if found.refusals < 0:
        raise OperationError(f"refusals of {name} is {found.refusals}; write 0 or more")
    if found.on_undecided not in Undecided:
        raise OperationError(f"on_undecided of {name} is {found.on_undecided!r}; write hold, reject or pass")
    return found


def make_retry(retry: object, name: str) -> Retry | None:
    """The Retry that ``retry`` means: a number of attempts, a Retry, or its fields."""
    if retry is None:
        return None
    if type(retry) is int:
        found = Retry(attempts=retry)
    else:
        try:
            found = retry if isinstance(retry, Retry) else msgspec.convert(retry, Retry)
        except (msgspec.ValidationError, TypeError) as error:
            raise OperationError(f"retry of {name}: {error}; write 3 or {{attempts, backoff, on}}") from error
    sound = 1 <= found.attempts <= _ATTEMPT_LIMIT and found.backoff >= 0 and found.factor >= 1
    if not sound or found.max_delay < 0 or not 0 <= found.jitter <= 1:
        message = (
            f"retry of {name} does not fit: attempts 1 to 1,000 (the first counts), "
            "backoff and max_delay at least 0, factor at least 1, jitter 0 to 1"
        )
        raise OperationError(message)
    return found


def json_schema(shape: Any, name: str) -> msgspec.Raw | None:
    """The JSON Schema of ``returns``: given as one, or made from a type."""
    if shape is None:
        return None
    if isinstance(shape, Mapping):
        return msgspec.Raw(msgspec.json.encode(json_object(shape, f"returns of {name}")))
    try:
        schema = pydantic.TypeAdapter[Any](shape).json_schema()
    except (pydantic.errors.PydanticUserError, TypeError, ValueError) as error:
        message = f"returns of {name} has no JSON Schema: {str(error).splitlines()[0]}; give a pydantic model"
        raise OperationError(message) from error
    return msgspec.Raw(msgspec.json.encode(schema))


def _check_templates(name: str, instruction: str, data: object) -> None:
    for path, text in (((), instruction), *walk_texts(data)):
        try:
            compile_template(text)
        except ExpressionError as error:
            where = ".".join(str(part) for part in path) or "instruction"
            raise OperationError(f"{where} of {name}: {error}") from error


def _speaks(verb: str, role: str | Role | None) -> bool:
    if isinstance(role, Role) and role.fn is not None:
        return False
    return verb in BRANCH_VERBS


def _duration(value: object, where: str) -> float | None:
    if value is None:
        return None
    try:
        return seconds(value)
    except ValueError as error:
        raise OperationError(f"{where}: {error}") from error


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise OperationError(f"{where} is {type(value).__name__}; give a text")
    return value


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise OperationError(f"{where} is {value!r}; write True or False")
    return value


def _texts(values: object, where: str) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise OperationError(f"{where} is {values!r}; give a list of names")
    found = tuple(values)
    for value in found:
        if not isinstance(value, str) or not value:
            raise OperationError(f"{where} holds {value!r}; give names")
    return found
