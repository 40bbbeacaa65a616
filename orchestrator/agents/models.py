"""Language models, over pydantic-ai (the extra ``models``): the only module that knows the library.

Emissions are tools whose answer is the receipt. An answer that does not fit is returned for repair, a bounded
number of times. What a provider says about waiting is heeded by its client. asyncio only, as the library is.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Iterator, Sequence
from typing import Any, Final, cast

from anyio import get_cancelled_exc_class
from pydantic_ai import (
    Agent,
    AgentRunResult,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRetry,
    ModelSettings,
    PartDeltaEvent,
    RunContext,
    StructuredDict,
    TextPartDelta,
    Tool,
    capture_run_messages,
)
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAuthenticationError,
    ModelQuotaExceededError,
    UserError,
)
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models import Model, infer_model
from pydantic_ai.models.test import TestModel

from emissions import Emission, Malformed, parse_mapping, tag
from orchestrator.agents.branches import Message
from orchestrator.agents.jobs import Job, ModelError, QuotaError, Spent
from orchestrator.agents.secrecy import redacted
from orchestrator.agents.tools import ReadyTool, ToolArgumentsError, answer
from orchestrator.errors import OperationError

__all__ = ["check", "perform", "register_model"]

#: The name of the model that calls every tool once and answers at random: to see a flow run without a key.
_TEST: Final = "test"
_NEVER_TRIED: Final = frozenset({"emit_escalation_request", "ask"})
#: How often an answer, or a call of a tool, is returned for repair.
_REPAIRS: Final = 2
#: Whose form `Message.native` has.
_FORM: Final = "pydantic_ai"
#: A report is made after so many characters of what a model says.
_REPORTED: Final = 400
_BLOCK: Final = ("CALLBOARD_MODEL_CALLS", "forbidden")

_registered: dict[str, Model] = {}


def register_model(name: str, model: Model) -> None:
    """Let a role name a model of your own: another base URL, a function, a wrapper.

    Args:
        name: what `models=` and `--model` say. model: one of pydantic-ai's models.
    """
    _registered[name] = model


def check(name: str, where: str) -> None:
    """Refuse a name that could not be called.

    Raises:
        OperationError: it has not the form PROVIDER:NAME.
    """
    if name in _registered or name == _TEST:
        return
    provider, colon, rest = name.partition(":")
    if not (provider and colon and rest):
        raise OperationError(f"{where}: model {name!r} is not known; write PROVIDER:NAME, or test")


async def perform(job: Job) -> Any:
    """Let a model, or the first of its fallbacks that has quota, do a job.

    Raises:
        QuotaError: none of them takes calls. ModelError: a call failed, or the answer cannot be used.
    """
    if not get_cancelled_exc_class().__module__.startswith("asyncio"):
        raise ModelError("models are called on asyncio only; run this session with anyio's default backend")
    refused: list[str] = []
    for name in job.models:
        try:
            return await _run(job, name)
        except QuotaError as error:
            refused.append(str(error))
            job.stage.report(f"{name} takes no calls; {len(job.models) - len(refused)} models are left")
    raise QuotaError("; ".join(refused))


def _model(name: str, tools: Sequence[Tool[Any]]) -> Model:
    known = _registered.get(name)
    if known is not None:
        return known
    if name == _TEST:
        # it would give its work up, or ask, wherever it may
        return TestModel(call_tools=[tool.name for tool in tools if tool.name not in _NEVER_TRIED])
    if os.environ.get(_BLOCK[0]) == _BLOCK[1] and not os.environ.get("OPENAI_BASE_URL", "").startswith(
        "http://127.0.0.1"
    ):
        raise ModelError(f"{name}: calls of models are forbidden here ({_BLOCK[0]}={_BLOCK[1]})")
    try:
        return infer_model(name)
    except (UserError, ValueError, ImportError) as error:
        raise ModelError(f"{name}: {redacted(str(error))}") from None


async def _run(job: Job, name: str) -> Any:
    tools = _tools(job)
    model = _model(name, tools)
    before = list(_native(job.history))
    agent: Agent[Any, Any] = Agent(
        model,
        output_type=str if job.returns is None else StructuredDict(dict(job.returns), name="answer"),
        instructions=job.prompt.system,
        tools=tools,
        retries=_REPAIRS,
        model_settings=None if job.effort is None else cast("ModelSettings", {"thinking": job.effort}),
    )
    if job.returns is not None:
        agent.output_validator(_validator(job))
    with capture_run_messages() as messages:
        try:
            result = await _answer(agent, job, before)
        except (ModelQuotaExceededError, ModelAuthenticationError) as error:
            raise QuotaError(f"{name}: {redacted(str(error))}") from None
        except (AgentRunError, UserError) as error:
            raise ModelError(f"{name}: {type(error).__name__}: {redacted(str(error))}") from None
        finally:
            _keep(job, name, messages[len(before) :])
    _whole(name, result.response)
    output: Any = result.output
    return {"text": output} if job.returns is None else dict(output)


async def _answer(agent: Agent[Any, Any], job: Job, before: Sequence[ModelMessage]) -> AgentRunResult[Any]:
    """One run of the library's agent; its connections are closed with it."""
    async with agent:
        return await agent.run(job.prompt.user, message_history=before, event_stream_handler=_listener(job))


def _whole(name: str, response: ModelResponse) -> None:
    """Refuse an answer that ends before its end; an offline model says nothing of why it ended."""
    if response.finish_reason == "length":
        raise ModelError(f"{name}: the answer was cut off at the limit of output; ask for less at once")
    offline = name == _TEST or name in _registered
    told = "finish_reason" in (response.provider_details or {}) or not response.usage.unmeasured_requests
    # the library calls an answer finished when its stream ends, whoever ended it; the provider knows
    if not offline and not told:
        raise ModelError(f"{name}: the answer was cut off: the connection ended before it was complete")


# --- what it may do ------------------------------------------------------------------------------


def _tools(job: Job) -> list[Tool[Any]]:
    made = [_emitter(job, kind) for kind in job.offered]
    made += [_user(job, tool) for tool in job.tools]
    if job.brief.asks:
        made.append(Tool(_asker(job), name="ask"))
    if job.stage.artifacts:
        made.append(_writer(job))
    return made


def _emitter(job: Job, kind: type[Emission]) -> Tool[Any]:
    types = {kind.emission_kind: kind}

    async def emit(**fields: Any) -> dict[str, Any]:
        emission = parse_mapping(kind.emission_kind, fields, types)
        if isinstance(emission, Malformed):
            raise ModelRetry(emission.detail)
        receipt = await job.stage.emit(emission)
        if receipt:
            return {"accepted": True, **({"node": receipt.node} if receipt.node else {})}
        return {"accepted": False, "reason": str(receipt.reason), "detail": receipt.detail}

    return Tool.from_schema(
        emit,
        name=f"emit_{tag(kind)}",
        description=(kind.__doc__ or "").strip().partition("\n")[0],
        json_schema=kind.model_json_schema(),
        sequential=True,
    )


def _user(job: Job, tool: ReadyTool) -> Tool[Any]:
    async def use(**arguments: Any) -> Any:
        try:
            return await answer(tool, arguments, job.stage.report)
        except ToolArgumentsError as error:
            raise ModelRetry(str(error)) from None

    return Tool.from_schema(use, name=tool.name, description=tool.description, json_schema=dict(tool.schema))


def _asker(job: Job) -> Any:
    async def ask(question: str) -> Any:
        """Put a question to a person and wait for the answer."""
        return await job.stage.ask(question)

    return ask


def _writer(job: Job) -> Tool[Any]:
    places = job.stage.artifacts

    async def write(name: str, content: str) -> str:
        if name not in places:
            raise ModelRetry(f"there is no artifact {name!r}; there are {', '.join(places)}")
        places[name].parent.mkdir(parents=True, exist_ok=True)
        places[name].write_text(content, encoding="utf-8")
        return f"written, {len(content)} characters"

    fields = {"name": {"type": "string", "enum": list(places)}, "content": {"type": "string"}}
    return Tool.from_schema(
        write,
        name="write_artifact",
        description="Write one of the files that you are to leave.",
        json_schema={"type": "object", "properties": fields, "required": list(fields)},
        sequential=True,
    )


def _validator(job: Job) -> Any:
    async def fits(output: dict[str, Any]) -> dict[str, Any]:
        fault = job.fault(output)
        if fault is not None:
            raise ModelRetry(fault)
        return output

    return fits


def _listener(job: Job) -> Any:
    async def listen(_context: RunContext[Any], events: AsyncIterable[Any]) -> None:
        said = ""
        async for event in events:
            if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                said += event.delta.content_delta
            if len(said) >= _REPORTED:
                job.stage.report(said)
                said = ""
        if said.strip():
            job.stage.report(said)

    return listen


# --- what is kept --------------------------------------------------------------------------------


def _native(history: Sequence[Message]) -> Iterator[ModelMessage]:
    """A conversation as the library has it; what another backend said, as text."""
    for message in history:
        native = message.native
        if isinstance(native, list) and native[:1] == [_FORM]:
            yield from ModelMessagesTypeAdapter.validate_python(native[1:])
        elif message.role == "assistant":
            yield ModelResponse(parts=[TextPart(_text(message.content))])
        elif message.role != "system":
            yield ModelRequest(parts=[UserPromptPart(_text(message.content))])


def _text(content: object) -> str:
    return content if isinstance(content, str) else str(content)


def _keep(job: Job, name: str, messages: Sequence[ModelMessage]) -> None:
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
