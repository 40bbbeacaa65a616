"""Commands about flows: what they are called and take. ``commands.py`` carries out what they return."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from orchestrator.cli import options
from orchestrator.cli.parts import Debug, Grace, JournalFile, ModelName, OnAsk, OnEnd, Quiet

__all__ = ["app", "check", "draw", "init", "rehearse", "run", "schema", "try_"]

app = typer.Typer()

_OneFlow = Annotated[
    Path, typer.Argument(metavar="[FLOW]", help="A flow document (YAML), or a folder with a flow.yaml.")
]
_Kept = Annotated[
    str | None,
    typer.Option(
        metavar="PATH|none",
        help="Where the run is kept; by default CALLBOARD_JOURNAL, or .callboard/journal.db of this "
        "project. `none` keeps it in memory: it cannot be resumed or looked at afterwards.",
    ),
]
_Fsync = Annotated[
    str,
    typer.Option(
        metavar="always|never",
        envvar="CALLBOARD_FSYNC",
        help="`always` survives a power cut, `never` the end of the process.",
    ),
]
_Arg = Annotated[
    list[str] | None, typer.Option("--arg", metavar="K=V", help="An argument of the flow; may be repeated.")
]
_Args = Annotated[
    Path | None, typer.Option("--args", metavar="FILE", help="Arguments as JSON or YAML; --arg wins.")
]
_HERE: Final = Path("flow.yaml")


@app.command("run")
def run(
    flow: _OneFlow = _HERE,
    *,
    arg: _Arg = None,
    args: _Args = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1, envvar="CALLBOARD_CONCURRENCY", help="Nodes at once, in place of the document's."
        ),
    ] = None,
    model: ModelName = None,
    journal: _Kept = None,
    fsync: _Fsync = "always",
    reuse: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Take the outcomes of this run for nodes whose code, parameters and inputs are the same.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --reuse: do not ask.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="One event per line as JSON; the last line is the result.")
    ] = False,
    quiet: Quiet = False,
    grace: Grace = 10.0,
    on_end: OnEnd = None,
    on_ask: OnAsk = None,
    debug: Debug = False,
) -> options.Request:
    """Run a flow.

    A terminal gets a live view and is asked what roles ask; a pipe gets one line per event. What roles print
    goes to stderr. Ctrl-C once lets running nodes finish within --grace, twice interrupts at once.
    The run is kept in a journal: whatever stops it, `callboard resume` goes on.

    \b
    Examples:
      callboard run flow.yaml --arg target=src --arg threshold=high
      callboard run audit --args args.json --quiet
      callboard run flow.yaml --model test
      callboard run flow.yaml --reuse last
      callboard run flow.yaml --json | jq -r 'select(.kind == "NodeFailed") | .node'
    """  # noqa: D301
    if fsync not in {"always", "never"}:
        raise typer.BadParameter(f"--fsync is {fsync!r}; write always or never")
    driving = options.Driving(
        journal=journal, json=json, quiet=quiet, grace=grace, on_end=on_end, on_ask=on_ask, debug=debug
    )
    return options.RunOptions(
        flow, tuple(arg or ()), args, concurrency, model, fsync, reuse, yes, driving=driving
    )


@app.command("check")
def check(
    flow: _OneFlow = _HERE,
    json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
    debug: Debug = False,
) -> options.Request:
    """Say what is wrong with a flow, and what it will do.

    Problems with their places, when each node runs, what each verdict does at each gate, and the budget.
    Nothing runs but the Python files of the cast.

    \b
    Examples:
      callboard check
      callboard check flow.yaml --json | jq '.problems'
    """  # noqa: D301
    return options.CheckOptions(flow, json)


@app.command("rehearse")
def rehearse(
    flow: _OneFlow = _HERE,
    *,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many rehearsals; 200 by default.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="S", min=0, help="Replay this one; with --seeds the first of them."),
    ] = None,
    arg: _Arg = None,
    args: _Args = None,
    json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
    debug: Debug = False,
) -> options.Request:
    """Run a flow many times without its roles, and say what is wrong with it.

    Stand-ins do at random what each role's `emits` and `returns` allow: they refuse, escalate, grow the
    graph, fail, hang and stay silent, in virtual time. No role is called and no model is paid.
    Exit code 0: nothing was found, 1: something was, 2: the document has an error.

    \b
    Examples:
      callboard rehearse flow.yaml
      callboard rehearse flow.yaml --seeds 2000
      callboard rehearse flow.yaml --seed 21
    """  # noqa: D301
    return options.RehearseOptions(flow, seeds, seed, tuple(arg or ()), args, json)


@app.command("draw")
def draw(
    what: Annotated[
        str,
        typer.Argument(metavar="FLOW|RUN", help="A flow document, its folder, or a run; a path wins."),
    ],
    form: Annotated[str, typer.Option("--format", metavar="text|mermaid", help="How to draw it.")] = "text",
    journal: JournalFile = None,
    debug: Debug = False,
) -> options.Request:
    """Draw a flow, or a run as it grew: what starts together stands in one column.

    \b
    Examples:
      callboard draw flow.yaml
      callboard draw last
      callboard draw flow.yaml --format mermaid > flow.mmd
    """  # noqa: D301
    return options.DrawOptions(what, form, journal)


@app.command("try")
def try_(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE:ROLE|RUN", help="A role file (or a flow document) and one of its roles, or a run."
        ),
    ],
    node: Annotated[str | None, typer.Argument(metavar="[NODE]", help="The node of the run.")] = None,
    *,
    given: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="K=V", help="A parameter; JSON is read as JSON. May be repeated."),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=JSON", help="What a predecessor gave. May be repeated."),
    ] = None,
    instruction: Annotated[str, typer.Option(help="turn.instruction.")] = "",
    model: ModelName = None,
    times: Annotated[int, typer.Option(min=1, help="How often a node of a run is run again.")] = 1,
    as_test: Annotated[
        Path | None,
        typer.Option(
            "--as-test", metavar="FILE", help="Write a test that holds the node's recorded outcome."
        ),
    ] = None,
    journal: JournalFile = None,
    debug: Debug = False,
) -> options.Request:
    """Run one role alone, or one recorded node again.

    FILE:ROLE shows the role's value, its emissions and the receipts that it gets. Roles that it spawns are
    accepted and do nothing. RUN NODE runs the node with what it was given in that run, outside of the run,
    and shows what comes of it beside what is recorded.

    \b
    Examples:
      callboard try cast.py:scout --with target=src
      callboard try cast.py:critic --input 'draft={"text": "We never lose data."}'
      callboard try last review --times 5
      callboard try last draft --model anthropic:NAME
      callboard try last review --as-test test_review.py
    """  # noqa: D301
    if node is None:
        if times != 1 or as_test is not None:
            raise typer.BadParameter("--times and --as-test go with a node of a run: callboard try RUN NODE")
        return options.TryOptions(
            target, tuple(given or ()), tuple(inputs or ()), instruction, model, debug=debug
        )
    if given or inputs or instruction:
        raise typer.BadParameter(
            "a node of a run has its own parameters, inputs and instruction; leave them out"
        )
    return options.TryAgainOptions(target, node, times, as_test, model, journal, debug=debug)


@app.command("init")
def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Where to; made if it is missing.")
    ] = Path(),
    template: Annotated[
        str, typer.Option(metavar="NAME", help="starter, gate, programs or planner.")
    ] = "starter",
    debug: Debug = False,
) -> options.Request:
    """Write a flow that runs at once.

    flow.yaml, cast.py, test_flow.py and .gitignore; nothing is overwritten.

    \b
    Examples:
      callboard init my-flow && callboard run my-flow
      callboard init checks --template programs
    """  # noqa: D301
    return options.InitOptions(folder, template)


@app.command("schema")
def schema(debug: Debug = False) -> options.Request:
    """Print the JSON Schema of flow documents, for editors.

    \b
    Examples:
      callboard schema > flow.schema.json
    """  # noqa: D301
    return options.SchemaOptions()
