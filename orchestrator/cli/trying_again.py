"""``callboard try RUN NODE``: one recorded node again, outside of its run, beside what is recorded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from pprint import pformat
from typing import Any, Final

import anyio
import msgspec

from orchestrator.cli.edge import clean, note, own_stdout, say, write
from orchestrator.cli.journals import find, reading
from orchestrator.cli.logs import configure_logs
from orchestrator.cli.opening import UsageError
from orchestrator.cli.options import TryAgainOptions
from orchestrator.flows.names import suggestion
from orchestrator.runtime.generations import Generation, generations
from orchestrator.runtime.recorded import RecordedRun
from orchestrator.runtime.reliving import Outcome, Scene, scene_of, unmarked
from orchestrator.runtime.texts import said
from orchestrator.testing.fake import FakeTurn, fake_turn

__all__ = ["try_again"]

#: Exit code if it came out otherwise than recorded.
_DIFFERS: Final = 1
_SHOWN: Final = 200
#: What a test of a gate leaves to the engine, which sets it by the verdict.
_UNMARKED: Final = """    if isinstance(value, dict):
        value.pop("gate_verdict", None)  # the engine sets it by the verdict
"""
_TEST: Final = Path(__file__).with_name("templates") / "held.py.txt"


def try_again(options: TryAgainOptions) -> int:
    """Run a node again; returns 0 if it came out as recorded each time, 1 if not.

    Raises:
        UsageError, OperationError: no such node, or it cannot be run again. OSError: the test's file.
    """
    with reading(options.journal) as (reader, _):
        run = RecordedRun(find(reader, options.run))
        lives = generations(run, reader.records(run.run_id), options.node)
        state = run.state
    if options.node not in state.nodes:
        raise UsageError(
            f"run {state.run} has no node {options.node!r}{suggestion(options.node, state.nodes)}"
        )
    scene = scene_of(state, options.node, lives[-1].outcome, options.model)
    for fault in scene.given.faults:
        note(f"not as it was: {clean(fault)}")
    if options.as_test is not None:
        if scene.speaks:
            raise UsageError(f"{options.node} is no function: a test could not hold what it says")
        _write_test(scene, state.definition.source, options.as_test)
        say(f"written {options.as_test}; run it: python -m pytest {options.as_test}")
        return 0
    configure_logs(debug=options.debug)
    same = True
    with own_stdout() as stream:
        for line in _recorded(lives):
            write(stream, line + "\n")
        for number in range(1, options.times + 1):
            again = anyio.run(partial(_play, scene))
            equal = again == scene.recorded
            same = same and equal
            word = f"again {number}" if options.times > 1 else "again"
            write(stream, "\n".join(_lines(word, again, "" if equal else "  <- differs")) + "\n")
    return 0 if same else _DIFFERS


def _recorded(lives: list[Generation]) -> Iterator[str]:
    """What is recorded of each generation, in order; the last is the one that runs again."""
    for life in lives:
        if life.outcome is not None:
            yield from _lines("recorded" if len(lives) == 1 else f"recorded {life.number}", life.outcome)


def _turn(scene: Scene) -> FakeTurn:
    given = scene.given
    return fake_turn(
        dict(given.parameters),
        given.inputs,
        scene.role,
        node=scene.node,
        instruction=given.instruction,
        context=given.context,
        emissions=scene.emissions,
        failed=dict(given.failed),
        roles=scene.roles,
        answers=scene.answers,
        run=scene.run,
    )


async def _play(scene: Scene) -> Outcome:
    turn = _turn(scene)
    status, value, error = "succeeded", None, ""
    try:
        value = await turn.play(scene.role)
    except Exception as raised:  # noqa: BLE001 (how it fails is the outcome)
        status, error = "failed", said(raised)
    if scene.marked:
        value = unmarked(value)
    emitted = tuple((type(one).emission_kind, _payload(one)) for one in turn.accepted)
    return Outcome(status, value, error, emitted)


def _payload(emission: Any) -> Any:
    """As the ledger holds it: without what was left at its default."""
    return msgspec.json.decode(emission.model_dump_json(exclude_unset=True))


def _lines(word: str, outcome: Outcome, mark: str = "") -> Iterator[str]:
    what = outcome.error if outcome.status == "failed" else _json(outcome.value)
    yield f"{word:<10} {outcome.status}: {_cut(what)}{mark}"
    for kind, payload in outcome.emitted:
        yield f"{'':<{max(10, len(word))}} emitted {kind} {_cut(_json(payload))}"


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _cut(text: str) -> str:
    shown = clean(text)
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."


# --- a test of it ------------------------------------------------------------------------------


def _write_test(scene: Scene, source: str, path: Path) -> None:
    """Write a test that gives the role the same and holds what came of it.

    Raises:
        UsageError: the run began from no document, or the file is there. OSError: it cannot be written.
    """
    if not source:
        raise UsageError("--as-test needs a run of a flow document: its roles are found there")
    given, held = scene.given, scene.recorded
    parts = {
        "run": scene.run,
        "node": scene.node,
        "name": "".join(char if char.isalnum() else "_" for char in scene.node).lower(),
        "flow": repr(os.path.relpath(source, path.absolute().parent)),
        "role": repr(scene.role.name),
        "given": _literal(
            {
                "parameters": given.parameters,
                "inputs": given.inputs,
                "instruction": given.instruction,
                "context": given.context,
                "node": scene.node,
                "answers": scene.answers,
                "roles": {name: role for name, role in scene.roles.items() if name in given.inputs},
            }
        ),
        "said": _literal(
            [(type(one.emission).__name__, _payload(one.emission), one.node, one.role, one.attempt)
             for one in scene.emissions]
        ),
        "failed": _literal({name: (error.type, error.message) for name, error in given.failed.items()}),
        "status": repr(held.status),
        "value": _literal(held.value),
        "unmarked": _UNMARKED if scene.marked else "",
        "error": repr(held.error.partition(":")[0]),
        "emitted": _literal(list(held.emitted)),
    }  # fmt: skip
    text = _TEST.read_text(encoding="utf-8")
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part)
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} exists; nothing is overwritten") from None


def _literal(value: Any) -> str:
    return pformat(value, width=100, sort_dicts=False)
