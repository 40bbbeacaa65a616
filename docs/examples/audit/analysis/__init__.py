"""The analysis behind the audit: plain functions over text, which know nothing of flows and roles."""

from . import baseline, report
from .audit import Audit, Judgement, Place, Unseen, judge
from .discovery import Discovery, Skipped, discover
from .inspection import BY_ID, CHECKS, Inspection, inspect_bytes, inspect_file
from .model import SEVERITIES, Check, Hit, Issue, rank

__all__ = [
    "BY_ID",
    "CHECKS",
    "SEVERITIES",
    "Audit",
    "Check",
    "Discovery",
    "Hit",
    "Inspection",
    "Issue",
    "Judgement",
    "Place",
    "Skipped",
    "Unseen",
    "baseline",
    "discover",
    "inspect_bytes",
    "inspect_file",
    "judge",
    "rank",
    "report",
]
