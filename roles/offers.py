"""What a role is told of each emission that it may make: when to make one, and what a good one looks like."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from emissions import Emission

__all__ = ["OFFERS", "Offer", "offer_of"]


@dataclass(frozen=True, slots=True)
class Offer:
    """One emission as it is offered.

    Attributes:
        when: the occasion, as the end of "Emit it ..."; of a type that the house does not know, all of it.
        example: a good one, as JSON data; None for a type that the house does not know.
    """

    when: str
    example: Mapping[str, Any] | None = None


OFFERS: Final[Mapping[str, Offer]] = MappingProxyType(
    {
        "Finding": Offer(
            "for each fact or defect that you have seen yourself, one at a time",
            {
                "description": "parse_date accepts the 30th of February",
                "severity": "medium",
                "confidence": 0.9,
                "evidence": "parse_date('2024-02-30') returns 2024-03-01",
                "source": "dates.py:41",
            },
        ),
        "Conflict": Offer(
            "when two or more sources cannot both be right",
            {
                "sources": ["manual.md, section 3", "config.py:12"],
                "nature": "the manual says that retries default to 3, the code sets 5",
            },
        ),
        "Gap": Offer(
            "when you have looked and something that matters is still unknown",
            {"area": "upload limits", "what_is_unknown": "what happens to a file of more than 2 GiB"},
        ),
        "Diagnosis": Offer(
            "when a cause is established, not while it is only suspected",
            {
                "symptom": "the nightly job times out",
                "root_cause": "the index was dropped by migration 0042, so each lookup reads the whole table",
                "remedy": "create the index again in a new migration",
                "confidence": 0.95,
                "evidence": "the query plan shows a full scan; with the index the job takes 40 s",
            },
        ),
        "Synthesis": Offer(
            "once, when the sources have been read and say something together",
            {
                "summary": "All three reports blame the same lock, and two of them measured it.",
                "themes": ["lock contention"],
                "sources": ["report-a", "report-b", "report-c"],
                "tensions": ["report-c finds no effect below 10 users"],
            },
        ),
        "Verdict": Offer(
            "once, at the end, when the work has been examined",
            {
                "verdict": "REQUEST-CHANGES",
                "rationale": "one input of the specification is not handled",
                "evidence": "rates.csv, line 7: an empty cell ends the import",
                "reversible_by": "an empty cell is reported with its line and the import goes on",
            },
        ),
        "ComplianceVerdict": Offer(
            "once for each control that you were asked to judge",
            {
                "verdict": "non-compliant",
                "control": "AC-2(3)",
                "evidence_refs": ["users.csv: 14 accounts unused for more than 90 days"],
            },
        ),
        "RiskAssessment": Offer(
            "for each concrete way to fail that is worth somebody's attention",
            {
                "failure_mode": "the certificate expires while the only holder of the key is away",
                "likelihood": 0.2,
                "impact": 0.8,
                "mitigation": "renew automatically and alert 30 days before",
            },
        ),
        "Objection": Offer(
            "when you hold a position to be wrong at its strongest",
            {
                "target": "the plan to cache all responses",
                "strongest_target_form": "caching removes nine tenths of the load at once",
                "objection": "prices change within the lifetime of an entry, and a stale price is a contract",
                "what_would_resolve": "prices are left out of the cache, or carry their time",
            },
        ),
        "Recommendation": Offer(
            "when you advise one course over others",
            {
                "recommendation": "ship the read path first and leave writing to the next release",
                "rationale": "reading serves most users and cannot lose data",
                "alternatives": ["ship both a month later"],
                "tradeoffs": "two migrations instead of one",
            },
        ),
        "AnalysisResult": Offer(
            "for each number that you have computed",
            {"metric": "median response time, ms", "value": 182.0, "ci_95": [171.0, 195.0], "p_value": 0.01},
        ),
        "ComplexityScore": Offer(
            "when you were asked how hard something is",
            {"score": 0.6, "rationale": "the change is small, and three services have to change at once"},
        ),
        "ExecutionPlan": Offer(
            "to put a plan on record; it starts nothing",
            {
                "steps": ["measure the present load", "move the reads", "move the writes"],
                "dependencies": ["move the writes after move the reads"],
                "exit_criteria": "the old store gets no request for a week",
            },
        ),
        "TaskAssignment": Offer(
            "for each unit of work that shall be carried out",
            {
                "name": "measure_load",
                "task": "Measure reads and writes per second over one working day, by endpoint.",
                "assignee": "analyst",
                "exit_criteria": "a table with one row to an endpoint",
            },
        ),
        "DesignSpec": Offer(
            "when a design is decided",
            {
                "summary": "a queue between intake and billing, so that neither waits for the other",
                "components": ["intake: accepts and stores", "billing: reads in order"],
                "decisions": ["the queue is the database's own table: no new service to run"],
                "alternatives": ["a broker: one more thing to operate for 20 messages a second"],
            },
        ),
        "ArtifactProduced": Offer(
            "after you have written a file that others are to use",
            {"path": "report.md", "kind": "report", "description": "the findings by severity"},
        ),
        "VerificationResult": Offer(
            "after a check has run, with what it said",
            {"suite": "unit tests of the importer", "passed": False, "gaps": ["no file with a BOM"]},
        ),
        "Document": Offer(
            "when a text is complete as it stands",
            {
                "title": "Moving to the new importer",
                "content": "# Moving to the new importer\n\nYou need ten minutes and your old file.",
                "format": "markdown",
                "audience": "operators",
            },
        ),
        "OperationOutcome": Offer(
            "after you have changed something in the world, whatever came of it",
            {
                "action": "restart",
                "target": "billing worker 3",
                "status": "succeeded",
                "changes": ["worker 3 runs build 1841"],
                "rollback": "start build 1840",
            },
        ),
        "Proposal": Offer(
            "for each idea that is concrete enough to try",
            {
                "idea": "show the price of a change while it is edited",
                "value_proposition": "customers stop asking support what a change will cost",
                "feasibility": "the price service answers in 50 ms",
                "risks": ["a price that is shown and then changes"],
            },
        ),
        "Postmortem": Offer(
            "once, when the incident is understood",
            {
                "summary": "Orders were refused for 40 minutes.",
                "timeline": ["10:02 the certificate expires", "10:42 a new one is in place"],
                "root_cause": "nothing renewed the certificate after the move",
                "contributing_factors": ["the alert went to a mailbox that nobody reads"],
                "action_items": ["renew automatically", "route certificate alerts to the pager"],
            },
        ),
        "EscalationRequest": Offer(
            "only if the work is above you: say what you tried and hand over what you found",
            {
                "reason": "two proofs of the lemma failed at the same step, which needs measure theory",
                "urgency": "blocked",
                "context": {"step": "equation 7", "tried": ["induction", "a bound by moments"]},
            },
        ),
        "SpawnRequest": Offer(
            "for each piece of work that somebody else should do now",
            {
                "assignee": "researcher",
                "instruction": "Find who maintains the parser and when it was last released.",
                "parameters": {"package": "parser"},
                "key": "parser",
                "reason": "the answer decides between two designs",
            },
        ),
    }
)
"""Kind -> what is said of it, for the 23 types of the house; read-only."""


def offer_of(kind: type[Emission]) -> Offer:
    """What is said of an emission type; of one that is not the house's, its own docstring."""
    known = OFFERS.get(kind.emission_kind)
    if known is not None:
        return known
    return Offer(" ".join((inspect.getdoc(kind) or "Emit it when you have one.").split()))
