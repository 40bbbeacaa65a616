"""The kit that roles and flows are tested with.

Everything is loaded when it is used: pytest loads the plugin of this package at every start, and it must not
load the engine with it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.testing.deadlock import DeadlockError as DeadlockError
    from orchestrator.testing.fake import FakeTurn as FakeTurn
    from orchestrator.testing.fake import fake_turn as fake_turn
    from orchestrator.testing.given import Asked as Asked
    from orchestrator.testing.lawful import LawfulSession as LawfulSession
    from orchestrator.testing.laws import LawError as LawError
    from orchestrator.testing.laws import assert_laws as assert_laws
    from orchestrator.testing.laws import broken_laws as broken_laws
    from orchestrator.testing.laws import story as story
    from orchestrator.testing.loops import VIRTUAL_BACKENDS as VIRTUAL_BACKENDS
    from orchestrator.testing.loops import run_seeded as run_seeded
    from orchestrator.testing.loops import run_virtual as run_virtual
    from orchestrator.testing.loops import seeded_loop as seeded_loop
    from orchestrator.testing.loops import virtual_clock as virtual_clock
    from orchestrator.testing.recast import run_flow_with as run_flow_with
    from orchestrator.testing.rehearsal import rehearse as rehearse
    from orchestrator.testing.review import Rehearsal as Rehearsal
    from orchestrator.testing.script_error import ScriptError as ScriptError
    from orchestrator.testing.scripts import Scripted as Scripted
    from orchestrator.testing.scripts import does as does
    from orchestrator.testing.scripts import emits as emits
    from orchestrator.testing.scripts import raises as raises
    from orchestrator.testing.scripts import returns as returns
    from orchestrator.testing.scripts import scripted as scripted
    from orchestrator.testing.scripts import waits as waits

__all__ = [
    "VIRTUAL_BACKENDS",
    "Asked",
    "DeadlockError",
    "FakeTurn",
    "LawError",
    "LawfulSession",
    "Rehearsal",
    "ScriptError",
    "Scripted",
    "assert_laws",
    "broken_laws",
    "does",
    "emits",
    "fake_turn",
    "raises",
    "rehearse",
    "returns",
    "run_flow_with",
    "run_seeded",
    "run_virtual",
    "scripted",
    "seeded_loop",
    "story",
    "virtual_clock",
    "waits",
]

#: Name -> the module that defines it. The imports above say the same to type checkers.
_HOMES = {
    "VIRTUAL_BACKENDS": "loops",
    "Asked": "given",
    "DeadlockError": "deadlock",
    "FakeTurn": "fake",
    "LawError": "laws",
    "LawfulSession": "lawful",
    "Rehearsal": "review",
    "ScriptError": "script_error",
    "Scripted": "scripts",
    "assert_laws": "laws",
    "broken_laws": "laws",
    "does": "scripts",
    "emits": "scripts",
    "fake_turn": "fake",
    "raises": "scripts",
    "rehearse": "rehearsal",
    "returns": "scripts",
    "run_flow_with": "recast",
    "run_seeded": "loops",
    "run_virtual": "loops",
    "scripted": "scripts",
    "seeded_loop": "loops",
    "story": "laws",
    "virtual_clock": "loops",
    "waits": "scripts",
}


def __getattr__(name: str) -> Any:
    """Load a name of the kit on first use (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Names of the kit, loaded or not."""
    return sorted({*globals(), *__all__})
