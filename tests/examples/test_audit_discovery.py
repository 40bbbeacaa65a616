"""What the scout finds, what it leaves out and says so, and what it refuses."""

from __future__ import annotations

import os

import pytest


def plant(root, *paths):
    """Make files with their folders."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x = 1\n", encoding="utf-8")


def left_out(found):
    """Path -> reason."""
    return {entry.path: entry.why for entry in found.skipped}


def test_modules_in_the_order_of_their_names(analysis, tmp_path):
    """A folder's modules stand together, whatever the file system says."""
    plant(tmp_path, "b.py", "a/z.py", "a.py", "a/b/c.py", "a/notes.txt", "gui.pyw", "stub.pyi")
    found = analysis.discover(tmp_path)
    assert found.modules == ["a/b/c.py", "a/z.py", "a.py", "b.py", "gui.pyw"]
    assert not found.skipped


def test_what_is_left_out_is_named(analysis, tmp_path):
    """Hidden, installed, built: each with its reason; caches without a word."""
    plant(
        tmp_path,
        "m.py",
        ".git/hook.py",
        "node_modules/x/y.py",
        "__pycache__/m.py",
        "build/lib/m.py",
        "dist/m.py",
        "env/pyvenv.cfg",
        "env/lib/q.py",
        "lib/site-packages/r.py",
    )
    found = analysis.discover(tmp_path)
    assert found.modules == ["m.py"]
    assert left_out(found) == {
        ".git/": "hidden",
        "build/": "build output",
        "dist/": "build output",
        "env/": "a virtual environment",
        "lib/site-packages/": "installed packages",
        "node_modules/": "packages of another language",
    }


def test_a_package_called_build_is_code(analysis, tmp_path):
    """A name alone is no proof."""
    plant(tmp_path, "build/__init__.py", "build/core.py")
    assert analysis.discover(tmp_path).modules == ["build/__init__.py", "build/core.py"]


def test_links_are_not_followed(analysis, tmp_path):
    """A loop of links ends, and no walk leaves the target."""
    plant(tmp_path, "in/m.py", "out/secret.py")
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in", target_is_directory=True)
    (tmp_path / "in" / "away.py").symlink_to(tmp_path / "out" / "secret.py")
    (tmp_path / "in" / "broken.py").symlink_to(tmp_path / "nowhere.py")
    (tmp_path / "in" / "round").symlink_to("round")
    found = analysis.discover(tmp_path / "in")
    assert found.modules == ["m.py"]
    assert left_out(found) == dict.fromkeys(("away.py", "broken.py", "loop/"), "a symbolic link")


def test_programs_without_a_suffix(analysis, tmp_path):
    """A file that may be run and says Python in its first line is a module."""
    plant(tmp_path, "tool", "shell", "data")
    (tmp_path / "tool").write_bytes(b"#!/usr/bin/env python3\nx = 1\n")
    (tmp_path / "shell").write_bytes(b"#!/bin/sh\n")
    (tmp_path / "data").write_bytes(b"#!/usr/bin/env python3\n")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "shell").chmod(0o755)
    (tmp_path / "data").chmod(0o644)
    assert analysis.discover(tmp_path).modules == ["tool"]


def test_huge_and_strange_files(analysis, tmp_path):
    """A file of some MiB is named; a pipe is not opened."""
    plant(tmp_path, "m.py")
    with (tmp_path / "huge.py").open("wb") as stream:
        stream.truncate(3 * 1024 * 1024)
    os.mkfifo(tmp_path / "pipe.py")
    found = analysis.discover(tmp_path)
    assert found.modules == ["m.py"]
    assert left_out(found) == {"huge.py": "larger than 2,048 KiB", "pipe.py": "not a regular file"}


def test_names_that_are_no_text(analysis, tmp_path):
    """A name that cannot be written down cannot travel in an emission: it is left out, visibly."""
    raw = os.fsencode(tmp_path) + b"/bad\xff.py"
    with open(raw, "wb"):  # noqa: PTH123 - a Path cannot hold the bytes of this name
        pass
    found = analysis.discover(tmp_path)
    assert found.modules == []
    assert left_out(found) == {r"bad\udcff.py": "its name is not valid UTF-8"}


def test_a_folder_that_may_not_be_read(analysis, tmp_path, monkeypatch):
    """The rest is still looked at."""
    plant(tmp_path, "m.py", "locked/x.py")
    real = os.scandir

    def scandir(path):
        if str(path).endswith("locked"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    found = analysis.discover(tmp_path)
    assert found.modules == ["m.py"]
    assert left_out(found) == {"locked": "Permission denied"}


def test_a_single_file_is_its_own_target(analysis, tmp_path):
    """Paths stay relative to its folder."""
    plant(tmp_path, "one.py", "two.py")
    found = analysis.discover(tmp_path / "one.py")
    assert (found.root, found.modules) == (tmp_path, ["one.py"])


def test_an_empty_folder(analysis, tmp_path):
    """Nothing is a valid answer."""
    assert analysis.discover(tmp_path).modules == []


def test_a_missing_target_says_what_to_do(analysis, tmp_path):
    """What, where, what next."""
    with pytest.raises(FileNotFoundError, match=r"nowhere: no such file or folder; .*--arg target=PATH"):
        analysis.discover(tmp_path / "nowhere")


@pytest.mark.slow
def test_five_thousand_modules(analysis, tmp_path):
    """Every one is found, once, in order."""
    plant(tmp_path, *(f"p{i % 50:02}/m{i:04}.py" for i in range(5_000)))
    found = analysis.discover(tmp_path)
    assert len(set(found.modules)) == len(found.modules) == 5_000
    assert found.modules == sorted(found.modules)
