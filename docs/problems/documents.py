"""Of the document as a text: reading it, its keys and their values."""

# ruff: noqa: E501  (messages stand as they are said)

from __future__ import annotations

from typing import Final

from docs.problems.rows import Row

ROWS: Final[dict[str, list[Row]]] = {
    "Reading the file": [
        (
            ("cannot be read: …", "cannot be read: it is no regular file; give the path of a document"),
            "There is no file there, it may not be read, or it is a folder, a pipe or a device",
            "Give the path of a document",
        ),
        (
            ("is Python; a flow document is YAML, and names this file in its cast:",),
            "The cast was given where its document belongs",
            "Give the YAML file",
        ),
        (("is not UTF-8; save it as UTF-8",), "The bytes are in another encoding", "Save it as UTF-8"),
        (
            ("the document is empty; start with version: 1", "a flow is a mapping; start with version: 1"),
            "There are no keys at the top",
            "`callboard init` writes a document to begin with",
        ),
        (
            (
                "the document is larger than … KiB",
                "the document has … lines; at most … are read",
                "the document holds more than … items",
                "the document holds more than … values (aliases counted)",
                "brackets nest deeper than … levels",
                "indentation nests deeper than … levels",
                "more than … aliases; write the values out",
            ),
            "A bound that keeps a hostile file from costing anything",
            "Split the flow in two documents, or move data out of it",
        ),
        (
            ("a line break that editors read differently", "a control character"),
            "A character that cannot be seen, or that YAML and editors take for different things",
            "Remove it; the message shows which it is",
        ),
        (
            (
                "tags (!) are not read; write the value plainly",
                "merge keys (<<) are not read; write the keys out",
                "directives (%) are not read; remove the line",
                "one document only; remove this mark",
                "a tab indents this line; use spaces",
            ),
            "YAML of a kind that documents do without: nothing in one can make an object or hide a key",
            "Write the value plainly",
        ),
        (
            ("…; quote texts that hold : # or start with a sign", "this is not YAML"),
            "The YAML cannot be read; the reason stands first",
            "Mend it; a text with `: ` or ` #` in it needs quotes",
        ),
        (
            ("an alias refers to something that it stands in",),
            "`*name` stands inside of what `&name` marks",
            "Write the value out",
        ),
        (
            ("the key … stands twice, on lines … and …; remove one",),
            "One of the two would be lost",
            "Remove or rename one",
        ),
        (
            (
                "a key is a text",
                "the key … is not a text to every reader; write '…' or another name",
                "… is read differently by different readers; quote it ('…'), or write true, false, null or a plain number",
            ),
            "`no`, `on`, `12:30`, `010`, dates and the like are texts to one reader, and something else to another",
            "Quote a text; write a plain number",
        ),
        (
            (
                "version … of the format is newer than this callboard, which reads version …; install a newer callboard",
            ),
            "The document was written for a later release",
            "Install it",
        ),
    ],
    "Keys and values": [
        (
            ("… has no key ……", "… lacks the key …"),
            "A key is spelled differently, stands at the wrong place, or is missing",
            "See the tables above; the nearest name is in the message",
        ),
        (
            (
                "… is …; write ……",
                "true or false",
                "a text that is not empty",
                "at least one entry",
                "at most … characters",
                "letters, digits, _ and -, a letter first",
                "a duration such as 90s, 30m or 2h",
            ),
            "The value is of another type, or out of its bounds",
            "Write one of the forms that the message ends in",
        ),
    ],
}
