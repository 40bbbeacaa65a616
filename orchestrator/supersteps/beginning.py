"""How a drive of a thread begins: the commands that were made of what the caller asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from emissions import Refused
from orchestrator.core.commands import Command
from orchestrator.errors import OperationError
from orchestrator.runtime.recovery import set_timers

if TYPE_CHECKING:
    from orchestrator.runtime.engine import Engine

__all__ = ["Beginning", "Told"]

#: A command and the values to which it refers.
Told = tuple[Command, Sequence[bytes]]


class Beginning:
    """Submits the commands; one that is refused is the caller's error."""

    __slots__ = ("_told",)

    def __init__(self, *told: Told) -> None:
        self._told = told

    def go_on(self, engine: Engine) -> None:
        """Submit them, and set the timers from what was left of them.

        Raises:
            OperationError: the core refused one.
        """
        for command, values in self._told:
            receipts = engine.tell(command, values)
            refused = [one for one in receipts if isinstance(one, Refused)]
            if refused and engine.kernel.fault is None:
                raise OperationError(refused[-1].detail)
        if not engine.closed:
            set_timers(engine)
