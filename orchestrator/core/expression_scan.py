"""The look at an expression's characters that comes before Python's own parser sees it.

The parser is given nothing but a short text over a small alphabet: caps on length, bracket depth
and words hold before parsing, and what the language lacks is refused with advice.
"""

from __future__ import annotations

import keyword
import re
from typing import Final

from orchestrator.core.expression_values import ExpressionError

__all__ = ["DEPTH_LIMIT", "LENGTH_LIMIT", "prepare"]

LENGTH_LIMIT: Final = 1_000
DEPTH_LIMIT: Final = 20
_WORD_LIMIT: Final = 500

_TOKEN = re.compile(
    r"""
     (?P<space>[ \t\r\n]+)
    |(?P<text>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    |(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    |(?P<name>[^\W\d]\w*)
    |(?P<sign>==|!=|<=|>=|//|[<>+\-*/%.,()\[\]])
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"""\\(?:[\\'"ntr]|u[0-9a-fA-F]{4})""")
_WORDS = frozenset({"and", "or", "not", "in", "if", "else", "True", "False", "None"})

_ADVICE = {
    "=": "compare with ==",
    "&": "write and",
    "|": "write or",
    "!": "write not, or != to compare",
    "~": "write not",
    "#": "comments are not allowed",
    "{": "mappings and ${...} are not allowed inside an expression; write the name alone",
    "}": "mappings and ${...} are not allowed inside an expression; write the name alone",
    "$": "write the name alone, without ${...}",
    ":": "slices, := and lambda are not allowed",
    "'": "the text is not closed",
    '"': "the text is not closed",
    "\\": "a backslash stands inside a text only",
    ";": "one expression only",
    "?": "write A if CONDITION else B",
}
_WORD_ADVICE = {
    "is": "compare with ==",
    "for": "there are no comprehensions; use pluck, any, all, count",
    "lambda": "there are no functions to define; use pluck, any, all, count",
    "await": "an expression waits for nothing",
}


def prepare(text: str) -> str:
    """Check ``text`` word by word and give the line that may be parsed; positions stay the same.

    Raises:
        ExpressionError: a cap is exceeded or a word is not of the language.
    """
    if len(text) > LENGTH_LIMIT:
        message = f"the expression has {len(text):,} characters; at most {LENGTH_LIMIT:,} are read"
        raise ExpressionError(message, text=text)
    if not text.strip():
        raise ExpressionError("the expression is empty; write a condition or leave the key out")
    parts: list[str] = []
    position, depth, words, before = 0, 0, 0, ""
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _refused(text, position)
        kind, word = str(match.lastgroup), match.group()
        if kind == "space":
            parts.append(" " * len(word))
            before += " "
        else:
            _check_word(text, position, kind, word, before)
            depth += (word in "([") - (word in ")]")
            words += 1
            if depth > DEPTH_LIMIT or words > _WORD_LIMIT:
                message = f"too deep or too long: at most {DEPTH_LIMIT} brackets and {_WORD_LIMIT} words"
                raise ExpressionError(message, text=text, column=position + 1)
            parts.append(word)
            before = word
        position = match.end()
    return "".join(parts)


def _refused(text: str, position: int) -> ExpressionError:
    char = text[position]
    advice = _ADVICE.get(char, "")
    message = f"{char!r} has no meaning here{'; ' if advice else ''}{advice}"
    return ExpressionError(message, text=text, column=position + 1)


def _check_word(text: str, position: int, kind: str, word: str, before: str) -> None:
    # ``before`` is the word before with the space after it.
    fault = ""
    if kind == "name":
        if keyword.iskeyword(word) and word not in _WORDS:
            fault = f"{word!r} has no meaning here; {_WORD_ADVICE.get(word, 'write a comparison')}"
        elif before[:1].isdigit() and not before.endswith(" "):
            fault = "numbers are decimal digits, with an optional fraction and exponent"
    elif kind == "text":
        if before.rstrip()[-1:] in ("'", '"'):
            fault = "two texts side by side; write + between them"
        elif before[-1:].isalnum() or before.endswith("_"):
            fault = "texts have no prefix; write the quotes alone"
        elif _ESCAPE.sub("", word).count("\\"):
            fault = r"""a text knows \\ \' \" \n \t \r \uXXXX; double any other backslash"""
    elif kind == "sign" and word in ")]" and before.startswith(","):
        fault = "a trailing comma is not allowed"
    if fault:
        raise ExpressionError(fault, text=text, column=position + 1)
