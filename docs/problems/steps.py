"""Of documents that are run in steps."""

# ruff: noqa: E501  (messages stand as they are said)

from __future__ import annotations

from typing import Final

from docs.problems.rows import Row

ROWS: Final[dict[str, list[Row]]] = {
    "Supersteps": [
        (
            (
                "… has …, which a stepped flow has not; …",
                "… has …, which a stepped flow has not; an edge with a condition leads back",
                "a stepped flow has no …; …",
                "an edge leads to it: edges: [{from: NODE, to: NODE}]",
                "put the condition on the edge that leads to it",
                "let its role ask for a task per element, with SpawnRequest",
                "run the other document by itself",
                "give it a role",
                "each node has a conversation of its own",
                "a failed task stops the run, and callboard retry goes on",
                "a planner plans a graph",
                "name them at their nodes",
            ),
            "`schedule: supersteps` runs nodes where edges lead, again and again; the key belongs to graphs, in which a node runs once",
            "Write what the message says, or leave `schedule` out",
        ),
        (
            ("a stepped flow says how many steps a run may take: budget: {steps: 50}",),
            "A loop that nobody ends has to stop",
            "State `budget.steps`",
        ),
        (
            ("… includes …, which has schedule: supersteps; run that document by itself",),
            "A run in steps is no part of a graph's run",
            "Run it by itself",
        ),
        (
            ("budget.… is for schedule: supersteps; leave it out",),
            "A graph has no steps to count",
            "Leave it out, or write `schedule: supersteps`",
        ),
        (
            ("… writes …, which context: does not hold…", "context: holds no key ……"),
            "The state of a stepped flow has the keys that `context:` declares",
            "Add the key, or mend the name",
        ),
        (
            ("the value of … has nowhere to go; write writes: KEY, or returns: with keys of context:",),
            "A model's text and a person's answer are not keys of the state",
            "Say where it goes: `writes: KEY`",
        ),
        (
            (
                "no edge leads from …; write where a run begins: {from: …, to: NODE}",
                "… never runs: no edge leads to it; add one, or remove the node",
                "… is where a run begins or ends; give the node another name",
                "nothing leads on from …",
                "nothing leads back to …; name the node that is to run",
                "… -> … is named twice; join the conditions",
            ),
            "Edges lead from START over nodes to END, each pair once",
            "Mend the edge, or add the one that is missing",
        ),
    ],
}
