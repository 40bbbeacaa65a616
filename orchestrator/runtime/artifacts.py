"""Files that nodes leave: where they belong, whether they are there, and the copies that the run keeps.

A node works in a folder of its own, ``<runs>/<run>/<node>/``, unless its ``workdir`` names another. What it
declares is looked at when its body has returned: each file must be a regular one inside that folder (a link
that leads out is none), is hashed, and is copied up to COPY_LIMIT to ``<runs>/<run>/.kept/<node>/``, so
that what later nodes read is what this one left (kernel.md 6).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import nullcontext
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from orchestrator.core.facts import LeftArtifact
from orchestrator.core.scopes import node_scope
from orchestrator.core.spec import Artifact
from orchestrator.core.state import NodeState
from orchestrator.core.templates import compile_template
from orchestrator.errors import ExecutionError
from orchestrator.runtime.threads import run_in_thread
from roles import Role

if TYPE_CHECKING:
    from orchestrator.runtime.engine import Engine
    from orchestrator.runtime.turns import RoleTurn

__all__ = ["COPY_LIMIT", "claim_fault", "declared", "keeping", "made", "places", "where"]

#: Bytes; a larger file is hashed and left where it is.
COPY_LIMIT: Final = 10 * 1024 * 1024
#: Bytes that are hashed and copied at once on the loop's own thread; more is done on another.
_AT_ONCE: Final = 1024 * 1024
_BLOCK: Final = 1024 * 1024
_KEPT: Final = ".kept"


def declared(node: NodeState, role: Role | None) -> tuple[Artifact, ...]:
    """What a node is to leave: what its role declares, and what it says itself, which wins."""
    own = node.op.artifacts
    if role is None or not role.artifacts:
        return own
    names = {artifact.name for artifact in own}
    of_role = (
        Artifact(name=one.name, path=one.path, required=one.required, kind=one.kind)
        for one in role.artifacts
        if one.name not in names
    )
    return (*of_role, *own)


def where(engine: Engine, node: NodeState) -> Path:
    """The folder that a node works in; it need not exist yet."""
    text = node.op.workdir
    if text is None:
        return engine.folder / node.op.name
    if "${" in text:
        text = compile_template(text).render(node_scope(engine.state, node, engine.reducers))
    source = engine.definition.source
    return (Path(source).parent if source else Path()) / text


def made(folder: Path) -> Path:
    """``folder``, made with everything above it that is missing; nobody else may read what we make."""
    absent = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(absent):
        one.mkdir(mode=0o700, exist_ok=True)
    return folder


def claim_fault(folder: Path, path: str) -> str | None:
    """Why a claimed file is none, or None.

    Args:
        folder: the node's. path: as the role gave it, relative to that folder or inside it.
    """
    home = folder.resolve()
    place = (home / path).resolve()
    if not place.is_relative_to(home):
        return f"{path!r} is outside the node's folder; write it to turn.workdir"
    if not place.is_file():
        return f"{path!r} does not exist in the node's folder; write it to turn.workdir first"
    return None


def keeping(
    body: Callable[[RoleTurn], Coroutine[Any, Any, Any]],
    engine: Engine,
    node: NodeState,
    wanted: tuple[Artifact, ...],
) -> Callable[[RoleTurn], Coroutine[Any, Any, Any]]:
    """A body that is over when the files that it declares are there, hashed and kept."""

    async def call(turn: RoleTurn) -> Any:
        value = await body(turn)
        home, kept = where(engine, node), engine.folder / _KEPT / node.op.name
        if _size(home, wanted) <= _AT_ONCE:
            turn.left = _look(wanted, home, kept)
        else:
            turn.left = await run_in_thread(lambda: _look(wanted, home, kept), copy_context())
        return value

    return call


def _size(home: Path, wanted: Iterable[Artifact]) -> int:
    """Bytes of what is there, for a guess at how long it will take."""
    total = 0
    for artifact in wanted:
        try:
            total += (home / artifact.path).stat().st_size
        except OSError:
            continue
    return total


def _look(wanted: Iterable[Artifact], home: Path, kept: Path) -> tuple[LeftArtifact, ...]:
    """Every declared file that is there.

    Raises:
        ExecutionError: a required one is missing, or one cannot be read.
    """
    left = []
    for artifact in wanted:
        fault = claim_fault(home, artifact.path)
        if fault is None:
            left.append(_keep(artifact, home, kept))
        elif artifact.required:
            raise ExecutionError(f"artifact {artifact.name!r}: {fault}")
    return tuple(left)


def _keep(artifact: Artifact, home: Path, kept: Path) -> LeftArtifact:
    """Hash a file and copy it, in one reading."""
    place = (home / artifact.path).resolve()
    goal = kept / artifact.path
    try:
        source = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(source, "rb") as stream:
            if not stat.S_ISREG(os.fstat(source).st_mode):
                raise ExecutionError(f"artifact {artifact.name!r}: {artifact.path!r} is no regular file")
            copies = os.fstat(source).st_size <= COPY_LIMIT
            copy = None if not copies else _begin(goal)
            digest, size = _read(stream, copy)
    except OSError as error:
        raise ExecutionError(
            f"artifact {artifact.name!r}: {artifact.path!r} cannot be kept: {error.strerror or error}"
        ) from error
    if copy is not None:
        goal.with_name(f"{goal.name}.part").replace(goal)
    return LeftArtifact(
        artifact.name,
        artifact.path,
        str((goal if copies else place).absolute()),
        digest,
        size,
        artifact.kind,
        copies,
    )


def _begin(goal: Path) -> int:
    """A file of ours beside ``goal``, open for writing."""
    made(goal.parent)
    part = goal.with_name(f"{goal.name}.part")
    part.unlink(missing_ok=True)
    return os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def _read(stream: Any, copy: int | None) -> tuple[str, int]:
    """The hash and the size of what a stream holds, written to ``copy`` on the way."""
    digest, size = hashlib.sha256(), 0
    with nullcontext() if copy is None else os.fdopen(copy, "wb") as target:
        while block := stream.read(_BLOCK):
            digest.update(block)
            size += len(block)
            if target is not None:
                target.write(block)
    return digest.hexdigest(), size


def places(node: NodeState, role: Role | None, folder: Path) -> Mapping[str, Path]:
    """Where what a node is to leave belongs, by name."""
    return {artifact.name: folder / artifact.path for artifact in declared(node, role)}
