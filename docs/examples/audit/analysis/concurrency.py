"""Checks for code that runs on an event loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .model import Check, Hit
from .module import Module, Scope, keyword, parameters

_REQUESTS = tuple(
    f"{lib}.{verb}"
    for lib in ("requests", "httpx")
    for verb in ("get", "post", "put", "patch", "delete", "head", "options", "request")
)
_BLOCKING = (
    "time.sleep",
    "os.system",
    "os.wait",
    "os.waitpid",
    "subprocess.run",
    "subprocess.call",
    "subprocess.check_call",
    "subprocess.check_output",
    "subprocess.getoutput",
    "urllib.request.urlopen",
    "urllib.request.urlretrieve",
    "socket.create_connection",
    "socket.getaddrinfo",
    "builtins.input",
    "shutil.copytree",
    "shutil.rmtree",
    *_REQUESTS,
)
_TASKS = ("asyncio.create_task", "asyncio.ensure_future", "~loop.create_task")
_AWAITABLE = (
    "asyncio.sleep",
    "asyncio.wait",
    "asyncio.wait_for",
    "asyncio.to_thread",
    "anyio.sleep",
    "anyio.to_thread.run_sync",
    "trio.sleep",
)


def blocking_call(module: Module) -> Iterator[Hit]:
    """A call that stops the whole event loop."""
    if not module.all(ast.AsyncFunctionDef):
        return
    for name, call in module.called(*_BLOCKING):
        holder = module.function_of(call)
        if isinstance(holder, ast.AsyncFunctionDef):
            shown = name.removeprefix("builtins.")
            yield Hit(call, f"`{shown}` in `async def {holder.name}` stops every other task until it returns")
    for _, call in module.called("builtins.open"):
        holder = module.function_of(call)
        if isinstance(holder, ast.AsyncFunctionDef):
            yield Hit(
                call, f"`open` in `async def {holder.name}` reads and writes on the event loop", "low", 0.6
            )


def dropped_task(module: Module) -> Iterator[Hit]:
    """A task that nobody holds: it may be collected, and its error is lost."""
    for name, call in module.called(*_TASKS):
        if isinstance(module.parents.get(call), ast.Expr):
            shown = name.removeprefix("~")
            yield Hit(call, f"the task made by `{shown}` is dropped; keep it, or use a task group")


def never_awaited(module: Module) -> Iterator[Hit]:
    """A coroutine that is made and thrown away."""
    local = _async_functions(module)
    own: dict[ast.AST, set[str]] = {}
    for statement in module.all(ast.Expr):
        call = statement.value
        if not isinstance(call, ast.Call):
            continue
        name = _callee(module, call, local, own)
        if name:
            yield Hit(call, f"`{name}(...)` is never awaited, so it does nothing")
    for name, call in module.called(*_AWAITABLE):
        if isinstance(module.parents.get(call), ast.Expr):
            yield Hit(call, f"`{name}(...)` is never awaited, so it does nothing")


def lock_over_await(module: Module) -> Iterator[Hit]:
    """A thread lock held while a coroutine waits."""
    locks = _thread_locks(module)
    for block in module.all(ast.With) if locks else ():
        held = [_leaf(item.context_expr) for item in block.items]
        lock = next((name for name in held if name in locks), None)
        if lock and isinstance(module.function_of(block), ast.AsyncFunctionDef) and _awaits(block):
            yield Hit(block, f"`{lock}` is held over an await; a task that waits for it stops the loop")


def unbounded_request(module: Module) -> Iterator[Hit]:
    """A request of `requests` without a timeout."""
    for name, call in module.called(*(n for n in _REQUESTS if n.startswith("requests."))):
        if keyword(call, "timeout") is None and not any(k.arg is None for k in call.keywords):
            yield Hit(call, f"`{name}` without `timeout` can wait for ever")
    for name, call in module.called("urllib.request.urlopen", "socket.create_connection"):
        given = len(call.args) > (2 if name.startswith("urllib") else 1)
        if not given and keyword(call, "timeout") is None and not any(k.arg is None for k in call.keywords):
            yield Hit(call, f"`{name}` without `timeout` can wait for ever")


def _async_functions(module: Module) -> dict[tuple[ast.ClassDef | None, str], bool]:
    """For every function at module or class level: is each definition of that name async?"""
    found: dict[tuple[ast.ClassDef | None, str], bool] = {}
    for function in module.functions():
        owner = module.class_of(function)
        if owner is None and not isinstance(module.parents.get(function), ast.Module):
            continue
        is_async = isinstance(function, ast.AsyncFunctionDef) and not _is_wrapped(function)
        key = (owner, function.name)
        found[key] = is_async and found.get(key, True)
    return found


def _is_wrapped(function: ast.AsyncFunctionDef) -> bool:
    """Whether calling it may not give a coroutine: decorated, or an async generator."""
    if function.decorator_list:
        return True
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Yield):
            return True
        if not isinstance(node, Scope | ast.ClassDef):
            stack.extend(ast.iter_child_nodes(node))
    return False


def _callee(
    module: Module,
    call: ast.Call,
    local: dict[tuple[ast.ClassDef | None, str], bool],
    own: dict[ast.AST, set[str]],
) -> str:
    """The async function of this module that a call means, or an empty text."""
    if isinstance(call.func, ast.Name):
        name = call.func.id
        known = local.get((None, name)) and name not in module.imports
        return name if known and not _is_local(module, call, name, own) else ""
    if (
        isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "self"
    ):
        owner = next((a for a in module.up(call) if isinstance(a, ast.ClassDef)), None)
        return f"self.{call.func.attr}" if local.get((owner, call.func.attr)) else ""
    return ""


def _is_local(module: Module, call: ast.Call, name: str, own: dict[ast.AST, set[str]]) -> bool:
    """Whether a function around the call binds the name itself; `own` keeps what each function binds."""
    for above in module.up(call):
        if isinstance(above, Scope):
            if above not in own:
                own[above] = _binds(above)
            if name in own[above]:
                return True
    return False


def _binds(scope: Scope) -> set[str]:
    names = {a.arg for a in parameters(scope)}
    for node in ast.walk(scope):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node is not scope:
            names.add(node.name)
    return names


def _thread_locks(module: Module) -> set[str]:
    """The names and attributes that hold a lock of `threading`."""
    makers = ("threading.Lock", "threading.RLock", "threading.Condition", "threading.Semaphore")
    holders = [module.parents.get(call) for _, call in module.called(*makers)]
    return {_leaf(t) for h in holders if isinstance(h, ast.Assign) for t in h.targets} - {""}


def _leaf(expr: ast.expr) -> str:
    if isinstance(expr, ast.Attribute):
        return expr.attr
    return expr.id if isinstance(expr, ast.Name) else ""


def _awaits(block: ast.With) -> bool:
    return any(isinstance(n, ast.Await) for s in block.body for n in ast.walk(s))


CHECKS: tuple[Check, ...] = (
    Check(
        "blocking-call",
        "medium",
        0.9,
        "One loop serves all tasks; this one keeps it.",
        blocking_call,
        ("ASYNC210", "ASYNC220", "ASYNC221", "ASYNC230", "ASYNC251"),
        "soften",
    ),
    Check(
        "dropped-task",
        "medium",
        0.85,
        "The loop keeps only a weak reference to it.",
        dropped_task,
        ("RUF006",),
        "soften",
    ),
    Check("never-awaited", "high", 0.9, "The call only makes a coroutine object.", never_awaited, ()),
    Check(
        "lock-over-await",
        "medium",
        0.7,
        "Thread locks do not know about tasks.",
        lock_over_await,
        (),
        "soften",
    ),
    Check(
        "no-timeout",
        "low",
        0.85,
        "A silent peer stops the caller for good.",
        unbounded_request,
        ("S113",),
        "skip",
    ),
)
