"""Checks for code that hands control, data or secrets to strangers."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterator

from .model import Check, Hit
from .module import Module, constant, keyword, qualified

_SHELLS = (
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "asyncio.create_subprocess_shell",
)
_SUBPROCESS = tuple(f"subprocess.{n}" for n in ("run", "call", "check_call", "check_output", "Popen"))
_LOADERS = (
    "pickle.load",
    "pickle.loads",
    "pickle.Unpickler",
    "marshal.load",
    "marshal.loads",
    "shelve.open",
    "dill.load",
    "dill.loads",
    "cloudpickle.load",
    "cloudpickle.loads",
    "jsonpickle.decode",
    "joblib.load",
    "pandas.read_pickle",
)
_SAFE_YAML = ("SafeLoader", "CSafeLoader", "BaseLoader", "CBaseLoader")
_HTTP = (
    "get",
    "post",
    "put",
    "patch",
    "delete",
    "head",
    "options",
    "request",
    "stream",
    "Client",
    "AsyncClient",
    "Session",
    "send",
)
_SQL = re.compile(
    r"\s*(select\s|insert\s+into|update\s|delete\s+from|drop\s|create\s|alter\s|replace\s+into)",
    re.IGNORECASE,
)
_SECRET_NAME = re.compile(
    r"(^|_)(password|passwd|pwd|secret|token|api_?key|access_?key|private_?key)(_?key)?\d*$", re.IGNORECASE
)
_SECRET_LENGTHS = range(8, 201)
_SECRET_SHAPE = re.compile(
    r"AKIA[0-9A-Z]{16}\b|gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{40}|xox[abprs]-[0-9A-Za-z-]{20}"
    r"|sk_live_[0-9A-Za-z]{20}|AIza[0-9A-Za-z_-]{35}"
    r"|-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s+[A-Za-z0-9+/=\s]{60}"
)
_PLACEHOLDER = re.compile(
    r"[<${%\[*]|example|change|dummy|placeholder|your|xxx|test|fake|secret|password|token|://", re.IGNORECASE
)


def dynamic_code(module: Module) -> Iterator[Hit]:
    """`eval`, `exec` and `compile` of a text that is not a literal."""
    calls = list(module.called("builtins.eval", "builtins.exec", "builtins.compile"))
    fixed = _fixed_names(module) if calls else set()
    for name, call in calls:
        if not call.args or _is_fixed(call.args[0], fixed) or _is_executed(module, call):
            continue
        short = name.removeprefix("builtins.")
        mild = short == "compile"
        said = f"`{short}` runs code that is computed at run time"
        yield Hit(call, said, "low" if mild else None, 0.5 if mild else None)


def unsafe_load(module: Module) -> Iterator[Hit]:
    """Deserialisers that run code found in their input."""
    for name, call in module.called(*_LOADERS):
        yield Hit(call, f"`{name}` executes code found in its input; use it only on data you wrote yourself")


def unsafe_yaml(module: Module) -> Iterator[Hit]:
    """`yaml.load` with a loader that builds arbitrary objects, or with none."""
    for name, call in module.called("yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.unsafe_load_all"):
        loader = call.args[1] if len(call.args) > 1 else keyword(call, "Loader")
        shown = qualified(loader, module.imports, module.bound) if loader is not None else ""
        safe = shown.rpartition(".")[2] in _SAFE_YAML or (loader is not None and shown.startswith("~"))
        if "unsafe" in name or not safe:
            yield Hit(call, f"`{name}` without a safe loader builds arbitrary objects; use `yaml.safe_load`")


def shell(module: Module) -> Iterator[Hit]:
    """A command line given to a shell."""
    with_shell = [(n, c) for n, c in module.called(*_SUBPROCESS) if constant(keyword(c, "shell")) is True]
    calls = [*with_shell, *module.called(*_SHELLS)]
    fixed = _fixed_names(module) if calls else set()
    for name, call in calls:
        command = call.args[0] if call.args else keyword(call, "args") or keyword(call, "cmd")
        if command is None:
            continue
        if _is_fixed(command, fixed):
            yield Hit(call, f"`{name}` runs a fixed text in a shell; a list of arguments needs none", "low")
        elif _is_quoted(command, module):
            yield Hit(call, f"`{name}` runs a quoted command in a shell; a list of arguments is safer", "low")
        else:
            yield Hit(call, f"`{name}` runs a computed text in a shell; pass a list of arguments instead")


def sql(module: Module) -> Iterator[Hit]:
    """Values pasted into an SQL text."""
    for call in module.all(ast.Call):
        if (
            isinstance(call.func, ast.Attribute)
            and call.func.attr in {"execute", "executemany", "executescript"}
            and call.args
            and (found := _pasted(call.args[0])) is not None
        ):
            text, pasted = found
            named = all(isinstance(v, ast.Name | ast.Attribute) and _leaf(v).isupper() for v in pasted)
            if _SQL.match(text) and pasted and not named:
                yield Hit(
                    call, f"`{call.func.attr}` gets values pasted into its SQL; pass them as parameters"
                )


def no_tls_verify(module: Module) -> Iterator[Hit]:
    """Certificate checks that are switched off."""
    for call in module.all(ast.Call):
        leaf = _leaf(call.func)
        if leaf in _HTTP and constant(keyword(call, "verify")) is False:
            yield Hit(call, f"`{leaf}(verify=False)` accepts any certificate")
    for name, call in module.called("ssl._create_unverified_context"):
        yield Hit(call, f"`{name}` accepts any certificate")


def temp_race(module: Module) -> Iterator[Hit]:
    """`tempfile.mktemp`: the name may be taken before the file is made."""
    for name, call in module.called("tempfile.mktemp", "os.tempnam", "os.tmpnam"):
        yield Hit(
            call, f"`{name}` returns a name that others can take first; use `mkstemp` or `NamedTemporaryFile`"
        )


def weak_hash(module: Module) -> Iterator[Hit]:
    """MD5 and SHA-1 without the note that nothing depends on their strength."""
    for name, call in module.called("hashlib.md5", "hashlib.sha1", "hashlib.new"):
        kind = name.removeprefix("hashlib.")
        if kind == "new":
            kind = str(constant(call.args[0])).lower() if call.args else ""
        if kind in {"md5", "sha1"} and constant(keyword(call, "usedforsecurity")) is not False:
            yield Hit(
                call, f"`{kind}` is broken as a security hash; say `usedforsecurity=False` or use `sha256`"
            )


def archive(module: Module) -> Iterator[Hit]:
    """`extractall` on a tar file without a filter."""
    if not any(target.split(".")[0] == "tarfile" for target in module.imports.values()):
        return
    zips = any(target.split(".")[0] == "zipfile" for target in module.imports.values())
    for call in module.all(ast.Call):
        if (
            isinstance(call.func, ast.Attribute)
            and call.func.attr == "extractall"
            and keyword(call, "filter") is None
        ):
            yield Hit(
                call,
                "`extractall` without `filter='data'` lets an archive write outside its folder",
                confidence=0.4 if zips else None,
            )


def secret(module: Module) -> Iterator[Hit]:
    """A secret written into the source."""
    if _SECRET_SHAPE.search(module.text):
        for text in module.all(ast.Constant):
            if isinstance(text.value, str) and _SECRET_SHAPE.search(text.value):
                yield Hit(text, "a literal has the shape of a live credential", "critical", 0.9)
    for name, value in _named_literals(module):
        if _SECRET_NAME.search(name) and _looks_secret(value.value):
            yield Hit(value, f"`{name}` is given a literal; read it from the environment or a secret store")


def debugger(module: Module) -> Iterator[Hit]:
    """A debugger that was left in."""
    names = ("builtins.breakpoint", "pdb.set_trace", "ipdb.set_trace", "pudb.set_trace", "pdb.post_mortem")
    for name, call in module.called(*names):
        yield Hit(call, f"`{name.removeprefix('builtins.')}` stops the program and waits for a person")


def _named_literals(module: Module) -> Iterator[tuple[str, ast.Constant]]:
    for assign in module.all(ast.Assign):
        if isinstance(assign.value, ast.Constant):
            yield from ((_leaf(target), assign.value) for target in assign.targets)
    for typed in module.all(ast.AnnAssign):
        if isinstance(typed.value, ast.Constant):
            yield _leaf(typed.target), typed.value
    for call in module.all(ast.Call):
        yield from ((k.arg or "", k.value) for k in call.keywords if isinstance(k.value, ast.Constant))
    for table in module.all(ast.Dict):
        for key, value in zip(table.keys, table.values, strict=True):
            if isinstance(value, ast.Constant) and isinstance(constant(key), str):
                yield str(constant(key)), value


def _looks_secret(value: object) -> bool:
    if (
        not isinstance(value, str)
        or len(value) not in _SECRET_LENGTHS
        or _PLACEHOLDER.search(value)
        or " " in value
    ):
        return False
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    counts = Counter(value)
    entropy = -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())
    return mixed and entropy >= 2.8  # noqa: PLR2004 - words and repeated characters stay below


def _pasted(expr: ast.expr) -> tuple[str, list[ast.expr]] | None:
    """The leading text of a composed string and the values pasted into it."""
    if isinstance(expr, ast.JoinedStr):
        values = [v.value for v in expr.values if isinstance(v, ast.FormattedValue)]
        return _literal(expr.values[0] if expr.values else None), values
    if isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.Mod):
        right = expr.right.elts if isinstance(expr.right, ast.Tuple) else [expr.right]
        return _literal(expr.left), list(right)
    if isinstance(expr, ast.BinOp) and isinstance(expr.op, ast.Add):
        first, *rest = _summands(expr)
        return _literal(first), [part for part in rest if not isinstance(part, ast.Constant)]
    if isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute) and expr.func.attr == "format":
        return _literal(expr.func.value), [*expr.args, *(k.value for k in expr.keywords)]
    return None


def _summands(expr: ast.BinOp) -> list[ast.expr]:
    """The parts of `a + b + c`, in order."""
    parts: list[ast.expr] = []
    left: ast.expr = expr
    while isinstance(left, ast.BinOp):
        parts.append(left.right)
        left = left.left
    return [left, *reversed(parts)]


def _literal(expr: ast.expr | None) -> str:
    value = constant(expr)
    return value if isinstance(value, str) else ""


def _fixed_names(module: Module) -> set[str]:
    """The names that can only hold a text of the source: nothing but literals is given to them."""
    stored = [n for n in module.all(ast.Name) if isinstance(n.ctx, ast.Store)]
    fixed = {n.id for n in stored} - module.imports.keys() - {a.arg for a in module.all(ast.arg)}
    return fixed - {n.id for n in stored if not _gives_literals(module.parents.get(n))}


def _is_fixed(expr: ast.expr, fixed: set[str]) -> bool:
    return isinstance(expr, ast.Constant) or (isinstance(expr, ast.Name) and expr.id in fixed)


def _is_executed(module: Module, call: ast.Call) -> bool:
    """Whether a call is the first argument of `exec` or `eval`, which speak for both."""
    above = module.parents.get(call)
    return isinstance(above, ast.Call) and above.args[:1] == [call] and _leaf(above.func) in {"exec", "eval"}


def _gives_literals(giver: ast.AST | None) -> bool:
    if isinstance(giver, ast.Assign | ast.AnnAssign):
        return isinstance(giver.value, ast.Constant)
    return (
        isinstance(giver, ast.For)
        and isinstance(giver.iter, ast.Tuple | ast.List)
        and all(isinstance(item, ast.Constant) for item in giver.iter.elts)
    )


def _is_quoted(command: ast.expr, module: Module) -> bool:
    quotes = {"shlex.quote", "shlex.join", "pipes.quote"}
    return any(
        isinstance(n, ast.Call) and qualified(n.func, module.imports, module.bound) in quotes
        for n in ast.walk(command)
    )


def _leaf(expr: ast.expr) -> str:
    if isinstance(expr, ast.Attribute):
        return expr.attr
    return expr.id if isinstance(expr, ast.Name) else ""


CHECKS: tuple[Check, ...] = (
    Check(
        "dynamic-code",
        "high",
        0.7,
        "Whoever controls the text controls the program.",
        dynamic_code,
        ("S307", "S102", "PGH001"),
        "soften",
    ),
    Check(
        "unsafe-load",
        "medium",
        0.6,
        "These formats can carry code that runs while they are read.",
        unsafe_load,
        ("S301", "S302"),
        "soften",
    ),
    Check(
        "unsafe-yaml",
        "high",
        0.9,
        "A full YAML loader builds any object that the document names.",
        unsafe_yaml,
        ("S506",),
        "soften",
    ),
    Check(
        "shell",
        "high",
        0.8,
        "A shell reads quotes, `;` and `$()` in its command line.",
        shell,
        ("S602", "S604", "S605", "S607"),
        "soften",
    ),
    Check(
        "sql",
        "medium",
        0.6,
        "A value inside the text of a query can change the query.",
        sql,
        ("S608",),
        "soften",
    ),
    Check(
        "no-tls-verify",
        "high",
        0.9,
        "Without it anyone on the way can read and answer.",
        no_tls_verify,
        ("S501", "S323"),
        "soften",
    ),
    Check(
        "temp-race",
        "medium",
        0.9,
        "Another program can put a file or a link there first.",
        temp_race,
        ("S306",),
        "soften",
    ),
    Check(
        "weak-hash",
        "low",
        0.5,
        "Collisions for MD5 and SHA-1 can be made at will.",
        weak_hash,
        ("S303", "S324"),
        "skip",
    ),
    Check(
        "archive",
        "medium",
        0.6,
        "Members named `../x` or links leave the folder.",
        archive,
        ("S202",),
        "soften",
    ),
    Check(
        "secret",
        "high",
        0.6,
        "Source is copied, logged and kept for ever.",
        secret,
        ("S105", "S106", "S107"),
        "soften",
    ),
    Check(
        "debugger", "medium", 0.9, "It hangs wherever no terminal is attached.", debugger, ("T100",), "soften"
    ),
)
