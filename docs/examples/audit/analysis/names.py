"""Checks for names: imported and unused, shadowed, defined twice, exported and missing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .model import Check, Hit
from .module import BUILTINS, Module, Scope, blocks, constant, parameters

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_TYPE_COMMENT = re.compile(r"#\s*type:\s*(.+)")
_FOR_EFFECT = frozenset({"readline", "rlcompleter", "antigravity", "this", "sitecustomize"})
_SOFT_NAMES = frozenset(
    {"_", "copyright", "credits", "exit", "help", "license", "quit", "ellipsis", "function"}
)
_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "Exception"})


def unused_import(module: Module) -> Iterator[Hit]:
    """An imported name that the module never reads."""
    imported: list[ast.Import | ast.ImportFrom] = [*module.all(ast.Import), *module.all(ast.ImportFrom)]
    if not imported or module.is_init or module.path.endswith("conftest.py") or _is_front(module):
        return
    used = _used_names(module)
    for node in imported:
        idle = [alias for alias in node.names if not _is_wanted(node, alias, used)]
        if idle and not _is_probe(module, node):
            for alias in idle:
                yield Hit(alias, f"`{alias.asname or alias.name}` is imported and never used")


def star_import(module: Module) -> Iterator[Hit]:
    """`from x import *` outside a package's front."""
    if module.is_init:
        return
    for node in module.all(ast.ImportFrom):
        if node.names[0].name == "*":
            yield Hit(
                node, f"`from {'.' * node.level}{node.module or ''} import *` hides where names come from"
            )


def shadowed_builtin(module: Module) -> Iterator[Hit]:
    """A parameter, variable or function with the name of a builtin."""
    for function in [*module.functions(), *module.all(ast.Lambda)]:
        for arg in parameters(function):
            if _is_hidden(arg.arg):
                yield Hit(arg, f"the parameter `{arg.arg}` hides the builtin of that name")
    for node in module.all(ast.Name):
        if isinstance(node.ctx, ast.Store) and _is_hidden(node.id) and not _in_class_scope(module, node):
            yield Hit(node, f"the variable `{node.id}` hides the builtin of that name")
    for definition in [*module.functions(), *module.all(ast.ClassDef)]:
        if _is_hidden(definition.name) and not _in_class_scope(module, definition):
            yield Hit(definition, f"the definition of `{definition.name}` hides the builtin of that name")


def redefinition(module: Module) -> Iterator[Hit]:
    """A function or class defined twice in one block, the first one never read."""
    owners: list[ast.AST] = [module.tree, *module.all(ast.ClassDef), *module.functions()]
    for owner in owners:
        for block in blocks(owner):
            yield from _redefined(block)


def missing_export(module: Module) -> Iterator[Hit]:
    """A name in `__all__` that the module does not define."""
    listed = _exports(module)
    star = any(n.names[0].name == "*" for n in module.all(ast.ImportFrom))
    if not listed or star or "__getattr__" in module.bound or module.is_init:
        return
    dynamic = {"builtins.globals", "builtins.vars", "builtins.exec"} & module.calls.keys()
    known = module.bound | module.imports.keys()
    for name, node in listed:
        if name not in known and not dynamic and not name.startswith("__"):
            yield Hit(node, f"`__all__` names `{name}`, which this module does not define")


def _redefined(block: list[ast.stmt]) -> Iterator[Hit]:
    last: dict[str, int] = {}
    for place, node in enumerate(block):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        first = last.get(node.name)
        if node.decorator_list or node.name == "_":
            last.pop(node.name, None)
            continue
        if first is not None and not _is_read(block[first + 1 : place], node.name):
            was = block[first].lineno
            yield Hit(node, f"`{node.name}` is defined again; the definition before it (line {was}) is lost")
        last[node.name] = place


def _is_read(statements: list[ast.stmt], name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for s in statements for n in ast.walk(s))


def _used_names(module: Module) -> set[str]:
    """Every name that is read anywhere, quoted annotations, type comments and `__all__` included."""
    used = {n.id for n in module.all(ast.Name) if not isinstance(n.ctx, ast.Store)}
    used |= {name for name, _ in _exports(module)}
    for text in module.all(ast.Constant):
        if isinstance(text.value, str) and len(text.value) < 500 and _may_be_annotation(module, text):  # noqa: PLR2004
            used.update(_IDENTIFIER.findall(text.value))
    if "type:" in module.text:
        for comment in _TYPE_COMMENT.findall(module.text):
            used.update(_IDENTIFIER.findall(comment))
    if module.is_test:  # pytest hands an imported fixture to the parameter of its name
        used |= {a.arg for a in module.all(ast.arg)}
    return used


def _may_be_annotation(module: Module, text: ast.Constant) -> bool:
    """Whether a text can be a quoted type: in an annotation, a subscript, or an argument of a call."""
    child: ast.AST = text
    for above in module.up(text):
        if isinstance(above, ast.arg | ast.AnnAssign | ast.Subscript | ast.Call):
            return True
        if isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef):
            return child is above.returns
        if isinstance(above, ast.stmt):
            return False
        child = above
    return False


def _exports(module: Module) -> list[tuple[str, ast.AST]]:
    found: list[tuple[str, ast.AST]] = []
    for node in module.tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if not any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
            continue
        value = getattr(node, "value", None)
        items = ast.walk(value) if value is not None else ()
        found.extend((str(constant(item)), item) for item in items if isinstance(constant(item), str))
    return found


def _is_wanted(node: ast.Import | ast.ImportFrom, alias: ast.alias, used: set[str]) -> bool:
    """Whether an import is read, passed on (`x as x`), or made for its effect."""
    if isinstance(node, ast.ImportFrom) and (node.module == "__future__" or alias.asname == alias.name):
        return True
    local = alias.asname or alias.name.split(".")[0]
    return local in used or local == "_" or alias.name in _FOR_EFFECT or alias.name == "*"


def _is_front(module: Module) -> bool:
    """Whether a module only passes on what it imports: it has `__all__`, or imports its siblings alone."""
    imports = [*module.all(ast.Import), *module.all(ast.ImportFrom)]
    meant = "__all__" in module.bound or all(isinstance(n, ast.ImportFrom) and n.level for n in imports)
    return (
        meant
        and not module.all(ast.Call)
        and all(
            isinstance(n, ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign)
            or (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))
            for n in module.tree.body
        )
    )


def _is_probe(module: Module, node: ast.AST) -> bool:
    """Whether an import stands in a `try` that expects it to fail."""
    for above in module.up(node):
        if isinstance(above, Scope):
            return False
        if isinstance(above, ast.Try):
            caught = {
                n.id for h in above.handlers if h.type for n in ast.walk(h.type) if isinstance(n, ast.Name)
            }
            if caught & _IMPORT_ERRORS or any(h.type is None for h in above.handlers):
                return True
    return False


def _is_hidden(name: str) -> bool:
    return name in BUILTINS and name not in _SOFT_NAMES and not name.startswith("__")


def _in_class_scope(module: Module, node: ast.AST) -> bool:
    scope = next((a for a in module.up(node) if isinstance(a, Scope | ast.ClassDef)), None)
    return isinstance(scope, ast.ClassDef)


CHECKS: tuple[Check, ...] = (
    Check(
        "unused-import",
        "low",
        0.9,
        "It costs start-up time and misleads the reader.",
        unused_import,
        ("F401",),
    ),
    Check(
        "star-import",
        "low",
        0.95,
        "A new name in the other module changes this one.",
        star_import,
        ("F403", "F405"),
    ),
    Check(
        "shadowed-builtin",
        "low",
        0.8,
        "The builtin is out of reach below, and readers expect it.",
        shadowed_builtin,
        ("A001", "A002", "A006"),
        "skip",
    ),
    Check(
        "redefinition",
        "medium",
        0.85,
        "Of two definitions only the last one exists.",
        redefinition,
        ("F811",),
    ),
    Check("missing-export", "medium", 0.85, "`from module import *` fails on it.", missing_export, ("F822",)),
)
