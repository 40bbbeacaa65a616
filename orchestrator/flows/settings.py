"""What a project and a person say of models where a document says nothing.

A project's ``callboard.toml`` stands beside the document or in a folder above it, the nearest one counts; a
person's ``config.toml`` stands in the config folder. Both hold ``model`` and ``effort``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from orchestrator.flows.names import suggestion
from orchestrator.flows.problems import Problem
from roles.discovery import config_folder

__all__ = ["MODEL_FORM", "PROJECT_FILE", "Setting", "Settings", "settings_for"]

PROJECT_FILE: Final = "callboard.toml"
#: PROVIDER:NAME, the form that model libraries share; ``test`` is the model that calls nobody.
MODEL_FORM: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*:\S+|test")
_KEYS: Final = ("model", "effort")
_LIMIT: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, and where it was said."""

    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What nodes have that a model performs, where neither they nor their document say it."""

    model: Setting | None = None
    effort: Setting | None = None


def settings_for(folder: Path) -> tuple[Settings, list[Problem]]:
    """The settings that hold for documents of a folder, the project's over the person's, and their faults."""
    found: dict[str, Setting] = {}
    problems: list[Problem] = []
    for path in _files(folder):
        data, faults = _read(path)
        problems += [Problem(str(path), 1, 1, fault) for fault in faults]
        for key, value in data.items():
            found.setdefault(key, Setting(value, str(path)))
    return Settings(found.get("model"), found.get("effort")), problems


def _files(folder: Path) -> Iterator[Path]:
    here = folder.resolve()
    above = (one / PROJECT_FILE for one in (here, *here.parents))
    nearest = next((one for one in above if one.is_file()), None)
    for path in (nearest, config_folder() / "config.toml"):
        if path is not None and path.is_file():
            yield path


def _read(path: Path) -> tuple[dict[str, str], list[str]]:
    """What a file says, and what is wrong with it."""
    try:
        with path.open("rb") as stream:
            data: dict[str, Any] = tomllib.loads(stream.read(_LIMIT).decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return {}, [f"it cannot be read as TOML: {error}"]
    said, faults = {}, []
    for key, value in data.items():
        if key not in _KEYS:
            faults.append(f"there is no setting {key!r}{suggestion(key, _KEYS)}; write {' or '.join(_KEYS)}")
        elif not isinstance(value, str) or not value.strip():
            faults.append(f"{key} is {value!r}; write a text")
        elif key == "model" and not MODEL_FORM.fullmatch(value):
            faults.append(f"model is {value!r}; write PROVIDER:NAME")
        else:
            said[key] = value
    return said, faults
