"""Modes: short texts that are laid over a role's body and change how it works, not what it may do."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from roles.errors import RoleError

MODES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "adversarial": (
            "Read every claim as its best opponent would. Look for the input, the reader or the day "
            "on which it fails, and say how bad that is. Concede what survives."
        ),
        "associative": (
            "Before you settle, collect likenesses from other fields and note for each what carries "
            "over and what does not. Keep the ones that change what you would do."
        ),
        "constraint-solving": (
            "Write down every constraint first, hard ones apart from wishes. Show for each option "
            "which constraint binds. If they cannot all hold, name the smallest set that has to give."
        ),
        "empathetic": (
            "Take the place of each person the result touches, one after another. Say what each "
            "wants, fears and will really do. Use their words rather than yours."
        ),
        "evidential": (
            "No statement without its source. Quote it, say how strong it is, and mark what is "
            "inference. Where sources are missing, say so instead of filling in."
        ),
        "fast": ("Take the first sound answer. Say in a sentence what you did not check, then stop."),
        "framing": (
            "State the question in three different ways before you answer one. Say which framing you "
            "chose and what the others would have made visible."
        ),
        "metacognitive": (
            "Watch your own reasoning. At each turn say how sure you are, what made you so, and which "
            "habit of thought could mislead you here."
        ),
        "premortem": (
            "Assume that it is a year later and this has failed. Tell how, most likely cause first, "
            "then say what to do today about each."
        ),
        "probabilistic": (
            "Give numbers for what is uncertain, with the base rate you began from and what moved "
            "you. Prefer a range to a point, and say what would change it most."
        ),
        "slow": (
            "Work in passes: read all of it, then draft, then check the draft against the material "
            "line by line. Only the checked version leaves your hands."
        ),
        "socratic": (
            "Advance by questions. Ask the one whose answer would change most, answer it as well as "
            "the material allows, and go on from there."
        ),
        "systematic": (
            "List the cases before you treat the first, treat all of them in order, and account for "
            "each at the end, those with nothing to report included."
        ),
        "visual-spatial": (
            "Lay the matter out in space: parts, what touches what, what flows where. Draw it as text "
            "where a picture says more, and reason from the picture."
        ),
    }
)
"""Name of a mode -> what is laid over the body; read-only."""

_CONFLICTS: Final = (frozenset({"fast", "slow"}), frozenset({"fast", "systematic"}))


def check_modes(names: Iterable[str], where: str) -> None:
    """Refuse modes that do not exist or contradict each other.

    Raises:
        RoleError: the message names them.
    """
    chosen = list(names)
    for name in chosen:
        if name not in MODES:
            raise RoleError(f"{where}: no mode is called {name!r}; there are {', '.join(MODES)}")
    for pair in _CONFLICTS:
        if pair.issubset(chosen):
            first, second = sorted(pair)
            raise RoleError(f"{where}: the modes {first} and {second} contradict each other; choose one")
