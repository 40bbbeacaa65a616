"""``callboard run``: a flow from its document to its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from typing import TextIO

import anyio
import msgspec

from orchestrator.cli.asking import can_ask
from orchestrator.cli.driving import Job, drive
from orchestrator.cli.edge import clean, clean_json, is_terminal, note, own_stdout
from orchestrator.cli.exits import IO_FAULT, USAGE, exit_code
from orchestrator.cli.live import LiveView
from orchestrator.cli.logs import configure_logs
from orchestrator.cli.opening import arguments, errors_of, open_flow
from orchestrator.cli.options import RunOptions
from orchestrator.cli.outlet import Outlet, outlet
from orchestrator.cli.summary import headline, result_json, summary
from orchestrator.cli.views import JsonView, PlainView, QuietView, View
from orchestrator.flows.flow import Flow
from orchestrator.flows.problems import Severity
from orchestrator.runtime.results import RunResult

__all__ = ["run"]


def run(options: RunOptions) -> int:
    """Run a flow and return the exit code of its reason.

    Raises:
        OrchestratorError: it cannot run, or a bug of ours. OSError: a file cannot be read.
    """
    flow = open_flow(options.flow)
    errors = errors_of(flow)
    if errors:
        note("\n".join(errors))
        return USAGE
    values = arguments(options.args, options.args_file)
    budget = flow.bind(values).budget
    if options.concurrency is not None:
        budget = msgspec.structs.replace(budget, concurrency=options.concurrency)
    if not options.quiet:
        warnings = [str(problem) for problem in flow.check() if problem.severity is Severity.WARNING]
        note("\n".join(warnings)) if warnings else None
    configure_logs(debug=options.debug)
    live = is_terminal(sys.stdout) and not (options.json or options.quiet or os.environ.get("CI"))
    asks = can_ask() and not options.quiet
    job = Job(flow, options.grace, {"args": values, "budget": budget, "waits_for_answers": asks})
    if live:
        return anyio.run(partial(_run, job, options, flow, LiveView()))
    with own_stdout() as stream:
        return anyio.run(partial(_run, job, options, flow, None, stream))


async def _run(
    job: Job, options: RunOptions, flow: Flow, view: View | None, stream: TextIO | None = None
) -> int:
    code = 0
    async with outlet(stream or sys.stdout) as out:

        async def finish(result: RunResult, seconds: float) -> None:
            nonlocal code
            code = exit_code(result.reason)
            shown = _shown(options, result, seconds)
            for line in shown:
                await out.put(line)
            if options.json and not options.quiet:
                note(headline(result, seconds))
            await out.drained()
            if out.fault is not None:
                note(f"error: stdout: {out.fault.strerror}; what was written is not complete")
                code = IO_FAULT
            if options.on_end:
                await _on_end(options, flow, result, seconds)

        await drive(job, view or _view(options, out), finish)
    return code


def _view(options: RunOptions, out: Outlet) -> View:
    if options.json:
        return JsonView(out)
    return QuietView() if options.quiet else PlainView(out)


def _shown(options: RunOptions, result: RunResult, seconds: float) -> list[str] | list[bytes]:
    if options.json:
        return [clean_json(result_json(result, seconds, options.command))]
    if options.quiet:
        return [headline(result, seconds)]
    return summary(result, seconds, options.command)


async def _on_end(options: RunOptions, flow: Flow, result: RunResult, seconds: float) -> None:
    """Run a person's own command with the result; its failure is told and changes nothing."""
    told = {
        "CALLBOARD_RUN": result.run,
        "CALLBOARD_FLOW": str(flow.path),
        "CALLBOARD_REASON": str(result.reason),
        "CALLBOARD_EXIT": str(exit_code(result.reason)),
    }
    command = options.on_end or ""
    try:
        done = await anyio.run_process(
            command,
            input=result_json(result, seconds, options.command) + b"\n",
            stdout=sys.stderr if _is_real(sys.stderr) else subprocess.DEVNULL,
            stderr=sys.stderr if _is_real(sys.stderr) else subprocess.DEVNULL,
            check=False,
            env={**os.environ, **told},
        )
    except (OSError, anyio.BrokenResourceError) as error:
        note(f"error: --on-end {clean(command)}: {clean(error)}")
        return
    if done.returncode:
        note(f"error: --on-end {clean(command)} ended with exit code {done.returncode}")


def _is_real(stream: TextIO) -> bool:
    """Whether a program can be given this stream."""
    try:
        return stream.fileno() >= 0
    except (OSError, ValueError, AttributeError):
        return False
