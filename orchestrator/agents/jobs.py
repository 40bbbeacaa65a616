"""One turn of an agent as its backend sees it, whatever the backend is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from emissions import Emission, Malformed, Receipt
from orchestrator.agents.branches import Message
from orchestrator.agents.providers import Providers, Rate
from orchestrator.agents.tools import ReadyTool
from orchestrator.errors import ExecutionError
from roles import Brief, Prompt, Role

__all__ = ["Backend", "Job", "ModelError", "QuotaError", "Spent", "Stage", "emitted"]


class ModelError(ExecutionError):
    """A call of a model failed, or its answer cannot be used."""


class QuotaError(ModelError):
    """No model takes calls: quota, credit or credentials. It is not the node's fault."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What calls of a model cost.

    Attributes:
        requests: calls, failed ones included. input_tokens, output_tokens: as the provider counted.
        cache_read: input tokens that the provider had kept from earlier calls; part of input_tokens.
        cost_usd: None where the price is not known. model: the one that was called.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read: int = 0
    cost_usd: float | None = None
    model: str | None = None


class Stage(Protocol):
    """What a backend may do to the world: the turn, as far as an agent needs it."""

    @property
    def node(self) -> str:
        """The node's name."""

    @property
    def run(self) -> str:
        """The run's id."""

    @property
    def attempt(self) -> int:
        """Which attempt this is."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What the node was given."""

    @property
    def workdir(self) -> Path:
        """The folder that the node works in."""

    @property
    def artifacts(self) -> Mapping[str, Path]:
        """Where declared files belong."""

    async def emit(self, emission: Emission, /) -> Receipt:
        """Say something to the house."""

    async def step(self, key: str, fn: Callable[[], Awaitable[Any]], /) -> Any:
        """Do a part of the work once, over attempts and restarts."""

    async def ask(self, question: str, /) -> Any:
        """Ask a person."""

    def report(self, text: str, /) -> None:
        """Say what is going on."""

    def steers(self) -> Sequence[str]:
        """What an operator has said meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One turn.

    Attributes:
        stage: the turn. role, brief, prompt: who works, and what is shown.
        history: the conversation so far. verb: what is performed.
        models: the model of this tier, then those that step in for it. effort: how hard it thinks.
        tools: what the role may use. offered: emissions that it may make here.
        returns: JSON Schema of the value; fault: what is wrong with a value that should fit it, or None.
        spend: told what calls cost, as they are made. say: adds messages to the conversation.
        read: gives the text in which tagged blocks are emissions.
        refuse: records an emission that is none. heard: an operator's notes since the last call, rendered.
        providers, rate: how fast the models may be called.
        branch: name of the conversation. fresh: nothing of an earlier attempt is continued.
    """

    stage: Stage
    role: Role
    brief: Brief
    prompt: Prompt
    history: Sequence[Message] = ()
    verb: str = "operate"
    models: Sequence[str] = ()
    effort: str | None = None
    tools: Sequence[ReadyTool] = ()
    offered: Sequence[type[Emission]] = ()
    returns: Mapping[str, Any] | None = None
    fault: Callable[[Any], str | None] = field(default=lambda _value: None)
    spend: Callable[[Spent], None] = field(default=lambda _spent: None)
    say: Callable[[Sequence[Message]], None] = field(default=lambda _messages: None)
    read: Callable[[str], None] = field(default=lambda _text: None)
    refuse: Callable[[Malformed], None] = field(default=lambda _malformed: None)
    heard: Callable[[], str] = field(default=lambda: "")
    providers: Providers = field(default_factory=Providers)
    rate: Callable[[str], Rate] = field(default=lambda _model: Rate())
    branch: str = ""
    fresh: bool = False


async def emitted(job: Job, one: Emission | Malformed) -> dict[str, Any]:
    """Say something to the house, and give the receipt as an agent is told it.

    What was meant as an emission and is none is refused, on record.
    """
    if isinstance(one, Malformed):
        job.refuse(one)
        return {"accepted": False, "reason": str(one.reason), "detail": one.detail}
    receipt = await job.stage.emit(one)
    if receipt:
        return {"accepted": True, "node": receipt.node}
    return {"accepted": False, "reason": str(receipt.reason), "detail": receipt.detail}


class Backend(Protocol):
    """Performs a job and returns the node's value."""

    def __call__(self, job: Job, /) -> Awaitable[Any]:
        """Perform it; raises what fails the node."""
