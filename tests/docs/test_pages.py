"""The reader of pages reads them right: a green docs test is not a blind one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT, Page
from tests.docs.test_blocks import Reader
from tests.docs.test_links import fault

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """# A page

See [the other](README.md#callboard) and [this](#a-second-one), not `[that](nowhere.md)`.

```python
x = 1
print(x)
```

<!-- prints -->
```text
1
```

<!-- not run: needs a key -->
```python
raise RuntimeError
```

<!-- file: cast.py -->
```python
y = 2
```

## A second one

## A second one
"""


def page(text: str = TEXT) -> Page:
    return Page(ROOT / "page.md", text)


def test_blocks_carry_what_is_said_above_them():
    """Language, directive, reason and line of each block."""
    found = [(block.language, block.word, block.rest, block.line) for block in page().blocks()]
    assert found == [
        ("python", "", "", 6),
        ("text", "prints", "", 12),
        ("python", "not run", "needs a key", 17),
        ("python", "file", "cast.py", 22),
    ]


def test_links_and_anchors():
    """Links in code are not links; equal headings get a number."""
    assert [target for _, target in page().links()] == ["README.md#callboard", "#a-second-one"]
    assert page().anchors() == {"a-page", "a-second-one", "a-second-one-1"}


def test_blocks_are_followed(tmp_path: Path):
    """Blocks run in order, output is compared, a block for a file is written and not run."""
    reader = Reader(page(), tmp_path)
    for block in page().blocks():
        reader.follow(block)
    assert (tmp_path / "cast.py").read_text(encoding="utf-8") == "y = 2\n"
    assert not hasattr(reader.module, "y")


def test_a_wrong_output_is_found(tmp_path: Path):
    """A page that promises another output fails."""
    wrong = page(TEXT.replace("\n1\n", "\n2\n"))
    reader = Reader(wrong, tmp_path)
    with pytest.raises(AssertionError, match=r"page\.md:12: prints something else"):
        [reader.follow(block) for block in wrong.blocks()]


def test_a_block_that_raises_names_its_line(tmp_path: Path):
    """The traceback of a failing block shows the page and the line of the block."""
    wrong = page("```python\nraise KeyError(1)\n```\n")
    with pytest.raises(KeyError) as raised:
        Reader(wrong, tmp_path).follow(wrong.blocks()[0])
    assert str(raised.traceback[-1].path).endswith("page.md:2")


def test_tests_in_a_block_are_called(tmp_path: Path):
    """A block with test functions is a test; async ones run on both loops."""
    text = "```python\nseen = []\ndef test_a(): seen.append(1)\nasync def test_b(): seen.append(2)\n```\n"
    reader = Reader(page(text), tmp_path)
    reader.follow(page(text).blocks()[0])
    assert reader.module.seen == [1, 2, 2]


def test_an_unclosed_block_is_an_error():
    """Half a page would silently go untested."""
    with pytest.raises(ValueError, match=r"page\.md:1"):
        page("```python\nx\n").blocks()


@pytest.mark.parametrize(
    ("target", "wrong"),
    [
        ("README.md", False),
        ("https://example.org", False),
        ("nowhere.md", True),
        ("README.md#no-such-heading", True),
        ("../elsewhere.md", True),
    ],
)
def test_bad_links_are_found(target: str, wrong: bool):
    """Missing files, missing headings and ways out of the project."""
    assert (fault(page(), target) is not None) is wrong
