"""Branches, verbs and backends: what an operation performs and on whom."""

from orchestrator.agents.branches import Branch, Message
from orchestrator.agents.verbs import CONVERSATIONAL, VERBS

__all__ = ["CONVERSATIONAL", "VERBS", "Branch", "Message"]
