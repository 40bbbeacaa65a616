"""Commands that read recorded runs: what they are called and take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli import options
from orchestrator.cli.parts import AsJson, Debug, JournalFile, OneRun, RunName

__all__ = ["app", "asks", "diff", "doctor", "ledger", "prune", "runs", "save_flow", "show", "story", "watch"]

app = typer.Typer()
_runs = typer.Typer(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
app.add_typer(_runs, name="runs")

_NodeName = Annotated[str, typer.Argument(metavar="NODE", help="The node's name.")]


@_runs.callback()
def runs(
    context: typer.Context,
    status: Annotated[
        list[str] | None,
        typer.Option(metavar="REASON", help="Only runs that stopped for it, or `live`. May be repeated."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One run per line as JSON.")] = False,
    journal: JournalFile = None,
    debug: Debug = False,
) -> options.Request | None:
    """List the runs of a journal, the newest last.

    \b
    Examples:
      callboard runs
      callboard runs --status failed --status interrupted
      callboard runs prune --older 30d
    """  # noqa: D301
    if context.invoked_subcommand is not None:
        return None
    return options.RunsOptions(tuple(status or ()), json, journal)


@_runs.command("prune")
def prune(
    older: Annotated[str, typer.Option(metavar="AGE", help="How old: 30d, 12h, 90m.")],
    dry: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    journal: JournalFile = None,
    debug: Debug = False,
) -> options.Request:
    """Remove runs that have ended and are older than an age.

    Runs that can go on are kept, whatever their age. Their folders under .callboard/runs go as well.

    \b
    Examples:
      callboard runs prune --older 30d
    """  # noqa: D301
    return options.PruneOptions(older, dry, journal)


@app.command("show")
def show(
    run: RunName,
    *,
    budget: Annotated[bool, typer.Option("--budget", help="What is used of each limit.")] = False,
    rounds: Annotated[
        bool, typer.Option("--rounds", help="What each pass of a refusal loop came to and cost.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="The result as JSON, as the last line of run.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one page that needs nothing else.")
    ] = None,
    with_messages: Annotated[
        bool, typer.Option("--with-messages", help="With prompts and conversations on that page.")
    ] = False,
    journal: JournalFile = None,
    debug: Debug = False,
) -> options.Request:
    """Show what a run came to: every node, what was refused, who spawned whom, what to do next.

    \b
    Examples:
      callboard show last
      callboard show last --rounds
      callboard show 20260131 --json | jq '.nodes.review'
      callboard show last --html run.html
    """  # noqa: D301
    return options.ShowOptions(run, budget, rounds, json, html, with_messages, journal)


@app.command("save-flow")
def save_flow(
    run: RunName,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE", help="Where to; by default NAME-RUN.yaml beside the document."),
    ] = None,
    journal: JournalFile = None,
    debug: Debug = False,
) -> options.Request:
    """Save a run as a flow document: what grew becomes nodes.

    The document runs to the same shape again: its arguments are those of the run, and it grows no further.
    Names that a document cannot have are changed, and said.

    \b
    Examples:
      callboard save-flow last
      callboard save-flow last --to grown.yaml && callboard draw grown.yaml
    """  # noqa: D301
    return options.SaveFlowOptions(run, to, journal)


@app.command("story")
def story(
    run: RunName,
    node: _NodeName,
    json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    journal: JournalFile = None,
    debug: Debug = False,
) -> options.Request:
    """Tell everything about one node: every fact, what led to it, and the exact text it was given.

    \b
    Examples:
      callboard story last review
    """  # noqa: D301
    return options.StoryOptions(run, node, json, journal)


@app.command("watch")
def watch(
    run: OneRun = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Every run, new ones too.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One event per line as JSON.")] = False,
    since: Annotated[
        int,
        typer.Option(min=0, metavar="SEQ", help="After this seq; with --all, after this `row`."),
    ] = 0,
    kind: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="Only events of this kind. May be repeated.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Wait for more.")] = True,
    journal: JournalFile = None,
    debug: Debug = False,
) -> options.Request:
    """Follow a run from another terminal, from its first event or after any; it ends when the run stops.

    Nothing is missed, and the run is not slowed down. Without RUN it is the newest one.

    \b
    Examples:
      callboard watch
      callboard watch last --json --since 120
      callboard watch --all --kind RunEnded --kind RunSuspended
    """  # noqa: D301
    if everything and run is not None:
        raise typer.BadParameter("--all means every run; leave RUN out, or --all")
    return options.WatchOptions(run, everything, json, since, tuple(kind or ()), follow, journal)


@app.command("diff")
def diff(
    first: Annotated[str, typer.Argument(metavar="RUN", help="The beginning of a run's id, or `last`.")],
    second: Annotated[str, typer.Argument(metavar="RUN", help="The run that it is compared with.")],
    json: AsJson = False,
    journal: JournalFile = None,
    debug: Debug = False,
) -> options.Request:
    """Compare two runs node by node; the first node that was given something else is marked as the cause.

    Exit code 0 if their outcomes are equal, 1 if not. Cost and time are shown and do not count.

    \b
    Examples:
      callboard diff 20260130-0915 last
    """  # noqa: D301
    return options.DiffOptions(first, second, json, journal)


@app.command("ledger")
def ledger(
    run: RunName,
    type_: Annotated[
        list[str] | None, typer.Option("--type", metavar="T", help="Only this type. May be repeated.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One emission per line as JSON.")] = False,
    journal: JournalFile = None,
    debug: Debug = False,
) -> options.Request:
    """List what the nodes of a run emitted, in order.

    \b
    Examples:
      callboard ledger last
      callboard ledger last --type Finding --json
    """  # noqa: D301
    return options.LedgerOptions(run, tuple(type_ or ()), json, journal)


@app.command("asks")
def asks(
    run: OneRun = None,
    json: Annotated[bool, typer.Option("--json", help="One question per line as JSON.")] = False,
    journal: JournalFile = None,
    debug: Debug = False,
) -> options.Request:
    """List what waits for a person: open questions and gates without a verdict.

    \b
    Examples:
      callboard asks
      callboard answer last colour blue
    """  # noqa: D301
    return options.AsksOptions(run, json, journal)


@app.command("doctor")
def doctor(
    run: OneRun = None,
    replay: Annotated[
        bool, typer.Option("--replay", help="Decide every command again and name the first difference.")
    ] = False,
    copy: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Write a copy while runs go on: of RUN, or of the whole journal."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One run per line as JSON.")] = False,
    journal: JournalFile = None,
    debug: Debug = False,
) -> options.Request:
    """Check what is recorded: pages, layout, head, chain of hashes, and every law of the engine.

    Without RUN, every run of the journal. It writes nothing but the copy, and runs no role. A copy of one
    damaged run holds what is before the damage. Exit code 0 if all is well, 74 if not.

    \b
    Examples:
      callboard doctor
      callboard doctor last --replay
      callboard doctor --copy /backup/journal.db
    """  # noqa: D301
    return options.DoctorOptions(run, replay, copy, json, journal)
