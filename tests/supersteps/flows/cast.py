"""Roles of the stepped documents: a writer that improves, a critic that is hard to please, a scout."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from orchestrator import Finding, SpawnRequest, Verdict, role

CALLS = Path(__file__).with_name("calls")


def called(turn: Any) -> None:
    with CALLS.open("a") as file:
        file.write(f"{turn.node}\n")


@role()
async def planning(turn: Any) -> Any:
    called(turn)
    return [turn.instruction, turn.parameters]


@role()
async def acting(turn: Any) -> Any:
    called(turn)
    if os.environ.get("DIE") == turn.node:
        os.kill(os.getpid(), signal.SIGKILL)
    turn.write("notes", turn.node)
    return f"draft {len(turn.inputs['notes']) + 1}"


@role(emits=(Verdict, Finding))
async def judging(turn: Any) -> Any:
    called(turn)
    await turn.emit(Finding(description=turn.inputs["draft"]))
    good = turn.inputs["draft"] == "draft 3"
    return Verdict(verdict="APPROVE" if good else "REQUEST-CHANGES", rationale=turn.inputs["draft"])


@role(emits=(SpawnRequest,))
async def scouting(turn: Any) -> Any:
    for n in (1, 2):
        await turn.emit(SpawnRequest(assignee="look", parameters={"n": n}))


@role()
async def looking(turn: Any) -> Any:
    return {"notes": turn.parameters["n"], "draft": "seen"} if turn.parameters["n"] == 1 else {"notes": 2}
