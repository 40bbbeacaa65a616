"""No file, function, signature or nest of blocks above a ceiling: an average hides the worst one.

An exception needs a reason beside it, and one that is no longer needed has to go.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tests.architecture.tree import Source, examples, product, report, type_of_function

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE_LINES = 400
FUNCTION_LINES = 50
PARAMETERS = 6
NESTING = 4

# "path" or "path::function" -> why it may stand above the ceiling that it stands above.
EXCEPTIONS: dict[str, str] = {}

# The three places where an import waits until it is needed: (path, function or "*") -> why.
LATE_IMPORTS: dict[tuple[str, str], str] = {
    ("orchestrator/__init__.py", "__getattr__"): "the public surface is lazy: importing it loads no library",
    (
        "orchestrator/testing/__init__.py",
        "__getattr__",
    ): "pytest loads the plugin at every start, with or without callboard: it must not load the engine",
    (
        "orchestrator/cli/commands.py",
        "*",
    ): "the table of commands: --help loads no command",
    (
        "orchestrator/agents/backends.py",
        "*",
    ): "the table of backends: each needs an extra",
}

BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)
FORBIDDEN_NAMES = {"utils.py", "util.py", "helpers.py", "helper.py", "common.py", "misc.py"}


def excepted(faults: dict[str, str]) -> list[str]:
    return [f"{text}" for key, text in faults.items() if key not in EXCEPTIONS]


def length(function: type_of_function) -> int:
    """Lines from `def` to the last statement; not the docstring: the ceiling is no reason to explain less."""
    first = function.body[0]
    documented = ast.get_docstring(function, clean=False) is not None
    docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if documented else 0
    return (function.end_lineno or function.lineno) - function.lineno + 1 - docstring


def parameters(name: str, function: type_of_function) -> int:
    """Those that count: a public name's keyword-only ones document, a private one's are freight."""
    arguments = function.args
    positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    own = [argument for argument in positional if argument not in {"self", "cls"}]
    private = any(part.startswith("_") and not part.startswith("__") for part in name.split("."))
    return len(own) + (len(arguments.kwonlyargs) if private else 0)


def nesting(node: ast.AST, depth: int = 0) -> int:
    """The deepest block inside a node; `elif` is beside its `if`, and a nested function starts anew."""
    deepest = depth
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*type_of_function.__args__, ast.Lambda, ast.ClassDef)):
            continue
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        inner = depth + 1 if isinstance(child, BLOCKS) and not is_elif else depth
        deepest = max(deepest, nesting(child, inner))
    return deepest


def all_functions() -> Iterator[tuple[Source, str, type_of_function, str]]:
    for source in product() + examples():
        for name, function in source.functions():
            yield source, name, function, f"{source.name}:{function.lineno}: {name}"


def test_files():
    """A file holds one subject; at 400 lines it holds two."""
    faults = {
        source.name: f"{source.name}: {lines} lines, at most {FILE_LINES}"
        for source in product() + examples()
        if (lines := source.text.count("\n")) > FILE_LINES
    }
    assert not excepted(faults), report(excepted(faults))


def test_function_length():
    """50 lines, docstring not counted."""
    faults = {
        f"{source.name}::{name}": f"{where}: {length(function)} lines, at most {FUNCTION_LINES}"
        for source, name, function, where in all_functions()
        if length(function) > FUNCTION_LINES
    }
    assert not excepted(faults), report(excepted(faults))


def test_parameters():
    """6 parameters; keyword-only ones of public names are not counted."""
    faults = {
        f"{source.name}::{name}": f"{where}: {parameters(name, function)} parameters, at most {PARAMETERS}"
        for source, name, function, where in all_functions()
        if parameters(name, function) > PARAMETERS
    }
    assert not excepted(faults), report(excepted(faults))


def test_nesting():
    """4 blocks inside each other."""
    faults = {
        f"{source.name}::{name}": f"{where}: {nesting(function)} blocks deep, at most {NESTING}"
        for source, name, function, where in all_functions()
        if nesting(function) > NESTING
    }
    assert not excepted(faults), report(excepted(faults))


def late_imports(source: Source) -> Iterator[tuple[str, int]]:
    """Every import inside a function, by statement or by call, with the function's name and the line."""
    for name, function in source.functions():
        for node in ast.walk(function):
            called = isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2]
            if isinstance(node, ast.Import | ast.ImportFrom) or called in {"import_module", "__import__"}:
                yield name, node.lineno


def test_no_import_inside_a_function():
    """Engine 12: late imports exist in three places only; elsewhere they hide a cycle."""
    allowed = {path for path, function in LATE_IMPORTS if function == "*"}
    faults = [
        f"{source.name}:{line}: import inside {name}"
        for source in product()
        for name, line in late_imports(source)
        if source.name not in allowed and (source.name, name) not in LATE_IMPORTS
    ]
    assert not faults, report(faults)


def test_no_drawer_for_odds_and_ends():
    """A name such as utils says that nobody decided where a thing belongs."""
    faults = [source.name for source in product() if source.path.name in FORBIDDEN_NAMES]
    assert not faults, report(faults)


def test_no_mapping_stands_in_for_typed_fields():
    """No attribute called metadata, extra or info holds a mapping: a typed field says what may be in it."""
    faults = [
        f"{source.name}:{node.lineno}: {ast.unparse(node)}"
        for source in product()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name | ast.Attribute)
        and re.fullmatch(r"(self\.)?_?(metadata|meta|extra|extras|info|misc)", ast.unparse(node.target))
        and re.match(r"(dict|Mapping|MutableMapping)\b", ast.unparse(node.annotation))
    ]
    assert not faults, report(faults)


def test_exceptions_are_needed():
    """An exception whose file or function is gone or fits again is removed."""
    over = {source.name for source in product() + examples() if source.text.count("\n") > FILE_LINES} | {
        f"{source.name}::{name}"
        for source, name, function, _ in all_functions()
        if length(function) > FUNCTION_LINES
        or parameters(name, function) > PARAMETERS
        or nesting(function) > NESTING
    }
    assert not EXCEPTIONS.keys() - over, report(sorted(EXCEPTIONS.keys() - over))


def test_the_measures_themselves():
    """The measures count what they say: a green ceiling is not a blind one."""
    text = """
def _private(a, *, b, c): ...
def public(self, a, b, *, c, d):
    '''One.

    Two.
    '''
    if a:
        return 1
    elif b:
        for c in d:
            with c:
                try:
                    return 2
                finally:
                    pass
    def inner():
        while a: ...
"""
    tree = ast.parse(text)
    private, public = tree.body
    assert isinstance(private, ast.FunctionDef)
    assert isinstance(public, ast.FunctionDef)
    assert parameters("_private", private) == 3
    assert parameters("public", public) == 2
    assert nesting(public) == 4
    assert length(public) == 12
