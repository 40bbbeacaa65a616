"""``callboard rehearse``: what a flow does before anybody works in it."""

from __future__ import annotations

from typing import Any

import msgspec

from orchestrator.cli.edge import note, say, say_json
from orchestrator.cli.exits import USAGE
from orchestrator.cli.opening import arguments, errors_of, open_flow
from orchestrator.cli.options import RehearseOptions
from orchestrator.testing.observed import Observed
from orchestrator.testing.rehearsal import DEFAULT_SEEDS
from orchestrator.testing.rehearsal import rehearse as rehearse_flow
from orchestrator.testing.review import Finding, Most, Rehearsal

__all__ = ["rehearse"]

_FOUND = 1


def rehearse(options: RehearseOptions) -> int:
    """Rehearse a flow and print what was found.

    Raises:
        OrchestratorError: arguments do not fit.
    """
    flow = open_flow(options.flow)
    errors = errors_of(flow)
    if errors:
        note("\n".join(errors))
        return USAGE
    first = options.seed or 0
    count = options.seeds or (DEFAULT_SEEDS if options.seed is None else 1)
    args = arguments(options.args, options.args_file)
    found = rehearse_flow(flow, range(first, first + count), args=args)
    if options.json:
        say_json(msgspec.json.encode(_as_json(found, str(flow.path))))
    else:
        _tell(found, str(options.flow))
    return 0 if found.ok else _FOUND


def _as_json(found: Rehearsal, file: str) -> dict[str, Any]:
    told: dict[str, Any] = {
        "file": file,
        "flow": found.flow,
        "ok": found.ok,
        "seeds": {"first": found.seeds[0], "count": len(found.seeds)},
        "planned_nodes": found.planned,
        "reasons": found.reasons,
        "nodes": found.nodes,
        "depth": found.depth,
        "rounds": found.rounds,
        "laws_held": found.laws_held,
        "findings": found.findings,
        "budgets": found.budgets,
    }
    if len(found.runs) == 1:
        told["run"] = {"mood": found.runs[0].mood, "nodes": found.runs[0].outcomes}
    return told


def _tell(found: Rehearsal, path: str) -> None:
    only = found.runs[0] if len(found.runs) == 1 else None
    say(f"{found.flow}: {_count(found)}; no role was called")
    if only is not None:
        _tell_run(only)
    else:
        say(f"  ended    {', '.join(f'{reason} {count}' for reason, count in found.reasons.items())}")
    say(f"  nodes    {_most(found.nodes)}; {found.planned} are planned")
    say(f"  growth   {_most(found.depth, 'generation')}")
    say(f"  rounds   {_most(found.rounds)}")
    say(f"  laws     {'held in every run' if found.laws_held else 'did not hold'}")
    say("\nbudgets")
    say("\n".join(f"  {use.told}{_seen(use.seed)}" for use in found.budgets))
    if found.ok:
        say("\nnothing found")
        return
    say(f"\nfound {len(found.findings)}")
    say("\n".join(f"  {one.message}{_seen(one.seed)}" for one in found.findings))
    shown = _shown(found.findings)
    if only is None and shown is not None:
        say(f"\nreplay one: callboard rehearse {path} --seed {shown}")


def _tell_run(run: Observed) -> None:
    """One rehearsal, node by node."""
    say(f"  cast     {run.mood}")
    say(f"  ended    {run.reason}\n")
    width = max(map(len, run.outcomes), default=0)
    say("\n".join(f"  {name.ljust(width)}  {outcome}" for name, outcome in run.outcomes.items()) + "\n")


def _count(found: Rehearsal) -> str:
    first, last = found.seeds[0], found.seeds[-1]
    if first == last:
        return f"1 rehearsal, seed {first}"
    return f"{len(found.seeds):,} rehearsals, seeds {first} to {last}"


def _most(most: Most, word: str = "") -> str:
    if not most.count:
        return "none"
    words = f" {word}{'' if most.count == 1 else 's'}" if word else ""
    where = f", at {most.where}" if most.where else ""
    return f"at most {most.count:,}{words}{where}{_seen(most.seed)}"


def _seen(seed: int | None) -> str:
    return "" if seed is None else f" (seed {seed})"


def _shown(findings: tuple[Finding, ...]) -> int | None:
    return next((one.seed for one in findings if one.seed is not None), None)
