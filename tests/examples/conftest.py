"""The analysis of the audit example, loaded by path as its cast loads it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

AUDIT = Path(__file__).parents[2] / "docs" / "examples" / "audit"


@pytest.fixture(scope="session")
def audit_folder() -> Path:
    """The folder of the example."""
    return AUDIT


@pytest.fixture(scope="session")
def analysis() -> ModuleType:
    """The package beside the cast, under the name by which the cast knows it."""
    name = "_audit_example_analysis"
    if name not in sys.modules:
        folder = AUDIT / "analysis"
        spec = importlib.util.spec_from_file_location(
            name, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
