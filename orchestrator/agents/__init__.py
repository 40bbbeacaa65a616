"""Branches, verbs and backends: what an operation performs and on whom."""

from orchestrator.agents.branches import DEFAULT_BRANCH, Branch, Message
from orchestrator.agents.verbs import CONVERSATIONAL, VERBS

__all__ = ["CONVERSATIONAL", "DEFAULT_BRANCH", "VERBS", "Branch", "Message"]
