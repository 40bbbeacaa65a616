"""``callboard init``: a flow that runs at once, written where nothing of that name is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from orchestrator.cli.edge import say
from orchestrator.cli.opening import UsageError
from orchestrator.cli.options import InitOptions

__all__ = ["TEMPLATES", "init"]

_FOLDER: Final = Path(__file__).with_name("templates")
#: Names of templates.
TEMPLATES: Final = ("starter", "gate", "programs", "planner")
#: File of a template -> what it is called where it is written.
_FILES: Final = {
    "flow.yaml.txt": "flow.yaml",
    "cast.py.txt": "cast.py",
    "test_flow.py.txt": "test_flow.py",
    "gitignore.txt": ".gitignore",
}
#: Files that somebody may have already; they are left as they are.
_KEPT: Final = frozenset({".gitignore"})


def init(options: InitOptions) -> int:
    """Write a template's files; nothing is written if one of them would be overwritten.

    Raises:
        UsageError: there is no such template, or a file is in the way. OSError: it cannot be written.
    """
    if options.template not in TEMPLATES:
        raise UsageError(f"there is no template {options.template!r}; there are: {', '.join(TEMPLATES)}")
    folder = options.folder
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder")
    there = [name for name in _FILES.values() if name not in _KEPT and (folder / name).exists()]
    if there:
        raise UsageError(f"{folder} has {', '.join(there)} already; nothing was written, name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for source, name in _FILES.items():
        text = (_FOLDER / options.template / source).read_text(encoding="utf-8")
        try:
            with (folder / name).open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
        except FileExistsError:
            say(f"kept     {folder / name}")
            continue
        say(f"written  {folder / name}")
    shown = "" if folder == Path() else f" {folder}"
    say(f"\ntry it:  callboard run{shown}\ntest it: python -m pytest{shown}")
    return 0
