"""What was recorded once is read for ever: golden journals of every format (README.md)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from orchestrator import Session
from orchestrator.core import commands, facts
from orchestrator.core.laws import check, check_facts
from orchestrator.core.machine import GraphMachine
from orchestrator.core.records import decode_record, encode_record
from orchestrator.journal.checking import verify
from orchestrator.runtime.replaying import replay
from orchestrator.testing.loops import Backend, run_virtual
from tests.cli.program import call
from tests.golden import cast
from tests.golden.outcomes import kinds_of, outcomes, records_of
from tests.golden.shelf import GOLDEN, laid_down, names, written_out

if TYPE_CHECKING:
    from pathlib import Path

#: Run -> why deciding it again gives something else today, where a rule was changed on purpose.
DIVERGES: dict[str, str] = {}
#: Kinds that no golden journal holds -> why.
UNRECORDED: dict[str, str] = {"InputQueued": "no input waited when these were made"}
#: Bytes of everything that is golden, so that a clone stays small.
MOST = 400 * 1024

every = pytest.mark.parametrize("name", names())


def test_what_there_is():
    """Eight journals of format 1, and all of them small."""
    assert names() == ["cache", "flows", "gates", "grown", "models", "people", "steps", "trouble"]
    assert sum(path.stat().st_size for path in GOLDEN.iterdir()) < MOST


@every
def test_the_text_is_the_journal(name: str, tmp_path: Path):
    """Laid down and written out again it is the same text: nothing is lost on the shelf."""
    layout, rows = written_out(laid_down(name, tmp_path / "j.db"))
    assert layout == (GOLDEN / "layout.sql").read_text(encoding="utf-8")
    assert sorted(rows.splitlines()) == sorted(
        (GOLDEN / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    )


@every
def test_every_record_is_whole(name: str, tmp_path: Path):
    """TRUTH: chain, head, layout, columns; each record decodes, and encodes to what it was."""
    journal = laid_down(name, tmp_path / "j.db")
    found = records_of(journal)
    assert found
    for run, records in found.items():
        assert verify(journal, run) == []
        for record in records:
            assert decode_record(encode_record(record)) == record


@every
def test_folding_keeps_the_laws(name: str, tmp_path: Path):
    """RESUME: after every record of every run the state keeps every law; so do the facts in their order."""
    for run, records in records_of(laid_down(name, tmp_path / "j.db")).items():
        machine = GraphMachine()
        for record in records:
            machine.replay(record)
            assert check(machine.state, folded=True) == [], (run, record.seq)
        assert check_facts(records) == []


@every
def test_deciding_again(name: str, tmp_path: Path):
    """Law 9: every recorded command leads to the recorded facts, unless a rule was changed on purpose."""
    for run, records in records_of(laid_down(name, tmp_path / "j.db")).items():
        count, divergence = replay(records)
        if run in DIVERGES:
            assert divergence is not None, f"{run} does not diverge any more: take it off the list"
            continue
        assert divergence is None, f"{run}, after {count} records: {divergence}"


@every
def test_the_results_are_what_they_were(name: str, tmp_path: Path):
    """A finished run's result is the same for ever: status, value, verdict, growth, refusals, context."""
    expected = json.loads((GOLDEN / f"{name}.expected.json").read_text(encoding="utf-8"))
    found = outcomes(laid_down(name, tmp_path / "j.db"))
    assert found.keys() == expected.keys()
    for run, told in expected.items():
        assert found[run] == told


def test_every_kind_is_recorded(tmp_path: Path):
    """A kind of fact or command that is added gets a golden journal before it is released."""
    kinds: set[str] = set()
    for name in names():
        for records in records_of(laid_down(name, tmp_path / f"{name}.db")).values():
            kinds.update(*kinds_of(records))
    known = {
        kind.__name__
        for module, base in ((facts, facts.Fact), (commands, commands.Command))
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, base) and kind is not base
    }
    # it is read back as the facts that it stands for
    known.discard("NodesReady")
    assert known - kinds == set(UNRECORDED)
    rows = "".join(path.read_text(encoding="utf-8") for path in GOLDEN.glob("*.jsonl"))
    for text in ("NodesReady", "values/0", '\\"origin\\"'):
        assert text in rows, f"no golden record has {text}"


@pytest.mark.parametrize("name", ["people", "steps", "trouble"])
def test_doctor_is_content(name: str, tmp_path: Path):
    """``doctor --replay``, as somebody with an old journal would ask."""
    laid_down(name, tmp_path / "j.db")
    done = call("doctor", "--replay", cwd=tmp_path, CALLBOARD_JOURNAL=str(tmp_path / "j.db"))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_suspended_run_goes_on(backend: Backend, tmp_path: Path):
    """RESUME, S65: recorded then, resumed now: one run waits for an answer, one was drained."""
    journal = laid_down("people", tmp_path / "j.db")
    expected = json.loads((GOLDEN / "people.expected.json").read_text(encoding="utf-8"))
    by_reason = {told["reason"]: run for run, told in expected.items()}

    async def go_on(run: str, answers: dict[str, Any]) -> Any:
        clock = lambda: int(anyio.current_time() * 1e9)
        async with Session(cast.ROLES, journal=journal, clock=clock, folder=tmp_path, seed=1) as session:
            session.register_operation("chat", cast.talk)
            live = await session.resume(run, answers=answers, new_definition=True, waits_for_answers=True)
            return await live.wait()

    asked = run_virtual(go_on, by_reason["awaiting_answer"], {"asker": "blue"}, backend=backend)
    assert asked.ok, asked.detail
    assert asked["asker"].value == {"colour": "blue", "size": 7}
    assert asked["listener"].value["inputs"] == {"asker": asked["asker"].value}
    drained = run_virtual(go_on, by_reason["drained"], {}, backend=backend)
    assert drained.ok, drained.detail
    settled = expected[by_reason["drained"]]["nodes"]
    assert settled["one"]["status"] == "completed"
    assert [drained[name].attempts for name in ("one", "two", "three", "four")] == [1, 1, 1, 1]
    for run in by_reason.values():
        assert verify(journal, run) == []
