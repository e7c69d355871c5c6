"""Compares two releases of a model cell by cell: regression, improvement, equivalent, identical, or inconclusive
(docs/releases.md).

A cell is task x row x epsilon, paired by seed; development seeds, on records of their own, are cells of their own. Of
several versions of a task a side has the newest. Results that were made under different conditions are refused, with
the condition that differs. Cells with ten seeds are tested together
(`dpicl.evaluation.statistics.paired_tests`), over their seeds; one whose seeds are copies, such as zero-shot, over its
documents: a change counts when Holm's adjusted p-value is at most alpha and the
change at least `min_effect`; a cell is equivalent where changes of that size are excluded at alpha / (number of tested
cells). Differences are candidate - base in the metric's own units, with the sign flipped for metrics of which less is
better: a negative one is always a loss.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from dpicl.core.messages import MOST_NAMED, count, epsilon_text, join_names, names_text, score_text
from dpicl.core.printable import make_visible
from dpicl.evaluation.statistics import FEWEST_SEEDS, PairedTest, paired_tests
from dpicl.leaderboards.compare.reading import (
    MADE_WITH,
    Key,
    Pair,
    Side,
    Unmatched,
    choose,
    keep_one_version,
    pair_cells,
)
from dpicl.leaderboards.model.text import gather, metric_name, p_number, seeds_text
from dpicl.results.schema import Result
from dpicl.tables.document import Block, Column, Facts, Heading, Part, Table, make_table, notes
from dpicl.tables.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

#: A regression: the base is better, an improvement: the candidate is. Identical: every outcome is the same on both.
Verdict = Literal["regression", "improvement", "equivalent", "identical", "inconclusive", "not tested"]

#: Rounding that a proved epsilon may be above its bound by.
_SLACK = 1 + 1e-9
#: Share of the target that a proved epsilon reaches when noise is calibrated to it.
_CALIBRATED = 0.98


@dataclass(frozen=True)
class Change:
    """Something that differs: its values on either side, sorted."""

    name: str
    base: tuple[str, ...]
    candidate: tuple[str, ...]


@dataclass(frozen=True)
class Settings:
    """alpha: family-wise error. min_effect: smallest change that counts. allow_missing: whether the candidate may lack
    what the base has."""

    alpha: float = 0.05
    min_effect: float = 0.01
    allow_missing: bool = False

    def verdict(self, test: PairedTest) -> Verdict:
        """What a test says."""
        if self.has_change(test) and abs(test.mean) >= self.min_effect - 1e-12:
            return "regression" if test.mean < 0 else "improvement"
        return "equivalent" if test.excluded < self.min_effect else "inconclusive"

    def has_change(self, test: PairedTest) -> bool:
        """Whether there is a change, of whatever size."""
        return test.adjusted <= self.alpha


DEFAULTS = Settings()


@dataclass(frozen=True)
class CellVerdict:
    """One cell. base, candidate: mean scores. difference: the gain, negative for a loss.

    test: None where the cell is not tested, and `note` says why. proved: largest proved epsilon of base and of
    candidate. privacy: what is wrong with the latter, or "".
    """

    key: Key
    metric: str
    less_is_better: bool
    seeds: tuple[int, ...]
    documents: int
    base: float
    candidate: float
    difference: float
    test: PairedTest | None
    verdict: Verdict
    note: str
    proved: tuple[float, float]
    privacy: str

    @property
    def fails(self) -> bool:
        """Whether the candidate must not be released by this cell alone."""
        return self.verdict == "regression" or bool(self.privacy)

    def to_json(self) -> dict[str, Any]:
        test = self.test
        names = ("metric", "less_is_better", "seeds", "documents", "base", "candidate", "difference", "verdict", "note")
        return {
            **self.key.to_json(),
            **{name: getattr(self, name) for name in (*names, "privacy")},
            "interval": test and [test.low, test.high],
            "p": test and test.p,
            "p_adjusted": test and test.adjusted,
            "excluded": test and test.excluded,
            "detectable_drop": test and test.detectable,
            "proved_epsilon": {"base": self.proved[0], "candidate": self.proved[1]},
        }


_KINDS = {"regression": "flagged", "improvement": "first", "not tested": "end"}


_CELLS = (
    Column("task", "task", attrgetter("key.task"), lambda task: make_visible(task, 120)),
    Column("row", "mechanism", attrgetter("key.row")),
    Column("epsilon", "ε", lambda cell: epsilon_text(cell.key.epsilon)),
    Column("metric", "metric", lambda cell: metric_name(cell.metric) + (" ↓" if cell.less_is_better else "")),
    Column("seeds", "seeds", lambda cell: len(cell.seeds)),
    Column("documents", "documents", attrgetter("documents")),
    Column("base", "base", attrgetter("base"), score_text),
    Column("candidate", "candidate", attrgetter("candidate"), score_text),
    Column("difference", "change", attrgetter("difference"), "{:+.3f}".format),
    Column(
        "interval",
        "95% interval",
        lambda cell: cell.test and (cell.test.low, cell.test.high),
        lambda own: f"{own[0]:+.3f} to {own[1]:+.3f}",
    ),
    Column("p", "p (Holm)", lambda cell: cell.test and cell.test.adjusted, p_number),
    Column(
        "mde",
        "MDE (80% power)",
        attrgetter("test"),
        lambda test: "none" if test.detectable is None else score_text(test.detectable),
    ),
    Column("verdict", "verdict", lambda cell: cell.verdict + (", ε too large" if cell.privacy else ""), wide=True),
)
_CHANGES = (
    Column("name", "what changed", attrgetter("name")),
    Column("base", "base", lambda one: _short(one.base), wide=True),
    Column("candidate", "candidate", lambda one: _short(one.candidate), wide=True),
)


_UNCHANGED = "Nothing that is recorded changed: model, weights, dtype, device, code, Python, plug-ins, suite, packages."


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """What a report shows. cells: in the order task, row, epsilon."""

    base: Side
    candidate: Side
    settings: Settings
    changes: tuple[Change, ...]
    cells: tuple[CellVerdict, ...]
    unmatched: tuple[Unmatched, ...]

    def blocks(self) -> list[Block]:
        """The gate's verdict, what changed, and every cell: regressions and improvements first, the others folded."""
        sides = (self.base, self.candidate)
        made = {f"{side.name}, {count(len(side.results), 'result')}": make_visible(side.path, 120) for side in sides}
        blocks: list[Block] = [Heading(_title(self)), Facts(made)]
        if self.changes:
            blocks.append(make_table("what changed", _CHANGES, self.changes, keep=1))
        else:
            blocks += notes([_UNCHANGED])
        if dirty := [side.name for side in sides if any(one.manifest.dirty is not False for one in side.results)]:
            blocks += notes([f"The commit does not say which code ran ({names_text(dirty)})."])
        certain = [cell for cell in self.cells if cell.fails or cell.verdict == "improvement"]
        blocks += [_cells_table(certain)] if certain else []
        if rest := [cell for cell in self.cells if cell not in certain]:
            summary = f"{count(len(rest), 'cell')} without a change that counts"
            blocks.append(Part((_cells_table(rest),), summary))
        return [*blocks, *notes(_notes(self))]

    def to_frame(self) -> pd.DataFrame:
        """One row a cell."""
        import pandas as pd

        return pd.DataFrame(self.document()["cells"])

    def document(self) -> Any:
        """What --json prints: everything that the terminal shows. Infinity is left to the writer."""
        sides = (self.base, self.candidate)
        made = [{"path": one.path, "results": len(one.results)} for one in sides]
        return {
            **dict(zip(("base", "candidate"), made, strict=True)),
            "settings": asdict(self.settings),
            "changes": [*map(asdict, self.changes)],
            **{name: getattr(self, name) for name in ("tested", "regressed", "incomplete")},
            "cells": [cell.to_json() for cell in self.cells],
            "missing": [one.to_json() for one in self.missing],
            "unmatched": [one.to_json() for one in self.unmatched],
        }

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
        """Whether the candidate lacks a row or a seed that the base has, and must not."""
        return not self.settings.allow_missing and bool(self.missing)

    @property
    def says_nothing(self) -> bool:
        """Whether no cell could be tested, nor is any the same on both sides."""
        return not self.tested

    @property
    def regressed(self) -> bool:
        """Whether any cell got worse, in score or in privacy, or is missing from the candidate; or nobody knows."""
        return self.incomplete or self.says_nothing or any(cell.fails for cell in self.cells)


def compare(
    base: Side, candidate: Side, settings: Settings = DEFAULTS, **wanted: Collection[str] | Collection[float]
) -> Comparison:
    """Compares two sides. wanted: which results, as of `choose`.

    Raises UsageError for a side with several suites, models or weights, a seed that is there twice, sides with nothing
    in common, and results made under different conditions.
    """
    base, candidate = (
        replace(side, results=choose(side.results, f"{side.name} {side.path}", **wanted))  # type: ignore[arg-type]
        for side in (base, candidate)
    )
    base, candidate = (side.newest() for side in keep_one_version(base, candidate))
    pairs, unmatched = pair_cells(base, candidate)
    gains = [pair.gains for pair in pairs]
    replications = [_find_replications(own) for own in gains]
    tests = iter(paired_tests([own for own in replications if len(own)], settings.alpha))
    cells = tuple(
        _cell(pair, own, next(tests) if len(column) else None, settings)
        for pair, own, column in zip(pairs, gains, replications, strict=True)
    )
    sides = ([one for pair in pairs for one in pair.base], [one for pair in pairs for one in pair.candidate])
    return Comparison(base, candidate, settings, _changes(*sides), cells, tuple(unmatched))


def _find_replications(gains: np.ndarray) -> np.ndarray:
    """What a cell with gains[S, D] is tested over: its seeds; its documents where seeds are copies; nothing where there
    are too few."""
    if len(gains) < FEWEST_SEEDS or gains.shape[1] < 2:
        return gains[:0, 0]
    return gains[0] if (gains == gains[0]).all() else gains.mean(axis=1)


def _cell(pair: Pair, gains: np.ndarray, test: PairedTest | None, settings: Settings) -> CellVerdict:
    before, after = pair.means
    less = pair.base[0].lower_is_better(pair.metric)
    verdict: Verdict = "not tested" if test is None else settings.verdict(test)
    if not gains.any():
        verdict = "identical"
    few = "one document is" if gains.shape[1] < 2 else f"{count(len(gains), 'seed')} of {FEWEST_SEEDS} are"
    notes = [] if test else [f"{few} too few to test"]
    if test and settings.has_change(test) and verdict in ("equivalent", "inconclusive"):
        notes.append(f"a change is shown, and it is smaller than {settings.min_effect:g}")
    target = pair.key.epsilon
    proved = [[one.privacy.epsilon_proved for one in side] for side in (pair.base, pair.candidate)]
    if min(proved[0]) >= _CALIBRATED * target > min(proved[1]):  # the candidate alone had more noise
        smallest = " → ".join(epsilon_text(min(side)) for side in proved)
        notes.append(f"proved ε {smallest} at target {epsilon_text(target)}: the noise of the two sides is not matched")
    largest, candidate = map(max, proved)
    too_large = candidate > max(target, largest) * _SLACK  # above the target only where the base's is
    return CellVerdict(
        key=pair.key,
        metric=pair.metric,
        less_is_better=less,
        seeds=tuple(one.cell.seed for one in pair.base),
        documents=gains.shape[1],
        base=before,
        candidate=after,
        difference=before - after if less else after - before,
        test=test,
        verdict=verdict,
        note="; ".join(notes),
        proved=(largest, candidate),
        privacy="proved ε is above the target of both sides" if too_large else "",
    )


def _changes(base: Sequence[Result], candidate: Sequence[Result]) -> tuple[Change, ...]:
    """In what the two sides differ: model, weights, dtype, device, commit, plug-ins, suite, packages."""
    packages = sorted({name for result in (*base, *candidate) for name in result.manifest.packages})
    versions = {name: lambda r, name=name: r.manifest.packages.get(name, "") for name in packages}

    def values(results: Sequence[Result], of: Callable[[Result], str]) -> tuple[str, ...]:
        return tuple(sorted({of(result) for result in results} - {""}))

    found = (Change(name, values(base, of), values(candidate, of)) for name, of in {**MADE_WITH, **versions}.items())
    return tuple(change for change in found if change.base != change.candidate)


def _cells_table(cells: list[CellVerdict]) -> Table:
    return make_table(
        "cells", _CELLS, cells, kind=lambda cell: "flagged" if cell.fails else _KINDS.get(cell.verdict, ""), keep=3
    )


def _notes(comparison: Comparison) -> Iterator[str]:
    """What a reader must know beside the numbers."""
    settings, cells = comparison.settings, comparison.cells
    for cell in (cell for cell in cells if cell.privacy):
        base, candidate = map(epsilon_text, cell.proved)
        target = epsilon_text(cell.key.epsilon)
        yield f"{cell.privacy}: {cell.key} (target {target}, proved {base} → {candidate})."
    yield from _list_without_partner(comparison)
    yield (
        f"Regression: Holm's p over {count(comparison.tested, 'cell')} is at most {settings.alpha:g} and the loss"
        f" at least {settings.min_effect:g}; Student's t over seeds (over test records where all seeds are alike);"
        " intervals are not adjusted. MDE (80% power): the smallest true drop that"
        f" this cell would show with probability 0.8 at {settings.alpha:g}/{max(comparison.tested, 1)} (none: no drop"
        " shows)."
    )
    if comparison.says_nothing:
        yield f"No cell could be tested: run {FEWEST_SEEDS} seeds on both sides (`dpicl run SUITE --seed 0,1,…`)."
    if any(cell.less_is_better for cell in cells):
        yield "The change of a metric of which less is better has its sign reversed: negative is always a loss."
    yield from gather((cell.note, str(cell.key)) for cell in cells if cell.note)


def _list_without_partner(comparison: Comparison) -> Iterator[str]:
    """What one side lacks; first the base's, since a row that is not there may be the one that got worse."""

    def name_lone(one: Unmatched) -> str:
        return f"{one.key}, seed {seeds_text(one.seeds)}" + ("" if one.whole else " (the row is on both sides)")

    lacking = [name_lone(one) for one in comparison.missing]
    extra = [name_lone(one) for one in comparison.unmatched if one.side == "candidate"]
    for head, found in (("Missing in candidate", lacking), ("Only in candidate", extra)):
        if found:
            more = "; --json lists them all" if len(found) > MOST_NAMED else ""
            yield f"{head}{f' ({len(found)})' if len(found) > 1 else ''}: {join_names(found)}{more}."
    if comparison.incomplete:
        yield "What is missing fails the gate; --allow-missing leaves it out."


def _title(comparison: Comparison) -> str:
    """The verdict of the gate, and the cells of each kind: 'GATE FAILS: 8 rows missing, 1 regression, 3 equivalent'."""
    lacking = {one.key for one in comparison.missing}
    allowed = "" if comparison.incomplete else " (allowed)"
    said = [f"{count(len(lacking), 'row')} missing or incomplete{allowed}"] if lacking else []
    too_large = sum(bool(cell.privacy) for cell in comparison.cells)
    said += [f"{too_large} proved ε too large"] if too_large else []
    for name in get_args(Verdict):
        if number := comparison.count(name):
            said.append(count(number, name) if name in ("regression", "improvement") else f"{number} {name}")
    return f"GATE {'FAILS' if comparison.regressed else 'PASSES'}: {', '.join(said)}"


def _short(values: Sequence[str]) -> str:
    """The values of a side, hashes by their beginning."""
    shown = (one[:16] if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", one) else one for one in values)
    return ", ".join(make_visible(one, 120) for one in shown) or "none"
