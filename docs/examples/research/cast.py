"""The cast of a research flow: functions that work offline; each can become a role with a model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from orchestrator import Conflict, Document, Finding, Gap, Synthesis, Turn, Verdict, role

SUFFIXES = {".md", ".txt"}
SENTENCE = re.compile(r"(?<=[.!?])\s+")
WORD = re.compile(r"\w+")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
EVERYDAY = frozenset(
    WORD.findall(
        "a an and are as at be by did do does for from how in is it of on or that the to was what when "
        "which who why"
    )
)


@role()
def collector(turn: Turn) -> dict[str, list[str]]:
    """Name the sources: every text of the folder that is not hidden."""
    root = Path(turn.parameters["folder"])
    files = [path for path in sorted(root.rglob("*")) if path.suffix in SUFFIXES and path.is_file()]
    hidden = [any(part.startswith(".") for part in path.relative_to(root).parts) for path in files]
    return {"sources": [str(path) for path, is_hidden in zip(files, hidden, strict=True) if not is_hidden]}


@role(emits=(Finding,))
def reader(turn: Turn) -> dict[str, Any]:
    """Quote the sentences of one source that speak of the question, each with its place."""
    path = Path(turn.parameters["path"])
    asked = _words(turn.instruction)
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        for sentence in SENTENCE.split(line.strip("#>*- \t")):
            share = len(asked & _words(sentence)) / max(len(asked), 1)
            if share >= 1 / 2:
                turn.emit_sync(
                    Finding(
                        description=sentence,
                        confidence=share,
                        evidence=f"{path.name}:{number}",
                        source=path.name,
                    )
                )
    return {"source": path.name, "lines": len(lines)}


@role(emits=(Conflict, Gap))
def comparer(turn: Turn) -> dict[str, int]:
    """Sources that give different numbers disagree; a word of the question that nobody uses is a gap."""
    findings = turn.emissions(Finding)
    numbers: dict[str, set[str]] = {}
    for finding in findings:
        if found := NUMBER.findall(finding.description):
            numbers.setdefault(finding.source, set()).update(found)
    named = sorted(numbers)
    pairs = [(one, other) for at, one in enumerate(named) for other in named[at + 1 :]]
    apart = [(one, other) for one, other in pairs if not numbers[one] & numbers[other]]
    for one, other in apart:
        nature = f"{', '.join(sorted(numbers[one]))} against {', '.join(sorted(numbers[other]))}"
        turn.emit_sync(Conflict(sources=[one, other], nature=nature))
    said = {word for finding in findings for word in _words(finding.description)}
    missing = sorted(_words(turn.instruction) - said)
    for word in missing:
        turn.emit_sync(Gap(area=turn.instruction, what_is_unknown=f"no source speaks of {word!r} here"))
    return {"conflicts": len(apart), "gaps": len(missing)}


@role(emits=(Synthesis,))
def synthesizer(turn: Turn) -> dict[str, Any]:
    """Put together what was found, the surest first, with what stays open."""
    findings = sorted(turn.emissions(Finding), key=lambda one: (-one.confidence, one.evidence))
    conflicts, gaps = turn.emissions(Conflict), turn.emissions(Gap)
    sources = sorted({finding.source for finding in findings})
    tensions = [f"{' and '.join(one.sources)}: {one.nature}" for one in conflicts]
    unread = turn.parameters["unread"]
    summary = f"{len(findings)} findings in {len(sources)} of {len(turn.inputs['read']) + unread} sources"
    turn.emit_sync(Synthesis(summary=summary, sources=sources, tensions=tensions))
    parts = {
        "Found": [f"{one.description} ({one.evidence})" for one in findings],
        "Disagreement": tensions,
        "Open": [
            *(gap.what_is_unknown for gap in gaps),
            *([f"{unread} could not be read"] if unread else []),
        ],
    }
    shown = [
        f"## {title}\n\n" + "\n".join(f"- {line}" for line in lines)
        for title, lines in parts.items()
        if lines
    ]
    return {"text": "\n\n".join([f"# {turn.instruction}", f"{summary}.", *shown]), "sources": sources}


@role(emits=(Verdict,))
def critic(turn: Turn) -> Verdict:
    """A gate: enough sources have to say something; open disagreement is approved with fixes."""
    sources, least = turn.inputs["synthesis"]["sources"], turn.parameters["support"]
    conflicts, gaps = len(turn.emissions(Conflict)), len(turn.emissions(Gap))
    if len(sources) < least:
        return Verdict(
            verdict="REJECT",
            rationale=f"{len(sources)} sources speak of it, {least} are needed",
            evidence=", ".join(sources) or None,
            reversible_by="more sources, or other words in the question",
        )
    return Verdict(
        verdict="APPROVE-WITH-FIXES" if conflicts or gaps else "APPROVE",
        rationale=f"{len(sources)} sources, {conflicts} conflicts, {gaps} gaps",
        evidence=", ".join(sources),
    )


@role(emits=(Document,))
def scribe(turn: Turn) -> dict[str, str]:
    """Write the report; it ends with what the critic said."""
    verdict = turn.inputs["review"]
    text = f"{turn.inputs['synthesis']['text']}\n\n{verdict['verdict']}: {verdict['rationale']}\n"
    turn.artifacts["report"].write_text(text, encoding="utf-8")
    turn.emit_sync(Document(title=text.partition("\n")[0].lstrip("# "), content=text, format="markdown"))
    return {"text": text}


def _words(text: str) -> set[str]:
    """The words of a text that mean something, in lower case."""
    return {word for word in WORD.findall(text.lower()) if word not in EVERYDAY}
