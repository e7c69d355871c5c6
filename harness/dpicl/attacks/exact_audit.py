"""Exact audits of rows: the epsilon that one canary demonstrates for a row's own options, sizes, queries and noise.

No run is sampled and no confidence spent. The row is calibrated as its cells are; its mechanism runs with a canary in
every sample and without, on the same sampling and public randomness (dpicl.attacks.exact_worlds); the two clean
values of every release and the noise that it states give the losses of all samples, and these the epsilon
(dpicl.attacks.exact_pairs). The largest of many exact bounds is as valid as one, so many canaries are tried.

Who the adversary is (docs/accounting.md, exact audits, has the proofs). With the deal ``alone`` the neighbours are the
empty set and the canary alone, with the row's sampling rate and noise, since sizes are public constants: there is
nobody else's sampling. With the deal ``sampled`` the row's own records are there, and the adversary knows which of them
were sampled, and where they went: every proof of this project holds for that adversary. Where later releases follow
from earlier ones, the adversary also says what was released so far, as adaptive composition allows.

The noise itself is trusted: it is taken as the release hooks state it. Sampled audits and `dpicl check` test it.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from typing import Any, Final

import numpy as np

from dpicl.attacks.driver import release_of, result_of
from dpicl.attacks.exact_groups import group_bound, group_epsilon
from dpicl.attacks.exact_pairs import exact_epsilon, label_only
from dpicl.attacks.exact_runs import Asked, ExactJob, ExactRuns
from dpicl.attacks.exact_worlds import Seen
from dpicl.attacks.results import ATTAINED, AttackResult, Estimate, LowerBound
from dpicl.core.errors import UsageError
from dpicl.core.output_cache import OutputCache
from dpicl.core.vocabulary import Report, silent
from dpicl.data.task import PublicTask
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.outputs import skip_reason
from dpicl.models.base import LanguageModel
from dpicl.privacy.ledger import Ledger
from dpicl.results.schema import wrap_validation_errors
from dpicl.run.pipeline import Meter, manifest_of

#: What the winner alone shows is worked out for so many labels at most.
_MOST_LABELS: Final = 60
#: Shares of single releases that a file holds at most.
_MOST_SHARES: Final = 200
_NEIGHBOURS: Final = {
    "alone": "neighbours: no record, and the canary alone, at the row's sampling rate and noise",
    "sampled": "neighbours: the row's records, and the canary besides; the adversary knows the others' sampling",
}


def reason_against(mechanism: Mechanism, task: PublicTask, epsilon: float, asked: Asked = "own") -> str | None:
    """Why an exact audit says nothing about a row, or None."""
    if mechanism.knob is None:
        return "it adds no noise whatever epsilon is"
    if asked == "chosen" and not mechanism.pays_per_query:
        return "it pays for no query, so none can be chosen (--queries chosen)"
    if not 0 < epsilon < math.inf:
        return "without noise its epsilon is infinite"
    return skip_reason(mechanism, task)


def exact_audit(
    job: ExactJob, model: LanguageModel, outputs: OutputCache | None = None, report: Report = silent
) -> AttackResult:
    """The result of one row that nothing speaks against (`reason_against`). Raises UsageError for worlds whose releases
    differ in more than their values, and for copies beside other records."""
    start, meter, cell = time.perf_counter(), Meter(model), job.cell
    if job.copies > 1 and job.deal != "alone":
        raise UsageError("Copies of a canary are audited alone; leave --other-records out, or --copies.")
    runs = ExactRuns(job, model, outputs or OutputCache(None))
    found, tried = runs.strongest(report)
    upper = runs.bounds.upper
    bound, measures = None, dict[str, Estimate]()
    if job.copies == 1:
        epsilon = exact_epsilon(found.losses, cell.delta, upper)
        bound = LowerBound(epsilon=epsilon, delta=cell.delta, confidence=1.0, method="exact")
    else:
        measures = _of_group(runs, job.copies, cell.delta, upper)
    # As far as privacy goes, a run costs all that was declared.
    ledger = Ledger(runs.calibration.event, runs.calibration.epsilon)
    ledger.settle()
    cost = meter.cost({"audit": round(time.perf_counter() - start, 3)})
    with wrap_validation_errors():
        return result_of(
            job.attempt,
            job.mechanism,
            release_of(job.mechanism, runs.calibration, job.declared.sizes, ledger),
            manifest_of(job.task, model, plugin=cell.plugin),
            cost,
            bound=bound,
            measures=measures,
            counts={"canaries": tried, "releases": len(found.moved), "samples": len(found.losses)},
            details={**_shares(found), "label_only": _label_only(job, found, upper)},
            notes=_notes(job, upper),
        )


def _of_group(runs: ExactRuns, copies: int, delta: float, upper: float) -> dict[str, Estimate]:
    """What so many copies show, and what group privacy proves for them; it is refuted where the first is larger."""
    proved = group_bound(runs.calibration.event, delta, copies)
    worlds = runs.group(copies)
    shown = group_epsilon(worlds, delta, min(proved, 2 * copies * upper))
    with suppress(OverflowError):  # a finer grid shows more, where its cells are not too many
        shown = max(shown, group_epsilon(worlds, delta, 1.1 * shown))
    found = {"group_epsilon": Estimate(value=shown, note=f"{copies} copies: {ATTAINED}")}
    if math.isfinite(proved):
        found["group_bound"] = Estimate(value=proved, note=f"proved for groups of {copies} by group privacy")
    return found


def _shares(found: Seen) -> dict[str, Any]:
    """How much of the stated bounds the canary moved the releases: in all, and one by one."""
    shares = np.array(found.shares)
    return {
        "releases": found.kinds,
        "share_of_bound": {
            "mean": float(shares.mean()),
            "root_mean_square": float(np.sqrt((shares**2).mean())),
            "least": float(shares.min()),
            "most": float(shares.max()),
        },
        "shares": [round(float(share), 4) for share in shares[:_MOST_SHARES]],
    }


def _label_only(job: ExactJob, found: Seen, upper: float) -> float | None:
    """The same epsilon where of every sum the winner alone is seen; None where a sum is no vote on labels, and where
    several releases share one coin."""
    labels = len(job.task.labels)
    votes = job.declared.sizes.queries is not None and 1 < labels <= _MOST_LABELS
    if not votes or any(a.kind != "gaussian" or a.clean.size != labels for _, _, a, _ in found.moved):
        return None
    if len(found.losses) < len(found.moved) and any(rate < 1 for _, rate, _, _ in found.moved):
        return None
    return exact_epsilon([label_only(rate, a, b) for _, rate, a, b in found.moved], job.cell.delta, upper)


def _notes(job: ExactJob, upper: float) -> list[str]:
    notes = [
        f"exact: no sampling error; {_NEIGHBOURS[job.deal]}",
        f"{ATTAINED}; sampled audits and `dpicl check` test the noise",
    ]
    if job.asked == "chosen":
        notes.append("one query is asked every time, which an adversary chose; the proof holds for any queries")
    if job.declared.shots:
        notes.append("along one sequence of released tokens, which the adversary of adaptive composition may choose")
    if (k := job.copies) > 1:
        larger = job.cell.delta * math.expm1(k * upper) / math.expm1(upper)
        notes.append(f"group privacy for {k} records: {k} epsilon = {k * upper:.3g}, at delta = {larger:.2g}")
    return notes
