"""The JSON value that a model's reply holds somewhere in its prose."""

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeVar, cast, overload

from pydantic import BaseModel, ValidationError

from emissions.json_text import MAX_TEXT, NotJsonError, decode_at, find_fault, skip_blanks
from emissions.parse import Malformed, explain
from emissions.receipts import RefusalReason

Model = TypeVar("Model", bound=BaseModel)

_BRACKET: Final = re.compile(r"[{\[]")

# Failed attempts are paid for, about one unit for a character that was read in vain, so that a text of
# nothing but brackets costs a second at most.
_BASE_BUDGET: Final = 4_000_000
_DEEP_COST: Final = 1_000


@overload
def extract_json(text: str, accept: type[Model]) -> Model | Malformed: ...
@overload
def extract_json(text: str, accept: Callable[[object], bool]) -> object: ...
def extract_json(text: str, accept: Callable[[object], bool] | type[BaseModel]) -> object:
    """Return the first complete JSON value in a text that fits, or a Malformed that says why none does.

    The whole text is tried first; then every object or list in it, in order, wherever it stands (prose, a
    fence, closed or not). What stands inside a complete value, or inside one that the text's end cuts off, is
    a part of it and no candidate. Strings come back as they were written.

    Args:
        text: a model's reply. Look at its stop reason first: a reply that was cut off is not for repair.
        accept: a model class, of which an instance is returned, or a test of the decoded value.

    Raises:
        Exception: only what `accept` raises, if it is a function.
    """
    if len(text) > MAX_TEXT:
        detail = f"the text has {len(text)} characters; {MAX_TEXT} are read at most"
        return Malformed("json", RefusalReason.MALFORMED, detail, text)
    search = _Search(text)
    for value in search.candidates():
        taken, why = _judge(value, accept)
        if why is None:
            return taken
        search.misfits.append(why)
    return Malformed("json", RefusalReason.MALFORMED, search.summary(), text)


def _judge(value: object, accept: Callable[[object], bool] | type[BaseModel]) -> tuple[object, str | None]:
    """Return what is handed on, and why the value does not fit if it does not."""
    if fault := find_fault(value):
        return None, str(fault)
    if isinstance(accept, type) and issubclass(accept, BaseModel):
        try:
            return accept.model_validate(value), None
        except ValidationError as error:
            return None, explain(error)
    fits = cast("Callable[[object], bool]", accept)
    return (value, None) if fits(value) else (None, "it is not what was asked for")


class _Search:
    """One walk over a text's candidates."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._budget = _BASE_BUDGET + 8 * len(text)
        self._ending = ""
        self.misfits: list[str] = []

    def candidates(self) -> Iterator[object]:
        """Yield the whole text's value if it is one, else every complete object or list that stands in it."""
        start = skip_blanks(self._text, 1 if self._text.startswith("\ufeff") else 0)
        whole = self._decode(start)
        if whole is not None and skip_blanks(self._text, whole[1]) == len(self._text):
            yield whole[0]
            return
        self._ending = ""
        place = _BRACKET.search(self._text, start)
        while place is not None and not self._ending:
            decoded = self._decode(place.start())
            if decoded is not None:
                yield decoded[0]
            place = _BRACKET.search(self._text, decoded[1] if decoded else place.end())

    def _decode(self, at: int) -> tuple[object, int] | None:
        try:
            return decode_at(self._text, at)
        except NotJsonError as error:
            deep = error.fault.reason is RefusalReason.TOO_DEEP
            self._budget -= 64 + (error.at - at) + error.at // 64 + (_DEEP_COST if deep else 0)
            if error.cut_off:
                self._ending = f"the value that begins at character {at} is cut off by the end of the text"
            elif self._budget < 0:
                self._ending = "too many brackets lead nowhere; the search was given up"
            return None

    def summary(self) -> str:
        """Say why nothing was found."""
        if not self._text.strip():
            return "the text is empty"
        parts = [self._ending] if self._ending else []
        if self.misfits:
            parts.insert(
                0, f"{len(self.misfits)} JSON value(s) found, none fits; the first: {self.misfits[0]}"
            )
        return "; ".join(parts) or "the text holds no complete JSON object"
