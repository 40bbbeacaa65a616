"""Of what stands around: other flows, planners, the cast and files, arguments and budgets."""

# ruff: noqa: E501  (messages stand as they are said)

from __future__ import annotations

from typing import Final

from docs.problems.rows import Row

ROWS: Final[dict[str, list[Row]]] = {
    "Other flows": [
        (
            (
                "a document cannot include itself: …",
                "… is included too deep; at most … documents stand below one",
            ),
            "The run would never end, or it cannot be seen where",
            "Include what both need, and not each other",
        ),
        (
            (
                "… includes a flow, which has no …; write it at a node of …",
                "… includes a flow, which is told by with:, not by an instruction",
            ),
            "The key is for a node that somebody performs; a run is performed by its nodes",
            "Write it in the included document, and give that what it needs as an argument",
        ),
        (
            ("… has no argument ……", "… needs the argument …; give it in with:"),
            "`with` gives the arguments of the included document",
            "Mend `with`, or `args` there",
        ),
        (
            ("… (the outputs of …)",),
            "The value of a node with `flow` is the `outputs` of its document",
            "Mend the name, or add the output there",
        ),
    ],
    "Planners": [
        (
            ("say how many nodes a plan may have: max_nodes: 12",),
            "A plan has a limit, like everything that grows",
            "Add `max_nodes`",
        ),
        (
            (
                "a document has nodes, or a prompt for a planner; remove one",
                "… is for a planner, which a prompt calls; write one, or remove …",
            ),
            "Either the document says what runs, or a planner does",
            "Keep one of the two",
        ),
        (
            ("role … cannot plan: it does not declare TaskAssignment; add it to emits=",),
            "A plan is made of TaskAssignments",
            "Name another role in `planner`, or declare it",
        ),
        (
            ("… may spawn nodes; state how many: budget: {spawns: 10}",),
            "`reactive` lets nodes of this role grow the run",
            "State `spawns`, or remove the role from `reactive`",
        ),
    ],
    "Cast and files": [
        (
            (
                "… leaves the document's folder; move it there",
                "… leaves the document's folder",
                "… does not exist beside the document",
            ),
            "What a document names stands in its folder or below",
            "Move the file there",
        ),
        (
            ("your … will be used, not the library's of the same name",),
            "**Note.** A role of the cast goes before the library's",
            "Rename it if that is not meant",
        ),
        (
            ("… hides the package … of callboard; rename it",),
            "Python would import the file in place of ours",
            "Rename it",
        ),
        (
            (
                "give a list of {name, path, required, kind}",
                "… is not a path inside the folder; give a relative one with '/' and without '..'",
                "…: two are called …; give each a name of its own",
                "… declares the artifact … twice; remove one",
                "the artifact … stands twice; remove one",
                "workdir of …: …, or one argument: ${args.NAME}",
                "shared of … says nothing without workdir: its own folder is nobody else's",
            ),
            "Files that nodes leave have one name and one place, inside the node's folder",
            "Mend the path or the name",
        ),
        (
            (
                "no node leaves ……",
                "…; declare it at a node",
                "… is left as …, not as …",
            ),
            "The run must leave a file that nothing leaves",
            "Declare it at the node that writes it",
        ),
        (
            ("… and … could work in … at the same time; order them, or write shared: true at …",),
            "Each could overwrite what the other writes",
            "Order the two, or say that it is meant",
        ),
    ],
    "Arguments and budgets": [
        (
            ("… is required and has a default; write one of the two",),
            "The default would never be used",
            "Remove one",
        ),
        (
            ("… may spawn nodes; state how many: budget: {spawns: 10}, or 0 for none",),
            "A flow that can grow says how far",
            "State `spawns`",
        ),
        (
            ("… may spawn nodes, but spawns is 0",),
            "**Warning.** Each of its requests would be refused",
            "Allow some, or narrow its `emits`",
        ),
        (
            (
                "spawns is …, and no spawn can be accepted",
                "…: depth is 0; write at least 1",
                "…: assignees names no role; name one, or leave the key out",
                "… is 0, and … needs a language model; write more, or leave the key out",
                "… calls …, whose price is not known, so cost_usd could not hold it; name another model, or state tokens instead",
                "… cannot be attempted … times: the pauses alone take … s, and its … is … s",
            ),
            "The budget cannot be met: what the document asks for does not fit into it",
            "Change one of the two numbers",
        ),
        (
            (
                "whether prices are known cannot be told here, and no model runs: the extra `models` is missing: pip install 'callboard[models]'",
            ),
            "**Warning.** The table of prices comes with the extra that calls models; without it no node of a language model runs here",
            "Install the extra",
        ),
        (
            ("the timeout of … is never reached: its deadline is … s; write less",),
            "**Warning.** The deadline of the node comes first",
            "Write a shorter timeout, or a longer deadline",
        ),
    ],
    "Settings": [
        (
            (
                "it cannot be read as TOML: …",
                "there is no setting ……; write …",
                "… is …; write a text",
                "model is …; write PROVIDER:NAME",
            ),
            "`callboard.toml`, or your `config.toml`, says what model and effort nodes have that say nothing",
            "Mend the file that is named: `model` and `effort`, both texts",
        ),
    ],
}
