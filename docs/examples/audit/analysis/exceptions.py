"""Checks for errors that are lost, and for checks that vanish."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .model import Check, Hit
from .module import Function, Module, Scope, parameters

_BROAD = ("Exception", "BaseException")
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def bare_except(module: Module) -> Iterator[Hit]:
    """`except:` that does not raise again."""
    for handler in module.all(ast.ExceptHandler):
        if handler.type is None and not _raises(handler):
            mute = "" if _reacts(handler) else ", and this one says nothing"
            yield Hit(
                handler,
                f"`except:` catches Ctrl-C and exit as well{mute}; name what you expect, or raise again",
            )


def swallowed(module: Module) -> Iterator[Hit]:
    """A broad handler that neither raises, calls anything nor looks at the exception."""
    for handler in module.all(ast.ExceptHandler):
        caught = _broad(handler)
        if caught and not _reacts(handler):
            silent = all(isinstance(s, ast.Pass | ast.Continue | ast.Expr) for s in handler.body)
            yield Hit(handler, f"`{caught}` swallows every error without a trace", None if silent else "low")


def lost_cause(module: Module) -> Iterator[Hit]:
    """A new exception raised in a handler without `from`."""
    for handler in module.all(ast.ExceptHandler):
        for node in own_body_of(handler):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.cause is None:
                yield Hit(
                    node, "a new exception is raised in a handler without `from`, so its cause is unclear"
                )


def jump_in_finally(module: Module) -> Iterator[Hit]:
    """`return`, `break` or `continue` in a `finally` block."""
    for attempt in module.all(ast.Try):
        for statement in attempt.finalbody:
            for jump in _jumps(statement):
                word = type(jump).__name__.lower()
                yield Hit(jump, f"`{word}` in `finally` discards the exception that is on its way")


def assert_validation(module: Module) -> Iterator[Hit]:
    """An assert that judges an argument of a public function."""
    for function in module.functions():
        if function.name.startswith("_") or _is_nested(module, function):
            continue
        names = {a.arg for a in parameters(function)} - {"self", "cls"}
        for node in function.body:
            if isinstance(node, ast.Assert) and (used := _names(node.test) & names):
                listed = ", ".join(f"`{n}`" for n in sorted(used))
                yield Hit(node, f"`{function.name}` validates {listed} by assert, which `python -O` removes")


def assert_tuple(module: Module) -> Iterator[Hit]:
    """`assert (condition, "message")`: a tuple is always true."""
    for node in module.all(ast.Assert):
        if isinstance(node.test, ast.Tuple) and node.test.elts:
            yield Hit(node, "this assert tests a tuple, which is always true; remove the parentheses")


def raise_notimplemented(module: Module) -> Iterator[Hit]:
    """`raise NotImplemented`, which is a value and no exception."""
    for node in module.all(ast.Raise):
        target = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if isinstance(target, ast.Name) and target.id == "NotImplemented":
            yield Hit(node, "`NotImplemented` is no exception; raise `NotImplementedError`")


def own_body_of(handler: ast.ExceptHandler) -> Iterator[ast.AST]:
    """The nodes of a handler that run as part of it, nested handlers and functions left out."""
    stack: list[ast.AST] = list(handler.body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, Scope | ast.ClassDef | ast.ExceptHandler):
            stack.extend(ast.iter_child_nodes(node))


def _broad(handler: ast.ExceptHandler) -> str:
    if handler.type is None:
        return ""  # `bare-except` speaks about those
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    found = next((k.id for k in kinds if isinstance(k, ast.Name) and k.id in _BROAD), "")
    return f"except {found}" if found else ""


def _raises(handler: ast.ExceptHandler) -> bool:
    return any(isinstance(n, ast.Raise) for s in handler.body for n in ast.walk(s))


def _reacts(handler: ast.ExceptHandler) -> bool:
    for statement in handler.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Raise | ast.Call | ast.Assert | ast.Yield | ast.YieldFrom | ast.Await):
                return True
            if handler.name and isinstance(node, ast.Name) and node.id == handler.name:
                return True
    return False


def _jumps(statement: ast.stmt) -> Iterator[ast.AST]:
    """The jumps out of a statement; `break` and `continue` of a loop inside it stay inside."""
    stack: list[tuple[ast.AST, bool]] = [(statement, False)]
    while stack:
        node, in_loop = stack.pop()
        if isinstance(node, ast.Return) or (isinstance(node, ast.Break | ast.Continue) and not in_loop):
            yield node
        elif not isinstance(node, Scope | ast.ClassDef | ast.expr):
            inside = in_loop or isinstance(node, _LOOPS)
            stack.extend((child, inside) for child in ast.iter_child_nodes(node))


def _is_nested(module: Module, function: Function) -> bool:
    above = [a for a in module.up(function) if isinstance(a, Scope | ast.ClassDef)]
    return any(isinstance(a, Scope) or a.name.startswith("_") for a in above)


def _names(expr: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(expr) if isinstance(n, ast.Name)}


CHECKS: tuple[Check, ...] = (
    Check(
        "bare-except",
        "medium",
        0.9,
        "Nobody meant to catch Ctrl-C, exit and typing errors.",
        bare_except,
        ("E722",),
        "soften",
    ),
    Check(
        "swallowed-exception",
        "medium",
        0.8,
        "The next failure will be far from its cause.",
        swallowed,
        ("BLE001", "S110", "S112"),
        "soften",
    ),
    Check(
        "lost-cause",
        "low",
        0.7,
        "`from error` or `from None` says what the reader should see.",
        lost_cause,
        ("B904",),
        "skip",
    ),
    Check(
        "jump-in-finally",
        "medium",
        0.9,
        "The exception on its way disappears.",
        jump_in_finally,
        ("B012", "PLE0116"),
    ),
    Check(
        "assert-validation",
        "low",
        0.6,
        "Optimised runs skip asserts; raise an exception instead.",
        assert_validation,
        ("S101",),
        "skip",
    ),
    Check("assert-tuple", "high", 0.95, "The test can never fail.", assert_tuple, ("F631",)),
    Check(
        "raise-notimplemented",
        "medium",
        0.95,
        "It raises a TypeError instead.",
        raise_notimplemented,
        ("F901",),
    ),
)
