"""What a model may call: emissions, its tools, a person, its files. Each answer goes back to it."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any, Final

from pydantic_ai import ModelRetry, PartDeltaEvent, RunContext, TextPartDelta, Tool

from emissions import EMISSIONS, Emission, Malformed, parse_mapping, tag
from orchestrator.agents.jobs import Job
from orchestrator.agents.tools import ReadyTool, ToolArgumentsError, answer

__all__ = ["emitter_of", "listener", "tools_of", "validator"]

#: A report is made after so many characters of what a model says.
_REPORTED: Final = 400
_EMIT: Final = "emit_"


def emitter_of(tool: str, job: Job) -> str | None:
    """The kind that a tool emits, or would if it were there; None for any other tool."""
    if not tool.startswith(_EMIT):
        return None
    known = {tag(kind): kind.emission_kind for kind in (*EMISSIONS.values(), *job.offered)}
    return known.get(tool.removeprefix(_EMIT), tool.removeprefix(_EMIT))


def tools_of(job: Job) -> list[Tool[Any]]:
    """Everything that it may call here."""
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
            job.refuse(emission)
            raise ModelRetry(emission.detail)
        receipt = await job.stage.emit(emission)
        if receipt:
            return {"accepted": True, **({"node": receipt.node} if receipt.node else {})}
        return {"accepted": False, "reason": str(receipt.reason), "detail": receipt.detail}

    return Tool.from_schema(
        emit,
        name=f"{_EMIT}{tag(kind)}",
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


def validator(job: Job, box: str | None) -> Any:
    """Returns an answer of another shape for repair; ``box``: the key under which a value stands."""

    async def fits(output: dict[str, Any]) -> dict[str, Any]:
        fault = job.fault(output if box is None else output.get(box))
        if fault is not None:
            raise ModelRetry(fault)
        return output

    return fits


def listener(job: Job) -> Any:
    """Reports what a model says while it says it."""

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
