"""What a role has made, done or written."""

from emissions.base import Emission
from emissions.values import EMPTY, Flag, OutcomeField, Share, Text, Texts


class ArtifactProduced(Emission):
    """A file exists.

    A good one is emitted after the file was written, with its `path` relative to the node's folder and its
    `kind` (patch, report, dataset). `verified` is true only if the emitter has checked the content. The house
    checks that the file is there; a missing one is refused.
    """

    path: Text
    kind: Text
    description: Text | None = None
    verified: Flag = False


class VerificationResult(Emission):
    """A check ran, and this is how it ended.

    A good one names the `suite` so that it can be run again, reports `passed` from the run itself, gives
    `coverage` as a share from 0 to 1 where it was measured, and lists in `gaps` what the check does not
    reach.
    """

    suite: Text
    passed: Flag
    coverage: Share | None = None
    gaps: Texts = EMPTY


class Document(Emission):
    """Prose for a reader.

    A good document is complete as it stands, is written for its `audience`, and names its `format` (markdown,
    text).
    """

    title: Text
    content: Text
    format: Text | None = None
    audience: Text | None = None


class OperationOutcome(Emission):
    """A side effect on the world: succeeded, failed or partial.

    A good outcome names the `action` and its `target`, lists every change that was really made, above all
    when it ended partial, and says in `rollback` how to undo it.
    """

    action: Text
    target: Text
    status: OutcomeField
    changes: Texts = EMPTY
    rollback: Text | None = None


class Postmortem(Emission):
    """An incident record.

    A good postmortem tells what happened in `timeline` with times, separates the `root_cause` from what only
    contributed, blames no person, and ends in actions that somebody could be given.
    """

    summary: Text
    timeline: Texts = EMPTY
    root_cause: Text
    contributing_factors: Texts = EMPTY
    action_items: Texts = EMPTY
