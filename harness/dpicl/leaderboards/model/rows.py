"""Rows of a board: one mechanism at one epsilon on one task, over its seeds.

Recovery is (score - control) / (real demonstrations - control), each a mean over the same seeds, on the same task,
model and test records: 0% is the best control that reads no record, 100% real demonstrations without privacy.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from statistics import fmean

import numpy as np

from dpicl.attacks.audited import Audit
from dpicl.core.messages import epsilon_text, score_text
from dpicl.evaluation.intervals import ratio_interval, seeds_interval
from dpicl.evaluation.statistics import FEWEST_SEEDS, Difference
from dpicl.leaderboards.model.comparability import BASELINES, REAL_DATA, ZERO_SHOT, sort_ids
from dpicl.leaderboards.model.marks import (
    BY_EMBEDDINGS,
    CONTROL,
    FIXED_DRAW,
    OWN_READER,
    Mark,
    marks_of,
)
from dpicl.leaderboards.model.submissions import Submission
from dpicl.leaderboards.model.text import queries_text, seeds_text
from dpicl.results.schema import Result

#: Below this gain of real demonstrations over that control a recovery would be mostly noise, and is not given.
MINIMUM_GAIN = 0.05
_ROUNDING = 1e-9

BySeed = Mapping[int, Result]


@dataclass(frozen=True)
class Rank:
    """The ranks that a row may have among the ranked rows of its level, simultaneously for all of them, at 95%."""

    low: int
    high: int

    @property
    def first(self) -> bool:
        """Whether the row may be the best."""
        return self.low == 1

    def __str__(self) -> str:
        """'2', or '2–5'."""
        return str(self.low) if self.low == self.high else f"{self.low}–{self.high}"


@dataclass(eq=False)
class Row:
    """One mechanism at one epsilon on one task, over its seeds. What other rows and attacks say of it comes last.

    epsilon: the target (0 of zero-shot, infinity of real demonstrations). claimed, proved, epsilon_per_query: the
    largest over seeds. score, low, high: mean of the main metric and its 95% interval over seeds (of one seed: over its
    documents), all in [0, 1].
    zero_shot, control, real_data: mean scores, over this row's seeds, of zero-shot, of the best row that reads no
    record (control_name) and of real demonstrations; None where one of them lacks a seed. Recovery is computed from the
    last two. recovery: None when it is not defined; recovery_note says why.
    recovery_interval: 95%; None for the baselines, without a recovery, and where real demonstrations may gain nothing.
    metrics, aggregates: means over seeds, of what every seed has. skipped: metric -> why it was not computed.
    unranked: why the row has no rank, or "". marks: what weakens its proved ε. submission: where the row comes from,
    None for one of our own. rank: its rank set on this task. against_public: its score minus that of the public
    control, None where they are not compared. beaten_by: the highest control above its score, with that score, or "".
    """

    label: str
    mechanism: str
    task: str
    epsilon: float
    claimed: float | None
    proved: float
    epsilon_per_query: float | None
    queries: int | None
    score: float
    low: float
    high: float
    zero_shot: float | None
    control: float | None
    control_name: str
    real_data: float | None
    recovery: float | None
    recovery_note: str
    recovery_interval: tuple[float, float] | None
    metrics: Mapping[str, float]
    aggregates: Mapping[str, float]
    skipped: Mapping[str, str]
    unranked: str
    marks: tuple[Mark, ...]
    results: tuple[Result, ...] = field(repr=False)
    audit: Audit = field(default_factory=Audit, repr=False)
    submission: Submission | None = field(default=None, repr=False)
    rank: Rank | None = None
    against_public: Difference | None = None
    beaten_by: str = ""

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(result.cell.seed for result in self.results)

    @property
    def no_rank(self) -> str:
        """Why it has no rank by itself; '' where it may have one."""
        few = self.epsilon > 0 and len(self.seeds) < FEWEST_SEEDS
        return self.unranked or (f"it has fewer than {FEWEST_SEEDS} seeds" if few else "")

    @property
    def is_baseline(self) -> bool:
        """Whether this is zero-shot or real demonstrations."""
        return self.mechanism in BASELINES

    @property
    def is_reference(self) -> bool:
        """Whether it belongs to no privacy level: a reference baseline, or a control at ε = 0."""
        return self.is_baseline or self.epsilon == 0

    @property
    def reported(self) -> float | None:
        """The score that the paper of a submission reports for this task and ε; None where it does not."""
        if self.submission is None:
            return None
        return self.submission.find_reported(self.task, self.epsilon)

    @property
    def metric(self) -> str:
        """The main metric."""
        return self.results[0].main_metric

    @property
    def reader(self) -> str:
        """Who reads what the row released, for its main metric."""
        first = self.results[0]
        return first.reader if first.kind == "demonstrations" else "answered by the mechanism"

    def lower_is_better(self, metric: str) -> bool:
        return self.results[0].lower_is_better(metric)

    @property
    def key(self) -> tuple[str, float]:
        """What names the row within its table: label and ε."""
        return self.label, self.epsilon

    @property
    def name(self) -> str:
        """The label, with Q where its ε covers so many queries alone: 'voting (Q = 100)'."""
        return name_of(self.label, self.queries)

    @property
    def caveat(self) -> str:
        """The name in a verdict: with the sign of what favours the row, 'private_evolution ¶'."""
        return f"{self.name} {OWN_READER.sign}" if OWN_READER in self.marks else self.name

    @property
    def title(self) -> str:
        """'voting (Q = 100) at ε = 1'."""
        return title_of(self.name, self.epsilon)

    @property
    def place(self) -> str:
        """'voting (Q = 100) at ε = 1 on agnews'."""
        return f"{self.title} on {self.task}"

    @property
    def is_control_with_records(self) -> bool:
        """Whether it is a control that reads records."""
        return BY_EMBEDDINGS in self.marks or CONTROL in self.marks

    @property
    def worth(self) -> float:
        """The larger, the better."""
        return -self.score if self.lower_is_better(self.metric) else self.score

    @property
    def failures(self) -> Mapping[str, int] | None:
        """Why the model gave no answer to prompts of slots -> how often, over seeds; None where a seed does not say."""
        total = Counter[str]()
        for result in self.results:
            if result.failures is None:
                return None
            total.update(result.failures)
        return dict(total)

    @property
    def numbers(self) -> Mapping[str, float]:
        """Metrics and aggregates together."""
        return {**self.metrics, **self.aggregates}


def by_worth(rows: Iterable[Row]) -> list[Row]:
    """The best rows first; equal ones stay in their order."""
    return sorted(rows, key=attrgetter("worth"), reverse=True)


def name_of(label: str, queries: int | None) -> str:
    """'voting (Q = 100)'; the label alone where any number of queries is covered."""
    return label if queries is None else f"{label} (Q = {queries_text(queries)})"


def title_of(label: str, epsilon: float) -> str:
    """'tang at ε = 1'."""
    return f"{label} at ε = {epsilon_text(epsilon)}"


def recover(
    score: float,
    control: float,
    real_data: float,
    name: str = ZERO_SHOT,
    lower_is_better: bool = False,
) -> tuple[float | None, str]:
    """(recovery, "") or (None, the reason why there is none, in the numbers that decided it).

    control: the score of the best row that reads no record; name: its label.
    """
    gain = control - real_data if lower_is_better else real_data - control
    if gain < MINIMUM_GAIN - _ROUNDING:
        shown = min(
            round(gain, 3), MINIMUM_GAIN - 0.001
        )  # never rounded up to what it is less than
        scores = f"real demonstrations score {score_text(real_data)} and {name}, the best control without records,"
        return (
            None,
            f"{scores} {score_text(control)}, a gain of {shown:+.3f} and less than +{MINIMUM_GAIN}",
        )
    return (score - control) / (real_data - control) + 0.0, ""  # never -0.0


@dataclass(frozen=True)
class Ends:
    """Results by seed of zero-shot, of the best control without records (its label: name), and of real
    demonstrations, on the same documents."""

    zero_shot: BySeed
    control: BySeed
    real_data: BySeed
    name: str = ZERO_SHOT


def make_row(by_seed: BySeed, baselines: Ends, submission: Submission | None = None) -> Row:
    """The row of these results."""
    results = tuple(by_seed[seed] for seed in sorted(by_seed))
    first = results[0]
    cell = first.cell
    scores = [result.score for result in results]
    low, high = seeds_interval(scores)
    if len(results) == 1:
        low, high = first.main_score.low, first.main_score.high
    control = _mean_over_seeds(by_seed, baselines.control)
    real_data = _mean_over_seeds(by_seed, baselines.real_data)
    score = fmean(scores)
    recovery, note = _recovery(by_seed, baselines, score, control, real_data)
    interval = None
    if recovery is not None and cell.mechanism not in BASELINES:
        bounds = ratio_interval(*_gains(by_seed, baselines))
        interval = bounds if all(map(math.isfinite, bounds)) else None
    proved = max(result.privacy.epsilon_proved for result in results)
    vouched = None if submission is None else bool(submission.card.reproduced)
    marks = marks_of(results, vouched)
    return Row(
        label=cell.label,
        mechanism=cell.mechanism,
        task=cell.task,
        epsilon=cell.epsilon,
        claimed=_largest(result.privacy.epsilon_claimed for result in results),
        proved=proved,
        epsilon_per_query=_largest(result.privacy.epsilon_per_query for result in results),
        queries=first.privacy.queries,
        score=score,
        low=max(low, 0.0),
        high=min(high, 1.0),
        zero_shot=_mean_over_seeds(by_seed, baselines.zero_shot),
        control=control,
        control_name=baselines.name,
        real_data=real_data,
        recovery=recovery,
        recovery_note=note,
        recovery_interval=interval,
        metrics=_means([_values(result) for result in results]),
        aggregates=_means([result.aggregates for result in results]),
        skipped={
            name: reason for result in results for name, reason in result.skipped_metrics.items()
        },
        unranked=_make_unranked(first, proved, marks, submission),
        marks=marks,
        results=results,
        submission=submission,
    )


def outcomes_of(result: Result) -> tuple[tuple[str, ...], Sequence[float]]:
    """Ids and outcomes of the main metric, in the order of the ids."""
    documents = result.documents[result.main_metric]
    ids, reorder = sort_ids(tuple(documents.ids))
    return ids, reorder(documents.outcomes)


def _largest(epsilons: Iterable[float | None]) -> float | None:
    return max((epsilon for epsilon in epsilons if epsilon is not None), default=None)


def _values(result: Result) -> dict[str, float]:
    """The score of every metric."""
    return {name: score.value for name, score in result.scores.items()}


def _means(values: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Name -> mean over seeds, of the names that every seed has, in the order of the first."""
    names = [name for name in values[0] if all(name in of_seed for of_seed in values)]
    return {name: fmean(of_seed[name] for of_seed in values) for name in names}


def _make_unranked(
    result: Result,
    proved: float,
    marks: Sequence[Mark],
    submission: Submission | None,
) -> str:
    cell = result.cell
    if cell.mechanism in BASELINES:
        return "a reference baseline"
    if math.isinf(cell.epsilon):
        return "run without noise"
    if proved > cell.epsilon * (1 + _ROUNDING):
        return "its proved ε is above the ε that it was run for"
    for mark in (FIXED_DRAW, OWN_READER):
        if mark in marks:
            return mark.name
    if result.has_unread_instruction:
        return "it releases an instruction, which this metric does not read"
    unreliable = submission.card.unreliable if submission else ""
    return f"marked unreliable: {unreliable.rstrip('.')}" if unreliable else ""


def _mean_over_seeds(by_seed: BySeed, baseline: BySeed) -> float | None:
    """The mean score of a baseline over the seeds of a row; None where it lacks one."""
    if not by_seed.keys() <= baseline.keys():
        return None
    return fmean(baseline[seed].score for seed in by_seed)


def _recovery(
    by_seed: BySeed, baselines: Ends, score: float, control: float | None, real_data: float | None
) -> tuple[float | None, str]:
    """Recovery over the row's own seeds; both ends must have every one of them."""
    if control is None:
        return None, _explain_missing(baselines.name, by_seed, baselines.control)
    if real_data is None:
        return None, _explain_missing(REAL_DATA, by_seed, baselines.real_data)
    first = next(iter(by_seed.values()))
    return recover(
        score, control, real_data, baselines.name, first.lower_is_better(first.main_metric)
    )


def _explain_missing(name: str, by_seed: BySeed, end: BySeed) -> str:
    return f"{name} has no result for seed {seeds_text(by_seed.keys() - end.keys())}"


def _gains(by_seed: BySeed, baselines: Ends) -> tuple[np.ndarray, np.ndarray]:
    """float64[S] each: what a row gains over the best control without records, and what real demonstrations do, by
    seed."""
    rows = (by_seed, baselines.control, baselines.real_data)
    worths = [[row[seed].worth for row in rows] for seed in sorted(by_seed)]
    row, control, real_data = np.array(worths).T
    return row - control, real_data - control
