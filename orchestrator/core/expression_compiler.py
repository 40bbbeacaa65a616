"""From a checked line to closures: Python's ``ast`` against an allow-list of node types."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NoReturn

from orchestrator.core.expression_operators import (
    ABSENT,
    ARITHMETIC,
    COMPARE,
    Eval,
    Scope,
    ask,
    computed,
    look_up,
    number,
    present,
    truth,
)
from orchestrator.core.expression_values import TABLE, ExpressionError, Meter, bounded, nearest

__all__ = ["FUNCTIONS", "LITERALS", "Comparison", "Compiler", "Eval", "Path"]

#: Names of the table's functions. A node may not take one of them.
FUNCTIONS: Final = frozenset(TABLE) | {"exists", "default"}
#: Words that are values.
LITERALS: Final[Mapping[str, object]] = {"true": True, "false": False, "null": None}
_NODE_LIMIT: Final = 200


@dataclass(frozen=True, slots=True)
class Path:
    """One look-up that an expression makes.

    Attributes:
        steps: the root name, then keys (str) and positions (int) as far as they are constant.
        column: column of the root in the expression, counted from 1.
        open: a computed index follows the last step.
        asked: the look-up stands in ``exists`` or ``default``.
    """

    steps: tuple[str | int, ...]
    column: int
    open: bool = False
    asked: bool = False

    @property
    def root(self) -> str:
        """The name that the look-up starts from."""
        return str(self.steps[0])


@dataclass(frozen=True, slots=True)
class Comparison:
    """A look-up that an expression compares with values that stand in it.

    Attributes:
        path: the look-up. sign: as it is written, the path on the left. values: one, or those of a list.
    """

    path: Path
    sign: str
    values: tuple[object, ...]


_SIGNS: Final[Mapping[type, tuple[str, str]]] = {
    ast.Eq: ("==", "=="),
    ast.NotEq: ("!=", "!="),
    ast.Lt: ("<", ">"),
    ast.LtE: ("<=", ">="),
    ast.Gt: (">", "<"),
    ast.GtE: (">=", "<="),
    ast.In: ("in", ""),
    ast.NotIn: ("in", ""),
}
_WORDS = {"bool": "true or false", "number": "numbers", "str": "texts", "list": "a list", "null": "null"}
_KINDS: Final[Mapping[type, str]] = {
    bool: "bool",
    int: "number",
    float: "number",
    str: "str",
    type(None): "null",
}


class Compiler:
    """Turns one parsed expression into closures, node by node, over an allow-list of node types."""

    def __init__(self, text: str) -> None:
        """Prepare to compile; ``text`` is what messages show."""
        self.text = text
        self.paths: list[Path] = []
        self.comparisons: list[Comparison] = []
        self.count = 0

    def compile(self, line: str) -> tuple[Eval, tuple[Path, ...], str | None]:
        """The closure, the look-ups it makes and the type that its form tells."""
        try:
            body = ast.parse(line, mode="eval").body
        except SyntaxError as error:
            raise ExpressionError(
                "this is not one complete expression", text=self.text, column=max(error.offset or 1, 1)
            ) from None
        except (ValueError, MemoryError, RecursionError):
            raise ExpressionError("this cannot be read as an expression", text=self.text) from None
        evaluate, kind = self._visit(body)
        return evaluate, tuple(sorted(self.paths, key=lambda path: path.column)), kind

    def _column(self, node: ast.expr) -> int:
        return len(self.text.encode()[: node.col_offset].decode(errors="ignore")) + 1

    def _refuse(self, node: ast.expr, message: str) -> NoReturn:
        raise ExpressionError(message, text=self.text, column=self._column(node))

    def _visit(self, node: ast.expr) -> tuple[Eval, str | None]:
        self.count += 1
        if self.count > _NODE_LIMIT:
            self._refuse(node, f"the expression has more than {_NODE_LIMIT} parts")
        rule = self._RULES.get(type(node))
        if rule is None:
            advice = "; write a list [a, b]" if isinstance(node, ast.Tuple) else ""
            self._refuse(node, f"{type(node).__name__} is not part of the language{advice}")
        return rule(self, node)

    # -- values ---------------------------------------------------------------------------------

    def _constant(self, node: ast.Constant) -> tuple[Eval, str | None]:
        value = node.value
        if type(value) not in (str, int, float, bool, type(None)):
            self._refuse(node, f"{type(value).__name__} constants are not part of the language")
        try:
            bounded(value)
        except ExpressionError as error:
            self._refuse(node, error.message)
        return (lambda scope, meter: value), _KINDS[type(value)]

    def _items(self, node: ast.List) -> tuple[Eval, str | None]:
        items = [self._visit(item)[0] for item in node.elts]
        return (lambda scope, meter: [item(scope, meter) for item in items]), "list"

    def _path(self, node: ast.expr, *, asked: bool = False) -> tuple[Eval, str | None]:
        """A name with keys and positions after it."""
        if isinstance(node, ast.Name) and node.id in LITERALS and not asked:
            value = LITERALS[node.id]
            return (lambda scope, meter: value), _KINDS[type(value)]
        root, links = self._unwind(node)
        constant: list[str | int] = [root.id]
        steps: list[str | int | Eval] = []
        for link in links:
            step = self._step(link)
            steps.append(step)
            if len(constant) == len(steps) and not callable(step):
                constant.append(step)
        is_open = len(constant) <= len(steps)
        self.paths.append(Path(tuple(constant), self._column(root), is_open, asked))
        return look_up(root.id, tuple(steps), self._column(root)), None

    def _unwind(self, node: ast.expr) -> tuple[ast.Name, list[ast.Attribute | ast.Subscript]]:
        links: list[ast.Attribute | ast.Subscript] = []
        inner = node
        while isinstance(inner, ast.Attribute | ast.Subscript):
            links.append(inner)
            inner = inner.value
        if not isinstance(inner, ast.Name):
            self._refuse(node, "only a name can be followed by .key or [...]")
        if inner.id in LITERALS:
            self._refuse(node, f"{inner.id} is a value and has no parts")
        self.count += len(links)
        if inner.id in FUNCTIONS:
            self._refuse(inner, f"{inner.id} is a function; write {inner.id}(...)")
        self._plain(inner, inner.id)
        return inner, links[::-1]

    def _step(self, link: ast.Attribute | ast.Subscript) -> str | int | Eval:
        if isinstance(link, ast.Attribute):
            self._plain(link, link.attr)
            return link.attr
        index = link.slice
        if isinstance(index, ast.Constant) and type(index.value) in (str, int):
            self.count += 1
            return index.value  # type: ignore[return-value]
        if isinstance(index, ast.UnaryOp) and isinstance(index.operand, ast.Constant):
            value = index.operand.value
            if isinstance(index.op, ast.USub) and type(value) is int:
                return -value
        inner = self._visit(index)[0]
        return lambda scope, meter: present(inner, scope, meter)

    def _plain(self, node: ast.expr, name: str) -> None:
        if name.startswith("__"):
            self._refuse(node, f"{name!r} is not looked up by name; a key of data is written ['{name}']")

    # -- operators ------------------------------------------------------------------------------

    def _choice(self, node: ast.IfExp) -> tuple[Eval, str | None]:
        test = self._bool_part(node.test, "if")
        yes, kind = self._visit(node.body)
        no, other = self._visit(node.orelse)

        def evaluate(scope: Scope, meter: Meter) -> object:
            return yes(scope, meter) if truth(test(scope, meter), "if") else no(scope, meter)

        return evaluate, kind if kind == other else None

    def _logic(self, node: ast.BoolOp) -> tuple[Eval, str | None]:
        word, stop = ("and", False) if isinstance(node.op, ast.And) else ("or", True)
        parts = [self._bool_part(value, word) for value in node.values]

        def evaluate(scope: Scope, meter: Meter) -> object:
            for part in parts:
                if truth(part(scope, meter), word) is stop:
                    return stop
            return not stop

        return evaluate, "bool"

    def _unary(self, node: ast.UnaryOp) -> tuple[Eval, str | None]:
        if isinstance(node.op, ast.Not):
            test = self._bool_part(node.operand, "not")
            return (lambda scope, meter: not truth(test(scope, meter), "not")), "bool"
        inner, kind = self._visit(node.operand)
        if isinstance(node.op, ast.USub):
            self._fits(node, kind, "number", "-")
            return (lambda scope, meter: bounded(-number(inner(scope, meter), "-"))), "number"
        return self._refuse(node, "a sign + before a value has no meaning here; leave it out")

    def _arithmetic(self, node: ast.BinOp) -> tuple[Eval, str | None]:
        left, kind = self._visit(node.left)
        right, other = self._visit(node.right)
        found = ARITHMETIC.get(type(node.op))
        if found is None:
            self._refuse(node, "only + - * / // % compute here")
        sign, apply = found
        joins = sign == "+" and "str" in (kind, other)
        for one_kind in (kind, other):
            self._fits(node, one_kind, "str" if joins else "number", sign)

        def evaluate(scope: Scope, meter: Meter) -> object:
            one, two = left(scope, meter), right(scope, meter)
            if sign == "+" and type(one) is str and type(two) is str:
                return bounded(one + two)
            return computed(apply, sign, number(one, sign), number(two, sign))

        counts = sign != "+" or "number" in (kind, other)
        return evaluate, "str" if joins else "number" if counts else None

    def _bool_part(self, node: ast.expr, word: str) -> Eval:
        evaluate, kind = self._visit(node)
        self._fits(node, kind, "bool", word)
        return evaluate

    def _fits(self, node: ast.expr, kind: str | None, wanted: str, word: str) -> None:
        """Refuse now what could only fail later."""
        if kind not in (None, wanted):
            self._refuse(node, f"{word!r} takes {_WORDS[wanted]} here, not {_WORDS.get(str(kind), kind)}")

    def _compare(self, node: ast.Compare) -> tuple[Eval, str | None]:
        first, path = self._operand(node.left)
        before: ast.expr = node.left
        rest = []
        for op, operand in zip(node.ops, node.comparators, strict=True):
            test = COMPARE.get(type(op))
            if test is None:
                self._refuse(node, "compare with == != < <= > >= in, not with is")
            second, other = self._operand(operand)
            rest.append((test, second))
            sign, turned = _SIGNS[type(op)]
            self._compared(path, sign, operand)
            self._compared(other, turned, before)
            before, path = operand, other
        if len(rest) == 1:
            [(only, second)] = rest
            return (lambda scope, meter: only(first(scope, meter), second(scope, meter), meter)), "bool"

        def evaluate(scope: Scope, meter: Meter) -> object:
            left = first(scope, meter)
            for test, operand in rest:
                right = operand(scope, meter)
                if not test(left, right, meter):
                    return False
                left = right
            return True

        return evaluate, "bool"

    def _operand(self, node: ast.expr) -> tuple[Eval, Path | None]:
        """The closure, and the look-up that the operand is, if it is nothing else."""
        known = len(self.paths)
        evaluate = self._visit(node)[0]
        alone = len(self.paths) == known + 1 and isinstance(node, ast.Name | ast.Attribute | ast.Subscript)
        return evaluate, self.paths[known] if alone and not self.paths[known].open else None

    def _compared(self, path: Path | None, sign: str, node: ast.expr) -> None:
        values = node.elts if isinstance(node, ast.List) and sign == "in" else [node]
        if path is not None and sign and all(isinstance(value, ast.Constant) for value in values):
            found = tuple(value.value for value in values if isinstance(value, ast.Constant))
            if sign != "in" or isinstance(node, ast.List):
                self.comparisons.append(Comparison(path, sign, found))

    def _call(self, node: ast.Call) -> tuple[Eval, str | None]:
        if not isinstance(node.func, ast.Name):
            self._refuse(node, f"only functions of the table can be called{nearest('', sorted(FUNCTIONS))}")
        name = node.func.id
        if name not in FUNCTIONS:
            self._refuse(node, f"there is no function {name!r}{nearest(name, sorted(FUNCTIONS))}")
        if node.keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
            self._refuse(node, f"{name} takes plain arguments only")
        if name in ("exists", "default"):
            return self._asking(name, node)
        apply, fewest, most, kind = TABLE[name]
        self._arity(node, name, fewest, most)
        arguments = [self._visit(arg)[0] for arg in node.args]
        if len(arguments) == 1:
            [only] = arguments
            return (lambda scope, meter: apply(meter, only(scope, meter))), kind
        return (lambda scope, meter: apply(meter, *[one(scope, meter) for one in arguments])), kind

    def _arity(self, node: ast.Call, name: str, fewest: int, most: int) -> None:
        if not fewest <= len(node.args) <= most:
            wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
            self._refuse(node, f"{name} takes {wanted} argument{'' if wanted == '1' else 's'}")

    def _asking(self, name: str, node: ast.Call) -> tuple[Eval, str | None]:
        """``exists(path)`` and ``default(path, value)``: absence of the path, and no other error."""
        count = 1 if name == "exists" else 2
        self._arity(node, name, count, count)
        if not isinstance(node.args[0], ast.Name | ast.Attribute | ast.Subscript):
            self._refuse(node, f"{name} asks about a path such as scan.summary")
        self.count += 1
        path, _ = self._path(node.args[0], asked=True)
        if name == "exists":
            return (lambda scope, meter: ask(path, scope, meter) is not ABSENT), "bool"
        other, _ = self._visit(node.args[1])

        def evaluate(scope: Scope, meter: Meter) -> object:
            value = ask(path, scope, meter)
            return other(scope, meter) if value is ABSENT else value

        return evaluate, None

    # -- the allow-list ------------------------------------------------------------------------

    _RULES: ClassVar[Mapping[type, Callable[[Any, Any], tuple[Eval, str | None]]]] = {
        ast.Constant: _constant,
        ast.List: _items,
        ast.Name: _path,
        ast.Attribute: _path,
        ast.Subscript: _path,
        ast.IfExp: _choice,
        ast.BoolOp: _logic,
        ast.UnaryOp: _unary,
        ast.BinOp: _arithmetic,
        ast.Compare: _compare,
        ast.Call: _call,
    }
