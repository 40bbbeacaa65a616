"""Commands that go on with runs or change them: what they are called and take."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestrator.cli import options
from orchestrator.cli.parts import Debug, Grace, JournalFile, ModelName, OnAsk, OnEnd, Quiet, RunName

__all__ = ["answer", "app", "cancel", "drain", "fork", "inject", "pause", "resume", "retry", "steer"]

app = typer.Typer()

_Budget = Annotated[
    list[str] | None,
    typer.Option(metavar="K=V", help="A limit to raise first: tokens=50000. May be repeated."),
]
_NewDefinition = Annotated[
    bool, typer.Option("--new-definition", help="Use code and documents that have changed since.")
]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
_Events = Annotated[
    bool, typer.Option("--json", help="One event per line as JSON; the last line is the result.")
]
_AtNode = Annotated[str | None, typer.Option(metavar="N", help="The node that it is for.")]


@app.command("resume")
def resume(
    run: RunName,
    *,
    budget: _Budget = None,
    model: ModelName = None,
    new_definition: _NewDefinition = False,
    yes: _Yes = False,
    journal: JournalFile = None,
    json: _Events = False,
    quiet: Quiet = False,
    grace: Grace = 10.0,
    on_end: OnEnd = None,
    on_ask: OnAsk = None,
    debug: Debug = False,
) -> options.Request:
    """Go on with a run that was suspended, or whose process died. What has settled is not run again.

    It first says what it will do and, in a terminal, asks. A run that is live and paused goes on.

    \b
    Examples:
      callboard resume last
      callboard resume last --budget tokens=200000
      callboard resume last --model anthropic:NAME
    """  # noqa: D301
    driving = options.Driving(
        journal=journal, json=json, quiet=quiet, grace=grace, on_end=on_end, on_ask=on_ask, debug=debug
    )
    return options.GoOnOptions(run, None, tuple(budget or ()), new_definition, yes, driving, model)


@app.command("retry")
def retry(
    run: RunName,
    nodes: Annotated[
        list[str] | None, typer.Argument(metavar="[NODE]...", help="Failed nodes, or undecided gates.")
    ] = None,
    *,
    budget: _Budget = None,
    new_definition: _NewDefinition = False,
    yes: _Yes = False,
    journal: JournalFile = None,
    json: _Events = False,
    quiet: Quiet = False,
    grace: Grace = 10.0,
    on_end: OnEnd = None,
    on_ask: OnAsk = None,
    debug: Debug = False,
) -> options.Request:
    """Run failed nodes again, or undecided gates, and what was skipped because of them.

    \b
    Examples:
      callboard retry last
      callboard retry last review --new-definition
    """  # noqa: D301
    driving = options.Driving(
        journal=journal, json=json, quiet=quiet, grace=grace, on_end=on_end, on_ask=on_ask, debug=debug
    )
    return options.GoOnOptions(run, tuple(nodes or ()), tuple(budget or ()), new_definition, yes, driving)


@app.command("fork")
def fork(
    run: RunName,
    *,
    at: Annotated[
        str | None,
        typer.Option(metavar="NODE|SEQ", help="Where they part: before a node settled, or after a fact."),
    ] = None,
    value: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE=JSON", help="A value that a node is given. May be repeated."),
    ] = None,
    answer: Annotated[
        str | None, typer.Option(metavar="VERDICT", help="A person's verdict for the gate of --at.")
    ] = None,
    because: Annotated[str, typer.Option(metavar="TEXT", help="Why; it is recorded.")] = "",
    new_definition: _NewDefinition = False,
    yes: _Yes = False,
    journal: JournalFile = None,
    json: _Events = False,
    quiet: Quiet = False,
    grace: Grace = 10.0,
    on_end: OnEnd = None,
    on_ask: OnAsk = None,
    debug: Debug = False,
) -> options.Request:
    """Begin a new run that shares a run's history up to a place, with one change, and goes on from there.

    The run that it comes from is only read.

    \b
    Examples:
      callboard fork last --at review --answer APPROVE --because 'the finding is wrong'
      callboard fork last --value 'scan={"files": 3}'
      callboard fork last --at 120
    """  # noqa: D301
    driving = options.Driving(
        journal=journal, json=json, quiet=quiet, grace=grace, on_end=on_end, on_ask=on_ask, debug=debug
    )
    return options.ForkOptions(run, at, tuple(value or ()), answer, because, new_definition, yes, driving)


@app.command("pause")
def pause(run: RunName, journal: JournalFile = None, debug: Debug = False) -> options.Request:
    """Let a live run start nothing new; what runs goes on. `resume` lets it go.

    \b
    Examples:
      callboard pause last
    """  # noqa: D301
    return options.ControlOptions("pause", run, journal=journal)


@app.command("drain")
def drain(run: RunName, journal: JournalFile = None, debug: Debug = False) -> options.Request:
    """Let a live run finish what runs, start nothing, and stop. `resume` goes on.

    \b
    Examples:
      callboard drain last
    """  # noqa: D301
    return options.ControlOptions("drain", run, journal=journal)


@app.command("cancel")
def cancel(
    run: RunName,
    node: _AtNode = None,
    because: Annotated[str, typer.Option(metavar="TEXT", help="Why; it is recorded.")] = "",
    journal: JournalFile = None,
    debug: Debug = False,
) -> options.Request:
    """Stop a run for good, or one of its nodes.

    \b
    Examples:
      callboard cancel last --because 'wrong branch'
      callboard cancel last --node scan_inspector_3
    """  # noqa: D301
    return options.ControlOptions("cancel", run, node, because=because, journal=journal)


@app.command("steer")
def steer(
    run: RunName,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What is said.")],
    node: _AtNode = None,
    journal: JournalFile = None,
    debug: Debug = False,
) -> options.Request:
    """Say something to a node, or to the next one that starts.

    \b
    Examples:
      callboard steer last 'leave the tests alone' --node writer
    """  # noqa: D301
    return options.ControlOptions("steer", run, node, text, journal=journal)


@app.command("answer")
def answer(
    run: RunName,
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="A question's key, the node that asks, or a gate.")
    ],
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="The answer; for a gate, a verdict such as APPROVE.")
    ],
    *,
    node: Annotated[
        str | None, typer.Option(metavar="N", help="The node that asks, if several ask by one key.")
    ] = None,
    because: Annotated[str, typer.Option(metavar="TEXT", help="Why; it is recorded.")] = "",
    journal: JournalFile = None,
    debug: Debug = False,
) -> options.Request:
    """Answer a question, or decide a gate that gave no verdict. `callboard asks` lists them.

    \b
    Examples:
      callboard answer last colour blue
      callboard answer last review APPROVE --because 'read it myself'
    """  # noqa: D301
    return options.ControlOptions("answer", run, node, key, value, because, journal=journal)


@app.command("inject")
def inject(
    run: RunName,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="A role that the run knows.")],
    *,
    instruction: Annotated[str, typer.Option(metavar="TEXT", help="What it is to do.")] = "",
    after: Annotated[
        list[str] | None, typer.Option(metavar="N", help="A node that it waits for. May be repeated.")
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="K=V", help="A parameter; JSON is read as JSON. May be repeated."),
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="NODE", help="The new node's name.")] = None,
    journal: JournalFile = None,
    debug: Debug = False,
) -> options.Request:
    """Add a node to a run.

    \b
    Examples:
      callboard inject last inspector --instruction 'look at setup.py' --after scan
    """  # noqa: D301
    return options.ControlOptions(
        "inject", run, None, role, instruction, after=tuple(after or ()), given=tuple(given or ()), name=name,
        journal=journal,
    )  # fmt: skip
