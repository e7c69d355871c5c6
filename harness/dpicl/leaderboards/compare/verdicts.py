"""The verdict on every cell: regression, improvement, equivalent, or inconclusive and which change is not excluded.

A cell is tested on its paired outcomes (dpicl.leaderboards.compare.paired_tests), the p-values of all tested cells are
adjusted by Holm's method, and a change counts when the adjusted p-value is at most alpha and the change is at least
`min_effect`; a cell is equivalent where changes of that size are excluded at alpha / (number of tested cells).
Differences are candidate - base in the metric's own units, with the sign flipped for metrics of which less is better: a
negative one is always a loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

import numpy as np

from dpicl.core.errors import UsageError, require_known
from dpicl.leaderboards.compare.cell_tests import DEFAULTS, CellTest, Family, Settings, family_of, paired_test
from dpicl.leaderboards.compare.paired_tests import holm
from dpicl.leaderboards.compare.pairing import ALL, Filter, Key, PairedCell, Unmatched, epsilon_text, pair
from dpicl.leaderboards.compare.sides import Change, Side, changes

#: A regression: the base is better, an improvement: the candidate is.
Verdict = Literal["regression", "improvement", "equivalent", "inconclusive", "not tested"]

#: Rounding that a proved epsilon may be above its bound by.
_SLACK = 1 + 1e-9
#: Share of the target that a proved epsilon reaches when noise is calibrated to it.
_CALIBRATED = 0.98


@dataclass(frozen=True)
class CellVerdict:
    """One cell. base, candidate: mean scores, None without the metric. difference: the gain, negative for a loss.

    adjusted: p-value by Holm over the tested cells; None, as test, where the cell is not tested, and `note` says why.
    proved: largest proved epsilon of base and of candidate. privacy: what is wrong with the latter, or "". missing:
    whether the base has a score or outcomes for the metric that the candidate lacks.
    """

    key: Key
    metric: str
    less_is_better: bool
    seeds: tuple[int, ...]
    documents: int
    base: float | None
    candidate: float | None
    difference: float | None
    test: CellTest | None
    adjusted: float | None
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
class Summary:
    """Cells of one mechanism row, or of all. mean: of the differences over the tested cells; None without one."""

    name: str
    cells: int
    regressions: int
    improvements: int
    equivalent: int
    inconclusive: int
    untested: int
    privacy: int
    mean: float | None


@dataclass(frozen=True)
class Comparison:
    """What a report shows. cells: in the order task, row, epsilon."""

    base: Side
    candidate: Side
    settings: Settings
    changes: tuple[Change, ...]
    cells: tuple[CellVerdict, ...]
    unmatched: tuple[Unmatched, ...]
    summaries: tuple[Summary, ...]

    @property
    def tested(self) -> int:
        return sum(cell.test is not None for cell in self.cells)

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
    tables = [_difference(cell, settings) for cell in paired]
    family = family_of([table for table in tables if table is not None and not _untestable(table)])
    verdicts = [_cell(cell, table, family, settings) for cell, table in zip(paired, tables, strict=True)]
    adjusted = iter(holm([verdict.test.p for verdict in verdicts if verdict.test]))
    cells = tuple(_judged(one, next(adjusted), settings) if one.test else one for one in verdicts)
    changed = changes([one for cell in paired for one in cell.base], [one for cell in paired for one in cell.candidate])
    rows = sorted({cell.key.label for cell in cells})
    parts = [_summary(row, [cell for cell in cells if cell.key.label == row]) for row in rows]
    return Comparison(base, candidate, settings, changed, cells, unmatched, (*parts, _summary("all", cells)))


def _difference(cell: PairedCell, settings: Settings) -> np.ndarray | None:
    """Gains[S, D] of the cell's metric; None where it is no mean over documents."""
    metric = settings.metric or cell.base[0].main_metric
    outcomes = cell.outcomes(metric)
    if outcomes is None:
        return None
    difference = outcomes[1] - outcomes[0]
    return -difference if cell.base[0].lower_is_better(metric) else difference


def _untestable(differences: np.ndarray | None) -> str:
    if differences is None:
        return "no mean over documents, so there is nothing to pair"
    if differences.shape[1] < 2:
        return "one document is too few"
    return ""


def _cell(cell: PairedCell, differences: np.ndarray | None, family: Family, settings: Settings) -> CellVerdict:
    """The cell before Holm."""
    metric = settings.metric or cell.base[0].main_metric
    before, after = cell.means(metric)
    less = cell.base[0].lower_is_better(metric)
    gain = None if before is None or after is None else (before - after if less else after - before)
    lacking = " and ".join(name for name, mean in (("base", before), ("candidate", after)) if mean is None)
    reason = f"{metric} is missing on {lacking}" if lacking else _untestable(differences)
    test = None if reason or differences is None else paired_test(differences, family, settings)
    proved = tuple(max(result.privacy.epsilon_proved for result in side) for side in (cell.base, cell.candidate))
    return CellVerdict(
        key=cell.key,
        metric=metric,
        less_is_better=less,
        seeds=cell.seeds,
        documents=0 if differences is None else differences.shape[1],
        base=before,
        candidate=after,
        difference=gain,
        test=test,
        adjusted=None,
        verdict="not tested",
        note=_joined(reason, _noise(cell)),
        proved=(proved[0], proved[1]),
        privacy=_privacy(cell.key, proved[0], proved[1]),
        missing=cell.lacks(metric),
    )


def _judged(cell: CellVerdict, adjusted: float, settings: Settings) -> CellVerdict:
    verdict: Verdict = "inconclusive"
    gain = cell.difference or 0.0
    if adjusted <= settings.alpha and abs(gain) >= settings.min_effect - 1e-12:
        verdict = "regression" if gain < 0 else "improvement"
    note = ""
    if cell.test and cell.test.excluded < settings.min_effect:
        verdict = "equivalent"
    if verdict in ("equivalent", "inconclusive") and adjusted <= settings.alpha:
        note = f"a change is shown, and it is smaller than {settings.min_effect:g}"
    return replace(cell, adjusted=adjusted, verdict=verdict, note=_joined(note, cell.note))


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))


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


def _privacy(key: Key, base: float, candidate: float) -> str:
    """What is wrong with the candidate's proved epsilon, or "": it may be above the target only where the base's is."""
    return "" if candidate <= max(key.epsilon, base) * _SLACK else "proved ε is above the target of both sides"


def _summary(name: str, cells: Sequence[CellVerdict]) -> Summary:
    differences = [cell.difference for cell in cells if cell.test and cell.difference is not None]
    return Summary(
        name=name,
        cells=len(cells),
        regressions=sum(cell.verdict == "regression" for cell in cells),
        improvements=sum(cell.verdict == "improvement" for cell in cells),
        equivalent=sum(cell.verdict == "equivalent" for cell in cells),
        inconclusive=sum(cell.verdict == "inconclusive" for cell in cells),
        untested=sum(cell.verdict == "not tested" for cell in cells),
        privacy=sum(bool(cell.privacy) for cell in cells),
        mean=fmean(differences) if differences else None,
    )


def _check_metric(cells: Sequence[PairedCell], metric: str | None) -> None:
    if metric is None:
        return
    results = [result for cell in cells for result in (*cell.base, *cell.candidate)]
    known = {name for result in results for name in (*result.scores, *result.aggregates)}
    if all(None in cell.means(metric) for cell in cells):
        require_known("metric", [metric], known)
        raise UsageError(f"No cell has the metric '{metric}' on both sides; leave --metric out, or run it on both.")
