"""Models that a test scripts: what they say is a function of what they were told."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models import CompletedStreamedResponse
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from orchestrator.agents.models import register_model

if TYPE_CHECKING:
    from collections.abc import Callable


def scripted(name: str, say: Callable[[list[Any], Any], Any]) -> None:
    """A model that answers with what ``say(messages, info)`` gives: a text, or (tool, arguments)."""

    async def stream(messages: list[Any], info: Any) -> Any:
        given = say(messages, info)
        if isinstance(given, str):
            yield given
        else:
            tool, fields = given
            written = fields if isinstance(fields, str) else json.dumps(fields)
            yield {0: DeltaToolCall(name=tool, json_args=written, tool_call_id=str(len(messages)))}

    def whole(messages: list[Any], info: Any) -> ModelResponse:
        given = say(messages, info)
        part = TextPart(given) if isinstance(given, str) else ToolCallPart(given[0], given[1])
        return ModelResponse(parts=[part])

    register_model(name, FunctionModel(whole, stream_function=stream))


class Whole(FunctionModel):
    """A model whose answers come as its function makes them, with their usage and why they ended."""

    def __init__(self, name: str, whole: Callable[[list[Any], Any], ModelResponse]) -> None:
        super().__init__(whole)
        register_model(name, self)

    @asynccontextmanager
    async def request_stream(self, messages: Any, settings: Any, parameters: Any, *_: Any) -> Any:
        response = await self.request(messages, settings, parameters)
        yield CompletedStreamedResponse(response, model_request_parameters=parameters, replay_events=True)


def answers(messages: list[Any]) -> list[Any]:
    """What tools have answered so far."""
    return [
        part.content
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]


def told(messages: list[Any]) -> str:
    """The last thing that it was told."""
    return str(messages[-1].parts[-1].content)
