"""What a role has seen and understood."""

from emissions.base import Emission
from emissions.values import EMPTY, NONE, Interval, Number, SeverityField, Share, Sources, Text, Texts


class Finding(Emission):
    """One observed fact or defect.

    A good finding states one thing that a reader can check without asking: what is so, where it was seen
    (`source`), and what shows it (`evidence`, quoted). Two facts are two findings. `confidence` is the
    emitter's own, from 0 to 1; `severity` is set when the fact is a defect.
    """

    description: Text
    confidence: Share = 0.5
    severity: SeverityField = NONE
    evidence: Text | None = None
    source: Text | None = None


class Conflict(Emission):
    """Sources that disagree.

    A good conflict names every source (two or more) so that a reader finds the passage, and says in `nature`
    what each of them claims and why both cannot hold. It does not decide between them.
    """

    sources: Sources
    nature: Text


class Gap(Emission):
    """Named ignorance.

    A good gap says which `area` was looked at and exactly what is still unknown after looking, so that
    someone else could go and find out. It is not an apology.
    """

    area: Text
    what_is_unknown: Text


class Diagnosis(Emission):
    """A cause that has been established.

    A good diagnosis joins one `symptom` to the `root_cause` that produces it, with the evidence that rules
    the next-best cause out, and the smallest `remedy` known. A guess is a Finding with low confidence
    instead.
    """

    symptom: Text
    root_cause: Text
    remedy: Text | None = None
    confidence: Share = 0.5
    evidence: Text | None = None


class Synthesis(Emission):
    """A merged reading of several sources.

    A good synthesis says in `summary` what follows from the sources taken together, names its `themes`, lists
    every source it used, and keeps in `tensions` what did not fit instead of smoothing it away.
    """

    summary: Text
    themes: Texts = EMPTY
    sources: Texts = EMPTY
    tensions: Texts = EMPTY


class AnalysisResult(Emission):
    """One number with its uncertainty.

    A good result names the `metric` with its unit, gives the `value` as computed, and states how sure it is:
    `ci_95` is the lower and upper end of the 95 % confidence interval, `p_value` lies between 0 and 1.
    """

    metric: Text
    value: Number
    ci_95: Interval = NONE
    p_value: Share | None = None
