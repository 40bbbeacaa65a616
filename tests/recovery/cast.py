"""Roles of small runs that stop in every way there is; each tells when it was called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio

from orchestrator import Role, SpawnRequest, Verdict, role
from tests.recovery.canon import Told


@role()
async def ok(turn: Any) -> str:
    """Completes."""
    Told.say("call", turn.node, turn.attempt)
    return turn.node


@role()
async def slow(turn: Any) -> str:
    """Completes after ten seconds."""
    Told.say("call", turn.node, turn.attempt)
    await anyio.sleep(10)
    Told.say("ended", turn.node)
    return turn.node


@role()
async def tidies(turn: Any) -> str:
    """Needs some time when it is told to stop."""
    Told.say("call", turn.node, turn.attempt)
    try:
        await anyio.sleep(1_000)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.1)
    return turn.node


@role()
async def needs_file(turn: Any) -> str:
    """Fails until a file is there."""
    Told.say("call", turn.node, turn.attempt)
    if not (Told.path.parent / "file").exists():
        message = "there is no file"
        raise FileNotFoundError(message)
    return turn.node


@role(emits=(SpawnRequest,))
async def grows(turn: Any) -> str:
    """Grows a node that grows another, then fails until a file is there."""
    Told.say("call", turn.node, turn.attempt)
    depth = turn.parameters.get("depth", 0)
    if depth < 2:
        receipt = await turn.emit(
            SpawnRequest(
                assignee="grows",
                parameters={"depth": depth + 1, "fails": False},
                independent=True,
                key=turn.parameters.get("key"),
                before=tuple(turn.parameters.get("before", ())),
            )
        )
        Told.say("accepted", turn.node, receipt.node)
    turn.write("grown", 1)
    if turn.parameters.get("fails", True):
        while not (Told.path.parent / "file").exists():
            await anyio.sleep(1)
            message = "there is no file"
            raise FileNotFoundError(message)
    return turn.node


@role(emits=(Verdict,))
async def decides(turn: Any) -> Any:
    """A gate without a verdict until a file is there; writes to the context each time."""
    Told.say("call", turn.node, turn.attempt)
    turn.write("said", [turn.attempt])
    return {"gate_verdict": "approve"} if (Told.path.parent / "file").exists() else "hm"


@role(emits=(Verdict,))
async def rejects(turn: Any) -> Any:
    """A gate that rejects."""
    Told.say("call", turn.node, turn.attempt)
    return {"gate_verdict": "reject"}


@role(emits=(SpawnRequest,))
async def asks(turn: Any) -> str:
    """Grows two equal nodes, asks, and grows a third with a key."""
    Told.say("call", turn.node, turn.attempt)
    for _ in range(2):
        receipt = await turn.emit(SpawnRequest(assignee="ok"))
        Told.say("accepted", turn.node, receipt.node)
    answer = await turn.ask("Which colour?", key="colour")
    receipt = await turn.emit(SpawnRequest(assignee="ok", key="third"))
    Told.say("accepted", turn.node, receipt.node)
    return answer


@role()
async def expects(turn: Any) -> Any:
    """Asks something that answers itself after a while."""
    Told.say("call", turn.node, turn.attempt)
    return await turn.ask("Anybody?", key="anybody", expires=60, default="nobody")


@role()
async def asks_late(turn: Any) -> int:
    """Works for three seconds, asks, and works for as long as it is told."""
    Told.say("call", turn.node, turn.attempt)
    await anyio.sleep(3)
    seconds = await turn.ask("How long?", key="long")
    await anyio.sleep(seconds)
    return seconds


@role()
async def reads(turn: Any) -> list[Any]:
    """What it was given, notes included."""
    Told.say("call", turn.node, turn.attempt)
    return [*turn.inputs, *turn.steers()]


@role()
async def each(turn: Any) -> list[Any]:
    """Looks at one element; ``late`` ones take a second, ``bad`` ones fail until a file is there."""
    Told.say("call", turn.node, turn.attempt)
    item = turn.parameters["item"]
    if item == "late":
        await anyio.sleep(1)
    if item == "bad" and not (Told.path.parent / "file").exists():
        message = "there is no file"
        raise FileNotFoundError(message)
    return [turn.parameters["index"], item]


@role()
async def last(turn: Any) -> Any:
    """Gives what it reads."""
    Told.say("call", turn.node, turn.attempt)
    return dict(turn.inputs)


#: Performed by a model; which one answers to this name is the business of a test.
speaks = Role("speaks", body="You speak.", models=("local:spent",))

CAST = (
    *(ok, slow, tidies, needs_file, grows, decides, rejects, asks, asks_late, expects, reads, each, last),
    speaks,
)


def there(folder: Path) -> None:
    """Mend what the roles were missing."""
    (folder / "file").touch()


@role()
async def works(turn: Any) -> list[int]:
    """Continues what it gave in the round before."""
    Told.say("call", turn.node, turn.attempt)
    return [1] if turn.rework is None else [*turn.rework.value, turn.rework.round]


@role(emits=(Verdict,))
async def refuses(turn: Any) -> Any:
    """A gate that approves in the round that it is told, and in every later one."""
    Told.say("call", turn.node, turn.attempt)
    number = 1 if turn.rework is None else turn.rework.round
    verdict = "APPROVE" if number >= turn.parameters["approves"] else "REJECT"
    return Verdict(verdict=verdict, rationale=f"round {number}")
