"""The verdict on every cell: regression, improvement, equivalent, or inconclusive and which change is not excluded.

Cells are tested together (`dpicl.evaluation.statistics.paired_tests`). A change counts when Holm's adjusted p-value is
at most alpha and the change at least `min_effect`; a cell is equivalent where changes of that size are excluded at
alpha / (number of tested cells). Differences are candidate - base in the metric's own units, with the sign flipped for
metrics of which less is better: a negative one is always a loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpicl.core.errors import UsageError, require_known
from dpicl.evaluation.statistics import PairedTest, paired_tests
from dpicl.leaderboards.compare.pairing import ALL, Filter, Key, PairedCell, Unmatched, pair
from dpicl.leaderboards.compare.sides import Change, Side, changes
from dpicl.leaderboards.model.text import epsilon_text

#: A regression: the base is better, an improvement: the candidate is.
Verdict = Literal["regression", "improvement", "equivalent", "inconclusive", "not tested"]

#: Rounding that a proved epsilon may be above its bound by.
_SLACK = 1 + 1e-9
#: Share of the target that a proved epsilon reaches when noise is calibrated to it.
_CALIBRATED = 0.98


@dataclass(frozen=True)
class Settings:
    """alpha: family-wise error. min_effect: smallest change that counts. metric: None: each cell's main metric.
    allow_missing: whether the candidate may lack what the base has."""

    alpha: float = 0.05
    min_effect: float = 0.01
    metric: str | None = None
    allow_missing: bool = False

    def verdict(self, test: PairedTest) -> Verdict:
        """What a test says."""
        if self.shows(test) and abs(test.mean) >= self.min_effect - 1e-12:
            return "regression" if test.mean < 0 else "improvement"
        return "equivalent" if test.excluded < self.min_effect else "inconclusive"

    def shows(self, test: PairedTest) -> bool:
        """Whether there is a change, of whatever size."""
        return test.adjusted <= self.alpha


DEFAULTS = Settings()


@dataclass(frozen=True)
class CellVerdict:
    """One cell. base, candidate: mean scores, None without the metric. difference: the gain, negative for a loss.

    test: None where the cell is not tested, and `note` says why. proved: largest proved epsilon of base and of
    candidate. privacy: what is wrong with the latter, or "". missing: whether the base has a score or outcomes for the
    metric that the candidate lacks.
    """

    key: Key
    metric: str
    less_is_better: bool
    seeds: tuple[int, ...]
    documents: int
    base: float | None
    candidate: float | None
    difference: float | None
    test: PairedTest | None
    verdict: Verdict
    note: str
    proved: tuple[float, float]
    privacy: str
    missing: bool = False

    @property
    def fails(self) -> bool:
        """Whether the candidate must not be released by this cell alone."""
        return self.verdict == "regression" or bool(self.privacy)


@dataclass(frozen=True)
class Comparison:
    """What a report shows. cells: in the order task, row, epsilon."""

    base: Side
    candidate: Side
    settings: Settings
    changes: tuple[Change, ...]
    cells: tuple[CellVerdict, ...]
    unmatched: tuple[Unmatched, ...]

    def count(self, verdict: Verdict) -> int:
        """Cells of a verdict."""
        return sum(cell.verdict == verdict for cell in self.cells)

    @property
    def tested(self) -> int:
        return len(self.cells) - self.count("not tested")

    @property
    def missing(self) -> tuple[Unmatched, ...]:
        """Rows and seeds of the base that the candidate lacks: they may be the ones that got worse."""
        return tuple(one for one in self.unmatched if one.side == "base")

    @property
    def incomplete(self) -> bool:
        """Whether the candidate lacks a row, a seed or the metric of a cell that the base has, and must not."""
        return not self.settings.allow_missing and bool(self.missing or any(cell.missing for cell in self.cells))

    @property
    def regressed(self) -> bool:
        """Whether any cell got worse, in score or in privacy, or is missing from the candidate."""
        return self.incomplete or any(cell.fails for cell in self.cells)


def compare(base: Side, candidate: Side, settings: Settings = DEFAULTS, wanted: Filter = ALL) -> Comparison:
    """Compares two sides. Raises UsageError where they cannot be compared (see `pair`), or for an unknown metric."""
    paired, unmatched = pair(base, candidate, wanted, settings.metric)
    _check_metric(paired, settings.metric)
    gains = [_gains(cell, settings.metric or cell.base[0].main_metric) for cell in paired]
    tests = iter(paired_tests([gain for gain in gains if isinstance(gain, np.ndarray)], settings.alpha))
    cells = tuple(
        _cell(cell, gain, None if isinstance(gain, str) else next(tests), settings)
        for cell, gain in zip(paired, gains, strict=True)
    )
    changed = changes([one for cell in paired for one in cell.base], [one for cell in paired for one in cell.candidate])
    return Comparison(base, candidate, settings, changed, cells, unmatched)


def _gains(cell: PairedCell, metric: str) -> np.ndarray | str:
    """Gains[S, D] of the cell's metric, or why it cannot be tested."""
    lacking = [name for name, mean in zip(("base", "candidate"), cell.means(metric), strict=True) if mean is None]
    if lacking:
        return f"{metric} is missing on {' and '.join(lacking)}"
    outcomes = cell.outcomes(metric)
    if outcomes is None:
        return "no mean over documents, so there is nothing to pair"
    gains = outcomes[1] - outcomes[0]
    if gains.shape[1] < 2:
        return "one document is too few"
    return -gains if cell.base[0].lower_is_better(metric) else gains


def _cell(cell: PairedCell, gains: np.ndarray | str, test: PairedTest | None, settings: Settings) -> CellVerdict:
    metric = settings.metric or cell.base[0].main_metric
    before, after = cell.means(metric)
    less = cell.base[0].lower_is_better(metric)
    verdict: Verdict = "not tested" if test is None else settings.verdict(test)
    notes = [gains if isinstance(gains, str) else "", _noise(cell)]
    if test and settings.shows(test) and verdict in ("equivalent", "inconclusive"):
        notes.insert(0, f"a change is shown, and it is smaller than {settings.min_effect:g}")
    proved, candidate = (max(one.privacy.epsilon_proved for one in side) for side in (cell.base, cell.candidate))
    too_large = candidate > max(cell.key.epsilon, proved) * _SLACK  # above the target only where the base's is
    return CellVerdict(
        key=cell.key,
        metric=metric,
        less_is_better=less,
        seeds=cell.seeds,
        documents=0 if isinstance(gains, str) else gains.shape[1],
        base=before,
        candidate=after,
        difference=None if before is None or after is None else (before - after if less else after - before),
        test=test,
        verdict=verdict,
        note="; ".join(filter(None, notes)),
        proved=(proved, candidate),
        privacy="proved ε is above the target of both sides" if too_large else "",
        missing=cell.lacks(metric),
    )


def _noise(cell: PairedCell) -> str:
    """A note where only the candidate's proved epsilon is far below the target: it had more noise than the base."""
    least = _CALIBRATED * cell.key.epsilon
    base, candidate = (min(result.privacy.epsilon_proved for result in side) for side in (cell.base, cell.candidate))
    if base < least or candidate >= least:
        return ""
    return (
        f"proved ε {epsilon_text(base)} → {epsilon_text(candidate)} at target {epsilon_text(cell.key.epsilon)}: the"
        " noise of the two sides is not matched"
    )


def _check_metric(cells: Sequence[PairedCell], metric: str | None) -> None:
    if metric is None or any(None not in cell.means(metric) for cell in cells):
        return
    results = [result for cell in cells for result in (*cell.base, *cell.candidate)]
    require_known("metric", [metric], {name for result in results for name in (*result.scores, *result.aggregates)})
    raise UsageError(f"No cell has the metric '{metric}' on both sides; leave --metric out, or run it on both.")
