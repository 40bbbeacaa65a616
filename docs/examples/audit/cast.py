"""The cast of the audit: who looks for modules, who reads them, who judges, who writes, who remembers."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from orchestrator import Document, Finding, SpawnRequest, Turn, Verdict, role


def _load_analysis() -> ModuleType:
    """Load the package beside this file by its path: the folder of a cast is not on `sys.path`."""
    folder = Path(__file__).with_name("analysis")
    name = "_audit_example_analysis"
    loaded = sys.modules.get(name)
    if loaded is not None and loaded.__file__ == str(folder / "__init__.py"):
        return loaded
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is None or spec.loader is None:
        msg = f"{folder}: the analysis package of the audit is missing"
        raise ImportError(msg)
    package = importlib.util.module_from_spec(spec)
    sys.modules[name] = package
    spec.loader.exec_module(package)
    return package


analysis = _load_analysis()


@role(
    emits=(SpawnRequest,),
    description="Finds the Python modules of a folder and asks for an inspector for each.",
)
def scout(turn: Turn) -> dict[str, Any]:
    """Walk the target; what the budget refuses is named, so that nobody takes it for looked at."""
    found = analysis.discover(Path(turn.parameters["target"]))
    inspectors: dict[str, str] = {}
    not_looked_at: list[dict[str, str]] = []
    for path in found.modules:
        request = SpawnRequest(
            assignee="inspector",
            instruction=f"Inspect {path}",
            parameters={"root": str(found.root), "path": path},
            key=path,
            before="successors",
        )
        receipt = turn.emit_sync(request)
        if receipt:
            inspectors[str(receipt.node)] = path
        else:
            not_looked_at.append({"path": path, "why": receipt.reason})
    if not_looked_at:
        turn.report(f"{len(not_looked_at):,} of {len(found.modules):,} modules are beyond the spawn budget")
    return {
        "target": turn.parameters["target"],
        "root": str(found.root),
        "modules": len(found.modules),
        "spawned": len(inspectors),
        "inspectors": inspectors,
        "not_looked_at": not_looked_at,
        "skipped": [{"path": s.path, "why": s.why} for s in found.skipped],
    }


@role(emits=(Finding,), description="Reads one module and reports what is wrong with it.")
def inspector(turn: Turn) -> dict[str, Any]:
    """Ask every check about one module. Broken, binary and huge files are findings too."""
    path = turn.parameters["path"]
    seen = analysis.inspect_file(Path(turn.parameters["root"]), path)
    findings = [
        Finding(
            description=issue.text,
            severity=issue.severity,
            confidence=issue.confidence,
            evidence=f"{path}:{issue.line}",
            source=issue.check,
        )
        for issue in seen.issues
    ]
    return {"path": path, "lines": seen.lines, "findings": findings}


@role(
    emits=(Verdict,), description="Judges all findings by the threshold; as a gate it can veto what follows."
)
def critic(turn: Turn) -> Verdict:
    """Reject if anything is as serious as the threshold, or if nothing was looked at."""
    judgement = analysis.judge(_audit(turn))
    return Verdict(
        verdict=judgement.verdict,
        rationale=judgement.rationale,
        evidence=", ".join(f"{p.path}:{p.line}" for p in judgement.worst) or None,
        reversible_by=judgement.reversible_by,
    )


@role(emits=(Document,), description="Writes the report, whatever the verdict is.")
def scribe(turn: Turn) -> dict[str, Any]:
    """Write one Markdown page; the ledger gets its head, which says where the rest is."""
    audit = _audit(turn)
    judgement = analysis.judge(audit)
    file = Path(turn.parameters["report"])
    root = Path(turn.inputs["scout"]["root"])
    known = analysis.baseline.load(Path(turn.parameters["baseline"]), root)
    fresh = None if known.note else tuple(analysis.baseline.new_places(audit.places, known))
    page = analysis.report.Page(file, root, _rerun(turn, audit), fresh, known.note)
    analysis.baseline.write(file, analysis.report.render(audit, judgement, page))
    head = analysis.report.summary(audit, judgement, page)
    turn.emit_sync(
        Document(title=f"Audit of {audit.target}", content=f"{head}\n\nIn full: {file}", format="markdown")
    )
    return {
        "path": str(file),
        "root": str(root),
        "verdict": judgement.verdict,
        "modules": audit.modules,
        "looked_at": len(audit.lines),
        "not_looked_at": [entry.path for entry in audit.unseen],
        "findings": len(audit.places),
        "new": None if fresh is None else len(fresh),
        "text": f"{judgement.verdict}: {judgement.rationale}. The report is in {file}",
    }


@role(description="Remembers what an approved audit found, so that the next report can tell what is new.")
def keeper(turn: Turn) -> dict[str, Any]:
    """Write the baseline. It stands below the gate: a rejected audit never becomes what is normal."""
    file = Path(turn.parameters["baseline"])
    report = turn.inputs["report"]
    places = [_place(finding) for finding in turn.emissions(Finding)]
    analysis.baseline.save(file, Path(report["root"]), places, report["not_looked_at"])
    return {"path": str(file), "findings": len(places)}


def _audit(turn: Turn) -> Any:
    """What the scout and the inspectors handed on, in one value."""
    scouted = turn.inputs["scout"]
    unseen = [analysis.Unseen(entry["path"], entry["why"]) for entry in scouted["not_looked_at"]]
    lines: dict[str, int] = {}
    for node, path in scouted["inspectors"].items():
        if node in turn.inputs:
            lines[path] = turn.inputs[node]["lines"]
        else:
            error = turn.failed.get(node)
            unseen.append(
                analysis.Unseen(
                    path, f"{error.type}: {error.message}" if error else "its inspector was stopped"
                )
            )
    return analysis.Audit(
        target=scouted["target"],
        threshold=turn.parameters["threshold"],
        lines=lines,
        places=tuple(_place(finding) for finding in turn.emissions(Finding)),
        unseen=tuple(sorted(unseen, key=lambda u: (u.path, u.why))),
        skipped=tuple(analysis.Unseen(entry["path"], entry["why"]) for entry in scouted["skipped"]),
    )


def _place(finding: Any) -> Any:
    """A finding as it was taken, in the words of the analysis."""
    path, _, line = (finding.evidence or ":1").rpartition(":")
    return analysis.Place(
        path,
        int(line),
        finding.source or "",
        str(finding.severity or "info"),
        finding.confidence,
        finding.description,
    )


def _rerun(turn: Turn, audit: Any) -> str:
    """The command that repeats this audit, with budget enough for every module."""
    flow = os.path.relpath(Path(__file__).with_name("flow.yaml"))
    args = {
        "target": audit.target,
        "threshold": audit.threshold,
        "report": turn.parameters["report"],
        "baseline": turn.parameters["baseline"],
    }
    if audit.unseen:
        args["spawns"] = str(audit.modules)
    given = " ".join(f"--arg {shlex.quote(f'{name}={value}')}" for name, value in args.items())
    return f"callboard run {shlex.quote(flow)} {given}"
