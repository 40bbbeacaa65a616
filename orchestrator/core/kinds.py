"""What an operation is beside its verb: one run per element of a list, one of those runs, a question."""

from __future__ import annotations

import msgspec

__all__ = ["ELEMENT", "INDEX", "ForEach", "Inquiry", "Instance"]

#: What an element is called if nothing else is said, and what its place in the list is called.
ELEMENT = "item"
INDEX = "index"


class _Kind(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of the kinds: as every struct of a plan."""


class ForEach(_Kind, frozen=True):
    """A node that runs once per element of a list (kernel.md 8, flows.md).

    Attributes:
        over: expression that gives the list, judged when every predecessor has settled.
        max: more elements than this fail the node.
        name: what an element is called in the node's texts and conditions; its place is ``index``, from 1.
        skip: an instance that fails is left out of the list instead of failing the node.
    """

    over: str
    max: int
    name: str = ELEMENT
    skip: bool = False


class Instance(_Kind, frozen=True):
    """One element of a ``for_each`` node: what its instance was made for.

    Attributes:
        of: the node that it is an instance of. index: place in the list, from 1: the number in its name.
        item: the element. name: what the element is called.
    """

    of: str
    index: int
    item: msgspec.Raw
    name: str = ELEMENT


class Inquiry(_Kind, frozen=True):
    """A node that a person settles; its instruction is the question.

    Attributes:
        choices: texts that may be answered; empty takes any answer.
        expires: seconds after which ``default`` is the answer; None waits for ever.
        default: JSON of the answer if nobody gives one.
        show: what the person is shown with the question, with ``${...}``.
    """

    choices: tuple[str, ...] = ()
    expires: float | None = None
    default: msgspec.Raw = msgspec.Raw(b"null")
    show: str = ""
