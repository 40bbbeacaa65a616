"""What the notice lane costs, against raw blinker sends."""

from __future__ import annotations

import anyio
import pytest
from blinker import Signal

from orchestrator.core.commands import Finish
from orchestrator.core.facts import NodeCompleted, NodeReady, NodeStarted
from orchestrator.core.records import Record
from orchestrator.runtime.bus import Bus
from orchestrator.runtime.envelopes import Envelope
from orchestrator.runtime.taps import Tap
from tests.benchmarks.measure import best, row, timed

pytestmark = pytest.mark.benchmark
_RECORDS = 2_000


class _Run:
    run_id = "r"

    def role_of_node(self, _node: str) -> str | None:
        """No roles here."""
        return None


def _raw(receivers: int) -> None:
    """Four sends for each record, to receivers that count."""
    signal = Signal()
    counts = [0] * receivers

    def receiver(place: int) -> object:
        def count(_sender: object, **_more: object) -> None:
            counts[place] += 1

        return count

    kept = [receiver(place) for place in range(receivers)]
    for one in kept:
        signal.connect(one, weak=False)
    sender = _Run()
    for _ in range(_RECORDS):
        for _fact in range(4):
            signal.send(sender, item=None)
    assert counts == [4 * _RECORDS] * receivers


def _ours(receivers: int) -> None:
    """One record of four facts to taps that count, drained."""

    async def main() -> None:
        bus, run = Bus(), _Run()
        counts = [0] * receivers
        taps = [Tap(_counter(counts, place)) for place in range(receivers)]
        record = Record(
            1,
            1,
            0,
            Finish("a", 1),
            [NodeCompleted("a", 1), NodeReady("b"), NodeReady("c"), NodeStarted("b", 1)],
        )
        for tap in taps:
            bus.connect(tap.receive)
        for _ in range(_RECORDS):
            bus.publish(run, record)
        for tap in taps:
            tap.close()
            await tap.serve()
        assert counts == [4 * _RECORDS] * receivers

    anyio.run(main)


def _counter(counts: list[int], place: int) -> object:
    async def count(_envelope: Envelope) -> None:
        counts[place] += 1

    return count


@pytest.mark.parametrize("receivers", [1, 10])
def test_a_record_costs_at_most_two_raw_rounds(receivers: int) -> None:
    """Drain included, for one tap and for ten."""
    least = best(
        {"raw": lambda: timed(lambda: _raw(receivers)), "ours": lambda: timed(lambda: _ours(receivers))}
    )
    print(f"\n{receivers} taps; raw {least['raw'] / _RECORDS * 1e6:.2f} us a record of four facts")
    print(row("ours", least["ours"], _RECORDS, least["raw"]))
    assert least["ours"] <= 2.0 * least["raw"]
