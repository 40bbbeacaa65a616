"""A linter that needs nothing installed: what does not parse, warnings of the compiler, unused imports.

``python lint.py FOLDER`` prints ``path:line: what`` for each finding and exits with 1 if there is one.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

LEFT_OUT = {"build", "dist", "node_modules", "site-packages", "venv"}


def findings(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of everything that is wrong with one module; a line that says ``noqa`` is left alone."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            tree = ast.parse(source)
            compile(source, "module", "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            yield getattr(error, "lineno", None) or 1, f"does not parse: {getattr(error, 'msg', error)}"
            return
    yield from sorted({(warned.lineno, str(warned.message)) for warned in caught})
    lines = source.splitlines()
    yield from ((at, text) for at, text in unused(tree) if "noqa" not in lines[at - 1])


def unused(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Names that the module imports at its top and that stand nowhere else in it."""
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    # a name in an annotation in quotes, or in __all__, is used as well
    texts = " ".join(
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    for node in tree.body:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            continue
        for one in node.names:
            name = one.asname or one.name.partition(".")[0]
            again = one.asname == one.name
            if name != "*" and not again and name not in used and name not in texts:
                yield node.lineno, f"{name} is imported and not used"


def main(folder: Path) -> int:
    """Print what is found below a folder; the exit code."""
    count = 0
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder)
        if any(part.startswith(".") or part in LEFT_OUT for part in inside.parts):
            continue
        try:
            source = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            print(f"{inside}:1: is not UTF-8")
            count += 1
            continue
        # an __init__ imports for others
        for line, what in findings(source):
            if path.name != "__init__.py" or "imported" not in what:
                print(f"{inside}:{line}: {what}")
                count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
