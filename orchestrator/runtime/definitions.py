"""References to functions: how a run that another process began finds its code again.

A durable run records each function as ``path::qualified.name::hash of its source``. A lambda or a
function made inside another cannot be found again and is refused before the run starts.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from orchestrator.core.spec import Budget, Definition
from orchestrator.errors import ExecutionError, OperationError
from orchestrator.flows.conditions import EdgeCondition, Negated
from orchestrator.flows.flow import Flow
from orchestrator.runtime.planning import Prepared
from orchestrator.runtime.values import encode, settle
from roles import Role

__all__ = ["CONDITION", "NEGATED", "bare_condition", "definition_of", "flow_reference", "load", "reference"]

#: Before the index of a condition object, and of one whose opposite is meant.
CONDITION = "condition"
NEGATED = "not"
_PARTS = 3
_NEEDED = "a durable run needs conditions as text, or objects whose fields are JSON"


def definition_of(
    prepared: Prepared, source: str, outputs: Mapping[str, str], *, durable: bool
) -> Definition:
    """Everything another process needs to go on with a run.

    Args:
        source: path of the flow document, or "". durable: refuse what cannot be found again.

    Raises:
        OperationError: a lambda, a closure, or a condition object whose fields are no JSON.
    """
    if not durable:
        return Definition(source=source, outputs=dict(outputs))
    # a document's roles are found again by their names: they may be made in any way
    functions = {f"role:{name}": reference(body.fn, by_name=source) for name, body in prepared.bodies.items()}
    functions |= {f"verb:{name}": reference(body.fn) for name, body in prepared.verbs.items()}
    functions |= {f"reducer:{name}": reference(fn) for name, fn in prepared.reducers.items()}
    functions |= {f"returns:{name}": reference(kind) for name, kind in prepared.returns.items()}
    functions |= {f"flow:{name}": flow_reference(flow) for name, flow in prepared.flows.items()}
    fields = {}
    for index, condition in enumerate(prepared.predicates):
        bare, negated = bare_condition(condition)
        functions[f"{NEGATED if negated else CONDITION}:{index}"] = reference(type(bare))
        fields[str(index)] = msgspec.Raw(_fields(bare))
    text = encode(functions) + msgspec.json.encode(msgspec.structs.replace(prepared.plan, budget=Budget()))
    digest = hashlib.sha256(text).hexdigest()[:32]
    return Definition(source=source, digest=digest, functions=functions, fields=fields, outputs=dict(outputs))


def reference(target: Any, *, by_name: str = "") -> str:
    """``path::qualified.name::hash`` of a function, a role's function or a class.

    Args:
        by_name: the document in which it is found by another name; then it may be made anywhere.

    Raises:
        OperationError: it is a lambda or was made inside a function.
    """
    plain = inspect.unwrap(target)
    name = getattr(plain, "__qualname__", "") or (type(plain).__qualname__ if by_name else "")
    if not name or ("<" in name and not by_name):
        message = (
            f"{name or target!r} cannot be found again by another process; define it at the top level of a "
            f"file, or run with journal=None"
        )
        raise OperationError(message)
    try:
        path = inspect.getfile(plain)
    except TypeError:
        path = ""
    return f"{Path(path).resolve() if path else getattr(plain, '__module__', '')}::{name}::{_digest(plain)}"


def flow_reference(flow: Flow) -> str:
    """``path::::hash`` of an included document, as it was read."""
    return f"{flow.path.resolve()}::::{hashlib.sha256(flow.text.encode()).hexdigest()[:16]}"


def _digest(target: Any) -> str:
    try:
        text = inspect.getsource(target).encode()
    except (OSError, TypeError):
        code = getattr(target, "__code__", None)
        text = repr(target).encode() if code is None else code.co_code
    return hashlib.sha256(text).hexdigest()[:16]


def bare_condition(condition: EdgeCondition) -> tuple[EdgeCondition, bool]:
    """The condition under any number of negations, and whether they turn it round."""
    negated = False
    while isinstance(condition, Negated):
        condition, negated = condition.inner, not negated
    return condition, negated


def _fields(condition: object) -> bytes:
    """A condition object's fields as JSON; it is made again from them."""
    if dataclasses.is_dataclass(condition) and not isinstance(condition, type):
        given = {field.name: getattr(condition, field.name) for field in dataclasses.fields(condition)}
    else:
        given = dict(getattr(condition, "__dict__", {}))
    where = f"the fields of {type(condition).__name__}"
    try:
        settled = settle(given, where)[0]
    except ExecutionError as error:
        message = f"{error}; {_NEEDED}"
        raise OperationError(message) from None
    if not _is_json(given):
        # an object would come back as a mapping, and fail where nobody looks for it
        raise OperationError(f"{where} hold an object; {_NEEDED}")
    return settled


def _is_json(value: object) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(_is_json(item) for item in value)
    return value is None or type(value) in (bool, int, float, str)


def load(text: str, what: str, *, changed_ok: bool = False) -> Any:
    """The function, role or class that a reference names.

    Args:
        text: the reference. what: what it is in the run, for messages. changed_ok: another source is fine.

    Raises:
        OperationError: the file or the name is gone, or its source has changed.
    """
    parts = text.split("::")
    if len(parts) != _PARTS:
        message = f"{what}: {text!r} is no reference to a function"
        raise OperationError(message)
    place, name, digest = parts
    target: Any = _module(place, what)
    for part in name.split("."):
        target = getattr(target, part, None)
        if target is None:
            message = f"{what}: {place} has no {name} any more; restore it, or start a new run"
            raise OperationError(message)
    plain = target.fn if isinstance(target, Role) else target
    if not changed_ok and plain is not None and _digest(inspect.unwrap(plain)) != digest:
        message = (
            f"{what}: {name} in {place} has changed since the run began; resume with --new-definition to use "
            f"the new code"
        )
        raise OperationError(message)
    return target


def _module(place: str, what: str) -> ModuleType:
    path = Path(place)
    modules = list(sys.modules.values())
    for module in modules:
        if place in (module.__name__, getattr(module, "__file__", None)):
            return module
    for module in modules:
        # under another name of the same file; each question goes to the file system
        file = getattr(module, "__file__", None)
        if file and Path(file).resolve() == path:
            return module
    name = f"_callboard_code_{hashlib.sha256(place.encode()).hexdigest()[:20]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        message = f"{what}: {place} does not exist any more; restore it, or start a new run"
        raise OperationError(message)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        message = f"{what}: {place} cannot be loaded: {type(error).__name__}: {error}"
        raise OperationError(message) from error
    return module
