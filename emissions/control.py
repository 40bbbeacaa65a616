"""The emissions by which a node asks the house to change the run."""

from typing import Final, cast

from emissions.base import Emission
from emissions.values import (
    EMPTY,
    NONE,
    OBJECT,
    Before,
    Flag,
    Json,
    Route,
    RouteField,
    SpawnVerb,
    Text,
    Texts,
    Urgency,
    UrgencyField,
)

_BLOCKED: Final = cast("UrgencyField", Urgency.BLOCKED)
_ROUTES: Final = {Urgency.BLOCKED: Route.HIGHER_TIER, Urgency.FYI: Route.NOTIFY}


class EscalationRequest(Emission):
    """This is above me. Every role may emit it.

    A good request says in `reason` what was tried and why it did not suffice, and hands over in `context`
    what was found, so that the next one does not begin at nothing. `blocked` means the emitter cannot go on,
    `fyi` that it can. Without a `route`, blocked goes one tier up and fyi only notifies; `give_up` ends the
    node as failed.
    """

    reason: Text
    urgency: UrgencyField = _BLOCKED
    route: RouteField = NONE
    context: Json = OBJECT

    @property
    def effective_route(self) -> Route:
        """The route that was asked for, or the one that the urgency stands for."""
        return self.route or _ROUTES[self.urgency]


class SpawnRequest(Emission):
    """Grow the graph by one node.

    A good request asks for one piece of work that the `assignee` can do from `instruction` and `parameters`
    alone, and carries a `key` where the work has an identity of its own (a path, a ticket), so that asking
    again is harmless.

    - `assignee`: a role, or a node of this run whose role is meant; the emitter's own role if omitted.
    - `operation`: the verb the child performs.
    - `parameters`: JSON; the child's `turn.parameters`.
    - `independent`: the child does not wait for the emitter and outlives its failure.
    - `after`: further nodes that the child waits for.
    - `before`: nodes that wait for the child and read it; `"successors"` means the emitter's own.
    - `required`: what waits for the child needs it to complete; otherwise any outcome releases it.
    - `inherit`: the child starts from a copy of the emitter's conversation.
    """

    instruction: Text = ""
    assignee: Text | None = None
    operation: SpawnVerb = "operate"
    parameters: Json = OBJECT
    independent: Flag = False
    reason: Text | None = None
    key: Text | None = None
    after: Texts = EMPTY
    before: Before = EMPTY
    required: Flag = False
    inherit: Flag = False
