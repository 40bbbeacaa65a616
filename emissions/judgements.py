"""What a role holds to be right, wrong, risky or worth doing."""

from emissions.base import Emission
from emissions.values import EMPTY, ComplianceField, Share, Text, Texts, VerdictField


class Verdict(Emission):
    """A terminal judgement: APPROVE, APPROVE-WITH-FIXES, REQUEST-CHANGES or REJECT.

    A good verdict is reached after the work was examined, says in `rationale` what decided it, points in
    `evidence` to the places that show it, and names in `reversible_by` what would change it. On a gate it
    decides whether what depends on the gate runs. `verdict` takes any spelling that differs from the four
    only in case and in spaces, `_` or `-` between words; it reads as a VerdictValue, which is also a str.
    """

    verdict: VerdictField
    rationale: Text
    evidence: Text | None = None
    reversible_by: Text | None = None


class ComplianceVerdict(Emission):
    """One control judged: compliant, non-compliant or not-applicable.

    A good one names a single `control` by its identifier and refers to evidence that somebody else can open.
    A control for which no evidence was found is non-compliant or a Gap, never compliant.
    """

    verdict: ComplianceField
    control: Text
    evidence_refs: Texts = EMPTY


class RiskAssessment(Emission):
    """One risk: a way to fail, how likely it is and how bad.

    A good one describes a concrete failure, gives `likelihood` and `impact` from 0 to 1 each on its own, and
    a `mitigation` that somebody could carry out.
    """

    failure_mode: Text
    likelihood: Share
    impact: Share
    mitigation: Text | None = None


class Objection(Emission):
    """Dissent against the strongest form of a position.

    A good objection names its `target`, states that target at its best in `strongest_target_form`, and says
    what would resolve the matter. An objection that nothing could resolve is an opinion.
    """

    target: Text
    objection: Text
    strongest_target_form: Text | None = None
    what_would_resolve: Text | None = None


class Recommendation(Emission):
    """Advice, not terminal.

    A good recommendation can be acted on as written, gives the reason, names the alternatives that were
    weighed and what is given up by following it.
    """

    recommendation: Text
    rationale: Text
    alternatives: Texts = EMPTY
    tradeoffs: Text | None = None


class ComplexityScore(Emission):
    """An estimate of how hard something is, from 0 (trivial) to 1 (as hard as anything met in this field).

    A good score names in `rationale` what drives it: unknowns, coupling, reversibility.
    """

    score: Share
    rationale: Text


class Proposal(Emission):
    """A candidate idea.

    A good proposal states one `idea` concretely enough to try, who gains what from it (`value_proposition`),
    what makes it possible or not (`feasibility`), and the risks its author would worry about.
    """

    idea: Text
    value_proposition: Text
    feasibility: Text | None = None
    risks: Texts = EMPTY
