"""A link inside the project leads to a file that exists and, where it names one, to a heading of it."""

from __future__ import annotations

from urllib.parse import unquote

import pytest

from tests.docs.pages import ROOT, Page, pages


def fault(page: Page, target: str) -> str | None:
    """What is wrong with a link, or None. Links to elsewhere are not followed: a test needs no network."""
    if "://" in target or target.startswith("mailto:"):
        return None
    path, _, fragment = unquote(target).partition("#")
    file = (page.path.parent / path).resolve() if path else page.path
    if ROOT not in (file, *file.parents):
        return f"{target} leaves the project"
    if not file.exists():
        return f"{target} does not exist"
    if fragment and file.suffix == ".md":
        there = Page(file, file.read_text(encoding="utf-8"))
        if fragment not in there.anchors():
            return f"{target}: {there.name} has no heading #{fragment}; it has {sorted(there.anchors())}"
    return None


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_lead_somewhere(page: Page):
    """Every relative link of a page."""
    faults = [f"{page.name}:{line}: {what}" for line, target in page.links() if (what := fault(page, target))]
    assert not faults, "\n".join(faults)


def test_every_page_can_be_reached():
    """Every page under docs is linked from the index, directly or by a page that is."""
    by_path = {page.path: page for page in pages()}
    index = ROOT / "docs" / "index.md"
    reached, todo = {index}, [index]
    while todo:
        page = by_path[todo.pop()]
        for _, target in page.links():
            file = (page.path.parent / target.partition("#")[0]).resolve()
            if file in by_path and file not in reached:
                reached.add(file)
                todo.append(file)
    docs = {path for path in by_path if path.is_relative_to(ROOT / "docs") and "examples" not in path.parts}
    lost = sorted(path.relative_to(ROOT).as_posix() for path in docs - reached)
    assert not lost, f"not linked from docs/index.md: {lost}"
