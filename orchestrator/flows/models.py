"""``returns: module:Model``: a class in a Python file beside the document."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from orchestrator.flows.names import suggestion
from orchestrator.flows.shapes import ShapeError
from roles import RoleError
from roles.files import load_module

__all__ = ["load_model"]

_FORM: Final = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)", re.ASCII)


def load_model(shape: str, folder: Path) -> object:
    """The class that ``shape`` names, such as ``cast:Report`` for one of ``cast.py``.

    Raises:
        ShapeError: the form is wrong, or there is no such file or class.
    """
    form = _FORM.fullmatch(shape)
    if form is None:
        raise ShapeError(f"{shape!r} is no shape; write module:Model, a .json file or the shape itself")
    name, model = form.groups()
    file = (folder / Path(*name.split("."))).with_suffix(".py")
    if not file.is_file():
        raise ShapeError(f"there is no {file.name} beside the document, in which {model} could stand")
    try:
        module = load_module(file)
    except RoleError as error:
        raise ShapeError(str(error)) from error
    found = vars(module).get(model)
    if not isinstance(found, type):
        classes = [key for key, value in vars(module).items() if isinstance(value, type)]
        raise ShapeError(f"{name} has no class {model!r}{suggestion(model, classes)}")
    return found
