"""Between the library's messages and a branch's, and what calls cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pydantic_ai import ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from orchestrator.agents.branches import Message
from orchestrator.agents.jobs import Job, Spent

__all__ = ["is_priced", "keep", "native", "steps_taken"]

#: Whose form `Message.native` has.
_FORM: Final = "pydantic_ai"


def native(history: Sequence[Message]) -> Iterator[ModelMessage]:
    """A conversation as the library has it; what another backend said, as text."""
    for message in history:
        form = message.native
        if isinstance(form, list) and form[:1] == [_FORM]:
            yield from ModelMessagesTypeAdapter.validate_python(form[1:])
        elif message.role == "assistant":
            yield ModelResponse(parts=[TextPart(_text(message.content))])
        elif message.role != "system":
            yield ModelRequest(parts=[UserPromptPart(_text(message.content))])


def _text(content: object) -> str:
    return content if isinstance(content, str) else str(content)


def keep(job: Job, name: str, messages: Sequence[ModelMessage]) -> None:
    """Put what was said into the conversation, and count what it cost, whatever came of it."""
    responses = [message for message in messages if isinstance(message, ModelResponse)]
    unanswered = bool(messages) and isinstance(messages[-1], ModelRequest) and not _over(messages[-1])
    costs = [_cost(response) for response in responses]
    job.spend(
        Spent(
            requests=len(responses) + unanswered,
            input_tokens=sum(one.usage.input_tokens for one in responses),
            output_tokens=sum(one.usage.output_tokens for one in responses),
            cache_read=sum(one.usage.cache_read_tokens for one in responses),
            cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
            model=name,
        )
    )
    # the first request is the prompt, which stands in the conversation already
    job.say([_message(message, job.stage.node) for message in messages[1:]])


def is_priced(model: str, provider: str) -> bool:
    """True if an answer of this model would have its cost on record: by the table that prices answers."""
    usage = RequestUsage(input_tokens=1, output_tokens=1)
    asked = (ModelResponse([], usage=usage, model_name=model, provider_name=one) for one in (provider, None))
    return any(_cost(one) is not None for one in asked)


def steps_taken(messages: Sequence[ModelMessage], answer: Any) -> list[dict[str, Any]]:
    """What a model did, step by step: what it thought, what it called and was answered; then its answer."""
    given = {
        part.tool_call_id: part.content
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    }
    steps = [
        {
            "thought": response.text or "",
            "calls": [
                {
                    "tool": call.tool_name,
                    "arguments": _arguments(call),
                    "answer": given.get(call.tool_call_id),
                }
                for call in response.tool_calls
            ],
        }
        for response in messages
        if isinstance(response, ModelResponse) and response.tool_calls
    ]
    return [*steps, {"answer": answer}]


def _arguments(call: ToolCallPart) -> Any:
    try:
        return call.args_as_dict()
    except ValueError:
        return call.args


def _over(request: ModelRequest) -> bool:
    """True for the request that only closes a structured answer."""
    return all(isinstance(part, ToolReturnPart) for part in request.parts)


def _cost(response: ModelResponse) -> float | None:
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        return None


def _message(message: ModelMessage, node: str) -> Message:
    (native,) = ModelMessagesTypeAdapter.dump_python([message], mode="json")
    if isinstance(message, ModelResponse):
        calls = [{"call": part.tool_name, "with": part.args} for part in message.tool_calls]
        content: Any = {"text": message.text, "calls": calls} if calls else message.text or ""
        return Message("assistant", content, node, [_FORM, native], open=bool(calls))
    native["instructions"] = None
    answers = [
        {"of": part.tool_name, "answer": part.model_response_str()}
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]
    content = answers or [str(getattr(part, "content", "")) for part in message.parts]
    return Message("tool", content, node, [_FORM, native])
