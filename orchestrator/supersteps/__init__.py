"""Supersteps: graphs whose nodes read one state, write to channels, and run in steps (docs/supersteps.md).

The same runtime, journal, bus, limits and retries as every run; a thread is a run that takes inputs.
"""

from orchestrator.core.spec import Budget
from orchestrator.supersteps.bodies import TaskError
from orchestrator.supersteps.channels import (
    BinaryOperatorAggregate,
    Channel,
    Ephemeral,
    LastValue,
    Messages,
    NamedBarrier,
    RemoveMessage,
    Topic,
    Untracked,
    add_messages,
)
from orchestrator.supersteps.compiled import CompiledGraph
from orchestrator.supersteps.errors import (
    EmptyChannelError,
    EmptyInputError,
    InvalidUpdateError,
    PendingWorkError,
)
from orchestrator.supersteps.graph import StateGraph
from orchestrator.supersteps.policies import CachePolicy, RetryPolicy, TimeoutPolicy
from orchestrator.supersteps.results import Interrupt, StateSnapshot, StepResult, TaskFailure, TaskSnapshot
from orchestrator.supersteps.words import (
    END,
    PARENT,
    START,
    Answer,
    Answers,
    Command,
    Overwrite,
    Send,
    interrupt,
)

__all__ = [
    "END",
    "PARENT",
    "START",
    "Answer",
    "Answers",
    "BinaryOperatorAggregate",
    "Budget",
    "CachePolicy",
    "Channel",
    "Command",
    "CompiledGraph",
    "EmptyChannelError",
    "EmptyInputError",
    "Ephemeral",
    "Interrupt",
    "InvalidUpdateError",
    "LastValue",
    "Messages",
    "NamedBarrier",
    "Overwrite",
    "PendingWorkError",
    "RemoveMessage",
    "RetryPolicy",
    "Send",
    "StateGraph",
    "StateSnapshot",
    "StepResult",
    "TaskError",
    "TaskFailure",
    "TaskSnapshot",
    "TimeoutPolicy",
    "Topic",
    "Untracked",
    "add_messages",
    "interrupt",
]
