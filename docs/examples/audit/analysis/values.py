"""Checks for values that are shared, compared or captured by mistake."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .model import Check, Hit
from .module import Function, Module, Scope, blocks, constant, own_body, parameters, qualified

_MAKERS = frozenset(
    {
        "builtins.list",
        "builtins.dict",
        "builtins.set",
        "builtins.bytearray",
        "collections.defaultdict",
        "collections.deque",
        "collections.OrderedDict",
        "collections.Counter",
    }
)
_DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_MUTATORS = frozenset(
    {
        "append",
        "extend",
        "insert",
        "remove",
        "pop",
        "popitem",
        "clear",
        "update",
        "add",
        "discard",
        "setdefault",
        "sort",
        "reverse",
        "appendleft",
        "popleft",
    }
)
_RESIZERS = frozenset({"remove", "pop", "popitem", "clear", "discard", "insert", "popleft"})
_KEEPERS = frozenset(
    {
        "append",
        "add",
        "insert",
        "connect",
        "add_done_callback",
        "call_later",
        "call_soon",
        "submit",
        "register",
        "setdefault",
        "bind",
        "subscribe",
        "after",
    }
)
_SHOWN = 40
_KEEPER_KEYWORDS = frozenset({"command", "callback", "target"})
_LEAVES = (ast.Return, ast.Break, ast.Raise)


def mutable_default(module: Module) -> Iterator[Hit]:
    """A list, dict or set as a default value."""
    for function in module.functions():
        spec = function.args
        positional = [*spec.posonlyargs, *spec.args]
        pairs = [
            *zip(reversed(positional), reversed(spec.defaults), strict=False),
            *zip(spec.kwonlyargs, spec.kw_defaults, strict=True),
        ]
        for arg, default in pairs:
            if default is not None and _is_mutable(default, module):
                changed = _is_changed(function, arg.arg)
                yield Hit(
                    default,
                    f"the default of `{arg.arg}` in `{function.name}` is shared by all calls"
                    + (" and changed" if changed else ""),
                    None if changed else "low",
                    None if changed else 0.7,
                )


def mutable_class_attribute(module: Module) -> Iterator[Hit]:
    """A class-level list, dict or set that methods change through `self`."""
    for owner in module.all(ast.ClassDef):
        shared = {
            target.id: node
            for node in owner.body
            if isinstance(node, ast.Assign) and _is_mutable(node.value, module)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        if not shared:
            continue
        replaced, changed = _self_attributes(owner)
        for name in sorted(changed & shared.keys() - replaced):
            yield Hit(
                shared[name], f"`{owner.name}.{name}` is one object for all instances, and methods change it"
            )


def none_comparison(module: Module) -> Iterator[Hit]:
    """`== None` and `!= None`."""
    for node in module.all(ast.Compare):
        for op, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, ast.Eq | ast.NotEq) and isinstance(right, ast.Constant) and right.value is None:
                word = "is" if isinstance(op, ast.Eq) else "is not"
                yield Hit(node, f"compare with None by `{word} None`")


def is_literal(module: Module) -> Iterator[Hit]:
    """`is` with a number, text or tuple."""
    for node in module.all(ast.Compare):
        left = node.left
        for op, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(op, ast.Is | ast.IsNot) and (_is_value(left) or _is_value(right)):
                yield Hit(
                    node, "`is` compares identity; whether equal literals are one object is an accident"
                )
            left = right


def duplicate_key(module: Module) -> Iterator[Hit]:
    """The same literal key twice in one dict display."""
    for table in module.all(ast.Dict):
        seen: dict[tuple[type, object], ast.expr] = {}
        for key, value in zip(table.keys, table.values, strict=True):
            if not isinstance(key, ast.Constant):
                continue
            slot = (type(key.value), key.value)
            if slot in seen:
                same = isinstance(value, ast.Constant) and constant(seen[slot]) == value.value
                yield Hit(
                    key,
                    f"the key {_short(key.value)} stands twice in this dict; the last one wins",
                    "low" if same else None,
                )
            seen[slot] = value


def late_binding(module: Module) -> Iterator[Hit]:
    """A function made in a loop and kept, which will see the loop variable's last value."""
    made = [
        (c, names)
        for c in [*module.all(ast.Lambda), *module.functions()]
        if (names := _loop_names(module, c))
    ]
    kept = _kept_names(module) if made else set()
    for closure, targets in made:
        if isinstance(closure, ast.Lambda):
            is_kept = _is_kept(module, closure)
        else:
            is_kept = (module.function_of(closure), closure.name) in kept
        own = {a.arg for a in parameters(closure)}
        body = closure.body if isinstance(closure.body, list) else [closure.body]
        used = {n.id for part in body for n in ast.walk(part) if isinstance(n, ast.Name)} & targets - own
        if used and is_kept:
            listed = ", ".join(f"`{n}`" for n in sorted(used))
            yield Hit(
                closure, f"a function kept from this loop will see the last {listed}; bind it as a default"
            )


def changed_while_iterated(module: Module) -> Iterator[Hit]:
    """A collection that loses items inside the loop over it (appending is a work list, and meant)."""
    for loop in module.all(ast.For):
        iterated = _plain_path(loop.iter)
        if not iterated:
            continue
        for node in _statements(loop.body):
            call = node.value if isinstance(node, ast.Expr) else None
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr in _RESIZERS
                and not (call.func.attr == "clear" and call.args)
                and _plain_path(call.func.value) == iterated
                and not _leaves_after(module, node, loop)
            ):
                yield Hit(call, f"`{iterated}.{call.func.attr}` changes what the loop at hand iterates over")


def plain_fstring(module: Module) -> Iterator[Hit]:
    """An f-string with nothing to fill in."""
    for node in module.all(ast.JoinedStr):
        is_format = isinstance(module.parents.get(node), ast.FormattedValue)
        if not is_format and not any(isinstance(v, ast.FormattedValue) for v in node.values):
            yield Hit(node, "this f-string has no placeholder")


def _is_mutable(expr: ast.expr, module: Module) -> bool:
    if isinstance(expr, ast.Call):
        return qualified(expr.func, module.imports, module.bound) in _MAKERS
    return isinstance(expr, _DISPLAYS)


def _is_changed(function: Function, name: str) -> bool:
    """Whether a body changes a parameter in place, stores it, or hands it out."""
    for node in own_body(function):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _MUTATORS
        ):
            if isinstance(node.func.value, ast.Name) and node.func.value.id == name:
                return True
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            if isinstance(node.value, ast.Name) and node.value.id == name:
                return True
        elif isinstance(node, ast.Return | ast.AugAssign | ast.Assign):
            touched = node.target if isinstance(node, ast.AugAssign) else node.value
            if isinstance(touched, ast.Name) and touched.id == name:
                return True
    return False


def _self_attributes(owner: ast.ClassDef) -> tuple[set[str], set[str]]:
    """The attributes that methods assign on `self` or `cls`, and those they change in place."""
    assigned: set[str] = set()
    changed: set[str] = set()
    for node in ast.walk(owner):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
            assigned.add(node.attr)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _MUTATORS
        ):
            changed |= _self_attribute(node.func.value)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            changed |= _self_attribute(node.value)
    return assigned, changed


def _self_attribute(expr: ast.expr) -> set[str]:
    return {expr.attr} if isinstance(expr, ast.Attribute) and _is_self(expr.value) else set()


def _is_self(expr: ast.expr) -> bool:
    return isinstance(expr, ast.Name) and expr.id == "self"


def _is_value(expr: ast.expr) -> bool:
    if isinstance(expr, ast.Constant):
        return isinstance(expr.value, str | bytes | int | float | complex) and not isinstance(
            expr.value, bool
        )
    return isinstance(expr, ast.Tuple | ast.List | ast.Dict | ast.Set)


def _loop_names(module: Module, closure: Scope) -> set[str]:
    """The variables of the loops around a closure, up to the function that holds it."""
    names: set[str] = set()
    for above in module.up(closure):
        if isinstance(above, Scope):
            break
        if isinstance(above, ast.For | ast.AsyncFor | ast.comprehension):
            names |= {n.id for n in ast.walk(above.target) if isinstance(n, ast.Name)}
        elif isinstance(above, ast.ListComp | ast.SetComp | ast.DictComp):
            names |= {n.id for g in above.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
    return names


def _kept_names(module: Module) -> set[tuple[Scope | None, str]]:
    """The names whose values are kept, each with the function in which that happens."""
    read = (n for n in module.all(ast.Name) if isinstance(n.ctx, ast.Load))
    return {(module.function_of(n), n.id) for n in read if _is_kept(module, n)}


def _is_kept(module: Module, value: ast.expr) -> bool:
    """Whether a value clearly outlives the turn of the loop in which it is made."""
    above = module.parents.get(value)
    if isinstance(above, ast.keyword):
        return above.arg in _KEEPER_KEYWORDS
    if isinstance(above, ast.Call):
        return value in above.args and isinstance(above.func, ast.Attribute) and above.func.attr in _KEEPERS
    if isinstance(above, ast.Assign):
        return above.value is value and any(
            isinstance(t, ast.Subscript | ast.Attribute) for t in above.targets
        )
    if isinstance(above, ast.ListComp | ast.SetComp):
        return above.elt is value
    return isinstance(above, ast.DictComp) and above.value is value


def _plain_path(expr: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(expr, ast.Attribute):
        parts.append(expr.attr)
        expr = expr.value
    return ".".join([expr.id, *reversed(parts)]) if isinstance(expr, ast.Name) else ""


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, Scope | ast.ClassDef | ast.expr):
            stack.extend(ast.iter_child_nodes(node))


def _leaves_after(module: Module, node: ast.AST, loop: ast.For) -> bool:
    """Whether the loop is left after a change: a block around it, inside the loop, ends in a jump."""
    while node is not loop:
        above = module.parents[node]
        line = getattr(node, "lineno", 0)
        for block in blocks(above):
            last = block[-1]
            around = block[0].lineno <= line <= (last.end_lineno or last.lineno)
            if around and last is not node and isinstance(last, _LEAVES):
                return True
        node = above
    return False


def _short(value: object) -> str:
    text = repr(value)
    return f"`{text if len(text) <= _SHOWN else text[: _SHOWN - 3] + '...'}`"


CHECKS: tuple[Check, ...] = (
    Check(
        "mutable-default",
        "medium",
        0.9,
        "The default is made once; what one call adds the next one sees.",
        mutable_default,
        ("B006",),
        "soften",
    ),
    Check(
        "mutable-class-attribute",
        "medium",
        0.6,
        "State meant for one instance leaks into all.",
        mutable_class_attribute,
        ("RUF012",),
        "soften",
    ),
    Check(
        "none-comparison",
        "low",
        0.9,
        "`__eq__` may answer anything; `is None` cannot be overridden.",
        none_comparison,
        ("E711",),
    ),
    Check("is-literal", "medium", 0.95, "It works until it does not.", is_literal, ("F632",)),
    Check(
        "duplicate-key",
        "medium",
        0.9,
        "One of the two values is silently lost.",
        duplicate_key,
        ("F601", "B041"),
    ),
    Check(
        "late-binding",
        "medium",
        0.8,
        "A closure reads a variable when it runs, not when it is made.",
        late_binding,
        ("B023",),
    ),
    Check(
        "changed-while-iterated",
        "medium",
        0.8,
        "Items are skipped, or the loop raises.",
        changed_while_iterated,
        ("B909", "PLE4703"),
    ),
    Check(
        "plain-fstring", "info", 0.95, "A forgotten placeholder, or a needless `f`.", plain_fstring, ("F541",)
    ),
)
