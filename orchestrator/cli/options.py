"""What a person asked for, as the commands hand it on: typed, and light to load.

``home`` names the entry of the table in ``commands.py`` that carries it out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

__all__ = [
    "Asked",
    "AsksOptions",
    "CheckOptions",
    "ControlOptions",
    "DiffOptions",
    "DoctorOptions",
    "DrawOptions",
    "Driving",
    "ForkOptions",
    "GoOnOptions",
    "InitOptions",
    "LedgerOptions",
    "PruneOptions",
    "RehearseOptions",
    "Request",
    "RunOptions",
    "RunsOptions",
    "SaveFlowOptions",
    "SchemaOptions",
    "ShowOptions",
    "StoryOptions",
    "TryAgainOptions",
    "TryOptions",
    "WatchOptions",
]


@dataclass(frozen=True, slots=True)
class Request:
    """One command with its options; ``debug`` shows tracebacks."""

    home: ClassVar[str]


# --- flows -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Driving:
    """How a run is driven and shown, for every command that drives one.

    Attributes:
        journal: path of the journal, ``none`` for none, None for the default.
        json, quiet: envelopes, or only the line that says what came of it.
        grace: seconds between the first signal and the interruption.
        on_end, on_ask: commands for when the run has stopped, and for each question; run without a shell.
    """

    journal: str | None = None
    json: bool = False
    quiet: bool = False
    grace: float = 10.0
    on_end: str | None = None
    on_ask: str | None = None
    debug: bool = False


@dataclass(frozen=True, slots=True)
class RunOptions(Request):
    """``callboard run``.

    Attributes:
        flow: the document, or its folder. args: ``K=V`` texts. args_file: JSON or YAML; ``args`` win.
        concurrency: nodes at once, in place of the document's. fsync: ``always`` or ``never``.
        model: performs every role that a model performs.
        reuse: an earlier run whose outcomes are taken where nothing has changed. yes: do not ask about it.
        command: the command line as it was given, for "run again".
    """

    home: ClassVar[str] = "run"
    flow: Path
    args: tuple[str, ...] = ()
    args_file: Path | None = None
    concurrency: int | None = None
    model: str | None = None
    fsync: str = "always"
    reuse: str | None = None
    yes: bool = False
    driving: Driving = field(default_factory=Driving)
    command: str = ""


@dataclass(frozen=True, slots=True)
class CheckOptions(Request):
    """``callboard check``."""

    home: ClassVar[str] = "check"
    flow: Path
    json: bool = False


@dataclass(frozen=True, slots=True)
class DrawOptions(Request):
    """``callboard draw``: a flow, or a recorded run. ``form`` is text or mermaid."""

    home: ClassVar[str] = "draw"
    what: str
    form: str = "text"
    journal: str | None = None


@dataclass(frozen=True, slots=True)
class RehearseOptions(Request):
    """``callboard rehearse``.

    Attributes:
        flow: the document, or its folder. seeds: how many; None is the default. seed: the first one, or the
            only one if nobody says how many. args: ``K=V`` texts. args_file: JSON or YAML; ``args`` win.
    """

    home: ClassVar[str] = "rehearse"
    flow: Path
    seeds: int | None = None
    seed: int | None = None
    args: tuple[str, ...] = ()
    args_file: Path | None = None
    json: bool = False


@dataclass(frozen=True, slots=True)
class SchemaOptions(Request):
    """``callboard schema``."""

    home: ClassVar[str] = "schema"


@dataclass(frozen=True, slots=True)
class Asked:
    """``callboard roles``, ``emissions`` and ``events``: one of them, or all.

    Attributes:
        name: which one; None lists all. flow: whose cast is listed as well. schema: as JSON Schema.
        prompt: what the role is shown.
    """

    name: str | None = None
    flow: Path | None = None
    schema: bool = False
    prompt: bool = False


@dataclass(frozen=True, slots=True)
class TryOptions(Request):
    """``callboard try FILE:ROLE``.

    Attributes:
        target: ``FILE:ROLE``. given: ``K=V`` texts for turn.parameters. inputs: ``NAME=JSON`` texts.
        model: performs the role if it has no function.
    """

    home: ClassVar[str] = "try"
    target: str
    given: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    instruction: str = ""
    model: str | None = None
    grace: float = 10.0
    debug: bool = False


@dataclass(frozen=True, slots=True)
class TryAgainOptions(Request):
    """``callboard try RUN NODE``.

    Attributes:
        times: how often it is run. as_test: file to which a test of the recorded outcome is written.
        model: performs the role if it has no function, in place of the recorded one.
    """

    home: ClassVar[str] = "try_again"
    run: str
    node: str
    times: int = 1
    as_test: Path | None = None
    model: str | None = None
    journal: str | None = None
    grace: float = 10.0
    debug: bool = False


@dataclass(frozen=True, slots=True)
class InitOptions(Request):
    """``callboard init``."""

    home: ClassVar[str] = "init"
    folder: Path
    template: str = "starter"


# --- recorded runs -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunsOptions(Request):
    """``callboard runs``; ``status`` are reasons, ``live`` among them."""

    home: ClassVar[str] = "runs"
    status: tuple[str, ...] = ()
    json: bool = False
    journal: str | None = None


@dataclass(frozen=True, slots=True)
class PruneOptions(Request):
    """``callboard runs prune``; ``older`` is a duration such as ``30d``."""

    home: ClassVar[str] = "prune"
    older: str
    dry: bool = False
    journal: str | None = None


@dataclass(frozen=True, slots=True)
class ShowOptions(Request):
    """``callboard show``; ``html``: the file that the page is written to; ``messages``: they are on it."""

    home: ClassVar[str] = "show"
    run: str
    budget: bool = False
    rounds: bool = False
    json: bool = False
    html: Path | None = None
    messages: bool = False
    journal: str | None = None


@dataclass(frozen=True, slots=True)
class StoryOptions(Request):
    """``callboard story``."""

    home: ClassVar[str] = "story"
    run: str
    node: str
    json: bool = False
    journal: str | None = None


@dataclass(frozen=True, slots=True)
class SaveFlowOptions(Request):
    """``callboard save-flow``; ``to`` is a file beside the document that ran."""

    home: ClassVar[str] = "save_flow"
    run: str
    to: Path | None = None
    journal: str | None = None


@dataclass(frozen=True, slots=True)
class WatchOptions(Request):
    """``callboard watch``; ``since`` is a seq of one run, or with ``everything`` a row of the file."""

    home: ClassVar[str] = "watch"
    run: str | None = None
    everything: bool = False
    json: bool = False
    since: int = 0
    kinds: tuple[str, ...] = ()
    follow: bool = True
    journal: str | None = None


@dataclass(frozen=True, slots=True)
class DiffOptions(Request):
    """``callboard diff``."""

    home: ClassVar[str] = "diff"
    first: str
    second: str
    json: bool = False
    journal: str | None = None


@dataclass(frozen=True, slots=True)
class LedgerOptions(Request):
    """``callboard ledger``; ``types`` are kinds of emissions, empty for all."""

    home: ClassVar[str] = "ledger"
    run: str
    types: tuple[str, ...] = ()
    json: bool = False
    journal: str | None = None


@dataclass(frozen=True, slots=True)
class AsksOptions(Request):
    """``callboard asks``; without a run, those of every run of the journal."""

    home: ClassVar[str] = "asks"
    run: str | None = None
    json: bool = False
    journal: str | None = None


@dataclass(frozen=True, slots=True)
class DoctorOptions(Request):
    """``callboard doctor``; ``copy`` is where a copy of the journal, or of the one run, is written."""

    home: ClassVar[str] = "doctor"
    run: str | None = None
    replay: bool = False
    copy: Path | None = None
    json: bool = False
    journal: str | None = None


# --- control -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GoOnOptions(Request):
    """``callboard resume`` and ``retry``.

    Attributes:
        nodes: what ``retry`` opens again; empty is all that failed; None is ``resume``.
        budget: ``K=V`` texts, limits to raise first. new_definition: code and documents may have changed.
        yes: do not ask. model: performs, from here on, every role that a model performs.
    """

    home: ClassVar[str] = "go_on"
    run: str
    nodes: tuple[str, ...] | None = None
    budget: tuple[str, ...] = ()
    new_definition: bool = False
    yes: bool = False
    driving: Driving = field(default_factory=Driving)
    model: str | None = None


@dataclass(frozen=True, slots=True)
class ForkOptions(Request):
    """``callboard fork``.

    Attributes:
        at: a node or the number of a fact; None is before the first node that is changed.
        values: ``NODE=JSON`` texts. answer: the verdict of the gate that ``at`` names; because: why.
    """

    home: ClassVar[str] = "fork"
    run: str
    at: str | None = None
    values: tuple[str, ...] = ()
    answer: str | None = None
    because: str = ""
    new_definition: bool = False
    yes: bool = False
    driving: Driving = field(default_factory=Driving)


@dataclass(frozen=True, slots=True)
class ControlOptions(Request):
    """``callboard pause``, ``drain``, ``cancel``, ``steer``, ``answer`` and ``inject``.

    Attributes:
        kind: which of them. node: whom it is about. text: what is said, or the role that is injected.
        value, because: of an answer. after: what an injected node waits for. given: its parameters.
    """

    home: ClassVar[str] = "control"
    kind: str
    run: str
    node: str | None = None
    text: str = ""
    value: str = ""
    because: str = ""
    after: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    name: str | None = None
    journal: str | None = None
