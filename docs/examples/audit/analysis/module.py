"""A parsed module, indexed once so that every check only looks at the nodes that concern it."""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeVar, cast

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Node = TypeVar("Node", bound=ast.AST)

BUILTINS = frozenset(dir(builtins))
TELLING_COMMENT = re.compile(r"#[^\n]*?(?:\b(?:noqa|TODO|FIXME|XXX|HACK)\b|audit:)", re.IGNORECASE)
_WITHOUT_POSITION = (ast.expr_context, ast.operator, ast.cmpop, ast.unaryop, ast.boolop)


@dataclass(frozen=True, slots=True)
class Module:
    """One module's text and tree, with the look-ups that checks share.

    `imports` maps a local name to what it stands for (`sp` -> `subprocess`), `bound` holds the names
    that the module binds in any other way, `calls` maps a qualified callee to its calls, `comments` maps a
    line to its comment (filled only where a comment may matter to a check).
    """

    path: str
    text: str
    lines: list[str]
    tree: ast.Module
    nodes: Mapping[type[ast.AST], list[ast.AST]]
    parents: Mapping[ast.AST, ast.AST]
    imports: Mapping[str, str]
    bound: frozenset[str]
    calls: Mapping[str, list[ast.Call]]
    comments: Mapping[int, str]

    def all(self, kind: type[Node]) -> list[Node]:
        """Every node of exactly this type."""
        return cast("list[Node]", self.nodes.get(kind, []))

    def functions(self) -> list[Function]:
        """Every function and method, plain and async."""
        return [*self.all(ast.FunctionDef), *self.all(ast.AsyncFunctionDef)]

    def up(self, node: ast.AST) -> Iterator[ast.AST]:
        """The ancestors of a node, the nearest first."""
        while (above := self.parents.get(node)) is not None:
            yield above
            node = above

    def function_of(self, node: ast.AST) -> Scope | None:
        """The function or lambda whose body holds this node."""
        return next((a for a in self.up(node) if isinstance(a, Scope)), None)

    def class_of(self, function: ast.AST) -> ast.ClassDef | None:
        """The class of which this function is a direct member."""
        above = self.parents.get(function)
        return above if isinstance(above, ast.ClassDef) else None

    def called(self, *names: str) -> Iterator[tuple[str, ast.Call]]:
        """The calls of these qualified names."""
        for name in names:
            for call in self.calls.get(name, ()):
                yield name, call

    @property
    def is_init(self) -> bool:
        """Whether this is a package's `__init__.py`."""
        return PurePosixPath(self.path).name == "__init__.py"

    @property
    def is_test(self) -> bool:
        """Whether this module is test code, by the usual names."""
        return holds_tests(self.path) or lies_with_tests(self.path)


def holds_tests(path: str) -> bool:
    """Whether a file's own name says that tests are in it."""
    name = PurePosixPath(path)
    return name.stem.startswith("test_") or name.stem.endswith("_test") or name.name == "conftest.py"


def lies_with_tests(path: str) -> bool:
    """Whether a file lies in a folder of tests."""
    return not {"test", "tests"}.isdisjoint(PurePosixPath(path).parts[:-1])


def index(path: str, text: str, tree: ast.Module) -> Module:
    """Walk a tree once, without recursion, and keep what the checks need."""
    nodes: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
    parents: dict[ast.AST, ast.AST] = {}
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        nodes[type(node)].append(node)
        for name in node._fields:
            value = getattr(node, name, None)
            children = value if isinstance(value, list) else (value,)
            for child in children:
                if isinstance(child, ast.AST) and not isinstance(child, _WITHOUT_POSITION):
                    parents[child] = node
                    stack.append(child)
    imports, bound = _imports(nodes), _bound(nodes)
    calls: dict[str, list[ast.Call]] = defaultdict(list)
    for call in cast("list[ast.Call]", nodes.get(ast.Call, [])):
        calls[qualified(call.func, imports, bound)].append(call)
    return Module(path, text, text.split("\n"), tree, nodes, parents, imports, bound, calls, _comments(text))


def qualified(expr: ast.expr, imports: Mapping[str, str], bound: frozenset[str]) -> str:
    """The dotted name behind an expression: resolved over imports, `builtins.x`, `~local.x`, or ``""``."""
    tail: list[str] = []
    while isinstance(expr, ast.Attribute):
        tail.append(expr.attr)
        expr = expr.value
    if not isinstance(expr, ast.Name):
        return ""
    if expr.id in imports:
        head = imports[expr.id]
    elif expr.id in BUILTINS and expr.id not in bound:
        head = f"builtins.{expr.id}"
    else:
        head = f"~{expr.id}"
    return ".".join([head, *reversed(tail)])


def parameters(function: Scope) -> list[ast.arg]:
    """Every parameter of a function, starred ones included."""
    spec = function.args
    starred = [a for a in (spec.vararg, spec.kwarg) if a is not None]
    return [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, *starred]


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a call's keyword argument, if it is given by name."""
    return next((k.value for k in call.keywords if k.arg == name), None)


def constant(expr: ast.AST | None) -> object:
    """The value of a literal; None if it is something else."""
    return expr.value if isinstance(expr, ast.Constant) else None


def own_body(function: Scope | ast.ClassDef | ast.Module) -> Iterator[ast.AST]:
    """The nodes of a body; of functions and classes nested in it, only the definition itself."""
    body = function.body if isinstance(function.body, list) else [function.body]
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, Scope | ast.ClassDef):
            stack.extend(reversed(list(ast.iter_child_nodes(node))))


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The statement lists that belong to a statement."""
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block:
            yield block


def _imports(nodes: Mapping[type[ast.AST], list[ast.AST]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for plain in cast("list[ast.Import]", nodes.get(ast.Import, [])):
        for alias in plain.names:
            local = alias.asname or alias.name.split(".")[0]
            found[local] = alias.name if alias.asname else local
    for origin in cast("list[ast.ImportFrom]", nodes.get(ast.ImportFrom, [])):
        base = "." * origin.level + (origin.module or "")
        found.update({alias.asname or alias.name: f"{base}.{alias.name}" for alias in origin.names})
    return found


def _bound(nodes: Mapping[type[ast.AST], list[ast.AST]]) -> frozenset[str]:
    names = {n.id for n in cast("list[ast.Name]", nodes.get(ast.Name, [])) if isinstance(n.ctx, ast.Store)}
    names |= {a.arg for a in cast("list[ast.arg]", nodes.get(ast.arg, []))}
    for kind in (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
        names |= {d.name for d in cast("list[ast.FunctionDef]", nodes.get(kind, []))}
    return frozenset(names)


def _comments(text: str) -> dict[int, str]:
    """The comments by line; reading tokens is slow, so only a text that may hold a telling one is read."""
    if not TELLING_COMMENT.search(text):
        return {}
    found: dict[int, str] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                found[token.start[0]] = token.string
    except (tokenize.TokenError, SyntaxError):
        return found  # the tokenizer is stricter than the parser about the end of a file
    return found
