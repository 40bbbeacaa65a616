"""Golden journals as text: a journal written out row by row, and laid down again as the file that it was.

Text rather than the file itself, for four reasons: a reader and a diff see what is recorded; the checks on
committed files (paths, secrets, encoding) see it too; git packs it well; and what counts is the rows and the
layout, not the pages that one version of SQLite put them on. The layout stands beside them, so that a
newer version of the code is given the tables of *then*, not those that it would make itself.
"""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any, Final

import apsw

__all__ = ["FOLDER", "GOLDEN", "laid_down", "names", "written_out"]

FOLDER: Final = Path(__file__).resolve().parent
#: The format whose journals stand here; a later one gets a folder of its own beside it.
GOLDEN: Final = FOLDER / "format-1"
_TABLES: Final = ("meta", "runs", "records", "blobs", "control")
_SLOT: Final = 512
#: Bytes from which a value is packed: only one that is large on purpose is.
_LONG: Final = 16_384


def names() -> list[str]:
    """The golden journals."""
    return sorted(path.stem for path in GOLDEN.glob("*.jsonl"))


def written_out(journal: Path) -> tuple[str, str]:
    """A journal that nobody has open: its layout as SQL, and its rows and heads as lines of JSON."""
    connection = apsw.Connection(str(journal), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        stamp = {name: connection.pragma(name) for name in ("application_id", "user_version")}
        kept = (
            "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
            "AND name <> 'cache'"
        )
        layout = ";\n\n".join(sql for (sql,) in connection.execute(f"{kept} ORDER BY rowid"))
        layout += "".join(f";\n\nPRAGMA {name}={value}" for name, value in stamp.items()) + ";\n"
        lines = []
        for table in _TABLES:
            cursor = connection.execute(f"SELECT * FROM {table}")
            for row in cursor:
                columns = [name for name, _ in cursor.get_description()]
                lines.append({"table": table, **dict(zip(columns, map(_plain, columns, row), strict=True))})
    finally:
        connection.close()
    for path in sorted(journal.parent.glob(f"{journal.name}.*.head")):
        run = path.name.removeprefix(f"{journal.name}.").removesuffix(".head")
        data = path.read_bytes()
        slots = [data[at : at + _SLOT].rstrip(b"\0").hex() for at in range(0, len(data), _SLOT)]
        lines.append({"head": run, "slots": slots})
    return layout, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def laid_down(name: str, journal: Path) -> Path:
    """The journal of a name as the file that it was when it was recorded."""
    connection = apsw.Connection(str(journal))
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute((GOLDEN / "layout.sql").read_text(encoding="utf-8"))
        with connection:
            for text in (GOLDEN / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
                line = json.loads(text)
                if "head" in line:
                    slots = [bytes.fromhex(slot).ljust(_SLOT, b"\0") for slot in line["slots"]]
                    journal.with_name(f"{journal.name}.{line['head']}.head").write_bytes(b"".join(slots))
                    continue
                table = line.pop("table")
                columns, marks = ", ".join(line), ", ".join("?" * len(line))
                values = tuple(map(_stored, line.values()))
                connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", values)
    finally:
        connection.close()
    journal.chmod(0o600)
    return journal


def _plain(column: str, value: Any) -> Any:
    """A column as JSON; what stands in the blob table is JSON itself and stays readable."""
    if not isinstance(value, bytes):
        return value
    if column == "data" and len(value) > _LONG:
        return {"zlib": base64.b64encode(zlib.compress(value, 9)).decode()}
    return {"json": value.decode()} if column == "data" else {"hex": value.hex()}


def _stored(value: Any) -> Any:
    """A column as it was."""
    if not isinstance(value, dict):
        return value
    if "zlib" in value:
        return zlib.decompress(base64.b64decode(value["zlib"]))
    return value["json"].encode() if "json" in value else bytes.fromhex(value["hex"])
