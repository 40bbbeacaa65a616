"""Every message of `callboard check`, explained: a test compares these rows with the code.

A row holds messages as they stand in the code, `…` where names and numbers are put in; what they mean; and
what to do. Rows of one heading stand together. Warnings and notes are marked; everything else is an error.
"""

# ruff: noqa: E501  (messages stand as they are said)

from __future__ import annotations

from typing import Final

Row = tuple[tuple[str, ...], str, str]

PROBLEMS: Final[dict[str, list[Row]]] = {
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
        (
            ("… is part of the format, but this version does not run it yet; leave it out",),
            "The key is known by name only",
            "Leave it out, or wait for the release that runs it",
        ),
    ],
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
                "inputs of … names …, which it does not come right after; inputs only narrows…",
            ),
            "A node takes from what its role and its place give; it adds nothing",
            "Mend the name, or give the role more",
        ),
        (
            (
                "role … names the tool …, which nobody has…: write @tool over its function, or McpServer, in a file of the cast",
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
                "… cannot be attempted … times: the pauses alone take … s, and its … is … s",
            ),
            "The budget cannot be met: what the document asks for does not fit into it",
            "Change one of the two numbers",
        ),
        (
            ("the timeout of … is never reached: its deadline is … s; write less",),
            "**Warning.** The deadline of the node comes first",
            "Write a shorter timeout, or a longer deadline",
        ),
    ],
}
