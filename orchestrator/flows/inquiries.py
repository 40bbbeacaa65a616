"""``ask`` of an operation: a question that a person answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from emissions import VerdictValue
from orchestrator.core.encoding import encoded
from orchestrator.core.spec import Inquiry
from orchestrator.errors import OperationError
from orchestrator.flows.durations import seconds

__all__ = ["ASK", "inquiry_fault", "make_inquiry"]

#: The verb of a node that a person settles.
ASK: Final = "ask"
_FIELDS: Final = ("choices", "expires", "default", "show")


def make_inquiry(value: object, where: str) -> Inquiry | None:
    """The Inquiry that ``value`` means: True, one, its fields, or None.

    Raises:
        OperationError: a field does not fit.
    """
    if value is None or value is False:
        return None
    if value is True:
        return Inquiry()
    if isinstance(value, Inquiry):
        return value
    if not isinstance(value, Mapping) or any(key not in _FIELDS for key in value):
        raise OperationError(f"{where} is {value!r}; write True or some of {', '.join(_FIELDS)}")
    return Inquiry(
        choices=_choices(value.get("choices", ()), where),
        expires=_expires(value.get("expires"), where),
        default=encoded(value.get("default")),
        show=str(value.get("show", "")),
    )


def _choices(choices: Any, where: str) -> tuple[str, ...]:
    if isinstance(choices, str) or not all(isinstance(choice, str) and choice for choice in choices):
        raise OperationError(f"choices of {where} is {choices!r}; give a list of texts")
    return tuple(choices)


def _expires(value: Any, where: str) -> float | None:
    if value is None:
        return None
    try:
        return seconds(value)
    except ValueError as error:
        raise OperationError(f"expires of {where}: {error}") from error


def inquiry_fault(inquiry: Inquiry, *, gate: bool) -> str | None:
    """What does not fit together in a question, or None."""
    answer = None if bytes(inquiry.default) == b"null" else bytes(inquiry.default)
    if gate:
        wrong = [choice for choice in inquiry.choices if choice not in tuple(VerdictValue)]
        if wrong:
            return f"the choices of a gate are verdicts, not {wrong[0]!r}; write {', '.join(VerdictValue)}"
    allowed = inquiry.choices or (tuple(VerdictValue) if gate else ())
    if answer is not None and allowed and answer not in [bytes(encoded(one)) for one in allowed]:
        return f"the default {answer.decode()} is not one of {', '.join(allowed)}"
    if answer is None and inquiry.expires is not None and not gate:
        return "it expires and has no default; say what the answer is if nobody gives one"
    return None
