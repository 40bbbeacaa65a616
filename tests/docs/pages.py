"""Markdown pages as the tests see them: fenced blocks with what was said about them, links, headings.

A line of its own directly above a block says what becomes of it:

    <!-- not run: reason -->     the block is shown, not executed
    <!-- file: NAME -->          the block is written to NAME in the folder that the page's blocks run in
    <!-- prints -->              the block (```text) is what the Python block before it prints
    <!-- run -->                 the commands of the block (```console) are executed and have to succeed
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(?P<indent> {0,3})(?P<fence>`{3,}|~{3,})\s*(?P<language>[\w+-]*)")
DIRECTIVE = re.compile(r"^<!--\s*(?P<word>not run|file|prints|run)(?::\s*(?P<rest>.*?))?\s*-->$")
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(\s*<?([^)\s>]+)>?[^)]*\)|!\[[^\]\n]*\]\(([^)\s]+)[^)]*\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, the line of its first line of text, and its directive."""

    language: str
    text: str
    line: int
    word: str = ""
    rest: str = ""


@dataclass(frozen=True)
class Page:
    """One Markdown file."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    def blocks(self) -> list[Block]:
        """Every fenced block, in order. A fence that is never closed is an error."""
        found: list[Block] = []
        lines = self.text.splitlines()
        at = 0
        while at < len(lines):
            opened = FENCE.match(lines[at])
            if not opened:
                at += 1
                continue
            end = self._end(lines, at, opened["fence"])
            said = DIRECTIVE.match(lines[at - 1].strip()) if at else None
            indent = len(opened["indent"])
            text = "\n".join(
                line[indent:] if line[:indent].isspace() else line for line in lines[at + 1 : end]
            )
            word, rest = (said["word"], said["rest"] or "") if said else ("", "")
            found.append(Block(opened["language"], text + "\n", at + 2, word, rest))
            at = end + 1
        return found

    def _end(self, lines: list[str], start: int, fence: str) -> int:
        for at in range(start + 1, len(lines)):
            if lines[at].strip().startswith(fence) and not lines[at].strip().strip(fence[0]):
                return at
        message = f"{self.name}:{start + 1}: this block is never closed"
        raise ValueError(message)

    def prose(self) -> list[tuple[int, str]]:
        """Lines outside of fenced blocks, with code spans taken out."""
        inside = {
            number
            for block in self.blocks()
            for number in range(block.line - 1, block.line + block.text.count("\n"))
        }
        return [
            (number, re.sub(r"`[^`]*`", "", line))
            for number, line in enumerate(self.text.splitlines(), 1)
            if number not in inside
        ]

    def links(self) -> list[tuple[int, str]]:
        """Targets of links and images, with the line they stand on."""
        return [(number, a or b) for number, line in self.prose() for a, b in LINK.findall(line)]

    def anchors(self) -> set[str]:
        """The fragments that a link to this page may name, spelled as the usual renderers spell them."""
        seen: dict[str, int] = {}
        found = set(re.findall(r'<a (?:id|name)="([^"]+)"', self.text))
        inside = {
            n for block in self.blocks() for n in range(block.line - 1, block.line + block.text.count("\n"))
        }
        for number, line in enumerate(self.text.splitlines(), 1):
            heading = HEADING.match(line) if number not in inside else None
            if heading:
                slug = re.sub(r"[^\w\- ]", "", heading[1].lower()).strip().replace(" ", "-")
                count = seen.get(slug, 0)
                seen[slug] = count + 1
                found.add(f"{slug}-{count}" if count else slug)
        return found


def pages() -> list[Page]:
    """The README, the notes beside it, and everything under docs."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    files = [path for path in top if path.exists()] + sorted((ROOT / "docs").rglob("*.md"))
    return [Page(path, path.read_text(encoding="utf-8")) for path in files]
