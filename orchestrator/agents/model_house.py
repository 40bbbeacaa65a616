"""What the house does around each call of a model: rates, operators' notes, the bound of ReAct, refusals."""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic_ai import ModelResponse, ModelRetry, RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelAPIError, ModelRateLimitError, RetryModelRequest
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import ToolDefinition

from emissions import Malformed, RefusalReason
from orchestrator.agents.jobs import Job, QuotaError
from orchestrator.agents.model_tools import emitter_of
from orchestrator.agents.secrecy import redacted

__all__ = ["STEPWISE", "House", "class_of"]

STEPWISE: Final = ("ReAct", "ReActStream")
#: Seconds; who is told to wait longer gives its place back instead.
_PATIENCE: Final = 60.0
#: Seconds before a call is made again where the provider does not say; doubled each time.
_PAUSE: Final = 1.0


class House(AbstractCapability[Any]):
    """One run of one model, as the house sees it."""

    def __init__(self, job: Job, name: str, steps: int | None) -> None:
        """``steps``: how often tools may be called in all; None is no bound of ours."""
        super().__init__()
        self._job, self._name, self._steps = job, name, steps
        self._said = 0

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Hand on what an operator has said meanwhile (S53)."""
        notes = self._job.heard()
        if notes:
            ctx.enqueue(notes)
        return request_context

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Wait for the model's rate, before each attempt."""
        del ctx
        await self._job.providers.admit(self._name, self._job.rate(self._name), self._job.stage.report)
        return request_context

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Count an answer; what it emits and may not is refused on record; a step is progress."""
        del ctx, request_context
        self._job.providers.answered(self._name, response.usage.total_tokens)
        offered = {kind.emission_kind for kind in self._job.offered}
        for call in response.tool_calls:
            kind = emitter_of(call.tool_name, self._job)
            if kind is not None and kind not in offered:
                detail = f"{call.tool_name} is not offered to {self._job.stage.node}"
                self._job.refuse(Malformed(kind, RefusalReason.NOT_GRANTED, detail))
        if self._job.verb in STEPWISE and response.tool_calls:
            self._said += 1
            called = ", ".join(call.tool_name for call in response.tool_calls)
            self._job.stage.report(f"step {self._said}: calls {called}")
        return response

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        """Heed what the provider says about waiting; too many equal errors close the model (kernel.md 7)."""
        del ctx
        if not isinstance(error, ModelAPIError):
            raise error
        if self._job.providers.failed(self._name, class_of(error)):
            text = f"{self._name}: five equal errors in a row: {class_of(error)}: {redacted(str(error))}"
            raise QuotaError(text) from None
        if not isinstance(error, ModelRateLimitError):
            raise error
        wait = error.retry_after
        if wait is None:
            wait = _PAUSE * 2 ** (request_context.attempt - 1)
        if wait > _PATIENCE:
            text = f"{self._name} takes no calls for {wait:,.0f} s: {redacted(str(error))}"
            raise QuotaError(text) from None
        self._job.providers.hold(self._name, wait)
        self._job.stage.report(f"{self._name}: its rate is reached; again in {wait:.0f} s")
        raise RetryModelRequest from None

    async def prepare_tools(
        self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]
    ) -> list[ToolDefinition]:
        """After the last step there is nothing left to act with, so the model answers."""
        if self._steps is None or ctx.run_step <= self._steps:
            return tool_defs
        acting = {"ask", *(tool.name for tool in self._job.tools)}
        return [tool for tool in tool_defs if tool.name not in acting]

    async def before_tool_validate(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any
    ) -> Any:
        """Arguments are an object: a list or a text goes back for repair."""
        del ctx, tool_def
        try:
            given = json.loads(args) if isinstance(args, str) and args else args or {}
        except ValueError:
            return args  # the library says what is wrong with it
        if not isinstance(given, dict):
            fault = f"the arguments of {call.tool_name} are {type(given).__name__}; give a JSON object"
            self._malformed(call, fault)
            raise ModelRetry(fault)
        return args

    def _malformed(self, call: ToolCallPart, detail: str) -> None:
        """Put a call that was to emit and is no JSON object on record."""
        kind = emitter_of(call.tool_name, self._job)
        if kind is not None:
            self._job.refuse(Malformed(kind, RefusalReason.MALFORMED, detail))

    async def on_tool_validate_error(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any, error: Any
    ) -> Any:
        """An emission that is no JSON is refused on record, and goes back for repair."""
        del ctx, tool_def, args
        self._malformed(call, f"the arguments of {call.tool_name} are no JSON: {str(error).splitlines()[0]}")
        raise error


def class_of(error: BaseException) -> str:
    """The public name of the error's class, with its HTTP status where it has one."""
    kind = next(one.__name__ for one in type(error).__mro__ if not one.__name__.startswith("_"))
    status = getattr(error, "status_code", None)
    return f"{kind} {status}" if status else kind
