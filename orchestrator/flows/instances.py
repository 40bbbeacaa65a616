"""``for_each`` of an operation: what can be said without the graph around it."""

from __future__ import annotations

from typing import Final

from orchestrator.core import fans
from orchestrator.core.encoding import fields_of, struct_of
from orchestrator.core.expressions import FUNCTIONS, LITERALS, ExpressionError, compile_expression
from orchestrator.core.kinds import ELEMENT, INDEX
from orchestrator.core.spec import ForEach, Operation, name_fault
from orchestrator.errors import OperationError
from orchestrator.flows.inquiries import inquiry_fault

__all__ = [
    "MAX_LIMIT",
    "check_kinds",
    "element_names",
    "make_for_each",
    "name_of_element_fault",
    "names_element",
]

#: So many instances may be allowed.
MAX_LIMIT: Final = 100_000
_FORM: Final = "write {over: 'scan.files', max: 20} and, if you like, name and skip"
_WORDS: Final = FUNCTIONS | frozenset(LITERALS)


def make_for_each(value: object, where: str) -> ForEach | None:
    """The ForEach that ``value`` means: one, its fields, or None.

    Raises:
        OperationError: a field does not fit.
    """
    if value is None:
        return None
    try:
        found = struct_of(ForEach, fields_of(value) if isinstance(value, ForEach) else value)
    except ValueError as error:
        raise OperationError(f"{where}: {error}; {_FORM}") from error
    if not 1 <= found.max <= MAX_LIMIT:
        raise OperationError(f"max of {where} is {found.max}; write 1 to {MAX_LIMIT:,}")
    fault = name_of_element_fault(found.name)
    if fault is not None:
        raise OperationError(f"name of {where}: {fault}")
    try:
        kind = compile_expression(found.over).kind
    except ExpressionError as error:
        raise OperationError(f"{where}: {error}") from error
    if kind not in (None, "list"):
        raise OperationError(f"{where}: {found.over} gives a {kind}, not a list")
    return found


def name_of_element_fault(name: str) -> str | None:
    """Why an element cannot be called so, or None."""
    return None if name == ELEMENT else name_fault(name, _WORDS)


def element_names(operation: Operation) -> frozenset[str]:
    """What an operation's texts and conditions may name beside everything else."""
    each = operation.for_each
    return frozenset() if each is None else frozenset({each.name, INDEX})


def names_element(when: str | None, name: str) -> bool:
    """True if a condition names the element or its place: it is then judged for each of them."""
    try:
        return when is not None and fans.names_element(when, name)
    except ExpressionError:
        return False


def check_kinds(operation: Operation) -> None:
    """Refuse what a node with ``for_each``, or one that a person settles, cannot be as well.

    Raises:
        OperationError: naming both.
    """
    name = operation.name
    if operation.for_each is not None:
        if operation.gate is not None:
            raise OperationError(
                f"{name} is a gate and has for_each; a gate gives one verdict: take one away"
            )
        if operation.branch is not None:
            message = f"{name} has for_each and the branch {operation.branch!r}; its instances run at once"
            raise OperationError(f"{message} and cannot share one")
    if operation.inquiry is not None and operation.role is not None:
        raise OperationError(f"{name} asks a person and has the role {operation.role!r}; take one away")
    if operation.inquiry is not None:
        fault = inquiry_fault(operation.inquiry, gate=operation.gate is not None)
        if fault is None and not operation.instruction.strip():
            fault = "it has no question; say it in instruction"
        if fault is not None:
            raise OperationError(f"ask of {name}: {fault}")
