"""Artifacts and folders while a run goes on: verified, hashed, kept, read downstream, gone when pruned."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest

from orchestrator import (
    Artifact,
    ArtifactProduced,
    OperationGraphBuilder,
    RunReason,
    Session,
    open_journal,
    role,
    run_sync,
)
from orchestrator.runtime.artifacts import COPY_LIMIT
from orchestrator.runtime.recorded import read_run

pytestmark = pytest.mark.anyio

FLOW = """
version: 1
name: notes
cast: [cast.py]
nodes:
  draft: {role: writer, artifacts: [{name: note, path: out/NOTE.md, required: true, kind: note}]}
  edit: {role: reader, after: [draft], with: {file: "${draft.artifacts.note}"}}
artifacts: [{name: note, required: true}]
outputs: {note: "${draft.artifacts.note}", text: "${edit}"}
"""
CAST = """
from orchestrator import role

@role()
def writer(turn):
    turn.artifacts["note"].parent.mkdir()
    turn.artifacts["note"].write_text("first")

@role()
def reader(turn):
    with open(turn.parameters["file"]) as file:
        return file.read()
"""


@pytest.fixture
def document(tmp_path):
    (tmp_path / "cast.py").write_text(CAST)
    path = tmp_path / "flow.yaml"
    path.write_text(FLOW)
    return path


async def test_kept_hashed_and_read_downstream(document, tmp_path):
    """kernel.md 6: what a node declares is copied when it settles and named by those after it."""
    journal = tmp_path / "journal.db"
    async with Session(journal=journal) as session:
        result = await session.flow(document)
    assert result.reason is RunReason.COMPLETED
    (left,) = result["draft"].artifacts
    assert (left.name, left.path, left.kind, left.size) == ("note", "out/NOTE.md", "note", 5)
    assert left.sha256 == hashlib.sha256(b"first").hexdigest()
    kept = tmp_path / "runs" / result.run / ".kept" / "draft" / "out" / "NOTE.md"
    assert Path(left.place) == kept
    assert result.outputs == {"note": str(kept), "text": "first"}
    assert result.artifacts == {"note": left}
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    for folder in (tmp_path / "runs", kept.parent, tmp_path / "runs" / result.run / "draft"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with open_journal(journal) as reader:
        recorded = read_run(reader, result.run)
    assert recorded.result()["draft"].artifacts == (left,)


async def test_a_copy_stays_as_it_was(tmp_path):
    """A later node that works in the same folder changes its own file, not what was kept."""
    (tmp_path / "cast.py").write_text(CAST)
    (tmp_path / "flow.yaml").write_text(
        FLOW.replace("required: true, kind: note}]}", "required: true}], workdir: w}").replace(
            'with: {file: "${draft.artifacts.note}"}}',
            'with: {file: "${draft.artifacts.note}"}}\n  again: {role: spoil, after: [edit], workdir: w}',
        )
    )
    (tmp_path / "cast.py").write_text(
        CAST + "\n@role()\ndef spoil(turn):\n    (turn.workdir / 'out/NOTE.md').write_text('second')\n"
    )
    async with Session(journal=tmp_path / "journal.db") as session:
        result = await session.flow(tmp_path / "flow.yaml")
    assert result.reason is RunReason.COMPLETED, result.detail
    assert (tmp_path / "w" / "out" / "NOTE.md").read_text() == "second"
    assert text(result.outputs["note"]) == "first"


def text(place):
    return Path(place).read_text()


def leaving(fn, *artifacts):
    builder = OperationGraphBuilder("files")
    builder.add_operation(role(name="writer", artifacts=artifacts)(fn), node_id="draft")
    return builder.get_graph()


NOTE = Artifact("note", "NOTE.md", required=True)


async def test_a_required_file_that_is_missing_fails_its_node():
    """Both arms: required fails and names it, optional is only absent."""
    async with Session() as session:
        result = await session.flow(leaving(lambda turn: None, NOTE))
        assert result["draft"].error.message.startswith("artifact 'note': 'NOTE.md' does not exist")
        result = await session.flow(leaving(lambda turn: None, Artifact("note", "NOTE.md")))
    assert (result.reason, result["draft"].artifacts) == (RunReason.COMPLETED, ())


async def test_a_run_that_does_not_leave_what_it_must(document, tmp_path):
    """The run is failed and says which file is missing, although every node settled well."""
    changed = document.read_text().replace("required: true, kind: note}]}", "kind: note}]}")
    changed = changed.replace('with: {file: "${draft.artifacts.note}"}', "with: {file: /dev/null}")
    document.write_text(changed.replace('note: "${draft.artifacts.note}", ', ""))
    start = CAST.index('    turn.artifacts["note"].parent')
    (tmp_path / "cast.py").write_text(CAST[:start] + "    pass\n" + CAST[CAST.index("@role()", start) - 1 :])
    async with Session() as session:
        result = await session.flow(document)
    assert result.reason is RunReason.FAILED
    assert result.detail == "no node left the artifact 'note', which the run must leave"


async def test_a_link_that_leads_out_is_no_file():
    """bad-inputs: a link to a file outside, to a folder outside, a folder, a pipe."""

    def link(turn):
        (turn.workdir / "NOTE.md").symlink_to("/etc/hostname")

    def folder(turn):
        (turn.workdir / "NOTE.md").mkdir()

    def pipe(turn):
        os.mkfifo(turn.workdir / "NOTE.md")

    async with Session() as session:
        for make in (link, folder, pipe):
            result = await session.flow(leaving(make, NOTE))
            assert result.reason is RunReason.FAILED, make
            assert "artifact 'note': 'NOTE.md'" in result["draft"].error.message


async def test_a_link_inside_the_folder_is_followed():
    """What it points at is what is kept."""

    def inside(turn):
        (turn.workdir / "real.md").write_text("here")
        (turn.workdir / "NOTE.md").symlink_to("real.md")

    async with Session() as session:
        result = await session.flow(leaving(inside, NOTE))
        (left,) = result["draft"].artifacts
        assert text(left.place) == "here"


async def test_a_large_file_is_hashed_and_stays_where_it_is():
    """Up to 10 MiB are copied."""

    def large(turn):
        with turn.artifacts["note"].open("wb") as file:
            file.truncate(COPY_LIMIT + 1)

    def full(turn):
        with turn.artifacts["note"].open("wb") as file:
            file.truncate(COPY_LIMIT)

    async with Session() as session:
        (left,) = (await session.flow(leaving(large, NOTE)))["draft"].artifacts
        assert (left.copied, left.size) == (False, COPY_LIMIT + 1)
        assert ".kept" not in left.place
        assert os.stat(left.place).st_size == left.size  # noqa: PTH116
        (left,) = (await session.flow(leaving(full, NOTE)))["draft"].artifacts
        assert left.copied
        assert os.stat(left.place).st_size == COPY_LIMIT  # noqa: PTH116


async def test_a_claimed_file_that_is_missing_is_refused():
    """roles.md: ArtifactProduced is checked; a missing one is refused invalid."""
    said = []

    @role(emits=(ArtifactProduced,))
    async def claims(turn):
        (turn.workdir / "there.md").write_text("x")
        said.append(await turn.emit(ArtifactProduced(path="there.md", kind="note")))
        said.append(await turn.emit(ArtifactProduced(path="gone.md", kind="note")))

    builder = OperationGraphBuilder("claims")
    builder.add_operation(claims)
    async with Session() as session:
        await session.flow(builder.get_graph())
    assert [bool(receipt) for receipt in said] == [True, False]
    assert said[1].reason == "invalid"


async def test_the_folder_of_a_session_in_memory_goes_with_it():
    """No journal, no file: the folder is temporary and private."""
    seen = []

    def writes(turn):
        seen.append(turn.workdir)
        turn.artifacts["note"].write_text("x")

    async with Session() as session:
        await session.flow(leaving(writes, NOTE))
        assert seen[0].is_dir()
        assert stat.S_IMODE(seen[0].parent.stat().st_mode) == 0o700
    assert not seen[0].parent.parent.exists()


async def test_reuse_takes_the_files_along(document, tmp_path):
    """journal.md: an equal node of an earlier run gives value, emissions and artifacts; gone, it runs."""
    async with Session(journal=tmp_path / "journal.db") as session:
        first = await session.flow(document)
        second = await session.flow(document, reuse=first.run)
        assert second["draft"].restored
        assert second["draft"].artifacts == first["draft"].artifacts
        os.unlink(first["draft"].artifacts[0].place)  # noqa: PTH108
        third = await session.flow(document, reuse=first.run)
        assert not third["draft"].restored
        assert third.outputs["text"] == "first"


def test_run_sync_gives_the_place(document):
    """The result names the file; the folder of a run without a journal is gone by then."""
    result = run_sync(document)
    assert result.outputs["text"] == "first"
    assert not Path(result.outputs["note"]).exists()
