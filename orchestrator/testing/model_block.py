"""No test calls a real model: a flag for ours and our children, and the block of the model library itself.

The library is never imported for this. If it is there already its block is set; if it comes later, a finder
at the head of ``sys.meta_path`` sets it as soon as its module has been executed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

__all__ = ["ENVIRONMENT", "FORBIDDEN", "ModelBlock"]

#: A model backend that finds this variable set to FORBIDDEN refuses to call a model.
ENVIRONMENT: Final = "CALLBOARD_MODEL_CALLS"
FORBIDDEN: Final = "forbidden"
_MODULE: Final = "pydantic_ai.models"
_SWITCH: Final = "ALLOW_MODEL_REQUESTS"


class ModelBlock:
    """Forbids model calls from :meth:`on` to :meth:`off`, which puts everything back."""

    def __init__(self) -> None:
        self._finder = _Finder()
        self._before: str | None = None
        self._allowed: object = True
        self._active = False

    def on(self) -> None:
        """Forbid; a second time is no news."""
        if self._active:
            return
        self._active = True
        self._before = os.environ.get(ENVIRONMENT)
        os.environ[ENVIRONMENT] = FORBIDDEN
        # what a library that comes later is left with: under an outer block it stays blocked
        self._allowed = self._before != FORBIDDEN
        module = sys.modules.get(_MODULE)
        if module is not None:
            self._allowed = getattr(module, _SWITCH, True)
            setattr(module, _SWITCH, False)
        sys.meta_path.insert(0, self._finder)

    def off(self) -> None:
        """Put back what was before."""
        if not self._active:
            return
        self._active = False
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        module = sys.modules.get(_MODULE)
        if module is not None:
            setattr(module, _SWITCH, self._allowed)
        if self._before is None:
            os.environ.pop(ENVIRONMENT, None)
        else:
            os.environ[ENVIRONMENT] = self._before


class _Finder(MetaPathFinder):
    """Lets the others find the module and sets its block when it has been executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None for every module but one."""
        if fullname != _MODULE:
            return None
        # only those behind this one: two blocks that ask each other would never come to an end
        behind = sys.meta_path[sys.meta_path.index(self) + 1 :] if self in sys.meta_path else ()
        for finder in behind:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Blocked(spec.loader)
                return spec
        return None


class _Blocked(Loader):
    """A module's own loader, and then the block."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> object:
        """Whatever else the module's own loader offers (sources, resources)."""
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the module's own loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """As the module's own loader does; then no request is allowed."""
        self._loader.exec_module(module)
        setattr(module, _SWITCH, False)
