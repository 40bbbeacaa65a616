"""``callboard save-flow``: a run as a document that runs to the same shape."""

from __future__ import annotations

import os
from pathlib import Path

from orchestrator.cli.edge import note, say
from orchestrator.cli.journals import reading, recorded
from orchestrator.cli.opening import UsageError, errors_of
from orchestrator.cli.options import SaveFlowOptions
from orchestrator.flows.flow import load_flow
from orchestrator.flows.load import read_source
from orchestrator.flows.saving import save_flow as saved

__all__ = ["save_flow"]


def save_flow(options: SaveFlowOptions) -> int:
    """Write the document beside the one that ran, where its cast is, and say what was renamed.

    Raises:
        UsageError: the run had no document, or the file exists. FlowError: the document cannot be read.
    """
    with reading(options.journal) as (reader, _):
        run = recorded(reader, options.run)
    source = run.state.definition.source
    if not source:
        raise UsageError(f"run {run.run_id} ran a graph made in code; its roles have no document to stand in")
    document = Path(source)
    if run.state.steps is not None:
        raise UsageError(
            f"run {run.run_id} ran in steps: its graph did not grow, {document.name} says it all"
        )
    told = saved(run.state, read_source(document).data, f"run {run.run_id} of {document.name}, as it grew")
    target = options.to or document.with_name(f"{run.state.name}-{run.run_id}.yaml")
    if target.parent.resolve() != document.parent.resolve():
        raise UsageError(f"{target}: its cast is beside {document.name}; save it in the same folder")
    try:
        with target.open("x", encoding="utf-8", newline="\n") as file:
            file.write(told.text)
    except FileExistsError:
        raise UsageError(f"{target} exists; name another file with --to") from None
    shown = os.path.relpath(target)
    say(f"written  {shown}")
    for name, key in told.renamed.items():
        say(f"renamed  {name} to {key}")
    for line in told.notes:
        say(f"folded   {line}")
    faults = errors_of(load_flow(target))
    if faults:
        note("\n".join(faults))
        return 1
    say(f"\nrun it:  callboard run {shown}")
    return 0
