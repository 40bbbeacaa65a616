"""Keys stay where they are: what looks like the value of one is taken out of whatever comes from outside.

A secret is the value of an environment variable whose name says so. It is looked up at the call by whoever
needs it (a provider's client, a program by `env`, a server by `env` or `bearer`) and has no business anywhere
else: errors, a program's output and a tool's results lose it before anybody keeps or shows them, also where
it stands there in base64, hexadecimal, percent-encoding or as the inside of a JSON text.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, quote_plus

__all__ = ["redacted", "redacted_data"]

_NAMES: Final = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_|\d|$)", re.IGNORECASE)
#: A shorter value would take ordinary words out of every text.
_SHORTEST: Final = 8
_MASK: Final = "[secret]"
_PERCENT: Final = re.compile(r"%[0-9A-F]{2}")
#: Bytes of a base64 group, and bits of one of its characters.
_GROUP, _BITS = 3, 6


def redacted(text: str) -> str:
    """`text` without the value of any environment variable whose name says that it is a secret."""
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _NAMES.search(name):
            for form in _forms(value):
                if form in text:
                    text = text.replace(form, _MASK)
    return text


def redacted_data(value: Any) -> Any:
    """JSON data without secrets in any of its texts, keys included."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, list):
        return [redacted_data(one) for one in value]
    if isinstance(value, dict):
        return {redacted(key): redacted_data(one) for key, one in value.items()}
    return value


@lru_cache(maxsize=256)
def _forms(value: str) -> tuple[str, ...]:
    """A secret as it may stand in a text, the longest form first."""
    raw = value.encode(errors="surrogateescape")
    found = {
        value,
        *_percented(raw),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        raw.hex(),
        raw.hex().upper(),
        *_base64(raw),
    }
    return tuple(sorted(found, key=len, reverse=True))


def _percented(raw: bytes) -> Iterator[str]:
    for text in (quote(raw), quote(raw, safe=""), quote_plus(raw)):
        yield text
        yield _PERCENT.sub(lambda match: match[0].lower(), text)


def _base64(raw: bytes) -> Iterator[str]:
    """What of a base64 text only a secret can have made, wherever in the encoded bytes it begins."""
    for before in range(_GROUP):
        end = (before + len(raw)) * 8 // _BITS
        begin = -(-before * 8 // _BITS)
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(b"\0" * before + raw)[begin:end].decode()
