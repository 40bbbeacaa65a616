"""Channels: how the writes of one step become the next value of a state key. One small file each."""

from orchestrator.supersteps.channels.aggregate import BinaryOperatorAggregate
from orchestrator.supersteps.channels.barrier import NamedBarrier
from orchestrator.supersteps.channels.base import Channel, Folded, Pending
from orchestrator.supersteps.channels.ephemeral import Ephemeral
from orchestrator.supersteps.channels.last_value import LastValue
from orchestrator.supersteps.channels.messages import Messages, RemoveMessage, add_messages
from orchestrator.supersteps.channels.topic import Topic
from orchestrator.supersteps.channels.untracked import Untracked

__all__ = [
    "BinaryOperatorAggregate",
    "Channel",
    "Ephemeral",
    "Folded",
    "LastValue",
    "Messages",
    "NamedBarrier",
    "Pending",
    "RemoveMessage",
    "Topic",
    "Untracked",
    "add_messages",
]
