"""Of nodes: what performs them, lists, people, gates, what they narrow."""

# ruff: noqa: E501  (messages stand as they are said)

from __future__ import annotations

from typing import Final

from docs.problems.rows import Row

ROWS: Final[dict[str, list[Row]]] = {
    "Nodes": [
        (
            (
                "… is not a node name (letters, digits, _; at most 64); try …",
                "… is a Python keyword; try …",
                "… has a meaning in expressions; try …",
            ),
            "Expressions could not name the node, or the argument",
            "Take the name that is proposed",
        ),
        (
            (
                "… says nobody to perform it; give it a role, an operation or a flow, or ask a person",
                "… names …; give exactly one",
            ),
            "A node is performed by exactly one of them",
            "Give one",
        ),
        (
            ("there is no role ……", "the cast: holds no role", "the document names no cast:"),
            "Neither the cast nor the library has a role of this name",
            "Mend the name, or name the file in `cast:`",
        ),
        (
            ("there is no operation …… (a session registers others: session.register_operation)",),
            "The verb is none of ours, and no session is known that registers it",
            "Give the node a role; from Python, run it in a session that registers it",
        ),
        (
            (
                "…: role … has no function and no program, and nothing names a model: write model:, or say it at the run: --model PROVIDER:NAME",
            ),
            "**Warning.** The document is right; a run that names no model is refused",
            "Name a model: at the node, in `defaults:`, in the role, or with `--model`",
        ),
        (
            (
                "…: … has no role, and nothing names a model: write model:, or say it at the run: --model PROVIDER:NAME",
            ),
            "**Warning.** The document is right; a run that names no model is refused",
            "Name a model: at the node, in `defaults:`, or with `--model`; or give the node a role",
        ),
        (
            ("… calls a tool and has …, which only models read; take it out",),
            "**Warning.** `act` calls one function; nobody reads the key",
            "Take the key out, or let a role do the work",
        ),
        (
            (
                "… cannot come after itself; remove the entry",
                "… and … wait for each other; remove … here, or … there",
                "… comes after …, which stands below it; move … above …",
                "… names … twice in after; remove one",
            ),
            "A node comes after nodes that stand above it, each once",
            "Move or remove what the message names",
        ),
        (
            ("… comes after …, which does not exist…", "there is no node ……"),
            "No node has this name",
            "Mend the name",
        ),
        (
            (
                "… never runs: …",
                "its condition `…` is never true; remove the node, or the condition",
                "none of its edges can be taken; mend a condition, or remove the node",
            ),
            "Nothing that can happen in a run makes the node run; what comes after only such nodes is skipped too",
            "Mend the condition, or remove the node",
        ),
        (
            ("… -> … is named twice; once is enough, in after or edges",),
            "A pair of nodes has one edge",
            "Remove one of the two",
        ),
        (
            ("one edge of … has else: true, and no when; remove the other",),
            "`else` is what is left when no other edge of its source is taken: once, and without a condition",
            "Remove the other `else`, or its `when`",
        ),
        (
            ("… inherits from …, which is no node before it; add it to after",),
            "The conversation would not be there yet",
            "Add the node to `after`",
        ),
        (
            ("… and … share the branch … and could run at once; order them",),
            "One conversation cannot be continued twice at a time",
            "Put one in the other's `after`",
        ),
        (
            ("only … names the branch …; a branch of its own it has anyway",),
            "**Warning.** Nothing is shared",
            "Leave the key out, unless the session's branch of this name is meant",
        ),
        (
            ("… uses …, which limits.names does not hold…", "there is no reducer ……"),
            "The name is declared nowhere",
            "Declare it in `limits: {names: ...}`; take one of the reducers",
        ),
        (
            ("this looks like a secret; give it in the environment, not in the document",),
            "**Warning.** A document is read by many, and its texts are kept in the journal",
            "Let the role read it from its environment",
        ),
    ],
    "Nodes of many, and of people": [
        (
            (
                "… has … and no for_each; … says something of the elements of a list",
                "… has on_failure: skip and no for_each; write continue or stop",
                "… has … and no ask; … says something of a question",
                "… asks a person and has …, which only roles have…",
                "; ask is the question",
            ),
            "The key belongs to another kind of node",
            "Remove it, or make the node one of that kind",
        ),
        (
            ("… has for_each and no max; say how many elements there may be, such as max: 20",),
            "How far a list may fan out is stated",
            "State `max`",
        ),
        (
            (
                "… is a gate and has for_each; a gate gives one verdict: take one of the two away",
                "… has for_each and a branch; its instances run at once and cannot share one",
                "… has for_each and a workdir; its instances work there at once: write shared: true",
            ),
            "Instances of a node run at once",
            "Take one of the two away; let a gate after it judge the list",
        ),
        (
            ("as of …: … is a node, which could not be named any more; write another name",),
            "Inside the node the name would mean the element",
            "Choose another name",
        ),
        (
            ("for_each: `…` gives …, not a list",),
            "There are no elements to run for",
            "Name a list",
        ),
        (
            (
                "the default … is not one of …",
                "it expires and has no default; say what the answer is if nobody gives one",
                "choices of … is …; give a list of texts",
                "the choices of a gate are verdicts, not …; write …",
            ),
            "The question could not be answered as it is put",
            "Mend `choices` or `default`",
        ),
    ],
    "Gates": [
        (
            ("… is a gate, but its role … does not declare Verdict; add it to emits=",),
            "Nothing could ever decide it",
            "Add Verdict to the role's `emits=`, and to the node's `emits` if it has some",
        ),
        (
            ("… can REJECT, and nothing would happen; write gate: true",),
            "**Warning.** A Verdict of a node that is no gate is only recorded",
            "Write `gate: true`, or narrow its `emits`",
        ),
        (
            ("… has refusals and nothing before it to send back; name a node in after",),
            "A gate that stands first has nothing above it that could be made again",
            "Name a node in its `after`, or take `refusals` away",
        ),
        (
            (
                "back_to of … names …, which does not exist…",
                "back_to of … names …, which is not before it; before it: …",
            ),
            "A new round starts at a node on whose work the gate depends",
            "Name one of the nodes that are listed",
        ),
        (
            ("back_to of … says nothing without refusals; write how often: refusals: 1",),
            "Without `refusals` a rejection ends the work",
            "Say how often the gate may send the work back",
        ),
        (
            ("refusals of … is …; write a whole number from 0 to …",),
            "The argument that `refusals` names is no such number",
            "Give one with `--arg`",
        ),
        (
            (
                "… and … both send … back and neither waits for the other, so each judges a round of its own; let … come after …",
            ),
            "**Warning.** Two gates side by side would each have the work made anew for themselves",
            "Let one of them come after the other",
        ),
        (
            ("nothing depends on the gate …",),
            "**Warning.** Its rejection ends the run as `gate_rejected` and stops no node",
            "Put it into the `after` of what it is to hold back",
        ),
    ],
    "Narrow or choose": [
        (
            (
                "there is no emission ……",
                "… cannot emit …: its role … does not declare it; emits only narrows",
                "… cannot use …: its role … does not have it; tools only narrows…",
                "inputs of … names …, which …; inputs only narrows…",
                "it does not come right after",
                "is no key of context:",
            ),
            "A node takes from what its role and its place give; it adds nothing",
            "Mend the name, or give the role more",
        ),
        (
            (
                "role … names the tool …, which nobody has: write @tool over its function, or McpServer, in a file of the cast…",
                "…: a tool or server called … stands in another role file; rename one",
            ),
            "A role's tools are functions and servers of the cast, or of the session that runs it",
            "Write the function into the cast's Python file with `@tool` above it",
        ),
        (
            ("the field … of … cannot be named: ….… means ours; rename it",),
            "**Warning.** `NAME.status` and `NAME.artifacts` always mean where the node stands and what it left",
            "Rename the field",
        ),
        (
            ("… is …; write PROVIDER:NAME",),
            "This is no name of a model",
            "Write the provider, a colon and its model, or one of the role's `models`",
        ),
        (
            ("… of … is only recorded: its role … is a function",),
            "**Note.** Only a language model has these",
            "Leave the key out",
        ),
    ],
}
