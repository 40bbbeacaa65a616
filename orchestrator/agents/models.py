"""Language models, over pydantic-ai (the extra ``models``); the ``model_*`` modules alone know the library.

Emissions are tools whose answer is the receipt. An answer that does not fit is returned for repair, a bounded
number of times. What a provider says about waiting is heeded by its client. asyncio only, as the library is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from anyio import get_cancelled_exc_class
from pydantic_ai import (
    Agent,
    AgentRunResult,
    ModelMessage,
    ModelSettings,
    StructuredDict,
    Tool,
    UsageLimits,
    capture_run_messages,
)
from pydantic_ai.exceptions import (
    AgentRunError,
    ModelAuthenticationError,
    ModelQuotaExceededError,
    UserError,
)
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model, infer_model
from pydantic_ai.models.test import TestModel

from orchestrator.agents.jobs import Job, ModelError, QuotaError
from orchestrator.agents.model_house import STEPWISE, House, class_of
from orchestrator.agents.model_record import is_priced, keep, native, steps_taken
from orchestrator.agents.model_tools import listener, tools_of, validator
from orchestrator.agents.secrecy import redacted
from orchestrator.agents.verbs import steps_of
from orchestrator.errors import OperationError

__all__ = ["check", "perform", "priced", "register_model"]

#: The name of the model that calls every tool once and answers at random: to see a flow run without a key.
_TEST: Final = "test"
_NEVER_TRIED: Final = frozenset({"emit_escalation_request", "ask"})
#: How often an answer, or a call of a tool, is returned for repair.
_REPAIRS: Final = 2
#: Calls of a model in one turn; one that goes on for ever fails its node.
_CALLS: Final = 50
#: Under which a value that is no object is answered.
_BOX: Final = "value"
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


def priced(name: str) -> bool:
    """True if what a model costs is known, or it costs nothing: the one that answers at random."""
    own = _registered.get(name)
    if own is not None:
        return is_priced(own.model_name, own.system)
    provider, _, rest = name.partition(":")
    return name == _TEST or is_priced(rest, provider)


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
    tools = tools_of(job)
    model = _model(name, tools)
    before = list(native(job.history))
    steps = steps_of(job.stage.parameters) if job.verb in STEPWISE else None
    boxed = job.returns is not None and not _is_object(job.returns)
    settings = {"cache": True} if job.effort is None else {"cache": True, "thinking": job.effort}
    agent: Agent[Any, Any] = Agent(
        model,
        output_type=str if job.returns is None else StructuredDict(_boxed(job.returns), name="answer"),
        instructions=job.prompt.system,
        tools=tools,
        retries=_REPAIRS,
        model_settings=cast("ModelSettings", settings),
        capabilities=[House(job, name, steps)],
    )
    if job.returns is not None:
        agent.output_validator(validator(job, _BOX if boxed else None))
    with capture_run_messages() as messages:
        try:
            result = await _answer(agent, job, before, _CALLS if steps is None else steps + 2 * _REPAIRS + 1)
        except (ModelQuotaExceededError, ModelAuthenticationError) as error:
            raise QuotaError(f"{name}: {redacted(str(error))}") from None
        except (AgentRunError, UserError) as error:
            raise ModelError(f"{name}: {class_of(error)}: {redacted(str(error))}") from None
        finally:
            keep(job, name, messages[len(before) :])
    _whole(name, result.response)
    output: Any = result.output
    if job.returns is not None:
        output = output[_BOX] if boxed else dict(output)
    if job.verb == "ReActStream":
        return steps_taken(messages[len(before) :], output)
    return {"text": output} if job.returns is None else output


def _is_object(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object" or ("properties" in schema and "type" not in schema)


def _boxed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema that providers take: an object; any other value stands in a box."""
    if _is_object(schema):
        return dict(schema)
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    made = {"type": "object", "properties": {_BOX: inner}, "required": [_BOX]}
    return {**made, "$defs": schema["$defs"]} if "$defs" in schema else made


async def _answer(
    agent: Agent[Any, Any], job: Job, before: Sequence[ModelMessage], calls: int
) -> AgentRunResult[Any]:
    """One run of the library's agent; its connections are closed with it."""
    async with agent:
        return await agent.run(
            job.prompt.user,
            message_history=before,
            event_stream_handler=listener(job),
            usage_limits=UsageLimits(request_limit=calls),
        )


def _whole(name: str, response: ModelResponse) -> None:
    """Refuse an answer that ends before its end; an offline model says nothing of why it ended."""
    if response.finish_reason == "length":
        raise ModelError(f"{name}: the answer was cut off at the limit of output; ask for less at once")
    offline = name == _TEST or name in _registered
    told = "finish_reason" in (response.provider_details or {}) or not response.usage.unmeasured_requests
    # the library calls an answer finished when its stream ends, whoever ended it; the provider knows
    if not offline and not told:
        raise ModelError(f"{name}: the answer was cut off: the connection ended before it was complete")
