"""What is to be done, and how something is to be built."""

from emissions.base import Emission
from emissions.values import EMPTY, OBJECT, Json, Text, Texts


class ExecutionPlan(Emission):
    """A plan, recorded and not acted on; work that shall be done is a TaskAssignment.

    A good plan has steps that each end in something observable, says which step waits for which in
    `dependencies` ("deploy after test"), and by what `exit_criteria` the whole is finished.
    """

    steps: Texts = EMPTY
    dependencies: Texts = EMPTY
    exit_criteria: Text | None = None


class TaskAssignment(Emission):
    """One planned unit of work: the one plan format that the house acts on.

    A good assignment can be carried out by its `assignee` (a role) from `task` and `inputs` alone, has a
    short unique `name`, lists in `depends_on` the names it must wait for, and says by what it is finished.
    `modes` are named ways of working laid over the role. In a document without nodes the planner's
    assignments become the nodes; from a running node each is a request to grow the graph.
    """

    name: Text
    task: Text
    assignee: Text
    inputs: Json = OBJECT
    exit_criteria: Text | None = None
    depends_on: Texts = EMPTY
    modes: Texts = EMPTY


class DesignSpec(Emission):
    """A design record.

    A good record says in `summary` what is built and for what, lists the `components` with their
    responsibilities, the `decisions` with their reasons, and the `alternatives` that were turned down.
    """

    summary: Text
    components: Texts = EMPTY
    decisions: Texts = EMPTY
    alternatives: Texts = EMPTY
