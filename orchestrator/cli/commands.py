"""The table of commands: names, options and help, without loading what any of them needs.

``_HOMES`` is the command line's one table of late imports: a command's own module, with everything that
it needs, is loaded when the command was chosen.
"""

from __future__ import annotations

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

from orchestrator.cli import edge, options

__all__ = [
    "app",
    "check",
    "draw",
    "emissions",
    "events",
    "init",
    "invoke",
    "main",
    "roles",
    "root",
    "run",
    "schema",
    "try_",
]

#: What is loaded late, and from where: the body of each command, and how errors are told.
_HOMES: Final = {
    "check": ("orchestrator.cli.checking", "check"),
    "draw": ("orchestrator.cli.checking", "draw"),
    "emissions": ("orchestrator.cli.listing", "emissions"),
    "events": ("orchestrator.cli.listing", "events"),
    "exit_code": ("orchestrator.cli.exits", "exit_code"),
    "init": ("orchestrator.cli.starting", "init"),
    "names": ("orchestrator.cli.listing", "names"),
    "roles": ("orchestrator.cli.listing", "roles"),
    "run": ("orchestrator.cli.running", "run"),
    "schema": ("orchestrator.cli.checking", "schema"),
    "told": ("orchestrator.cli.exits", "told"),
    "try": ("orchestrator.cli.trying", "try_role"),
}

_DEBUG: Final = "CALLBOARD_DEBUG"
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

_FlowPath = Annotated[
    Path, typer.Argument(metavar="FLOW", help="A flow document (YAML), or a folder with a flow.yaml.")
]
_OneFlow = Annotated[
    Path, typer.Argument(metavar="[FLOW]", help="A flow document (YAML), or a folder with a flow.yaml.")
]
_Debug = Annotated[bool, typer.Option("--debug", envvar=_DEBUG, help="Show tracebacks and detailed logs.")]
_HERE: Final = Path("flow.yaml")


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


@app.command("run")
def run(
    flow: _OneFlow = _HERE,
    *,
    arg: Annotated[
        list[str] | None,
        typer.Option("--arg", metavar="K=V", help="An argument of the flow; may be repeated."),
    ] = None,
    args: Annotated[
        Path | None, typer.Option("--args", metavar="FILE", help="Arguments as JSON or YAML; --arg wins.")
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1, envvar="CALLBOARD_CONCURRENCY", help="Nodes at once, in place of the document's."
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="One event per line as JSON; the last line is the result.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only the line that says what came of it.")
    ] = False,
    grace: Annotated[
        float,
        typer.Option(
            min=0.0,
            envvar="CALLBOARD_GRACE",
            help="Seconds from the first Ctrl-C or SIGTERM to the interruption.",
        ),
    ] = 10.0,
    on_end: Annotated[
        str | None,
        typer.Option(
            metavar="CMD",
            envvar="CALLBOARD_ON_END",
            help="Shell command for when the run has stopped; it reads the result as JSON and has "
            "CALLBOARD_RUN, CALLBOARD_FLOW, CALLBOARD_REASON and CALLBOARD_EXIT.",
        ),
    ] = None,
    debug: _Debug = False,
) -> int:
    """Run a flow.

    A terminal gets a live view and is asked what roles ask; a pipe gets one line per event. What roles print
    goes to stderr. Ctrl-C once lets running nodes finish within --grace, twice interrupts at once.

    \b
    Examples:
      callboard run flow.yaml --arg target=src --arg threshold=high
      callboard run audit --args args.json --quiet
      callboard run flow.yaml --json | jq -r 'select(.kind == "NodeFailed") | .node'
    """  # noqa: D301
    asked = options.RunOptions(
        flow, tuple(arg or ()), args, concurrency, json, quiet, grace, on_end, debug, _typed()
    )
    return int(_late("run")(asked))


@app.command("check")
def check(
    flow: _FlowPath,
    json: Annotated[bool, typer.Option("--json", help="Everything as one JSON object.")] = False,
    debug: _Debug = False,
) -> int:
    """Say what is wrong with a flow, and what it will do.

    Problems with their places, when each node runs, what each verdict does at each gate, and the budget.
    Nothing runs but the Python files of the cast.

    \b
    Examples:
      callboard check flow.yaml
      callboard check flow.yaml --json | jq '.problems'
    """  # noqa: D301
    return int(_late("check")(options.CheckOptions(flow, json)))


@app.command("draw")
def draw(
    flow: _FlowPath,
    form: Annotated[str, typer.Option("--format", metavar="text|mermaid", help="How to draw it.")] = "text",
    debug: _Debug = False,
) -> int:
    """Draw a flow: what starts together stands in one column.

    \b
    Examples:
      callboard draw flow.yaml
      callboard draw flow.yaml --format mermaid > flow.mmd
    """  # noqa: D301
    return int(_late("draw")(options.DrawOptions(flow, form)))


@app.command("roles")
def roles(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="One role in full.", autocompletion=_names("roles")),
    ] = None,
    flow: Annotated[
        Path | None, typer.Option("--flow", metavar="FLOW", help="With the cast of this flow.")
    ] = None,
    debug: _Debug = False,
) -> int:
    """List the roles of the library and of a cast, or show one.

    \b
    Examples:
      callboard roles
      callboard roles critic
      callboard roles scout --flow audit/flow.yaml
    """  # noqa: D301
    return int(_late("roles")(options.Asked(name, flow)))


@app.command("emissions")
def emissions(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="One type in full.", autocompletion=_names("emissions")),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="As JSON Schema.")] = False,
    debug: _Debug = False,
) -> int:
    """List what roles may emit, or show one type.

    \b
    Examples:
      callboard emissions
      callboard emissions SpawnRequest --schema
    """  # noqa: D301
    return int(_late("emissions")(options.Asked(name, schema=schema)))


@app.command("events")
def events(
    kind: Annotated[
        str | None,
        typer.Argument(metavar="[KIND]", help="One kind in full.", autocompletion=_names("events")),
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="As JSON Schema of the whole envelope.")] = False,
    debug: _Debug = False,
) -> int:
    """List the kinds of events of a run, or show one.

    \b
    Examples:
      callboard events
      callboard events NodeFailed --schema
    """  # noqa: D301
    return int(_late("events")(options.Asked(kind, schema=schema)))


@app.command("try")
def try_(
    target: Annotated[
        str,
        typer.Argument(metavar="FILE:ROLE", help="A role file (or a flow document) and one of its roles."),
    ],
    given: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="K=V", help="A parameter; JSON is read as JSON. May be repeated."),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=JSON", help="What a predecessor gave. May be repeated."),
    ] = None,
    instruction: Annotated[str, typer.Option(help="turn.instruction.")] = "",
    debug: _Debug = False,
) -> int:
    """Run one role alone.

    Shows its value, its emissions and the receipts that it gets. Roles that it spawns are accepted
    and do nothing.

    \b
    Examples:
      callboard try cast.py:scout --with target=src
      callboard try cast.py:critic --input 'draft={"text": "We never lose data."}'
    """  # noqa: D301
    asked = options.TryOptions(target, tuple(given or ()), tuple(inputs or ()), instruction, debug=debug)
    return int(_late("try")(asked))


@app.command("init")
def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="Where to; made if it is missing.")
    ] = Path(),
    template: Annotated[str, typer.Option(metavar="NAME", help="What to begin with.")] = "starter",
    debug: _Debug = False,
) -> int:
    """Write a flow that runs at once.

    flow.yaml, cast.py, test_flow.py and .gitignore; nothing is overwritten.

    \b
    Examples:
      callboard init my-flow && callboard run my-flow
    """  # noqa: D301
    return int(_late("init")(options.InitOptions(folder, template)))


@app.command("schema")
def schema(debug: _Debug = False) -> int:
    """Print the JSON Schema of flow documents, for editors.

    \b
    Examples:
      callboard schema > flow.schema.json
    """  # noqa: D301
    return int(_late("schema")())


def _typed() -> str:
    """The command line as somebody could type it again."""
    return shlex.join(["callboard", *_arguments])


_arguments: list[str] = []


def invoke(argv: Sequence[str]) -> int:
    """Carry a command out and return its exit code; nothing is raised, and an error is one line."""
    _arguments[:] = argv
    edge.prepare_streams()
    debug = "--debug" in argv or bool(os.environ.get(_DEBUG, "").strip("0"))
    try:
        command = typer_main.get_command(app)
        return int(command.main(list(argv), prog_name="callboard", standalone_mode=False) or 0)
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
