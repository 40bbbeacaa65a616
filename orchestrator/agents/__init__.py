"""Branches, verbs and backends: what an operation performs and on whom."""

from orchestrator.agents.branches import DEFAULT_BRANCH, Branch, Message

__all__ = ["DEFAULT_BRANCH", "Branch", "Message"]
