"""The pages that are made from the code say what the code says now."""

from __future__ import annotations

import pytest

from docs.generate import HERE, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_page_is_current(name: str):
    """A change of the table changes the page in the same commit: `make docs`."""
    path = HERE / name
    assert path.exists(), f"docs/{name} is missing: make docs"
    assert path.read_text(encoding="utf-8") == PAGES[name](), f"docs/{name} is behind the code: make docs"
