"""Of what is named: references, expressions, shapes of values."""

from __future__ import annotations

from typing import Final

from docs.problems.rows import Row

ROWS: Final[dict[str, list[Row]]] = {
    "References": [
        (
            (
                "there is no ……",
                "there is no … here…",
                "there is no argument ……",
                "… declares no artifact ……",
                "… leaves no files, its instances do; give their places in the value of …",
                "there is no … here: it belongs to an element, inside a node with for_each",
            ),
            "The name means nothing at this place",
            "Mend it; what there is stands in the message",
        ),
        (
            (
                "… is not before …, so its value is not there; add it to after",
                "… cannot read its own value",
            ),
            "Only what must have settled can be named, so that timing never picks a value",
            "Add the node to `after`",
        ),
        (
            (
                "… has no …",
                "…; say what … gives with returns: {…: str}",
                "result is the value of …; write ….text",
                "… is of type … and has no …",
                "….status is a text and has no …",
                "….failed is a number and has no …",
                "….artifacts.… is a path, a text, and has no …",
                "a list; write a position such as [0]",
                "a mapping; write a key",
            ),
            "The shape of the value has no such part, or nobody has said what its shape is",
            "Mend the name; declare it in `returns`",
        ),
        (
            (
                "args.… can be missing; give it a default, make it required, or write default(args.…, ...)",
                "… can be missing; make it required: true, or write default(…, ...)",
            ),
            "What may be absent is asked for, so that a run does not fail over it",
            "Do one of the three",
        ),
        (
            ("… is … and is compared with …; the two are never alike", "… is never ……"),
            "The comparison has the same answer, or fails, whatever the run brings",
            "Mend the value; what can come stands in the message",
        ),
        (
            ("the condition `…` gives …, not true or false; compare it",),
            "A condition is true or false, and nothing else counts as one of them",
            "Compare it: `len(scan.files) > 0`",
        ),
        (
            ("the condition `…` names nothing and never changes",),
            "**Warning.** It is always true",
            "Leave it out",
        ),
    ],
    "Expressions": [
        (
            (
                "the expression is empty; write a condition or leave the key out",
                "the expression has … characters; at most … are read",
                "the expression has more than … parts",
                "too deep or too long: at most … brackets and … words",
                "the data is nested deeper than … levels",
                "the rendered text is longer than … characters",
            ),
            "Bounds of the language",
            "Write it shorter, or compute it in a role",
        ),
        (
            (
                "this is not one complete expression",
                "this cannot be read as an expression",
                "one expression only",
                "the text is not closed",
                "this ${ is not closed; write } after the expression, or $${ for the characters themselves",
            ),
            "Something is missing or left over",
            "Mend it at the column that is named",
        ),
        (
            (
                "… has no meaning here……",
                "… has no meaning here; …",
                "write not, or != to compare",
                "comments are not allowed",
                "mappings and ${...} are not allowed inside an expression; write the name alone",
                "write the name alone, without ${...}",
                "slices, := and lambda are not allowed",
                "a backslash stands inside a text only",
                "write A if CONDITION else B",
                "there are no comprehensions; use pluck, any, all, count",
                "there are no functions to define; use pluck, any, all, count",
                "an expression waits for nothing",
                "… is not part of the language…",
                "… constants are not part of the language",
                "a trailing comma is not allowed",
                "a sign + before a value has no meaning here; leave it out",
                "only + - * / // % compute here",
                "compare with == != < <= > >= in, not with is",
            ),
            "The language is small on purpose; this is not in it",
            "Write what the message proposes",
        ),
        (
            (
                "numbers are decimal digits, with an optional fraction and exponent",
                "two texts side by side; write + between them",
                "texts have no prefix; write the quotes alone",
                "a text knows \\\\ \\' \\\" \\n \\t \\r \\uXXXX; double any other backslash",
            ),
            "A number or a text is written in another way",
            "Write it plainly",
        ),
        (
            (
                "only a name can be followed by .key or [...]",
                "… is a value and has no parts",
                "… is a function; write …(...)",
                "… is not looked up by name; a key of data is written ['…']",
                "only functions of the table can be called…",
                "there is no function ……",
                "… takes plain arguments only",
                "… asks about a path such as scan.summary",
                "… takes … here, not …",
            ),
            "Paths look keys up in data; calls are those of the table of functions",
            "Write a path, or one of the functions",
        ),
    ],
    "Shapes": [
        (
            (
                "… is no type…",
                "… is no shape; write str, [str], {enum: [a, b]} or {field: str}",
                "… is no shape; write module:Model, a .json file or the shape itself",
                "a list has one type in it, such as [str]",
                "enum holds texts; quote what is not read as one",
                "the shape nests deeper than … levels",
            ),
            "`returns` is none of the accepted forms",
            "Write one of them",
        ),
        (
            (
                "there is no … beside the document, in which … could stand",
                "… has no class ……",
                "… is no regular file",
                "… cannot be read as JSON: …",
                "… is no JSON Schema; it has to be a mapping",
            ),
            "The file that `returns` names, or the class in it, cannot be used",
            "Mend the name or the file",
        ),
        (
            (
                "… is …, not one of …",
                "… has …, which its shape does not hold…",
                "… is nested deeper than … levels",
            ),
            "A value is not of its shape; this is told when the run has it",
            "Give what the shape says, or mend the shape",
        ),
    ],
}
