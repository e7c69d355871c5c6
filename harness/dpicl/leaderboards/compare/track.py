"""A score across releases of a model and commits of the code: one line for each task, row and epsilon.

A release is one model (name, weights, dtype) at one commit. A line joins scores only where they are comparable
(dpicl.leaderboards.model.comparability); elsewhere it breaks, with the reason. A step between two joined scores is
better or worse by the paired tests of `dpicl compare`, with Holm's adjustment over all steps of all lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import methodcaller
from statistics import fmean
from typing import Any, Literal

import numpy as np

from dpicl.core.errors import UsageError
from dpicl.core.messages import count, epsilon_text
from dpicl.core.printable import visible
from dpicl.core.vocabulary import model_name
from dpicl.evaluation.intervals import bootstrap_interval
from dpicl.evaluation.statistics import PairedTest, paired_tests
from dpicl.leaderboards.compare.releases import DEFAULTS
from dpicl.leaderboards.model.comparability import PAIR, differing, weights
from dpicl.leaderboards.model.metrics import metric_name
from dpicl.leaderboards.model.rows import outcomes_of, score_of
from dpicl.leaderboards.model.text import gathered
from dpicl.results.schema import Result
from dpicl.tables.document import Block, Column, make_table, notes, words

By = Literal["commit", "model"]
_SIGNS = {"better": "▲", "worse": "▼"}
_READING = (
    "A score and its 95% interval for each release, oldest first. ▲ better, ▼ worse than the release before (paired"
    " on the seeds that both have, Holm over all steps, at least 0.01). ≠: may not be compared with it."
)


@dataclass(frozen=True)
class ModelRelease:
    """number: from 1, oldest first. model: as the suite names it; name: its own. created: of its first result.

    commit: "" where releases are told apart by the model alone. called: what its makers call it, "" without a name.
    """

    number: int
    model: str
    name: str
    weights: str
    dtype: str
    commit: str
    created: str
    called: str = ""

    @property
    def title(self) -> str:
        """'v2: SmolLM2-135M-Instruct (c3c3c3c3c3c3), bfloat16, 0123456789ab'."""
        parts = [model_name(self.name) + (f" ({self.weights[:12]})" if self.weights else ""), self.dtype]
        return (f"{self.called}: " if self.called else "") + ", ".join([*parts, *filter(None, [self.commit[:12]])])


@dataclass
class Point:
    """One release's score of a row. results: one a seed, all made under the same conditions.

    broken: why it may not be compared with the point before, "" where it may, or where it is the first. step: the
    change from that point over the seeds that both have (shared), negative for a loss; None without such a seed.
    """

    release: int
    results: Sequence[Result]
    broken: str = ""
    step: PairedTest | None = None
    shared: tuple[int, ...] = ()

    @property
    def score(self) -> float:
        """Mean over seeds of the main metric."""
        return fmean(map(score_of, self.results))

    @property
    def verdict(self) -> str:
        """better, worse, equivalent or inconclusive; "" without a step."""
        found = DEFAULTS.verdict(self.step) if self.step else ""
        return {"improvement": "better", "regression": "worse"}.get(found, found)

    def outcomes(self, seeds: Sequence[int] | None = None) -> np.ndarray:
        """float64[S, D] of these seeds (None: all), documents in the order of their ids."""
        return np.array([outcomes_of(one)[1] for one in self.results if seeds is None or one.cell.seed in seeds])

    def to_json(self) -> dict[str, Any]:
        test = self.step
        step = test and {"gain": test.mean, "adjusted": test.adjusted, "seeds": self.shared, "verdict": self.verdict}
        return {
            "release": self.release,
            "score": self.score,
            "interval": list(bootstrap_interval(self.outcomes())),
            "seeds": [one.cell.seed for one in self.results],
            "broken": self.broken,
            "step": step,
            "cells": [one.cell_id for one in self.results],
        }

    def __str__(self) -> str:
        low, high = bootstrap_interval(self.outcomes())
        text = f"{'≠ ' if self.broken else ''}{self.score:.3f} {low:.3f}–{high:.3f}"
        return f"{text} {_SIGNS.get(self.verdict, '')}".rstrip()


@dataclass(frozen=True)
class Track:
    """The line of one row on one task at one epsilon. development: of the seeds that headroom is measured on. notes:
    results that are not in it, and why."""

    suite: str
    task: str
    epsilon: float
    label: str
    mode: str
    development: bool
    points: tuple[Point, ...]
    notes: tuple[str, ...]

    @property
    def row(self) -> str:
        """The label, and what else tells it from other rows: 'tang (paper)'."""
        more = [*(["paper"] if self.mode != "proved" else []), *(["development"] if self.development else [])]
        return self.label + (f" ({', '.join(more)})" if more else "")

    def at(self, release: int) -> Point | None:
        """That of a release; None where it has no score."""
        return next((point for point in self.points if point.release == release), None)

    @property
    def metric(self) -> str:
        return self.points[-1].results[0].main_metric

    @property
    def lower_is_better(self) -> bool:
        return self.points[-1].results[0].lower_is_better(self.metric)


@dataclass(frozen=True)
class Tracks:
    """Releases, oldest first, and the lines by suite, task, epsilon and row."""

    releases: tuple[ModelRelease, ...]
    lines: tuple[Track, ...]

    @property
    def significant(self) -> int:
        """How many steps are better or worse."""
        return sum(point.verdict in _SIGNS for line in self.lines for point in line.points)

    def blocks(self) -> Iterator[Block]:
        """Releases, then a table for every suite and task."""
        steps = count(self.significant, "step")
        yield words(f"{steps} better or worse, in {count(len(self.lines), 'line')}", "lead")
        releases = (
            Column("number", "release", lambda one: one.number),
            Column("title", "model, weights, dtype and commit", lambda one: visible(one.title, 100), wide=True),
            Column("created", "first result", lambda one: visible(one.created[:19])),
        )
        yield make_table("Releases", releases, self.releases)
        columns = [
            Column("row", "mechanism", lambda line: line.row),
            Column("epsilon", "ε", lambda line: line.epsilon, epsilon_text),
            *(
                Column(f"release {one.number}", str(one.number), methodcaller("at", one.number), help=one.title)
                for one in self.releases
            ),
        ]
        for suite, task in dict.fromkeys((line.suite, line.task) for line in self.lines):
            own = [line for line in self.lines if (line.suite, line.task) == (suite, task)]
            title = f"{visible(task, 100)} ({visible(suite, 100)}): {metric_name(own[0].metric)}"
            title += " (lower is better)" if own[0].lower_is_better else ""
            yield make_table(title, columns, own, keep=2, heading=True)
        yield from notes([_READING, *gathered(_remarks(self.lines))])

    def document(self) -> dict[str, Any]:
        """Releases and lines as JSON: numbers and names, without the results behind them."""
        names = ("suite", "task", "mode", "development", "epsilon", "metric", "lower_is_better", "notes")
        lines = [
            {"mechanism": line.label, **{name: getattr(line, name) for name in names}}
            | {"points": [point.to_json() for point in line.points]}
            for line in self.lines
        ]
        return {
            "releases": [vars(release) for release in self.releases],
            "steps_better_or_worse": self.significant,
            "tracks": lines,
        }


def _remarks(lines: Sequence[Track]) -> Iterator[tuple[str, str]]:
    """Where lines break, and which results are in none: what is said, and of what."""
    several = len({line.suite for line in lines}) > 1
    for line in lines:
        suite = f" ({line.suite})" if several else ""
        name = f"{line.row} on {line.task}{suite} at ε = {epsilon_text(line.epsilon)}"
        broken = (point for point in line.points if point.broken)
        yield from ((f"break at release {point.release}, {point.broken}", name) for point in broken)
        yield from ((note, name) for note in line.notes)


def build_tracks(results: Sequence[Result], by: By = "commit", names: Mapping[str, str] | None = None) -> Tracks:
    """The lines of these results.

    by: 'commit': a release is a model at one commit; 'model': a model, whatever the commits of its results.
    names: how the model, the weights or the commit of a release begin -> what it is called. Raises UsageError for one
        that fits no release, or several.

    Of results that stand for the same release, row and seed the newest stays; of a release whose seeds were run under
    several conditions, those that most seeds share. Notes name the rest.
    """
    numbers: dict[tuple[str, ...], int] = {}
    releases: list[ModelRelease] = []
    lines: dict[tuple[Any, ...], dict[int, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in sorted(results, key=lambda result: result.created):
        manifest, cell = result.manifest, result.cell
        commit = (manifest.commit or "no checkout") if by == "commit" else ""
        key = (cell.model, manifest.model.name, weights(result), manifest.dtype, commit)
        if key not in numbers:
            numbers[key] = len(numbers) + 1
            releases.append(ModelRelease(numbers[key], *key, created=result.created))
        line = (result.suite.name, cell.task, cell.epsilon, cell.label, cell.mode, cell.development)
        lines[line][numbers[key]].append(result)
    for start, called in (names or {}).items():
        fitting = [number for key, number in numbers.items() if any(part.startswith(start) for part in key)]
        if len(fitting) != 1:
            raise UsageError(
                f"{len(fitting)} releases begin with '{start}' (model, weights or commit), and a name is for one; give"
                " more of it, or another."
            )
        releases[fitting[0] - 1] = replace(releases[fitting[0] - 1], called=called)
    tracks = tuple(_track(key, own) for key, own in sorted(lines.items()))
    _add_steps(tracks)
    return Tracks(tuple(releases), tracks)


def _track(key: tuple[Any, ...], by_release: Mapping[int, Sequence[Result]]) -> Track:
    remarks: list[str] = []
    points: list[Point] = []
    for number in sorted(by_release):
        kept, left_out = _settled(by_release[number])
        remarks += [f"release {number}: {left_out}"] if left_out else []
        differs = differing(points[-1].results[0], kept[0], PAIR) if points else []
        points.append(Point(number, kept, f"other {', '.join(differs)}" if differs else ""))
    suite, task, epsilon, label, mode, development = key
    return Track(suite, task, epsilon, label, mode, development, tuple(points), tuple(remarks))


def _settled(results: Sequence[Result]) -> tuple[list[Result], str]:
    """(one result a seed, all under the same conditions; what is said of the others)."""
    groups: list[dict[int, Result]] = []  # by conditions, then by seed; the newest first
    for result in sorted(results, key=lambda result: result.created, reverse=True):
        group = next((one for one in groups if not differing(next(iter(one.values())), result, PAIR)), None)
        if group is None:
            groups.append(group := {})
        group.setdefault(result.cell.seed, result)
    best = max(groups, key=len)  # the newest of those that are as large
    kept = [best[seed] for seed in sorted(best)]
    if len(kept) == len(results):
        return kept, ""
    others = dict.fromkeys(name for one in groups for name in differing(kept[0], next(iter(one.values())), PAIR))
    why = f"other {', '.join(others)}" if others else "older results of the same seeds"
    return kept, f"{len(results) - len(kept)} of {count(len(results), 'result')} left out: {why}"


def _add_steps(lines: Sequence[Track]) -> None:
    """Gives a step to every point that may be compared with the one before it; all steps are one family."""
    stepped, gains = [], []
    for line in lines:
        for before, point in pairwise(line.points):
            both = ({one.cell.seed for one in own.results} for own in (before, point))
            seeds = tuple(sorted(set.intersection(*both)))
            if not point.broken and seeds and point.outcomes().shape[1] > 1:
                gain = point.outcomes(seeds) - before.outcomes(seeds)
                gains.append(-gain if line.lower_is_better else gain)
                stepped.append((point, seeds))
    for (point, seeds), test in zip(stepped, paired_tests(gains, DEFAULTS.alpha), strict=True):
        point.step, point.shared = test, seeds
