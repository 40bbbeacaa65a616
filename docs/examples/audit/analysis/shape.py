"""Checks for size, complexity, documentation and statements that do nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from .model import Check, Hit
from .module import Function, Module, Scope, blocks, own_body

LONG_FUNCTION, HUGE_FUNCTION = 80, 200
LONG_FILE, HUGE_FILE = 1_000, 3_000
COMPLEX, VERY_COMPLEX = 15, 30
MANY_PARAMETERS = 8
DEEP = 5

_BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.comprehension,
    ast.Assert,
    ast.match_case,
)
_NESTING = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_UNDOCUMENTED = frozenset(
    {"overload", "override", "setter", "deleter", "getter", "singledispatch", "register"}
)


def long_function(module: Module) -> Iterator[Hit]:
    """A function of more lines than a reader can hold."""
    for function in module.functions():
        lines = _length(function)
        if lines > LONG_FUNCTION:
            yield Hit(
                function,
                f"`{function.name}` is {lines} lines long",
                "medium" if lines > HUGE_FUNCTION else None,
            )


def long_file(module: Module) -> Iterator[Hit]:
    """A module of more lines than anyone reads."""
    lines = len(module.lines)
    if lines > LONG_FILE:
        yield Hit(1, f"the module is {lines:,} lines long", "medium" if lines > HUGE_FILE else None)


def complex_function(module: Module) -> Iterator[Hit]:
    """A function with many independent paths (McCabe 1976: decisions plus one)."""
    for function in module.functions():
        paths = complexity(function)
        if paths > COMPLEX:
            yield Hit(
                function,
                f"`{function.name}` has a cyclomatic complexity of {paths}",
                "medium" if paths > VERY_COMPLEX else None,
            )


def many_parameters(module: Module) -> Iterator[Hit]:
    """A function with many positional parameters."""
    for function in module.functions():
        names = [
            a.arg for a in [*function.args.posonlyargs, *function.args.args] if a.arg not in {"self", "cls"}
        ]
        if len(names) > MANY_PARAMETERS:
            yield Hit(function, f"`{function.name}` takes {len(names)} positional parameters")


def deep_nesting(module: Module) -> Iterator[Hit]:
    """A function whose statements are nested deeply."""
    for function in module.functions():
        depth = _depth(function)
        if depth > DEEP:
            yield Hit(function, f"`{function.name}` nests its statements {depth} deep")


def missing_docstring(module: Module) -> Iterator[Hit]:
    """A public module, class or function that says nothing about itself."""
    if module.path.rpartition("/")[2].startswith("_") and not module.is_init:
        return
    if module.tree.body and ast.get_docstring(module.tree, clean=False) is None:
        yield Hit(1, "the module has no docstring")
    for node in [*module.all(ast.ClassDef), *module.functions()]:
        if _is_public(module, node) and ast.get_docstring(node, clean=False) is None:
            kind = "class" if isinstance(node, ast.ClassDef) else "function"
            yield Hit(node, f"the public {kind} `{node.name}` has no docstring")


def unreachable(module: Module) -> Iterator[Hit]:
    """A statement after one that always leaves its block."""
    for kind, nodes in module.nodes.items():
        if not issubclass(kind, ast.stmt | ast.mod | ast.ExceptHandler | ast.match_case):
            continue
        for node in nodes:
            for block in blocks(node):
                yield from _after_end(block)


def useless_comparison(module: Module) -> Iterator[Hit]:
    """A comparison whose answer nobody reads."""
    for node in module.all(ast.Expr):
        guarded = any(isinstance(a, ast.With | ast.AsyncWith | ast.Try) for a in module.up(node))
        if isinstance(node.value, ast.Compare) and not guarded:
            yield Hit(node, "the answer of this comparison is thrown away; was `=` or `assert` meant?")


def complexity(function: Function) -> int:
    """McCabe's number: decisions plus one, the functions nested inside not counted."""
    total = 1
    for node in own_body(function):
        if isinstance(node, _BRANCHES):
            total += 1
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
    return total


def _after_end(block: list[ast.stmt]) -> Iterator[Hit]:
    for end, following in pairwise(block):
        if isinstance(end, _ENDS):
            makes_generator = any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(following))
            if not makes_generator:
                yield Hit(
                    following, f"nothing reaches this: the `{type(end).__name__.lower()}` before it leaves"
                )
            return


def _length(function: Function) -> int:
    """Lines from `def` to the end, the docstring not counted."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        first = function.body[0]
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def _depth(function: Function) -> int:
    deepest = 0
    stack: list[tuple[ast.stmt, int]] = [(s, 0) for s in function.body]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, _NESTING):
            chained = (
                isinstance(node, ast.If) and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If)
            )
            depth += 1
            deepest = max(deepest, depth)
            for block in blocks(node):
                same = chained and isinstance(node, ast.If) and block is node.orelse
                stack.extend((s, depth - 1 if same else depth) for s in block)
            for handler in getattr(node, "handlers", []):
                stack.extend((s, depth) for s in handler.body)
            for case in getattr(node, "cases", []):
                stack.extend((s, depth) for s in case.body)
    return deepest


def _is_public(module: Module, node: Function | ast.ClassDef) -> bool:
    if node.name.startswith("_"):
        return False
    marks = {
        getattr(d.func if isinstance(d, ast.Call) else d, "attr", None) or getattr(d, "id", None)
        for d in node.decorator_list
    }
    if marks & _UNDOCUMENTED:
        return False
    above = [a for a in module.up(node) if isinstance(a, Scope | ast.ClassDef)]
    return not any(isinstance(a, Scope) or a.name.startswith("_") for a in above)


CHECKS: tuple[Check, ...] = (
    Check(
        "long-function",
        "low",
        0.9,
        "What does not fit a screen is changed without being understood.",
        long_function,
        ("PLR0915",),
        "skip",
    ),
    Check("long-file", "low", 0.9, "It holds more than one subject.", long_file, (), "skip"),
    Check(
        "complex-function",
        "low",
        0.9,
        "Each path wants a test, and few get one.",
        complex_function,
        ("C901", "PLR0912"),
        "skip",
    ),
    Check(
        "many-parameters",
        "low",
        0.8,
        "Callers mix them up; group them, or make them keyword-only.",
        many_parameters,
        ("PLR0913", "PLR0917"),
        "skip",
    ),
    Check(
        "deep-nesting",
        "low",
        0.8,
        "Return early, or give the inner part a name.",
        deep_nesting,
        ("PLR1702",),
        "skip",
    ),
    Check(
        "missing-docstring",
        "info",
        0.9,
        "A public name is a promise; say which.",
        missing_docstring,
        ("D100", "D101", "D102", "D103", "D104"),
        "skip",
    ),
    Check("unreachable", "medium", 0.95, "Dead code is read, kept and believed.", unreachable, ("W0101",)),
    Check(
        "useless-comparison",
        "medium",
        0.85,
        "It looks like a check and is none.",
        useless_comparison,
        ("B015",),
        "skip",
    ),
)
