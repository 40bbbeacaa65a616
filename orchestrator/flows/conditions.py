"""Conditions on edges: expression text, or an object that judges in the source's actor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.core.expressions import ExpressionError, compile_expression
from orchestrator.errors import OperationError

__all__ = ["Condition", "EdgeCondition", "Negated", "check_condition"]


class EdgeCondition(ABC):
    """A condition that code decides. One object may serve many edges and many runs: keep no state."""

    @abstractmethod
    def apply(self, result: object, context: Mapping[str, object]) -> bool:
        """True if the edge can be taken.

        Args:
            result: the source's value as JSON data, or its NodeError if it failed.
            context: the shared context that the source reads, JSON data.

        Returns:
            A bool; anything else, or an exception, fails the edge's target with a ConditionError.
        """


@dataclass(frozen=True, slots=True)
class Negated(EdgeCondition):
    """The opposite of another condition."""

    inner: EdgeCondition

    def apply(self, result: object, context: Mapping[str, object]) -> bool:
        """The inner answer turned round; an answer that is no bool stays as it is, to be refused."""
        answer: object = self.inner.apply(result, context)
        return not answer if isinstance(answer, bool) else answer  # type: ignore[return-value]


Condition = str | EdgeCondition


def check_condition(when: object, where: str) -> tuple[str | None, EdgeCondition | None]:
    """Tell expression text from a condition object, and refuse everything else before work starts.

    Raises:
        OperationError: ``when`` is of another type, or its text is not an expression that can be a condition.
    """
    if when is None:
        return None, None
    if isinstance(when, EdgeCondition):
        return None, when
    if not isinstance(when, str):
        message = f"when of {where} is {type(when).__name__}; give expression text or an EdgeCondition"
        raise OperationError(message)
    try:
        expression = compile_expression(when)
    except ExpressionError as error:
        raise OperationError(f"when of {where}: {error}") from error
    if expression.kind not in (None, "bool"):
        message = f"when of {where}: `{when}` gives a {expression.kind}, not true or false; compare it"
        raise OperationError(message)
    return expression.text, None
