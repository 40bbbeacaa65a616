"""Agents that speak the Agent Client Protocol, over the extra `agents`: only this module knows the library.

The library's messages are used, its connection is not: that one is for one event loop alone. An agent works
in the node's folder. It may read and write files there through us, runs no terminals, and is allowed what its
role's program says, whenever it asks. Tagged blocks in what it says are emissions; what is refused, and a
value that does not fit, is told to it in its next prompt, a bounded number of times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, TypeVar

import anyio
from acp import PROTOCOL_VERSION
from acp.schema import (
    AgentMessageChunk,
    ClientCapabilities,
    FileSystemCapabilities,
    Implementation,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    SessionNotification,
    TextContentBlock,
    ToolCallStart,
    UsageUpdate,
)
from anyio import get_cancelled_exc_class
from pydantic import BaseModel, ValidationError

from emissions import EMISSIONS, Malformed, parse_text
from orchestrator.agents.branches import Message
from orchestrator.agents.children import Child, ProgramError, with_child
from orchestrator.agents.desk import Desk
from orchestrator.agents.jobs import Job, emitted
from orchestrator.agents.metering import SessionMeter
from orchestrator.agents.peers import Peer, PeerError
from orchestrator.agents.process import result_of, surroundings, told
from orchestrator.agents.secrecy import redacted
from orchestrator.agents.surroundings import located
from orchestrator.core.encoding import decoded, encoded
from orchestrator.errors import ExecutionError
from roles.programs import Program

__all__ = ["perform"]

M = TypeVar("M", bound=BaseModel)

#: Whose form `Message.native` has.
_FORM: Final = "acp"
#: How often what was refused, or a value that does not fit, is returned.
_REPAIRS: Final = 2
#: Seconds for everything but the work itself: to start, to find a session.
_PATIENCE: Final = 60.0
#: Seconds in which an agent whose turn is cancelled may say so before it is ended.
_GRACE: Final = 1.0
#: A report is made after so many characters of what an agent says; a longer title is cut.
_REPORTED: Final = 400
_MEND: Final = "Mend it, or go on without it."
_FENCED: Final = re.compile(r"```json\s*\n(.*?)```", re.DOTALL)
_STOPS: Final = {
    "max_tokens": "its answer was cut off at the limit of tokens; ask for less at once",
    "max_turn_requests": "it came to its limit of requests; ask for less at once",
    "refusal": "it refused to go on",
    "cancelled": "it says that it was cancelled",
}


async def perform(job: Job) -> Any:
    """Let an agent do a job.

    Raises:
        ProgramError: it did not start, broke off, refused, or left no readable value.
    """
    program = job.role.program
    assert program is not None
    return await with_child(
        located(program.argv, job.role.origin),
        partial(_hold, job, program),
        folder=job.stage.workdir,
        env=surroundings(program, job),
        most=program.output,
    )


async def _hold(job: Job, program: Program, child: Child) -> Any:
    """One turn's talk with the agent that was started for it."""
    talk = _Talk(job, program, child)
    failed: ExecutionError | None = None
    value: Any = None
    async with anyio.create_task_group() as group:
        group.start_soon(talk.listen)
        try:
            value = await talk.work()
        except ExecutionError as error:
            # raised outside: a task group would wrap it
            failed = error
        finally:
            talk.listening.cancel()
    if failed is not None:
        raise failed
    return value


class _Talk:
    """What passes between a turn and its agent."""

    def __init__(self, job: Job, program: Program, child: Child) -> None:
        self._job, self._program, self._child = job, program, child
        self._peer = Peer(child, self._serve)
        self._desk = Desk(program.allow, job.stage)
        self._session = ""
        #: the session's old messages are being repeated
        self._repeated = False
        self._said: list[str] = []
        self._unreported = ""
        self._meter = SessionMeter()
        #: its answers to a cancelled prompt are still heard
        self.listening = anyio.CancelScope(shield=True)

    async def listen(self) -> None:
        with self.listening:
            await self._peer.listen()

    async def work(self) -> Any:
        """Find the session, say what is new, read what comes of it."""
        with anyio.move_on_after(_PATIENCE) as starting:
            capabilities = await self._initialize()
            text = await self._begin(capabilities)
        if starting.cancelled_caught:
            raise ProgramError(f"{self._child.name} was silent for {_PATIENCE:g} s: does it speak ACP?")
        for left in range(_REPAIRS, -1, -1):
            said = await self._prompt(text)
            wrong = await self._emissions(said)
            value, fault = self._value(said)
            if fault is not None:
                wrong.append(f"Your answer does not fit: {fault}")
            if not wrong or (left == 0 and fault is None):
                return value
            if left == 0:
                raise ProgramError(f"{self._child.name} gave no value that fits: {fault}")
            text = "\n".join(
                (
                    "What you gave was not all taken:",
                    *wrong,
                    "Mend it, or go on without it.",
                    self._job.heard(),
                )
            )
            self._job.say((Message("user", text, self._job.stage.node),))
        raise AssertionError("every pass returns or raises")

    # --- the session ---------------------------------------------------------------------------

    async def _initialize(self) -> InitializeResponse:
        able = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True, write_text_file=True))
        params = {
            "protocolVersion": PROTOCOL_VERSION,
            "clientCapabilities": _plain(able),
            "clientInfo": _plain(Implementation(name="callboard", version="1")),
        }
        made = _read(InitializeResponse, await self._peer.request("initialize", params), "initialize")
        if made.protocol_version != PROTOCOL_VERSION:
            raise ProgramError(
                f"{self._child.name} speaks version {made.protocol_version} of ACP, not {PROTOCOL_VERSION}"
            )
        return made

    async def _begin(self, made: InitializeResponse) -> str:
        """Continue the node's session where there is one, else begin one; what its first prompt is."""
        known = None if self._job.fresh else self._known()
        if known is None and not self._job.fresh:
            remembered = await self._job.stage.step("agent session", self._new)
            known = None if remembered == self._session else str(remembered)
        if known is not None and await self._continued(known, made):
            self._session = known
            return self._since()
        if not self._session:
            self._session = await self._new()
        return told(self._job)

    def _known(self) -> str | None:
        """The session in which this very conversation, of this run, was had; a copy has its own."""
        for message in reversed(self._job.history):
            native = message.native
            if isinstance(native, list) and native[:1] == [_FORM]:
                _, run, branch, session = native
                return str(session) if (run, branch) == (self._job.stage.run, self._job.branch) else None
        return None

    async def _new(self) -> str:
        try:
            given = await self._peer.request("session/new", self._place())
        except PeerError as error:
            raise ProgramError(f"{self._child.name} begins no session: {error}") from None
        self._session = _read(NewSessionResponse, given, "session/new").session_id
        return self._session

    async def _continued(self, session: str, made: InitializeResponse) -> bool:
        """Go on with a session; False if the agent cannot, or has lost it."""
        able = made.agent_capabilities
        if able is None:
            return False
        resumes = able.session_capabilities is not None and able.session_capabilities.resume is not None
        if not (resumes or able.load_session):
            return False
        self._repeated = True
        try:
            method = "session/resume" if resumes else "session/load"
            await self._peer.request(method, {"sessionId": session, **self._place()})
        except PeerError as error:
            self._job.stage.report(f"the agent cannot go on with its session: {error}"[:_REPORTED])
            return False
        finally:
            self._repeated = False
            self._meter.past()
        return True

    def _place(self) -> dict[str, Any]:
        return {"cwd": str(self._job.stage.workdir.resolve()), "mcpServers": []}

    def _since(self) -> str:
        """What an agent has not heard yet that remembers the rest."""
        unheard = [message.content for message in self._job.history[-1:] if message.role == "tool"]
        receipts = [f"What became of what you emitted: {_text(content)}" for content in unheard]
        if not self._job.history:
            receipts.append("You were interrupted in this work. Go on where you were; do not start over.")
        return "\n\n".join((*receipts, self._job.prompt.user))

    # --- a prompt ------------------------------------------------------------------------------

    async def _prompt(self, text: str) -> str:
        """Say it, and wait until the agent's turn is over; what it said."""
        self._said = []
        params = {"sessionId": self._session, "prompt": [{"type": "text", "text": text}]}
        given: Any = None
        try:
            given = await self._peer.request("session/prompt", params)
        except get_cancelled_exc_class():
            with anyio.move_on_after(_GRACE, shield=True):
                await self._peer.notify("session/cancel", {"sessionId": self._session})
                await self._peer.quiet()
            raise
        except PeerError as error:
            raise ProgramError(f"{self._child.name} broke off: {error}") from None
        finally:
            self._report(rest=True)
            self._keep(whole=given is not None)
        answer = _read(PromptResponse, given, "session/prompt")
        self._count(answer)
        if answer.stop_reason in _STOPS:
            raise ProgramError(f"{self._child.name} stopped: {_STOPS[answer.stop_reason]}")
        # joined first: a key may come in two pieces
        return redacted("".join(self._said))

    def _keep(self, *, whole: bool) -> None:
        """What was asked and said becomes part of the conversation; the half of an answer is none."""
        stage = self._job.stage
        native = [_FORM, stage.run, self._job.branch, self._session]
        asked = [Message("tool", one, stage.node) for one in self._desk.taken()]
        answer = Message("assistant", "".join(self._said), stage.node, native, open=not whole)
        self._job.say((*asked, answer))

    def _count(self, answer: PromptResponse) -> None:
        usage = answer.usage
        tokens = {}
        if usage is not None:
            tokens = {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cache_read": usage.cached_read_tokens or 0,
            }
        self._job.spend(self._meter.read(tokens))

    async def _emissions(self, said: str) -> list[str]:
        """Say the tagged blocks to the house; the refusals, for the agent."""
        types = {type_.emission_kind: type_ for type_ in self._job.brief.grants} | dict(EMISSIONS)
        wrong, receipts = [], []
        for one in parse_text(said, types):
            kind = one.kind if isinstance(one, Malformed) else type(one).emission_kind
            receipt = await emitted(self._job, one)
            receipts.append({"emission": kind, **receipt})
            if not receipt["accepted"]:
                wrong.append(f"- {kind} was refused: {receipt['reason']}: {receipt['detail']}")
        if receipts:
            self._job.say((Message("tool", receipts, self._job.stage.node),))
        return wrong

    def _value(self, said: str) -> tuple[Any, str | None]:
        """The node's value, and what is wrong with it."""
        if self._program.result is not None:
            try:
                value = result_of(self._job.stage.workdir, self._program.result)
            except ProgramError as error:
                return None, str(error)
            return value, self._job.fault(value)
        if self._job.returns is None:
            return {"text": said}, None
        blocks = _FENCED.findall(said)
        try:
            value = decoded(blocks[-1] if blocks else said.strip())
        except ValueError as error:
            return None, str(error)
        return value, self._job.fault(value)

    # --- what it says and asks -----------------------------------------------------------------

    async def _serve(self, method: str, params: Mapping[str, Any]) -> Any:
        if method == "session/update":
            self._hear(params)
            return None
        return await self._desk.answer(method, params)

    def _hear(self, params: Mapping[str, Any]) -> None:
        try:
            update = SessionNotification.model_validate(params).update
        except ValidationError:
            # a newer protocol's: what it tells is progress, and nothing depends on it
            return
        if isinstance(update, UsageUpdate):
            if update.cost is not None and update.cost.currency == "USD":
                self._meter.cost_usd = update.cost.amount
        elif self._repeated:
            return
        elif isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContentBlock):
            self._said.append(update.content.text)
            self._unreported += update.content.text
            self._report()
        elif isinstance(update, ToolCallStart):
            self._job.stage.report(f"{update.kind or 'tool'}: {update.title}"[:_REPORTED])

    def _report(self, *, rest: bool = False) -> None:
        self._unreported = redacted(self._unreported)
        while len(self._unreported) >= _REPORTED or (rest and self._unreported.strip()):
            # behind a word, so that no key is cut in two before it is known as one
            head = self._unreported[:_REPORTED]
            cut = max(head.rfind(" "), head.rfind("\n")) + 1 or _REPORTED
            cut = len(self._unreported) if len(self._unreported) < _REPORTED else cut
            self._job.stage.report(self._unreported[:cut])
            self._unreported = self._unreported[cut:]


def _plain(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _read(model: type[M], given: Any, method: str) -> M:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        fault = error.errors()[0]
        raise ProgramError(f"the answer to {method} cannot be read: {fault['loc']}: {fault['msg']}") from None


def _text(content: Any) -> str:
    return content if isinstance(content, str) else bytes(encoded(content)).decode()
