"""Tools that are ready to be called: arguments validated, results JSON, a failure as an answer."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError

from orchestrator.agents.secrecy import redacted, redacted_data
from orchestrator.core.encoding import decoded, encoded
from orchestrator.errors import ExecutionError, OperationError
from roles import Tool

__all__ = ["InThread", "ReadyTool", "ToolArgumentsError", "ToolError", "answer", "function_tool"]

#: Runs a plain function where it holds up nobody.
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]

#: What is shown of a call while it happens, and what a model is given of an answer; characters.
_SHOWN: Final = 200
_ANSWER: Final = 200_000
_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_ANYTHING: Final[TypeAdapter[Any]] = TypeAdapter(Any)


class ToolError(ExecutionError):
    """A call of a tool failed."""


class ToolArgumentsError(ToolError):
    """A tool was called with arguments that it does not take; it was not called."""


@dataclass(frozen=True, slots=True)
class ReadyTool:
    """A tool as an agent, or the verb `act`, calls it.

    Attributes:
        name: what a model calls it. description: what it does. schema: JSON Schema of its arguments.
        perform: calls it with arguments by name; see `call`.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    perform: Callable[[Mapping[str, Any]], Awaitable[Any]]

    async def call(self, arguments: Mapping[str, Any]) -> Any:
        """Call it; the result is JSON data.

        Raises:
            ToolArgumentsError: the arguments do not fit; it was not called. ToolError: it failed.
        """
        value = await self.perform(arguments)
        try:
            return redacted_data(decoded(encoded(_ANYTHING.dump_python(value, mode="json"))))
        except (ValueError, TypeError, RecursionError) as error:
            raise ToolError(f"{self.name} gave {type(value).__name__}, which is not JSON: {error}") from None


async def answer(tool: ReadyTool, arguments: Mapping[str, Any], tell: Callable[[str], None]) -> Any:
    """What a model is told of its call: the result, or what went wrong. ``tell`` is told both in short.

    Raises:
        ToolArgumentsError: the arguments do not fit; the model may mend them.
    """
    tell(_short(f"{tool.name} is called with {_text(arguments)}"))
    try:
        value = await tool.call(arguments)
    except ToolError as error:
        tell(_short(f"{tool.name} failed: {error}"))
        if isinstance(error, ToolArgumentsError):
            raise
        return {"error": str(error)}
    text = _text(value)
    tell(_short(f"{tool.name} gave {text}"))
    if len(text) <= _ANSWER:
        return value
    return {"cut": f"the answer has {len(text)} characters; these are the first", "text": text[:_ANSWER]}


def _text(value: Any) -> str:
    try:
        return redacted(bytes(encoded(value)).decode(errors="replace"))
    except (TypeError, ValueError, RecursionError):
        return redacted(repr(value))


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


# --- functions -----------------------------------------------------------------------------------


def function_tool(tool: Tool, in_thread: InThread) -> ReadyTool:
    """A function as a tool: its schema is read from its types, its description from its docstring.

    Args:
        tool: the function and its name. in_thread: where a plain function runs.

    Raises:
        OperationError: a parameter has no type, or one of which there is no JSON Schema.
    """
    fields = {f"p{number}": field for number, field in enumerate(_fields(tool))}
    try:
        config = ConfigDict(extra="forbid")
        model: type[BaseModel] = create_model(tool.name, __config__=config, **fields)  # type: ignore[call-overload]
        schema = model.model_json_schema()
    except PydanticUserError as error:
        raise OperationError(f"tool {tool.name}: {str(error).splitlines()[0]}") from None
    schema.pop("title", None)
    names = {field: str(info.alias) for field, info in model.model_fields.items()}

    async def perform(arguments: Mapping[str, Any]) -> Any:
        try:
            given = model.model_validate(dict(arguments))
        except ValidationError as error:
            raise ToolArgumentsError(f"{tool.name}: {_faults(error)}") from None
        values = {names[field]: getattr(given, field) for field in names}
        try:
            if inspect.iscoroutinefunction(tool.fn):
                return await tool.fn(**values)
            return await in_thread(lambda: tool.fn(**values))
        except (Exception, SystemExit) as error:
            message = redacted(f"{type(error).__name__}: {error}")
            raise ToolError(f"{tool.name} failed: {message}") from error

    return ReadyTool(tool.name, inspect.getdoc(tool.fn) or "", schema, perform)


def _fields(tool: Tool) -> Iterator[tuple[Any, Any]]:
    """The type and the default of each parameter; its name is the alias, which may be any."""
    try:
        hints = get_type_hints(tool.fn, include_extras=True)
        parameters = inspect.signature(tool.fn).parameters.values()
    except (NameError, TypeError, ValueError) as error:
        raise OperationError(f"tool {tool.name}: its types cannot be read: {error}") from None
    for parameter in parameters:
        if parameter.kind not in _NAMED:
            raise OperationError(
                f"tool {tool.name}: its parameter {parameter} cannot be given by name; write plain ones"
            )
        if parameter.name not in hints:
            raise OperationError(f"tool {tool.name}: its parameter {parameter.name} has no type; write one")
        default = ... if parameter.default is parameter.empty else parameter.default
        yield hints[parameter.name], Field(default, alias=parameter.name)


def _faults(error: ValidationError) -> str:
    """What is wrong with arguments, without their values."""
    found = [f"{'.'.join(map(str, one['loc'])) or 'arguments'}: {one['msg']}" for one in error.errors()]
    return "; ".join(found[:5])
