"""Making an ``Operation``: every argument is checked here, once, for every way to make one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any, Final, TypedDict, Unpack

import pydantic

from emissions import Verdict
from orchestrator.core.encoding import encoded, fields_of, struct_of
from orchestrator.core.expressions import FUNCTIONS, LITERALS, ExpressionError
from orchestrator.core.spec import NAME_LIMIT, Casting, Gate, Operation, Retry, Undecided, name_fault
from orchestrator.core.templates import compile_template, needs_rendering, walk_texts
from orchestrator.core.verbs import SPEAKING
from orchestrator.errors import GraphError, OperationError
from orchestrator.flows.conditions import check_condition
from orchestrator.flows.durations import seconds
from orchestrator.flows.inquiries import ASK, make_inquiry
from orchestrator.flows.instances import check_kinds, make_for_each
from orchestrator.flows.json_values import json_object
from orchestrator.flows.names import suggestion
from orchestrator.flows.paths import artifacts_of
from roles import Role

__all__ = [
    "WORDS_OF_EXPRESSIONS",
    "OperationOptions",
    "check_name",
    "create_operation",
    "default_name",
    "json_schema",
    "make_gate",
    "make_retry",
    "resolve",
]

#: Names that a node may not take because expressions know them.
WORDS_OF_EXPRESSIONS: Final = FUNCTIONS | frozenset(LITERALS)
_ATTEMPT_LIMIT = 1_000
#: Seconds; far below what a record's nanoseconds can hold.
_DELAY_LIMIT = 1e9
_NEEDS = ("any", "all")
_REFUSABLE = ("APPROVE-WITH-FIXES", "REQUEST-CHANGES", "REJECT")


class OperationOptions(TypedDict, total=False):
    """What can be said of an operation beside its verb and its parameters.

    Attributes:
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
        models: tiers, cheapest first. effort: how hard the model thinks.
        tools: names, narrowing the role's.
        asks: a model may ask a person.
        inputs: predecessors that a model is shown; None for all.
        branch: name of a shared branch.
        inherit: node whose messages it starts from.
        writes: context key that the value is also written to.
        renders: instruction and parameters hold ``${...}``.
        stop_on_failure: a failure of this node cancels the run.
        description: for people.
        artifacts: files that it leaves, beside those of its role: Artifacts, or their fields.
        casting: a Casting: the tasks that it assigns become the planned nodes of the run.
        flow: path of the flow document that it includes; only documents have such nodes.
        workdir: the folder that it works in; a folder of its own if omitted.
        for_each: a ForEach or its fields: the node runs once per element of a list.
        ask: True, an Inquiry or its fields: a person settles the node; ``instruction`` is the question.
    """

    node_id: str | None
    role: str | Role | None
    instruction: str
    gate: object
    when: str | None
    needs: str
    returns: object
    retry: object
    timeout: float | str | None
    deadline: float | str | None
    fresh: bool
    uses: Iterable[str]
    emits: Iterable[str] | None
    models: Iterable[str]
    effort: str | None
    tools: Iterable[str] | None
    asks: bool
    inputs: Iterable[str] | None
    branch: str | None
    inherit: str | None
    writes: str | None
    renders: bool
    stop_on_failure: bool
    description: str
    artifacts: Iterable[object]
    workdir: str | None
    for_each: object
    ask: object
    flow: str | None
    casting: Casting | None


def create_operation(
    operation: str | Role = "operate",
    parameters: object = None,
    **options: Unpack[OperationOptions],
) -> Operation:
    """Make one operation without a builder.

    Args:
        operation: a verb, or a role (the verb is then ``operate``).
        parameters: a mapping or a pydantic model.
        options: see ``OperationOptions``.

    Raises:
        OperationError: an argument does not fit; the message names it and the accepted form.
        GraphError: the name is no node name.
    """
    verb, cast = resolve(operation, options.get("role"))
    asks = options.get("ask") not in (None, False)
    verb = ASK if asks else verb
    given = options.get("node_id")
    name = default_name(verb, cast) if given is None else given
    check_name(name)
    said: Mapping[str, Any] = dict(options)
    unknown = next((key for key in said if key not in OperationOptions.__annotations__), None)
    if unknown is not None:
        hint = suggestion(unknown, OperationOptions.__annotations__)
        raise OperationError(f"an operation has no option {unknown!r} (parameters are one mapping){hint}")
    data = json_object({} if parameters is None else parameters, f"parameters of {name}")
    fields = {key: read(said[key], f"{key} of {name}") for key, read in _FIELDS.items() if key in said}
    returns = options.get("returns")
    if returns is None and isinstance(cast, Role):
        returns = cast.returns
    inquiry = make_inquiry(options.get("ask"), f"ask of {name}") if asks else None
    # what an element is, and what a person is asked, can only be said in texts
    if fields.pop("renders", False) or asks or fields.get("for_each") is not None:
        fields["renders"] = _has_templates(
            name, fields.get("instruction", ""), [data, "" if inquiry is None else inquiry.show]
        )
    made = Operation(
        name=name,
        verb=verb,
        role=cast.name if isinstance(cast, Role) else cast,
        parameters=encoded(data),
        gate=make_gate(options.get("gate"), name, cast),
        speaks=_speaks(verb, cast),
        returns=json_schema(returns, name),
        inquiry=inquiry,
        **fields,
    )
    check_kinds(made)
    return made


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
        found = gate if isinstance(gate, Gate) else struct_of(Gate, gate)
    except ValueError as error:
        raise OperationError(
            f"gate of {name}: {error}; write true or {{refusals, back_to, refuse_on}}"
        ) from error
    unknown = [verdict for verdict in found.refuse_on if verdict not in _REFUSABLE]
    if unknown or not found.refuse_on:
        shown = ", ".join(_REFUSABLE)
        raise OperationError(f"refuse_on of {name} holds {unknown or 'nothing'}; it may hold {shown}")
    if type(found.refusals) is not int or found.refusals < 0:
        raise OperationError(f"refusals of {name} is {found.refusals!r}; write a whole number from 0")
    if found.on_undecided not in Undecided:
        raise OperationError(f"on_undecided of {name} is {found.on_undecided!r}; write hold, reject or pass")
    return found


def make_retry(retry: object, where: str) -> Retry | None:
    """The Retry that ``retry`` means: a number of attempts, a Retry, or its fields."""
    if retry is None:
        return None
    if type(retry) is int:
        found = Retry(attempts=retry)
    else:
        try:
            found = struct_of(Retry, fields_of(retry) if isinstance(retry, Retry) else retry)
        except ValueError as error:
            raise OperationError(f"{where}: {error}; write 3 or {{attempts, backoff, on}}") from error
    sound = 1 <= found.attempts <= _ATTEMPT_LIMIT and 1 <= found.factor < inf and 0 <= found.jitter <= 1
    if not sound or not 0 <= found.backoff <= _DELAY_LIMIT or not 0 <= found.max_delay <= _DELAY_LIMIT:
        message = (
            f"{where} does not fit: attempts 1 to 1,000 (the first counts), "
            f"backoff and max_delay 0 to {_DELAY_LIMIT:.0f} s, factor at least 1, jitter 0 to 1"
        )
        raise OperationError(message)
    return found


def json_schema(shape: Any, name: str) -> str | None:
    """The JSON Schema of ``returns`` as JSON text, given as one or made from a type; None for None."""
    if shape is None:
        return None
    if isinstance(shape, Mapping):
        return bytes(encoded(json_object(shape, f"returns of {name}"))).decode()
    try:
        schema = pydantic.TypeAdapter[Any](shape).json_schema()
    except (pydantic.errors.PydanticUserError, TypeError, ValueError) as error:
        message = f"returns of {name} has no JSON Schema: {str(error).splitlines()[0]}; give a pydantic model"
        raise OperationError(message) from error
    return bytes(encoded(schema)).decode()


def _has_templates(name: str, instruction: str, data: object) -> bool:
    """Whether something is to be rendered; what could not be is refused now."""
    for path, text in (((), instruction), *walk_texts(data)):
        try:
            compile_template(text)
        except ExpressionError as error:
            where = ".".join(str(part) for part in path) or "instruction"
            raise OperationError(f"{where} of {name}: {error}") from error
    return needs_rendering(instruction) or needs_rendering(data)


def _speaks(verb: str, role: str | Role | None) -> bool:
    if isinstance(role, Role) and role.fn is not None:
        return False
    return verb in SPEAKING


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


def _condition(value: object, where: str) -> str | None:
    text, predicate = check_condition(value, where.removeprefix("when of "))
    if predicate is not None:
        raise OperationError(f"{where} is an object; it judges an edge: give it to add_edge")
    return text


def _needs(value: object, where: str) -> str:
    if value not in _NEEDS:
        raise OperationError(f"{where} is {value!r}; write 'any' or 'all'")
    return str(value)


def _optional(value: object, where: str) -> str | None:
    return None if value is None else _text(value, where)


def _optional_texts(values: object, where: str) -> tuple[str, ...] | None:
    return None if values is None else _texts(values, where)


def _texts(values: object, where: str) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise OperationError(f"{where} is {values!r}; give a list of names")
    found = tuple(values)
    for value in found:
        if not isinstance(value, str) or not value:
            raise OperationError(f"{where} holds {value!r}; give names")
    return found


def _casting(value: object, where: str) -> Casting | None:
    if value is not None and not isinstance(value, Casting):
        raise OperationError(f"{where} is {type(value).__name__}; give a Casting")
    return value


#: Options that are one field of the operation, with what reads them.
_FIELDS: Final[Mapping[str, Callable[[object, str], Any]]] = {
    "instruction": _text,
    "when": _condition,
    "needs": _needs,
    "retry": make_retry,
    "timeout": _duration,
    "deadline": _duration,
    "fresh": _flag,
    "uses": _texts,
    "emits": _optional_texts,
    "models": _texts,
    "effort": _optional,
    "tools": _optional_texts,
    "asks": _flag,
    "inputs": _optional_texts,
    "branch": _optional,
    "inherit": _optional,
    "writes": _optional,
    "for_each": make_for_each,
    "renders": _flag,
    "stop_on_failure": _flag,
    "description": _text,
    "artifacts": artifacts_of,
    "workdir": _optional,
    "flow": _optional,
    "casting": _casting,
}
