"""The product's source, parsed once: what the architecture tests look at."""

from __future__ import annotations

import ast
import functools
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("emissions", "roles", "orchestrator")

type_of_function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One file: where it is, what it is called as a module, what it says."""

    path: Path
    module: str
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """The path from the project's root, as error messages write it."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    def functions(self) -> Iterator[tuple[str, type_of_function]]:
        """Every function with its dotted name inside the file, nested ones included."""
        yield from _functions(self.tree, "")


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, type_of_function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, type_of_function):
            yield f"{prefix}{child.name}", child
        inner = f"{prefix}{child.name}." if isinstance(child, type_of_function | ast.ClassDef) else prefix
        yield from _functions(child, inner)


def parse(path: Path) -> Source:
    parts = path.relative_to(ROOT).with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = path.read_text(encoding="utf-8")
    return Source(path, module, text, ast.parse(text, filename=str(path)))


@functools.cache
def product() -> tuple[Source, ...]:
    """Every Python file of the three packages, in a stable order."""
    return tuple(parse(path) for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))


@functools.cache
def examples() -> tuple[Source, ...]:
    """Every Python file of the examples, but for the samples that are bad on purpose."""
    files = sorted((ROOT / "docs" / "examples").rglob("*.py"))
    return tuple(parse(path) for path in files if "samples" not in path.parts)


def tracked() -> list[Path]:
    """Every committed file that is there. Skips the test where nothing says which these are."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("not a git checkout: nothing says which files are committed")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [path for name in listed.decode().split("\0") if name and (path := ROOT / name).is_file()]


def report(faults: list[str]) -> str:
    return "\n".join([f"{len(faults)} fault(s):", *faults])
