"""What a later round takes back: the context writes of the rounds before it (kernel.md 5).

A copy begins with one empty write for each key that its planned node, or what grew from it, wrote in an
earlier round: who sees the copy sees that those are over, whether it writes the key again or not.
"""

from __future__ import annotations

from orchestrator.core.state import NodeState, RunState, Write

__all__ = ["EMPTY", "retract"]

#: The value of a write that only takes back.
EMPTY = b""


def retract(state: RunState, node: NodeState) -> None:
    """Give a copy its empty writes; nothing happens to any other node."""
    if node.previous is None:
        return
    taken: dict[str, list[Write]] = {}
    for other in state.family(state.nodes[node.previous]):
        for key, write in (other.writes or {}).items():
            taken.setdefault(key, []).append(write)
    if taken:
        node.writes = {
            key: Write(
                node.op.name, key, EMPTY, (), False, tuple(one.node for one in writes),
                1 + max(one.generation for one in writes),
            )
            for key, writes in taken.items()
        }  # fmt: skip
