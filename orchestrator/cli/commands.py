"""The table of commands: names, options and help, without loading what any of them needs.

``_HOMES`` is the command line's one table of late imports: a command's own module, with everything that
it needs, is loaded when the command was chosen.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from typer import main as typer_main

from orchestrator.cli import control_commands, edge, flow_commands, options, run_commands
from orchestrator.cli.parts import DEBUG, Debug, JournalFile

__all__ = ["app", "emissions", "events", "invoke", "main", "roles", "root"]

#: What is loaded late, and from where: the body of each command, and how errors are told.
_HOMES: Final = {
    "asks": ("orchestrator.cli.ledgers", "asks"),
    "check": ("orchestrator.cli.checking", "check"),
    "control": ("orchestrator.cli.controlling", "control"),
    "diff": ("orchestrator.cli.comparing", "diff_runs"),
    "doctor": ("orchestrator.cli.doctoring", "doctor"),
    "draw": ("orchestrator.cli.drawing", "draw"),
    "effect": ("orchestrator.cli.effect", "effect"),
    "emissions": ("orchestrator.cli.listing", "emissions"),
    "events": ("orchestrator.cli.listing", "events"),
    "exit_code": ("orchestrator.cli.exits", "exit_code"),
    "fork": ("orchestrator.cli.forking", "fork"),
    "go_on": ("orchestrator.cli.resuming", "go_on"),
    "init": ("orchestrator.cli.starting", "init"),
    "ledger": ("orchestrator.cli.ledgers", "ledger"),
    "names": ("orchestrator.cli.listing", "names"),
    "prune": ("orchestrator.cli.shelf", "prune"),
    "rehearse": ("orchestrator.cli.rehearsing", "rehearse"),
    "roles": ("orchestrator.cli.listing", "roles"),
    "run": ("orchestrator.cli.running", "run"),
    "runs": ("orchestrator.cli.shelf", "runs"),
    "save_flow": ("orchestrator.cli.saving", "save_flow"),
    "schema": ("orchestrator.cli.checking", "schema"),
    "show": ("orchestrator.cli.showing", "show"),
    "story": ("orchestrator.cli.showing", "story"),
    "told": ("orchestrator.cli.exits", "told"),
    "try": ("orchestrator.cli.trying", "try_role"),
    "try_again": ("orchestrator.cli.trying_again", "try_again"),
    "watch": ("orchestrator.cli.watching", "watch"),
}

#: Seconds that threads of others get to end when everything has been said.
_LEAVING: Final = 1.0


def _late(name: str) -> Callable[..., Any]:
    module, attribute = _HOMES[name]
    found: Callable[..., Any] = getattr(import_module(module), attribute)
    return found


def _names(kind: str) -> Callable[[str], list[str]]:
    """Completion for names of a kind; a fault while a person types stays silent."""

    def complete(incomplete: str) -> list[str]:
        try:
            return [name for name in _late("names")(kind) if name.startswith(incomplete)]
        except Exception:  # noqa: BLE001 (completion is no place for an error)
            return []

    return complete


app = typer.Typer(
    name="callboard",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
_lists = typer.Typer()
for _group in (flow_commands.app, run_commands.app, control_commands.app, _lists):
    app.add_typer(_group)


def _show_version(wanted: bool) -> None:
    if wanted:
        try:
            edge.say(f"callboard {version('callboard')}")
        except PackageNotFoundError:
            edge.say("callboard (not installed)")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Say the version.")
    ] = False,
) -> int:
    """Run graphs of agents that can grow while they run.

    \b
    Begin with:
      callboard init audit && callboard run audit
    \b
    Exit codes: 0 completed, 1 failed or stuck, 2 usage or a fault in the document, 3 a gate refused or is
    undecided, 4 a budget is used up, 5 drained, 6 somebody has to answer, 70 a bug, 74 input or output
    failed, 130 cancelled or interrupted.
    """  # noqa: D301 (\b is the help formatter's mark, not an escape)
    if context.invoked_subcommand is None:
        edge.note("error: no command was given; `callboard --help` lists them")
        return 2
    return 0


@_lists.command("roles")
def roles(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="One role in full.", autocompletion=_names("roles")),
    ] = None,
    flow: Annotated[
        Path | None, typer.Option("--flow", metavar="FLOW", help="With the cast of this flow.")
    ] = None,
    prompt: Annotated[bool, typer.Option("--prompt", help="The text that a model is shown of it.")] = False,
    *,
    effect: Annotated[
        bool, typer.Option("--effect", help="What each role did in all runs of a journal.")
    ] = False,
    journal: JournalFile = None,
    debug: Debug = False,
) -> int:
    """List the roles of the library and of a cast, or show one.

    \b
    Examples:
      callboard roles
      callboard roles critic
      callboard roles critic --prompt
      callboard roles --effect
      callboard roles scout --flow audit/flow.yaml
    """  # noqa: D301
    if effect:
        return int(_late("effect")(journal, name))
    return int(_late("roles")(options.Asked(name, flow, prompt=prompt)))


@_lists.command("emissions")
def emissions(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="One type in full.", autocompletion=_names("emissions")),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="As JSON Schema.")] = False,
    debug: Debug = False,
) -> int:
    """List what roles may emit, or show one type.

    \b
    Examples:
      callboard emissions
      callboard emissions SpawnRequest --schema
    """  # noqa: D301
    return int(_late("emissions")(options.Asked(name, schema=schema)))


@_lists.command("events")
def events(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="[KIND]", help="One kind in full.", autocompletion=_names("events")),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="As JSON Schema of the whole envelope.")] = False,
    debug: Debug = False,
) -> int:
    """List the kinds of events of a run, or show one.

    \b
    Examples:
      callboard events
      callboard events NodeFailed --schema
    """  # noqa: D301
    return int(_late("events")(options.Asked(kind, schema=schema)))


def invoke(argv: Sequence[str]) -> int:
    """Carry a command out and return its exit code; nothing is raised, and an error is one line."""
    edge.prepare_streams()
    debug = "--debug" in argv or bool(os.environ.get(DEBUG, "").strip("0"))
    try:
        command = typer_main.get_command(app)
        asked = command.main(list(argv), prog_name="callboard", standalone_mode=False)
        if isinstance(asked, options.RunOptions):
            asked = dataclasses.replace(asked, command=shlex.join(["callboard", *argv]))
        return int(_late(asked.home)(asked) if isinstance(asked, options.Request) else asked or 0)
    except typer.Abort:
        return 130
    except typer.TyperException as error:
        edge.note(f"error: {_usage(error)}")
        return 2
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except BaseException as error:  # noqa: BLE001 (a command line never ends in a bare traceback)
        edge.note(_late("told")(error, debug=debug))
        return int(_late("exit_code")(error))
    finally:
        edge.close_streams()


def _usage(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "callboard"
    words = " ".join(error.format_message().split()).rstrip(".")
    if getattr(getattr(error, "param", None), "metavar", None) == "RUN":
        words = f"{words}: the beginning of a run's id, or `last` for the newest"
    joint = "" if words.endswith("?") else ";"
    return f"{words}{joint} `{path} --help` shows how it is used"


def main() -> NoReturn:
    """The console script ``callboard``."""
    code = invoke(sys.argv[1:])
    ends = time.monotonic() + _LEAVING
    for thread in threading.enumerate():
        if thread.daemon or thread is threading.current_thread():
            continue
        thread.join(max(0.0, ends - time.monotonic()))
        if thread.is_alive():
            os._exit(code)  # a role left it behind and it would keep the process; all is written
    sys.exit(code)
