"""Keys stay where they are: what looks like the value of one is taken out of errors and output."""

from __future__ import annotations

import os
import re
from typing import Final

__all__ = ["redacted"]

_NAMES: Final = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_|$)", re.IGNORECASE)
#: A shorter value would take ordinary words out of every text.
_SHORTEST: Final = 8
_MASK: Final = "[secret]"


def redacted(text: str) -> str:
    """`text` without the value of any environment variable whose name says that it is a secret."""
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and _NAMES.search(name):
            text = text.replace(value, _MASK)
    return text
