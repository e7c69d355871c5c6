"""A score across releases of a model and commits of the code: one line for each task, row and epsilon.

A release is one model (name, weights, dtype) at one commit. A line joins scores only where they are comparable
(dpicl.leaderboards.model.comparability); elsewhere it breaks, with the reason. A step between two joined scores is
better or worse by the paired tests of `dpicl compare`, with Holm's adjustment over all steps of all lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal

import numpy as np

from dpicl.core.errors import UsageError
from dpicl.core.vocabulary import model_name
from dpicl.evaluation.statistics import DRAWS, seeds_documents_interval
from dpicl.leaderboards.compare.cell_tests import DEFAULTS, family_of, p_value
from dpicl.leaderboards.compare.paired_tests import holm
from dpicl.leaderboards.model.comparability import PAIR, differing, weights
from dpicl.leaderboards.model.rows import outcomes_of, score_of
from dpicl.leaderboards.model.text import counted
from dpicl.results.schema import Result

By = Literal["commit", "model"]
ReleaseKey = tuple[str, str, str, str, str]


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
        short = f" ({self.weights[:12]})" if self.weights else ""
        called = f"{self.called}: " if self.called else ""
        return f"{called}{model_name(self.name)}{short}, {self.dtype}" + (
            f", {self.commit[:12]}" if self.commit else ""
        )


@dataclass(frozen=True)
class ScoreStep:
    """The change from the point before, over the seeds that both have; gain: negative for a loss."""

    gain: float
    adjusted: float
    seeds: tuple[int, ...]

    @property
    def verdict(self) -> Literal["better", "worse", "inconclusive"]:
        if self.adjusted > DEFAULTS.alpha or abs(self.gain) < DEFAULTS.min_effect:
            return "inconclusive"
        return "better" if self.gain > 0 else "worse"


@dataclass(frozen=True)
class Point:
    """One release's score of a row: mean over seeds of the main metric, with its 95% interval over seeds and documents.

    broken: why it may not be compared with the point before, "" where it may, or where it is the first. step: None for
    the first point, a broken one, and one without a seed in common with the point before.
    """

    release: ModelRelease
    score: float
    low: float
    high: float
    seeds: tuple[int, ...]
    broken: str
    step: ScoreStep | None
    results: tuple[Result, ...] = field(repr=False)

    @property
    def sign(self) -> str:
        """▲ for a better score than before, ▼ for a worse one, else nothing."""
        return {"better": "▲", "worse": "▼"}.get(self.step.verdict, "") if self.step else ""


@dataclass(frozen=True)
class Track:
    """The line of one row on one task at one epsilon. notes: results that are not in it, and why."""

    suite: str
    task: str
    label: str
    mode: str
    epsilon: float
    metric: str
    lower_is_better: bool
    releases: tuple[ModelRelease, ...]
    points: tuple[Point, ...]
    notes: tuple[str, ...]


def build_tracks(
    results: Sequence[Result], by: By = "commit", names: Mapping[str, str] | None = None
) -> tuple[Track, ...]:
    """The lines of these results, by suite, task, epsilon and row. Every line knows all releases, oldest first.

    by: 'commit': a release is a model at one commit; 'model': a model, whatever the commits of its results.
    names: how the model, the weights or the commit of a release begin -> what it is called. Raises UsageError for one
        that fits no release, or several.

    Of results that stand for the same release, row and seed the newest stays; of a release whose seeds were run under
    several conditions, those that most seeds share. Notes name the rest.
    """
    releases = _named(_releases(results, by), names or {})
    rows: dict[Hashable, list[Result]] = defaultdict(list)
    for result in results:
        cell = result.cell
        rows[result.suite.name, cell.task, cell.epsilon, cell.label, cell.mode].append(result)
    tracks = [_track(own, releases, by) for _, own in sorted(rows.items(), key=lambda item: repr(item[0]))]
    tracks.sort(key=lambda track: (track.suite, track.task, track.epsilon, track.label, track.mode))
    return _with_steps(tracks)


def significant_steps(tracks: Sequence[Track]) -> int:
    """How many steps are better or worse."""
    return sum(bool(point.sign) for track in tracks for point in track.points)


def _releases(results: Sequence[Result], by: By) -> dict[ReleaseKey, ModelRelease]:
    """Key -> release, numbered by the time of the first result."""
    first: dict[ReleaseKey, str] = {}
    for result in sorted(results, key=lambda result: result.created):
        first.setdefault(_release_key(result, by), result.created)
    return {key: ModelRelease(number, *key, created) for number, (key, created) in enumerate(first.items(), 1)}


def _named(releases: dict[ReleaseKey, ModelRelease], names: Mapping[str, str]) -> dict[ReleaseKey, ModelRelease]:
    found = dict(releases)
    for start, called in names.items():
        fitting = [key for key in releases if any(part.startswith(start) for part in key if part)]
        if len(fitting) != 1:
            raise UsageError(
                f"{len(fitting)} releases begin with '{start}' (model, weights or commit), and a name is for one; give"
                " more of it, or another."
            )
        found[fitting[0]] = replace(found[fitting[0]], called=called)
    return found


def _release_key(result: Result, by: By) -> ReleaseKey:
    """The fields of its `ModelRelease` from model to commit."""
    manifest = result.manifest
    commit = (manifest.commit or "no checkout") if by == "commit" else ""
    return result.cell.model, manifest.model.name, weights(result), manifest.dtype, commit


def _track(results: Sequence[Result], releases: dict[ReleaseKey, ModelRelease], by: By) -> Track:
    own: dict[int, list[Result]] = defaultdict(list)
    for result in results:
        own[releases[_release_key(result, by)].number].append(result)
    by_number = {release.number: release for release in releases.values()}
    notes: list[str] = []
    points: list[Point] = []
    for number in sorted(own):
        kept = _settled(own[number], by_number[number], notes)
        points.append(_point(kept, by_number[number], points[-1] if points else None))
    cell, last = results[0].cell, points[-1].results[0]
    return Track(
        suite=results[0].suite.name,
        task=cell.task,
        label=cell.label,
        mode=cell.mode,
        epsilon=cell.epsilon,
        metric=last.main_metric,
        lower_is_better=last.lower_is_better(last.main_metric),
        releases=tuple(by_number.values()),
        points=tuple(points),
        notes=tuple(notes),
    )


def _settled(results: Sequence[Result], release: ModelRelease, notes: list[str]) -> list[Result]:
    """One result a seed, all under the same conditions."""
    groups: list[dict[int, Result]] = []  # by conditions, then by seed; the newest first
    for result in sorted(results, key=lambda result: result.created, reverse=True):
        group = next((one for one in groups if not differing(next(iter(one.values())), result, PAIR)), None)
        if group is None:
            groups.append(group := {})
        group.setdefault(result.cell.seed, result)
    best = max(groups, key=len)  # the newest of those that are as large
    kept = [best[seed] for seed in sorted(best)]
    if left_out := len(results) - len(kept):
        firsts = [next(iter(group.values())) for group in groups]
        others = dict.fromkeys(name for one in firsts for name in differing(kept[0], one, PAIR))
        why = f"other {', '.join(others)}" if others else "older results of the same seeds"
        notes.append(f"release {release.number}: {left_out} of {counted(len(results), 'result')} left out: {why}")
    return kept


def _point(results: Sequence[Result], release: ModelRelease, before: Point | None) -> Point:
    low, high = seeds_documents_interval([outcomes_of(result)[1] for result in results])
    differs = differing(before.results[0], results[0], PAIR) if before else []
    return Point(
        release=release,
        score=fmean(map(score_of, results)),
        low=low,
        high=high,
        seeds=tuple(result.cell.seed for result in results),
        broken=f"other {', '.join(differs)}" if differs else "",
        step=None,
        results=tuple(results),
    )


def _with_steps(tracks: Sequence[Track]) -> tuple[Track, ...]:
    """The tracks with a step wherever two points may be compared; all steps are one family."""
    gains: dict[tuple[int, int], tuple[np.ndarray, tuple[int, ...]]] = {}

    def outcomes(point: Point, seeds: Sequence[int]) -> np.ndarray:  # [S, D], documents in the order of their ids
        return np.array([outcomes_of(result)[1] for result in point.results if result.cell.seed in seeds])

    for i, track in enumerate(tracks):
        for j, (before, point) in enumerate(zip(track.points, track.points[1:], strict=False), 1):
            seeds = tuple(sorted({*before.seeds} & {*point.seeds}))
            if not point.broken and seeds and len(outcomes_of(point.results[0])[1]) > 1:
                gain = outcomes(point, seeds) - outcomes(before, seeds)
                gains[i, j] = (-gain if track.lower_is_better else gain, seeds)
    family = family_of([gain for gain, _ in gains.values()])
    adjusted = holm([p_value(gain, family, DEFAULTS.method, DRAWS - 1) for gain, _ in gains.values()])
    steps = {
        place: ScoreStep(float(gain.mean()), p, seeds)
        for (place, (gain, seeds)), p in zip(gains.items(), adjusted, strict=True)
    }
    return tuple(
        replace(track, points=tuple(replace(point, step=steps.get((i, j))) for j, point in enumerate(track.points)))
        for i, track in enumerate(tracks)
    )
