"""Take the guards away, one at a time: for each of them at least one test must turn red.

A guard that nothing misses when it is gone is either not needed or not tested. This script copies the
packages and the tests, sees that the chosen tests are green on the copy, then removes one guard after the
other from it and runs that guard's tests again. It prints a line for each guard and ``7 of 7``; it exits
with 1 if a removal turned nothing red, and with 2 if a guard's text is not found any more: then the guard
was rewritten, and its entry here has to follow.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["GUARDS", "Guard", "Moved", "Removal", "copy", "found_in", "green", "main", "removed", "told"]

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("emissions", "roles", "orchestrator", "tests", "pyproject.toml")
#: pytest's exit codes: all passed, some failed. Any other (nothing collected, a crash) is no answer.
GREEN, RED = 0, 1
#: Seconds after which a run of tests hangs; none needs a tenth of it.
PATIENCE = 300


class Moved(Exception):
    """A guard's text is not where it was, or stands there more than once."""


@dataclass(frozen=True)
class Removal:
    """One place at which a guard stands.

    Attributes:
        file: where. old: its text, which stands there exactly once. new: what is left without the guard.
        tests: pytest's words for the tests that are to miss it.
        twin: a second look at the same thing, which goes with the first: alone neither would be missed.
    """

    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    twin: Removal | None = None


@dataclass(frozen=True)
class Guard:
    """One guard, which may stand at several places; each of them must be missed."""

    name: str
    removals: tuple[Removal, ...]


GROWTH = "orchestrator/core/growth.py"
KERNEL = "orchestrator/runtime/kernel.py"

GUARDS = (
    Guard(
        "lock",
        (
            # of the operating system: one process owns a run
            Removal(
                "orchestrator/journal/owning.py",
                "                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
                "            except OSError:\n"
                "                owner = ",
                "                pass\n            except OSError:\n                owner = ",
                (
                    "tests/journal/test_owning.py::test_a_second_process",
                    "tests/journal/test_owning.py::test_exactly_one_of_many_gets_it",
                ),
            ),
            # of a process: a lock of fcntl does not stop the process that has it
            Removal(
                "orchestrator/journal/owning.py",
                "            if _held.get(self._key) == self._pid and not take:\n",
                "            if False:\n",
                ("tests/journal/test_owning.py::test_two_owners_in_one_process",),
            ),
            # of the kernel: one decision at a time
            Removal(
                KERNEL,
                "        with self._lock:\n",
                "        if True:\n",
                ("tests/guards/test_one_lock.py",),
            ),
        ),
    ),
    Guard(
        "cap check",
        (
            Removal(
                GROWTH,
                "    if state.spawns >= state.budget.spawns:\n"
                "        return _over_cap(decision, node, request.assignee, request.key)\n",
                "",
                ("tests/scenarios/test_growth.py::test_S5_cap", "tests/core/test_admission.py"),
            ),
            Removal(
                GROWTH,
                "    if state.spawns >= state.budget.spawns:\n"
                "        return _over_cap(decision, node, task.assignee, task.name)\n",
                "",
                ("tests/guards/test_every_way_is_capped.py",),
            ),
            Removal(
                GROWTH,
                "    if state.spawns >= state.budget.spawns:\n"
                "        return _over_cap(decision, emitter, asked, key)\n",
                "",
                ("tests/guards/test_every_way_is_capped.py",),
            ),
        ),
    ),
    Guard(
        "cycle check",
        (
            Removal(
                GROWTH,
                "        path = reaches(state, child.before, waiting)\n",
                "        path = None\n",
                (
                    "tests/core/test_admission.py",
                    "tests/scenarios/test_growth_edges.py::test_S7_closing_a_cycle",
                ),
            ),
            Removal(
                GROWTH,
                "        if child.emitter is node:\n",
                "        if False:\n",
                ("tests/core/test_admission.py",),
            ),
            Removal(
                "orchestrator/flows/graph.py",
                "    if len(order) < len(waiting):\n",
                "    if False:\n",
                ("tests/flows/test_graph.py", "tests/flows/test_builder.py"),
            ),
        ),
    ),
    Guard(
        "effect hold",
        (
            # a decision's effects wait for the journal's answer
            Removal(
                KERNEL,
                " command, facts, raw, decision.cause, wall)\n                )\n",
                " command, facts, raw, decision.cause, wall)\n                )\n"
                "                self._release(self._outbox[-1])\n",
                (
                    "tests/seeded/test_journals.py::test_a_journal_that_never_answers",
                    "tests/seeded/test_journals.py::test_a_failing_append_halts_the_run",
                ),
            ),
            # so do receipts
            Removal(
                KERNEL,
                "        while self.acknowledged < seq and self.fault is None:\n",
                "        while False:\n",
                ("tests/seeded/test_journals.py::test_a_receipt_that_never_becomes_durable",),
            ),
        ),
    ),
    Guard(
        "epoch check",
        (
            Removal(
                "orchestrator/journal/runlog.py",
                "        if found is None or found[0] != self.epoch:\n",
                "        if found is None:\n",
                ("tests/journal/test_owning.py::test_a_stopped_owner_wakes_up_fenced",),
            ),
        ),
    ),
    Guard(
        "emits check",
        (
            Removal(
                "orchestrator/core/emitting.py",
                "        and (emission.kind not in grants_of(decision.state, node))\n",
                "        and False\n",
                (
                    "tests/core/test_admission.py",
                    "tests/scenarios/test_growth.py::test_S6_cap_zero_offers_nothing",
                ),
            ),
        ),
    ),
    Guard(
        "dedupe",
        (
            # of emissions: by key, or by content and number, over channels and attempts
            Removal(
                "orchestrator/core/emitting.py",
                "    if again is not None:\n",
                "    if False:\n",
                ("tests/core/test_admission.py", "tests/scenarios/test_growth.py"),
            ),
            # of injections, by key
            Removal(
                GROWTH,
                "    if made is not None:\n",
                "    if False:\n",
                ("tests/scenarios/test_growth.py::test_S12_an_injected_key_decides",),
            ),
            # of requests from other processes, by the number of their row
            Removal(
                "orchestrator/runtime/listening.py",
                "log.pending_controls(max(engine.state.controls, default=0))",
                "log.pending_controls(0)",
                ("tests/guards/test_requests_once.py",),
            ),
            Removal(
                "orchestrator/runtime/reviving.py",
                "log.pending_controls(max(state.controls, default=0))",
                "log.pending_controls(0)",
                ("tests/guards/test_requests_once.py",),
                Removal(
                    "orchestrator/runtime/recovery.py",
                    "rows = [row for row in going.rows if row.id not in state.controls]",
                    "rows = list(going.rows)",
                    (),
                ),
            ),
        ),
    ),
)  # fmt: skip


def removed(text: str, removal: Removal) -> str:
    """A file's text without the guard.

    Raises:
        Moved: the guard does not stand there exactly once.
    """
    count = text.count(removal.old)
    if count != 1:
        message = f"{removal.file}: this stands there {count} times, not once; see to it:\n{removal.old}"
        raise Moved(message)
    return text.replace(removal.old, removal.new)


def copy(folder: Path) -> None:
    """Everything that the tests need, without what Python left lying about."""
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy(source, folder / name)


def ran(folder: Path, tests: tuple[str, ...]) -> tuple[int, str]:
    """Run tests of the copy in a process of their own: pytest's exit code and what it said."""
    command = [
        sys.executable,
        "-B",
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        *tests,
    ]
    # nothing of a pytest that runs this one; the copy comes before what is installed
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"PYTHONPATH": str(folder), "CI": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, f"it hung for {PATIENCE} s"
    return done.returncode, done.stdout


def places(removal: Removal) -> list[Removal]:
    """The removal and its twin."""
    return [removal] if removal.twin is None else [removal, removal.twin]


def missed(folder: Path, removal: Removal) -> str:
    """The first test that turns red without the guard; empty if none does."""
    whole = {folder / one.file: (folder / one.file).read_text(encoding="utf-8") for one in places(removal)}
    for one in places(removal):
        (folder / one.file).write_text(removed(whole[folder / one.file], one), encoding="utf-8")
    try:
        code, said = ran(folder, removal.tests)
    finally:
        for path, text in whole.items():
            path.write_text(text, encoding="utf-8")
    failed = [line for line in said.splitlines() if line.startswith("FAILED ")]
    if code == RED and failed:
        return failed[0].removeprefix("FAILED ").partition(" - ")[0]
    if code != GREEN:
        message = f"the tests of {removal.file} broke (exit {code}) instead of failing:\n{said[-3_000:]}"
        raise RuntimeError(message)
    return ""


def found_in(folder: Path) -> None:
    """See that every guard stands where it is said to, before anything runs.

    Raises:
        Moved: one does not.
    """
    for one in (one for guard in GUARDS for removal in guard.removals for one in places(removal)):
        removed((folder / one.file).read_text(encoding="utf-8"), one)


def green(folder: Path) -> str:
    """What the chosen tests say with every guard in place; empty if they are green."""
    chosen = dict.fromkeys(test for guard in GUARDS for one in guard.removals for test in one.tests)
    code, said = ran(folder, tuple(chosen))
    return "" if code == GREEN else f"exit {code}:\n{said[-3_000:]}"


def told(folder: Path, guard: Guard) -> tuple[bool, str]:
    """Remove a guard wherever it stands: whether each removal was missed, and what turned red."""
    found = [missed(folder, removal) for removal in guard.removals]
    unseen = [one.file for one, name in zip(guard.removals, found, strict=True) if not name]
    if unseen:
        return False, f"NOT MISSED in {', '.join(unseen)}"
    each = "" if len(found) == 1 else f" (each of {len(found)} places)"
    return True, f"red: {found[0]}{each}"


def main() -> int:
    """Remove each guard once; 0 if every one is missed."""
    with tempfile.TemporaryDirectory(prefix="callboard-guards-") as made:
        folder = Path(made)
        copy(folder)
        found_in(folder)
        fault = green(folder)
        if fault:
            print(f"with every guard in place the chosen tests are not green: {fault}")
            return 1
        print("in place       green", flush=True)
        held = 0
        for guard in GUARDS:
            began = time.monotonic()
            ok, word = told(folder, guard)
            held += ok
            print(f"{guard.name:<14} {word}, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{held} of {len(GUARDS)}")
    return 0 if held == len(GUARDS) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Moved as moved:
        print(moved, file=sys.stderr)
        sys.exit(2)
