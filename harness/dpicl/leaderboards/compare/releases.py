"""Two releases of a model, cell by cell: regression, improvement, equivalent, identical, or inconclusive
(docs/releases.md).

A cell is task x row x epsilon, and its seeds and documents are paired; development seeds, on records of their own, are
cells of their own. Of several versions of a task a side has the newest. Results that were made under different
conditions are refused, with the condition that differs. Cells are tested together
(`dpicl.evaluation.statistics.paired_tests`): a change counts when Holm's adjusted p-value is at most alpha and the
change at least `min_effect`; a cell is equivalent where changes of that size are excluded at alpha / (number of tested
cells). Differences are candidate - base in the metric's own units, with the sign flipped for metrics of which less is
better: a negative one is always a loss.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

import numpy as np

from dpicl.core.errors import UsageError, require_known
from dpicl.core.messages import count, epsilon_text, named
from dpicl.core.printable import visible
from dpicl.evaluation.statistics import PairedTest, paired_tests
from dpicl.leaderboards.compare.reading import Side, choose
from dpicl.leaderboards.model.comparability import PAIR, differing, value_of, weights
from dpicl.leaderboards.model.rows import outcomes_of
from dpicl.results.schema import Result

#: A regression: the base is better, an improvement: the candidate is. Identical: every outcome is the same on both.
Verdict = Literal["regression", "improvement", "equivalent", "identical", "inconclusive", "not tested"]

#: Rounding that a proved epsilon may be above its bound by.
_SLACK = 1 + 1e-9
#: Share of the target that a proved epsilon reaches when noise is calibrated to it.
_CALIBRATED = 0.98

#: What the results of a side were made with; a model of a side has one name, one set of weights and one dtype.
_MADE_WITH: Mapping[str, Callable[[Result], str]] = {
    "model": lambda r: r.cell.model,
    "model name": lambda r: r.manifest.model.name,
    "weights": weights,
    "dtype": lambda r: r.manifest.dtype,
    "device": lambda r: r.manifest.device,
    "commit": lambda r: (r.manifest.commit or "not a checkout") + (" with changes" if r.manifest.dirty else ""),
    "Python": lambda r: r.manifest.python,
    "plug-in files": lambda r: r.cell.plugin or "",
    "suite": lambda r: f"{r.suite.name}, version {r.suite.version}",
}


@dataclass(frozen=True, order=True)
class Key:
    """A cell of the comparison. suite, model: '' where each side holds one, whatever its name. mode: of accounting.
    development: whether it is of the seeds that headroom is measured on."""

    task: str
    label: str
    epsilon: float
    mode: str
    suite: str = ""
    model: str = ""
    development: bool = False

    @property
    def row(self) -> str:
        """The label, and what else tells it from other rows of a side: 'zero_shot (development)'."""
        more = [*filter(None, (self.suite, self.model)), *(["development"] if self.development else [])]
        return self.label + (f" ({', '.join(more)})" if more else "")

    def __str__(self) -> str:
        mode = "" if self.mode == "proved" else f", {self.mode} accounting"
        return f"{self.row} on {self.task} at ε = {epsilon_text(self.epsilon)}{mode}"


@dataclass(frozen=True)
class Unmatched:
    """Seeds of one side without a partner. whole: whether the other side lacks the row altogether."""

    side: str
    key: Key
    seeds: tuple[int, ...]
    whole: bool


@dataclass(frozen=True)
class Change:
    """Something that may differ: its values on either side, sorted; equal where nothing changed."""

    name: str
    base: tuple[str, ...]
    candidate: tuple[str, ...]

    @property
    def changed(self) -> bool:
        return self.base != self.candidate


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


@dataclass(frozen=True)
class _Pair:
    """A cell on both sides: results of the seeds that both have, in the same order. gains: float64[S, D] of the metric,
    or why it cannot be tested."""

    key: Key
    metric: str
    base: tuple[Result, ...]
    candidate: tuple[Result, ...]

    @property
    def means(self) -> tuple[float | None, float | None]:
        """Of a score or an aggregate over the seeds; None where a seed does not have it."""
        return _mean(self.base, self.metric), _mean(self.candidate, self.metric)

    @property
    def gains(self) -> np.ndarray | str:
        lacking = [name for name, mean in zip(("base", "candidate"), self.means, strict=True) if mean is None]
        if lacking:
            return f"{self.metric} is missing on {' and '.join(lacking)}"
        if any(self.metric not in result.documents for result in (*self.base, *self.candidate)):
            return "no mean over documents, so there is nothing to pair"
        before, after = (
            np.array([outcomes_of(one, self.metric)[1] for one in side]) for side in (self.base, self.candidate)
        )
        if before.shape[1] < 2:
            return "one document is too few"
        return before - after if self.base[0].lower_is_better(self.metric) else after - before


def compare(
    base: Side, candidate: Side, settings: Settings = DEFAULTS, **wanted: Collection[str] | Collection[float]
) -> Comparison:
    """Compares two sides. wanted: which results, as of `choose`.

    Raises UsageError for a model with several weights, a seed that is there twice, sides with nothing in common,
    results made under different conditions, and an unknown metric.
    """
    base, candidate = (
        replace(side, results=choose(side.results, f"{side.name} {side.path}", **wanted)).newest()  # type: ignore[arg-type]
        for side in (base, candidate)
    )
    pairs, unmatched = _paired(base, candidate, settings.metric)
    _check_metric(pairs, settings.metric)
    gains = [pair.gains for pair in pairs]
    tests = iter(paired_tests([one for one in gains if isinstance(one, np.ndarray)], settings.alpha))
    cells = tuple(
        _cell(pair, own, None if isinstance(own, str) else next(tests), settings)
        for pair, own in zip(pairs, gains, strict=True)
    )
    sides = ([one for pair in pairs for one in pair.base], [one for pair in pairs for one in pair.candidate])
    return Comparison(base, candidate, settings, _changes(*sides), cells, tuple(unmatched))


def _paired(base: Side, candidate: Side, metric: str | None) -> tuple[list[_Pair], list[Unmatched]]:
    """(cells to compare, results without a partner)."""
    sides = (base, candidate)
    suites = any(len({one.suite.name for one in side.results}) > 1 for side in sides)
    models = any(len({one.cell.model for one in side.results}) > 1 for side in sides)
    ours, theirs = (_by_seed(side, suites, models) for side in sides)
    pairs, unmatched = [], []
    for key in sorted({*ours, *theirs}):
        here, there = ours.get(key, {}), theirs.get(key, {})
        for name, own, other in (("base", here, there), ("candidate", there, here)):
            if lone := sorted(own.keys() - other.keys()):
                unmatched.append(Unmatched(name, key, tuple(lone), not other))
        if common := sorted(here.keys() & there.keys()):
            before, after = (tuple(side[seed] for seed in common) for side in (here, there))
            pairs.append(_Pair(key, metric or before[0].main_metric, before, after))
    if not pairs:
        raise UsageError(
            f"{base.path} and {candidate.path} have no task, mechanism row, epsilon and seed in common (base:"
            f" {_first_rows(base)}; candidate: {_first_rows(candidate)}); run the same suite on both sides."
        )
    _check_conditions(pairs, metric)
    return pairs, unmatched


def _by_seed(side: Side, suites: bool, models: bool) -> dict[Key, dict[int, Result]]:
    """Key -> seed -> result. suites, models: whether a side has several. Raises UsageError where a side has a model
    with several names, weights or dtypes, or a seed twice."""
    for model in sorted({result.cell.model for result in side.results}):
        own = [result for result in side.results if result.cell.model == model]
        for name, kinds in (("model name", "models"), ("weights", "weights"), ("dtype", "dtypes")):
            values = sorted({_MADE_WITH[name](result) for result in own})
            if len(values) > 1:
                raise UsageError(
                    f"{side.path} holds results of {len(values)} {kinds} ({named(visible(one, 60) for one in values)})"
                    " under one name, and a side of a comparison is one release; give the folder of one of them as"
                    f" {side.name.upper()}."
                )
    found: dict[Key, dict[int, Result]] = defaultdict(dict)
    for result in side.results:
        cell, suite = result.cell, result.suite.name if suites else ""
        model = cell.model if models else ""
        seeds = found[Key(cell.task, cell.label, cell.epsilon, cell.mode, suite, model, cell.development)]
        if first := seeds.get(cell.seed):
            raise UsageError(
                f"{side.path} holds {cell} twice (of {first.created} and {result.created}); give a folder that"
                f" has it once as {side.name.upper()}."
            )
        seeds[cell.seed] = result
    return found


def _check_conditions(pairs: Sequence[_Pair], metric: str | None) -> None:
    """Every result of a cell, on either side and at every seed, must have been made like the base's first one."""
    refused = [
        (pair, other, found)
        for pair in pairs
        for other in (*pair.base, *pair.candidate)
        if (found := differing(pair.base[0], other, PAIR, metric))
    ]
    if not refused:
        return
    pair, other, (condition, *_) = refused[0]
    where = "two seeds of the base" if other in pair.base else "base and candidate"
    others = len({one.key for one, *_ in refused}) - 1
    more = f"; {others} more cells differ too" if others else ""
    here, there = (value_of(result, condition, metric) for result in (pair.base[0], other))
    values = f"{_short(here)} against {_short(there)}"
    if condition == "test records" and isinstance(here, tuple) and isinstance(there, tuple):
        values = f"{len(here)} against {count(len(there), 'document')}, {len({*here} & {*there})} shared"
    raise UsageError(
        f"{_short(pair.key)}: {where} differ in the {condition} ({values}){more}, so a difference of scores would"
        f" say nothing about the models; {PAIR[condition]}, or leave it out with --task, --mechanism or --epsilon."
    )


def _check_metric(pairs: Sequence[_Pair], metric: str | None) -> None:
    if metric is None or any(None not in pair.means for pair in pairs):
        return
    results = [result for pair in pairs for result in (*pair.base, *pair.candidate)]
    require_known("metric", [metric], {name for result in results for name in (*result.scores, *result.aggregates)})
    raise UsageError(f"No cell has the metric '{metric}' on both sides; leave --metric out, or run it on both.")


def _cell(pair: _Pair, gains: np.ndarray | str, test: PairedTest | None, settings: Settings) -> CellVerdict:
    before, after = pair.means
    less = pair.base[0].lower_is_better(pair.metric)
    verdict: Verdict = "not tested" if test is None else settings.verdict(test)
    if isinstance(gains, np.ndarray) and not gains.any():
        verdict = "identical"
    notes = [gains if isinstance(gains, str) else "", _noise(pair)]
    if test and settings.shows(test) and verdict in ("equivalent", "inconclusive"):
        notes.insert(0, f"a change is shown, and it is smaller than {settings.min_effect:g}")
    proved, candidate = (max(one.privacy.epsilon_proved for one in side) for side in (pair.base, pair.candidate))
    too_large = candidate > max(pair.key.epsilon, proved) * _SLACK  # above the target only where the base's is
    had, has = (all(pair.metric in one.documents for one in side) for side in (pair.base, pair.candidate))
    return CellVerdict(
        key=pair.key,
        metric=pair.metric,
        less_is_better=less,
        seeds=tuple(one.cell.seed for one in pair.base),
        documents=0 if isinstance(gains, str) else gains.shape[1],
        base=before,
        candidate=after,
        difference=None if before is None or after is None else (before - after if less else after - before),
        test=test,
        verdict=verdict,
        note="; ".join(filter(None, notes)),
        proved=(proved, candidate),
        privacy="proved ε is above the target of both sides" if too_large else "",
        missing=(before is not None and after is None) or (had and not has),
    )


def _noise(pair: _Pair) -> str:
    """A note where only the candidate's proved epsilon is far below the target: it had more noise than the base."""
    least = _CALIBRATED * pair.key.epsilon
    base, candidate = (min(one.privacy.epsilon_proved for one in side) for side in (pair.base, pair.candidate))
    if base < least or candidate >= least:
        return ""
    return (
        f"proved ε {epsilon_text(base)} → {epsilon_text(candidate)} at target {epsilon_text(pair.key.epsilon)}: the"
        " noise of the two sides is not matched"
    )


def _changes(base: Sequence[Result], candidate: Sequence[Result]) -> tuple[Change, ...]:
    """What the two sides were made with: model, weights, dtype, device, commit, plug-ins, suite, packages."""
    packages = sorted({name for result in (*base, *candidate) for name in result.manifest.packages})
    versions = {name: lambda r, name=name: r.manifest.packages.get(name, "") for name in packages}

    def values(results: Sequence[Result], of: Callable[[Result], str]) -> tuple[str, ...]:
        return tuple(sorted({of(result) for result in results} - {""}))

    made_with = {**_MADE_WITH, **versions}
    return tuple(Change(name, values(base, of), values(candidate, of)) for name, of in made_with.items())


def _first_rows(side: Side) -> str:
    cells = (result.cell for result in side.results)
    rows = {f"{visible(one.label, 60)} on {visible(one.task, 60)} at ε = {one.epsilon:g}" for one in cells}
    return named(sorted(rows), 2)


def _mean(results: Sequence[Result], metric: str) -> float | None:
    values = [one.scores[metric].value if metric in one.scores else one.aggregates.get(metric) for one in results]
    return None if None in values else fmean(value for value in values if value is not None)


def _short(value: object) -> str:
    """A value in words, cut."""
    text = " / ".join(dict.fromkeys(map(str, value))) if isinstance(value, tuple) else str(value)
    return text if len(text) <= 200 else text[:200] + "…"
