"""The kernel's lock: one decision at a time, whoever asks."""

from __future__ import annotations

import threading

from orchestrator.core.commands import Pause, Start, Steer
from orchestrator.journal import MemoryJournal
from orchestrator.runtime.kernel import Kernel
from tests.core.small import plan

#: Seconds in which a second thread would long have decided, were it let.
_A_WHILE = 0.2


def test_a_second_decision_waits_for_the_first():
    """DESIGN, the one lock: number, decide, apply is one step; a second thread comes before or after it."""
    journal = MemoryJournal()
    second: list[threading.Thread] = []

    def clock() -> int:
        # it is read under the lock, between the numbering and the decision of the first
        if second and not second[0].ident:
            second[0].start()
            second[0].join(_A_WHILE)
        return 0

    kernel = Kernel(journal, lambda _record: None, lambda: None, clock)
    kernel.submit(Start("r", plan("a")))
    second.append(threading.Thread(target=kernel.submit, args=(Pause(),)))
    kernel.submit(Steer("mind the gap", "2026-01-01T00:00:00Z"))
    second[0].join()
    records = journal.read(0)
    assert [type(record.command).__name__ for record in records] == ["Start", "Steer", "Pause"]
    assert [record.seq for record in records] == [1, 2, 3]
    assert [record.first for record in records[1:]] == [record.last + 1 for record in records[:-1]]
