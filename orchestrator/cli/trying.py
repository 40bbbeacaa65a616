"""``callboard try``: one role alone, with what it is given, what it says, and what it is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO

import anyio
import msgspec

from orchestrator.cli.asking import can_ask
from orchestrator.cli.driving import Job, drive
from orchestrator.cli.edge import clean_json, clean_lines, own_stdout
from orchestrator.cli.exits import exit_code
from orchestrator.cli.logs import configure_logs
from orchestrator.cli.opening import UsageError, any_value, open_flow, pairs, settings_here
from orchestrator.cli.options import TryOptions
from orchestrator.cli.outlet import Outlet, outlet
from orchestrator.cli.views import PlainView, line_of, plain_line
from orchestrator.core.status import RunReason
from orchestrator.flows.builder import OperationGraphBuilder
from orchestrator.runtime.envelopes import Envelope
from orchestrator.runtime.results import NodeResult, RunResult
from orchestrator.runtime.run import Run
from orchestrator.runtime.session import Session
from roles import Catalogue, Role, Turn, load_roles
from roles.discovery import shared_roles

__all__ = ["try_role"]

_GIVEN: Final = "given"
_ACCEPTED: Final = "EmissionAccepted"
_KINDS: Final = (_ACCEPTED, "EmissionRefused", "SpawnRefused", "QuestionAsked", "NodeRetryScheduled")


def try_role(options: TryOptions) -> int:
    """Run one role and show all that comes of it.

    Raises:
        OrchestratorError: the role cannot be found or run.
    """
    file, colon, name = options.target.rpartition(":")
    if not colon or not name:
        raise UsageError(
            f"{options.target!r} names no role; write FILE:ROLE, such as cast.py:scout, "
            "or a run and one of its nodes: callboard try RUN NODE"
        )
    catalogue = _catalogue(Path(file))
    role = catalogue.get(name)
    inputs = {
        node: any_value(text, f"--input {node}", strict=True)
        for node, text in pairs(options.inputs, "--input").items()
    }
    given = {key: any_value(text, f"--with {key}") for key, text in pairs(options.given, "--with").items()}
    node = _free(role.name, inputs)
    graph = OperationGraphBuilder("try")
    for known in inputs:
        graph.add_operation(_GIVEN, node_id=known, depends_on=[])
    graph.add_operation(
        role, node_id=node, depends_on=list(inputs), instruction=options.instruction, parameters=given
    )
    others = tuple(_stand_in(other) for other in catalogue if other.name != role.name)
    asks = can_ask()

    def begin(session: Session) -> Awaitable[Run]:
        return session.start(graph, known=inputs, waits_for_answers=asks)

    said = settings_here(Path(file).parent).model if options.model is None else None
    model = options.model if said is None else said.value
    job = Job(begin, options.grace, asks, roles=others, operations={_GIVEN: _nothing}, model=model)
    configure_logs(debug=options.debug)
    with own_stdout() as stream:
        return anyio.run(partial(_try, job, node, stream))


def _catalogue(file: Path) -> Catalogue:
    """The roles of a role file, or of a flow's cast, and those that every project has."""
    if file.suffix in {".yaml", ".yml"} or (file / "flow.yaml").exists():
        return open_flow(file).roles
    catalogue = Catalogue(load_roles(file), origin=str(file))
    catalogue.update(role for role in shared_roles() if role.name not in catalogue)
    return catalogue


def _free(name: str, taken: Mapping[str, Any]) -> str:
    wanted = name.replace("-", "_")
    return wanted if wanted not in taken else f"{wanted}_tried"


def _stand_in(role: Role) -> Role:
    """A role that may be spawned and does nothing."""
    return Role(role.name, emits=role.emits, fn=_nothing, models=role.models, escalates_to=role.escalates_to)


async def _nothing(_turn: Turn) -> None:
    """What stands in for everything around the role that is tried."""


async def _try(job: Job, node: str, stream: TextIO) -> int:
    code = 0
    async with outlet(stream) as out:

        async def finish(result: RunResult, seconds: float) -> None:
            nonlocal code
            code = exit_code(_reason(result, node))
            await out.put(_outcome(result.nodes[node], seconds))
            await out.drained()

        await drive(job, _TryView(out, node), finish)
    return code


def _reason(result: RunResult, node: str) -> RunReason:
    """The run's reason; a role that gave its work up has failed for whoever tries it."""
    return RunReason.FAILED if result.nodes[node].superseded_by else result.reason


def _outcome(node: NodeResult, seconds: float) -> str:
    lines = [f"{node.status} in {seconds:.2f} s"]
    if node.error is not None:
        lines.append(f"error: {node.error}")
    if node.reason:
        lines.append(f"because: {node.reason}")
    if node.raw is not None:
        lines.append(f"value\n{clean_json(msgspec.json.format(node.raw, indent=2)).decode()}")
    return clean_lines("\n".join(lines))


class _TryView(PlainView):
    """What the role says and what it is answered."""

    def __init__(self, out: Outlet, node: str) -> None:
        super().__init__(out)
        self._out, self._node = out, node

    async def follow(self, run: Run) -> None:
        async with run.events(kinds=_KINDS) as events:
            async for envelope in events:
                if envelope.node == self._node:
                    line = (
                        _accepted(envelope) if envelope.kind == _ACCEPTED else line_of(envelope, run.engine)
                    )
                    await self._out.put(line or "")


def _accepted(envelope: Envelope) -> str:
    """An emission that was taken, with its receipt."""
    data = envelope.data
    child = f" as {data['child']}" if data.get("child") else ""
    payload = msgspec.json.encode(data.get("payload")).decode()
    return plain_line("emitted", f"{data['emission']}, accepted{child}", payload)
