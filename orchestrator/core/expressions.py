"""The one expression language: ``when`` of nodes and edges, and every ``${...}``.

An expression is a small part of Python's grammar, read with ``ast`` against an allow-list and
turned into closures over JSON data::

    expression  A if C else B | A or B | A and B | not A | A == B | A < B < C | A in B | A + B | -A
    values      names, paths (``scan.files[0].name``, ``nodes['a.b-1']``), texts, numbers, lists,
                True/true, False/false, None/null, and calls of the functions in ``FUNCTIONS``

Rules that differ from Python, all on the strict side: a path looks keys up and never reads an
attribute; ``and``, ``or``, ``not`` and ``if`` take bools only; values of unlike types are unequal
(``true != 1``) and cannot be ordered; arithmetic takes numbers, within 64 bits (``+`` joins two
short texts as well); a missing value is an error unless ``exists(path)`` or
``default(path, value)`` asks. There is no power, no repetition, no slice, no comprehension, and no
call but those of the table. Evaluation is bounded by steps, whatever the data.
"""

from __future__ import annotations

from functools import lru_cache

from orchestrator.core.expression_compiler import FUNCTIONS, LITERALS, Comparison, Compiler, Path
from orchestrator.core.expression_operators import Eval, Scope
from orchestrator.core.expression_scan import prepare
from orchestrator.core.expression_values import (
    STEP_LIMIT,
    ExpressionError,
    MissingValueError,
    NodeView,
    type_name,
)
from orchestrator.errors import ConditionError

__all__ = [
    "FUNCTIONS",
    "LITERALS",
    "Comparison",
    "Expression",
    "ExpressionError",
    "MissingValueError",
    "NodeView",
    "Path",
    "compile_expression",
]


class Expression:
    """A compiled expression.

    Attributes:
        text: the expression as it was written, without space around it.
        names: root names that it reads.
        paths: every look-up, in order of appearance.
        comparisons: look-ups that it compares with constants.
        kind: ``bool``, ``number``, ``str``, ``list`` or ``null`` if the form tells, else None.
    """

    __slots__ = ("_evaluate", "comparisons", "kind", "names", "paths", "text")

    def __init__(
        self,
        text: str,
        paths: tuple[Path, ...],
        comparisons: tuple[Comparison, ...],
        kind: str | None,
        evaluate: Eval,
    ) -> None:
        """Made by ``compile_expression`` only."""
        self.comparisons = comparisons
        self.text, self.paths, self.kind, self._evaluate = text, paths, kind, evaluate
        self.names = frozenset(path.root for path in paths)

    def __repr__(self) -> str:
        """The text, for messages."""
        return f"<Expression {self.text!r}>"

    def evaluate(self, scope: Scope) -> object:
        """The value on ``scope``: root names -> JSON data, ``NodeView`` or mappings of them.

        Raises:
            ExpressionError: a type does not fit or a bound is exceeded.
            MissingValueError: a name, key or position does not exist.
        """
        try:
            return self._evaluate(scope, [STEP_LIMIT])
        except ExpressionError as error:
            error_type = type(error)
            raise error_type(error.message, text=self.text, column=error.column) from None
        except RecursionError:
            raise ExpressionError("the data is nested too deep", text=self.text) from None

    def evaluate_bool(self, scope: Scope) -> bool:
        """The truth of a condition.

        Raises:
            ConditionError: it cannot be evaluated, or gives something that is not a bool.
        """
        try:
            value = self.evaluate(scope)
        except ExpressionError as error:
            raise ConditionError(f"the condition cannot be judged: {error}") from error
        if value is True or value is False:
            return value
        message = f"the condition `{self.text}` gave {type_name(value)}, not true or false; compare it"
        raise ConditionError(message)


@lru_cache(maxsize=4096)
def compile_expression(text: str) -> Expression:
    """Compile ``text``; equal texts give one object.

    Raises:
        ExpressionError: with the column and what to write instead.
    """
    shown = text.strip()
    compiler = Compiler(shown)
    evaluate, paths, kind = compiler.compile(prepare(shown))
    return Expression(shown, paths, tuple(compiler.comparisons), kind, evaluate)
