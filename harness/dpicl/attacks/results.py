"""The file format of attack and audit results: one versioned JSON file with rates and counts, no private text.

results/attacks/<attack>/<model>/<mechanism>/<task>/<id>.json. The id is a hash over everything that determines the
numbers, so an attack that was made is found again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from dpicl.core.cell import ReleaseConfig
from dpicl.core.field_types import Count, Delta, Epsilon, Finite, Positive, Real, Share
from dpicl.core.json_text import sha256_of
from dpicl.results.parts import Free
from dpicl.results.schema import Cost, Manifest, Moment, Part, Privacy, read_part

ATTACK_SCHEMA: Final = 1
#: Name of exact audits among attacks (`dpicl.attacks.exact_audit`).
EXACT = "exact_audit"
#: Name of exact audits of several copies of a canary (`dpicl.attacks.exact_groups`), no bounds of a row.
GROUP = "group_audit"

#: Name of the measure that is a second bound of one run (`dpicl.attacks.trade_off`).
F_DP = "f_dp_bound"
#: Names of two measures of sampled audits: a published estimate that is no bound (`dpicl.attacks.noisy_sums`), and what
#: the winner of a vote shows at most (`dpicl.attacks.exact_pairs.label_only_ceiling`).
GDP = "gdp_estimate"
CEILING = "label_only_ceiling"

#: What every exact figure is, wherever it is printed.
ATTAINED = "attained by a canary; the noise is trusted"

Access = Literal["black-box", "white-box"]


class Subject(Part):
    """What was attacked: one mechanism at one epsilon on one private set. Field names as in
    `dpicl.core.cell.Cell`.

    members: number of private records. options: all of them.
    """

    mechanism: str
    options: dict[str, Any]
    plugin: str | None = None
    task: str
    task_version: int | str
    source: str
    model: str
    epsilon: Epsilon
    delta: Delta
    seed: Count
    shots: Count
    members: Count

    @property
    def release(self) -> ReleaseConfig:
        """What its releases are made for: seeded noise, proved, as many queries as are asked."""
        return ReleaseConfig.model_validate(self)


@dataclass(frozen=True)
class Attempt:
    """An attack or audit on a subject: what determines the numbers, so that its id says whether its result is there.

    settings: the attack's own options.
    """

    attack: str
    access: Access
    settings: dict[str, Any]
    subject: Subject

    @property
    def id(self) -> str:
        """16 hexadecimal digits of a sha256."""
        content = [self.attack, self.access, self.settings, self.subject.model_dump(mode="json")]
        return sha256_of(content)[:16]


class Estimate(Part):
    """A number with its 95% interval; the ends are None where no interval is defined.

    note: what a reader must know, for instance that so few non-members do not resolve 0.1% false positives.
    """

    value: Finite
    low: Finite | None = None
    high: Finite | None = None
    note: str = ""


class Decision(Part):
    """A decision rule, as it did on runs that had no part in choosing it.

    threshold: a score on its ``side`` speaks for membership. trials_in, trials_out: independent runs with and without
    the record (members and non-members, for an attack on many records).
    """

    threshold: Real
    side: Literal["above", "below"] = "above"
    tpr: Share
    tpr_lower: Share
    fpr: Share
    fpr_upper: Share
    trials_in: Positive
    trials_out: Positive


class LowerBound(Part):
    """What the attack proves about epsilon at the stated confidence; 1: nothing was sampled ('exact').

    epsilon: the audited epsilon at `delta`. method: 'rates' (ln((TPR - delta)/FPR), true of every mechanism), 'one run'
    (how many guesses about records in by fair coins are right, true of every mechanism: dpicl.attacks.one_run) or
    'exact' (the two output distributions themselves: dpicl.attacks.exact_audit). 'gaussian', a bound on mu of a
    composition of Gaussian releases, is of sampled white-box audits, which earlier versions made.
    mu: lower bound on the Gaussian-DP parameter. decision: None where no single rule stands behind the bound.
    """

    epsilon: Epsilon
    delta: Delta
    confidence: Annotated[float, Field(gt=0, le=1)]
    method: Literal["gaussian", "rates", "one run", "exact"]
    mu: Epsilon | None = None
    decision: Decision | None = None

    @model_validator(mode="after")
    def _require_certainty_where_exact(self) -> LowerBound:
        if (self.confidence == 1) != (self.method == "exact"):
            raise ValueError("confidence is 1 of an exact bound, and of no other")
        return self


class AttackResult(Part):
    """One finished attack.

    attack: its name ('audit' for `dpicl audit`). settings: the attack's own options. privacy: of what was released to
    the attacker. bound: None where the attack gives none (counts of PII). measures: AUC, TPR at a FPR, rates.
    counts: whole numbers. details: whatever else is worth keeping, as plain numbers and words.
    """

    schema_version: Literal[1] = ATTACK_SCHEMA
    id: str
    attack: str
    access: Access
    settings: Free
    subject: Subject
    privacy: Privacy
    bound: LowerBound | None
    measures: dict[str, Estimate] = {}
    counts: dict[str, Count] = {}
    details: Free = {}
    notes: list[str] = []
    manifest: Manifest
    cost: Cost
    created: Moment

    @property
    def audited(self) -> float | None:
        """The audited epsilon; None without a bound."""
        return None if self.bound is None else self.bound.epsilon

    @property
    def curve_bound(self) -> float:
        """The bound by the mechanism's own curve, of attacks in one run; 0 where there is none."""
        return self.measures[F_DP].value if F_DP in self.measures else 0.0

    @property
    def refutes_proof(self) -> bool:
        """Whether a bound, each at its own confidence, is above the proved epsilon."""
        return max(self.audited or 0.0, self.curve_bound) > self.privacy.epsilon_proved

    @model_validator(mode="after")
    def _require_consistent(self) -> AttackResult:
        if self.id != Attempt(self.attack, self.access, self.settings, self.subject).id:
            raise ValueError("id does not fit the settings; the file was edited")
        return self


def attack_from_text(text: str) -> AttackResult:
    """Reads a file's content. Raises ValueError, with the reason in a few words, for anything else."""
    return read_part(AttackResult, text, ATTACK_SCHEMA, "attack result")
