"""A row of the board: one mechanism at one epsilon on one task, over its seeds.

Recovery is (score - zero-shot) / (real demonstrations - zero-shot), each a mean over the same seeds, on the same task
and model: 0% is what the model does without any record, 100% what it does with real ones and no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from harness.evaluation.statistics import ratio_interval, seeds_documents_interval
from harness.results import Result
from leaderboards.audits import Audit
from leaderboards.text import epsilon_text, seeds_text

if TYPE_CHECKING:
    from leaderboards.submitted import Reproduction, Submission

ZERO_SHOT = "zero_shot"
REAL_DATA = "real_demonstrations"
#: Below this gain of real demonstrations over zero-shot a recovery would be mostly noise, and is not given.
MINIMUM_GAIN = 0.05

BySeed = Mapping[int, Result]


@dataclass(frozen=True)
class Row:
    """One mechanism at one epsilon on one task, over its seeds.

    epsilon: the target that was asked for (0 and infinity are the two ends). claimed, proved, epsilon_per_query: the
    largest over seeds. score, low, high: mean of the main metric and its 95% interval over seeds and documents, all in
    [0, 1]. recovery: None when it is not defined, and then recovery_note says why. recovery_interval: 95%; None for
    the ends, without a recovery, and where the gain of real demonstrations may be nothing. metrics, aggregates: means
    over seeds, of what every seed has. skipped: metric -> why it was not computed. unranked: why the row has no rank,
    or "". submission: where the row comes from, None for one of our own.
    """

    label: str
    mechanism: str
    task: str
    mode: str
    epsilon: float
    claimed: float | None
    proved: float
    epsilon_per_query: float | None
    queries: int | None
    score: float
    low: float
    high: float
    recovery: float | None
    recovery_note: str
    recovery_interval: tuple[float, float] | None
    metrics: Mapping[str, float]
    aggregates: Mapping[str, float]
    skipped: Mapping[str, str]
    unranked: str
    results: tuple[Result, ...] = field(repr=False)
    audit: Audit = field(default_factory=Audit, repr=False)
    submission: Submission | None = field(default=None, repr=False)

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(result.cell.seed for result in self.results)

    @property
    def is_end(self) -> bool:
        """Whether this is zero-shot or real demonstrations, the two ends of the scale."""
        return self.mechanism in (ZERO_SHOT, REAL_DATA)

    @property
    def reported(self) -> float | None:
        """The score that the paper of a submission reports for this task and ε; None where it does not."""
        return None if self.submission is None else self.submission.reported.get((self.task, self.epsilon))

    @property
    def reproduced(self) -> tuple[Reproduction, ...]:
        """Cells of this row that somebody else ran again."""
        if self.submission is None:
            return ()
        return self.submission.reproductions(result.cell_id for result in self.results)

    @property
    def title(self) -> str:
        return f"{self.label} at ε = {epsilon_text(self.epsilon)}"

    @property
    def numbers(self) -> Mapping[str, float]:
        """Metrics and aggregates together."""
        return {**self.metrics, **self.aggregates}


def recover(score: float, zero_shot: float, real_data: float) -> tuple[float | None, str]:
    """(recovery, "") or (None, the reason why there is none)."""
    gain = real_data - zero_shot
    if gain < MINIMUM_GAIN:
        return None, f"real demonstrations move the zero-shot score by {gain:+.3f}, less than +{MINIMUM_GAIN}"
    return (score - zero_shot) / gain, ""


def make_row(by_seed: BySeed, ends: Mapping[str, BySeed]) -> Row:
    """The row of these results, one a seed. ends: results of both ends of the scale, with the same documents."""
    results = tuple(by_seed[seed] for seed in sorted(by_seed))
    first = results[0]
    low, high = seeds_documents_interval([outcomes_of(result)[1] for result in results])
    recovery, note = _recovery(by_seed, ends)
    proved = max(result.privacy.epsilon_proved for result in results)
    return Row(
        label=first.cell.label,
        mechanism=first.cell.mechanism,
        task=first.cell.task,
        mode=first.cell.mode,
        epsilon=first.cell.epsilon,
        claimed=_largest(result.privacy.epsilon_claimed for result in results),
        proved=proved,
        epsilon_per_query=_largest(result.privacy.epsilon_per_query for result in results),
        queries=first.privacy.queries,
        score=fmean(_score(result) for result in results),
        low=low,
        high=high,
        recovery=recovery,
        recovery_note=note,
        recovery_interval=None if recovery is None else _recovery_interval(by_seed, ends),
        metrics=_means([{name: score.value for name, score in result.scores.items()} for result in results]),
        aggregates=_means([result.aggregates for result in results]),
        skipped={name: reason for result in results for name, reason in result.skipped_metrics.items()},
        unranked=_unranked(first, proved),
        results=results,
    )


def outcomes_of(result: Result) -> tuple[tuple[str, ...], list[float]]:
    """Ids and outcomes of the main metric, in the order of the ids."""
    documents = result.documents[result.main_metric]
    pairs = sorted(zip(documents.ids, documents.outcomes, strict=True))
    return tuple(name for name, _ in pairs), [float(outcome) for _, outcome in pairs]


def _largest(epsilons: Iterable[float | None]) -> float | None:
    return max((epsilon for epsilon in epsilons if epsilon is not None), default=None)


def _means(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Name -> mean over seeds, of the names that every seed has, in the order of the first."""
    return {name: fmean(one[name] for one in values) for name in values[0] if all(name in one for one in values)}


def _unranked(result: Result, proved: float) -> str:
    cell = result.cell
    if cell.mechanism in (ZERO_SHOT, REAL_DATA):
        return "an end of the scale"
    if cell.mode != "proved":
        return "accounted as its authors do"
    if math.isinf(cell.epsilon):
        return "run without noise"
    if proved > cell.epsilon * (1 + 1e-9):
        return f"its proved ε {epsilon_text(proved)} is above the {epsilon_text(cell.epsilon)} it was run for"
    return ""


def _recovery(by_seed: BySeed, ends: Mapping[str, BySeed]) -> tuple[float | None, str]:
    """Recovery over the row's own seeds; both ends must have every one of them."""
    for name in (ZERO_SHOT, REAL_DATA):
        lacking = by_seed.keys() - ends[name].keys()
        if lacking:
            return None, f"{name} has no result for seed {seeds_text(lacking)}"
    return recover(
        *(fmean(_score(part[seed]) for seed in by_seed) for part in (by_seed, ends[ZERO_SHOT], ends[REAL_DATA]))
    )


def _recovery_interval(by_seed: BySeed, ends: Mapping[str, BySeed]) -> tuple[float, float] | None:
    """Paired by seed and document: the row and both ends are drawn together, since they share both."""
    if next(iter(by_seed.values())).cell.mechanism in ends:
        return None
    row, zero_shot, real_data = (
        np.array([outcomes_of(part[seed])[1] for seed in sorted(by_seed)])
        for part in (by_seed, ends[ZERO_SHOT], ends[REAL_DATA])
    )
    low, high = ratio_interval(row - zero_shot, real_data - zero_shot)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def _score(result: Result) -> float:
    return float(result.scores[result.main_metric].value)
