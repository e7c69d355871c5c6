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
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
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
from dpicl.leaderboards.model.text import gather, metric_name, p_number
from dpicl.results.schema import Result
from dpicl.tables.document import Block, Column, Facts, Heading, Part, Table, make_table, notes
from dpicl.tables.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

#: A regression: the base is better, an improvement: the candidate is. Identical: every outcome is the same on both.
Verdict = Literal[
    "regression", "improvement", "equivalent", "identical", "inconclusive", "not tested"
]

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
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
        """The verdict of a test."""
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
        values = vars(self).copy()
        for name in ("key", "test", "proved"):
            del values[name]
        test = self.test
        return {
            **self.key.to_json(),
            **values,
            "interval": test and test.interval,
            "p": test and test.p,
            "p_adjusted": test and test.adjusted,
            "excluded": test and test.excluded,
            "detectable_drop": test and test.detectable,
            "proved_epsilon": {"base": self.proved[0], "candidate": self.proved[1]},
        }

    @property
    def metric_text(self) -> str:
        """The metric in words; ↓ where less is better."""
        return metric_name(self.metric) + (" ↓" if self.less_is_better else "")

    @property
    def verdict_text(self) -> str:
        return self.verdict + (", ε too large" if self.privacy else "")

    @property
    def kind(self) -> str:
        """How its line looks."""
        return "flagged" if self.fails else _KINDS.get(self.verdict, "")


_KINDS = {"improvement": "first", "not tested": "end"}


def _short(values: Sequence[str]) -> str:
    """The values of a side, hashes by their beginning."""
    texts = (value[:16] if _HASH.fullmatch(value) else value for value in values)
    return ", ".join(make_visible(text, 120) for text in texts) or "none"


def _show_task(task: str) -> str:
    return make_visible(task, 120)


def _show_detectable(test: PairedTest) -> str:
    return "none" if test.detectable is None else score_text(test.detectable)


_CELLS = (
    Column("task", "task", "key.task", _show_task),
    Column("row", "mechanism", "key.row"),
    Column("epsilon", "ε", "key.epsilon", epsilon_text),
    Column("metric", "metric", "metric_text"),
    Column("seeds", "seeds", lambda cell: len(cell.seeds)),
    Column("documents", "documents"),
    Column("base", "base", show=score_text),
    Column("candidate", "candidate", show=score_text),
    Column("difference", "change", show="{:+.3f}".format),
    Column("interval", "95% interval", "test.interval", "{0[0]:+.3f} to {0[1]:+.3f}".format),
    Column("p", "p (Holm)", "test.adjusted", p_number),
    Column("mde", "MDE (80% power)", "test", _show_detectable),
    Column("verdict", "verdict", "verdict_text", wide=True),
)
_CHANGES = (
    Column("name", "what changed"),
    Column("base", "base", show=_short, wide=True),
    Column("candidate", "candidate", show=_short, wide=True),
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
        facts = {
            f"{side.name}, {count(len(side.results), 'result')}": make_visible(side.path, 120)
            for side in sides
        }
        blocks: list[Block] = [Heading(_title(self)), Facts(facts)]
        if self.changes:
            blocks.append(make_table("what changed", _CHANGES, self.changes, keep=1))
        else:
            blocks += notes([_UNCHANGED])
        dirty = [side.name for side in sides if side.has_unknown_code]
        if dirty:
            blocks += notes([f"The commit does not say which code ran ({names_text(dirty)})."])
        changed = [cell for cell in self.cells if cell.fails or cell.verdict == "improvement"]
        unchanged = [cell for cell in self.cells if cell not in changed]
        if changed:
            blocks.append(_cells_table(changed))
        if unchanged:
            summary = f"{count(len(unchanged), 'cell')} without a change that counts"
            blocks.append(Part((_cells_table(unchanged),), summary))
        return [*blocks, *notes(_notes(self))]

    def to_frame(self) -> pd.DataFrame:
        """One row a cell."""
        import pandas as pd

        return pd.DataFrame(self.document()["cells"])

    def document(self) -> Any:
        """What --json prints: everything that the terminal shows. Infinity is left to the writer."""
        return {
            "base": self.base.to_json(),
            "candidate": self.candidate.to_json(),
            "settings": asdict(self.settings),
            "changes": [*map(asdict, self.changes)],
            "tested": self.tested,
            "regressed": self.regressed,
            "incomplete": self.incomplete,
            "cells": [cell.to_json() for cell in self.cells],
            "missing": [seeds.to_json() for seeds in self.missing],
            "unmatched": [seeds.to_json() for seeds in self.unmatched],
        }

    @property
    def tested(self) -> int:
        return sum(cell.verdict != "not tested" for cell in self.cells)

    @property
    def missing(self) -> tuple[Unmatched, ...]:
        """Rows and seeds of the base that the candidate lacks: they may be the ones that got worse."""
        return tuple(seeds for seeds in self.unmatched if seeds.side == "base")

    @property
    def incomplete(self) -> bool:
        """Whether the candidate lacks a row or a seed that the base has, and must not."""
        return not self.settings.allow_missing and bool(self.missing)

    @property
    def regressed(self) -> bool:
        """Whether any cell got worse, in score or in privacy, or is missing from the candidate; or nobody knows."""
        return self.incomplete or not self.tested or any(cell.fails for cell in self.cells)


def compare(
    base: Side,
    candidate: Side,
    settings: Settings = DEFAULTS,
    **choices: Collection[str] | Collection[float],
) -> Comparison:
    """Compares two sides. choices: which results, as of `choose`.

    Raises UsageError for a side with several suites, models or weights, a seed that is there twice, sides with nothing
    in common, and results made under different conditions.
    """

    def choose_results(side: Side) -> Side:
        place = f"{side.name} {side.path}"
        return replace(side, results=choose(side.results, place, **choices))  # type: ignore[arg-type]

    base, candidate = keep_one_version(choose_results(base), choose_results(candidate))
    pairs, unmatched = pair_cells(base, candidate)
    gains = [pair.gains for pair in pairs]
    columns = [_find_replications(of_pair) for of_pair in gains]
    tests = iter(paired_tests([column for column in columns if len(column)], settings.alpha))
    cells = []
    for pair, of_pair, column in zip(pairs, gains, columns, strict=True):
        test = next(tests) if len(column) else None
        cells.append(_cell(pair, of_pair, test, settings))
    changes = _changes(
        [result for pair in pairs for result in pair.base],
        [result for pair in pairs for result in pair.candidate],
    )
    return Comparison(base, candidate, settings, changes, tuple(cells), tuple(unmatched))


def _find_replications(gains: np.ndarray) -> np.ndarray:
    """What a cell with gains[S, D] is tested over: its seeds; its documents where seeds are copies; nothing where there
    are too few."""
    if len(gains) < FEWEST_SEEDS or gains.shape[1] < 2:
        return gains[:0, 0]
    return gains[0] if (gains == gains[0]).all() else gains.mean(axis=1)


def _cell(
    pair: Pair, gains: np.ndarray, test: PairedTest | None, settings: Settings
) -> CellVerdict:
    base, candidate = pair.means
    less_is_better = pair.base[0].lower_is_better(pair.metric)
    verdict: Verdict = "not tested" if test is None else settings.verdict(test)
    if not gains.any():
        verdict = "identical"
    notes = []
    if test is None:
        few = (
            "one document is"
            if gains.shape[1] < 2
            else f"{count(len(gains), 'seed')} of {FEWEST_SEEDS} are"
        )
        notes.append(f"{few} too few to test")
    elif settings.has_change(test) and verdict in ("equivalent", "inconclusive"):
        notes.append(f"a change is shown, and it is smaller than {settings.min_effect:g}")
    target = pair.key.epsilon
    before = [result.privacy.epsilon_proved for result in pair.base]
    after = [result.privacy.epsilon_proved for result in pair.candidate]
    if min(before) >= _CALIBRATED * target > min(after):  # only the candidate had more noise
        smallest = f"{epsilon_text(min(before))} → {epsilon_text(min(after))}"
        notes.append(
            f"proved ε {smallest} at target {epsilon_text(target)}: the noise of the two sides is not matched"
        )
    is_too_large = (
        max(after) > max(target, *before) * _SLACK
    )  # above the target only where the base's is
    return CellVerdict(
        key=pair.key,
        metric=pair.metric,
        less_is_better=less_is_better,
        seeds=tuple(result.cell.seed for result in pair.base),
        documents=gains.shape[1],
        base=base,
        candidate=candidate,
        difference=base - candidate if less_is_better else candidate - base,
        test=test,
        verdict=verdict,
        note="; ".join(notes),
        proved=(max(before), max(after)),
        privacy="proved ε is above the target of both sides" if is_too_large else "",
    )


def _changes(base: Sequence[Result], candidate: Sequence[Result]) -> tuple[Change, ...]:
    """In what the two sides differ: model, weights, dtype, device, commit, plug-ins, suite, packages."""
    before, after = _list_values(base), _list_values(candidate)
    packages = sorted((before.keys() | after.keys()) - MADE_WITH.keys())
    return tuple(
        Change(name, tuple(sorted(before[name])), tuple(sorted(after[name])))
        for name in (*MADE_WITH, *packages)
        if before[name] != after[name]
    )


def _list_values(results: Sequence[Result]) -> dict[str, set[str]]:
    """Name of what results were made with, and of their packages -> its values."""
    values: dict[str, set[str]] = defaultdict(set)
    for result in results:
        made_with = {name: value_of(result) for name, value_of in MADE_WITH.items()}
        for name, value in [*made_with.items(), *result.manifest.packages.items()]:
            if value:
                values[name].add(value)
    return values


def _cells_table(cells: list[CellVerdict]) -> Table:
    return make_table("cells", _CELLS, cells, kind=attrgetter("kind"), keep=3)


def _notes(comparison: Comparison) -> Iterator[str]:
    """What a reader must know beside the numbers."""
    settings, cells = comparison.settings, comparison.cells
    for cell in cells:
        if cell.privacy:
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
    if not comparison.tested:
        yield f"No cell could be tested: run {FEWEST_SEEDS} seeds on both sides (`dpicl run SUITE --seed 0,1,…`)."
    if any(cell.less_is_better for cell in cells):
        yield "The change of a metric of which less is better has its sign reversed: negative is always a loss."
    yield from gather((cell.note, str(cell.key)) for cell in cells if cell.note)


def _list_without_partner(comparison: Comparison) -> Iterator[str]:
    """What one side lacks; first the base's, since a missing row may be the one that got worse."""
    for side, head in (("base", "Missing in candidate"), ("candidate", "Only in candidate")):
        names = [str(seeds) for seeds in comparison.unmatched if seeds.side == side]
        if names:
            number = f" ({len(names)})" if len(names) > 1 else ""
            more = "; --json lists them all" if len(names) > MOST_NAMED else ""
            yield f"{head}{number}: {join_names(names)}{more}."
    if comparison.incomplete:
        yield "What is missing fails the gate; --allow-missing leaves it out."


def _title(comparison: Comparison) -> str:
    """The verdict of the gate, and the cells of each kind: 'GATE FAILS: 8 rows missing, 1 regression, 3 equivalent'."""
    parts = []
    if rows := {seeds.key for seeds in comparison.missing}:
        allowed = "" if comparison.incomplete else " (allowed)"
        parts.append(f"{count(len(rows), 'row')} missing or incomplete{allowed}")
    if too_large := sum(bool(cell.privacy) for cell in comparison.cells):
        parts.append(f"{too_large} proved ε too large")
    numbers = Counter(cell.verdict for cell in comparison.cells)
    for name in get_args(Verdict):
        if name in numbers:
            is_noun = name in ("regression", "improvement")
            number = numbers[name]
            parts.append(count(number, name) if is_noun else f"{number} {name}")
    return f"GATE {'FAILS' if comparison.regressed else 'PASSES'}: {', '.join(parts)}"
