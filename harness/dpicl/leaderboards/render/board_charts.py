"""The charts of the boards: what is drawn of tables and releases (render/charts.py says how)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from textwrap import wrap
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from dpicl.leaderboards.compare.track import Point as Release
from dpicl.leaderboards.compare.track import Track
from dpicl.leaderboards.model.metrics import metric_name
from dpicl.leaderboards.model.ranks import compared
from dpicl.leaderboards.model.rows import REAL_DATA, ZERO_SHOT, Row
from dpicl.leaderboards.model.standings import TaskTable
from dpicl.leaderboards.model.text import epsilon_text, names_text
from dpicl.leaderboards.render.charts import (
    BASELINE,
    GOOD,
    HEIGHT,
    INK,
    MOST_LABELS,
    QUIET,
    WIDTH,
    Chart,
    ChartPoint,
    Epsilons,
    Reference,
    Series,
    cut,
    fixed_looks,
    in_print,
    look,
    on_page,
)

_DASHES = {ZERO_SHOT: ":", REAL_DATA: "--"}
_BASELINES = {ZERO_SHOT: "zero-shot, ε = 0", REAL_DATA: "real demonstrations, ε = ∞"}
#: Lines of a chart against ε where there are more than `MOST_LABELS`: they have a mark at every ε.
_MOST_LINES = MOST_LABELS // 2
#: Pixels of a line of dots, and left of its axis; characters of a name that have room there.
_LINE, _LEFT, _NAME = 22, 172, 25
#: Characters of a line of words below the axis, and its pixels.
_WORDS, _WORDS_LINE = 36, 16


def series_styles(tables: Iterable[TaskTable]) -> dict[str, int]:
    """Label -> number of its look, of the rows that are a line."""
    return fixed_looks(row.label for table in tables for row in table.rows if row.epsilon > 0)


@on_page
def privacy_utility(table: TaskTable, styles: Mapping[str, int]) -> Markup:
    """Score against ε with intervals, and the baselines as lines across. styles: see `series_styles`."""
    title = f"{table.task}: score against ε, with 95% intervals"
    series, controls = _series(table, styles), _controls([table])
    best = series if len(series) <= MOST_LABELS else sorted(series, key=partial(_best, table))[:_MOST_LINES]
    shown = [one for one in series if one in best]
    references = _references(table, controls)
    room = _WORDS_LINE * (len(references) + len(shown))
    chart = Chart(WIDTH, HEIGHT + room, title)
    axes = chart.box(bottom=52 + room)
    lines = _against_epsilon(chart, axes, shown, references)
    axes.set_ylabel("score")
    looks = [Line2D([], [], **look(style)) for style, _ in shown]
    names = [*(f"{one.name}: {one.value:.3f}" for one in references), *(own[0].label for _, own in shown)]
    chart.key([*(lines[one.name] for one in references), *looks], names, loc="lower left")
    if len(best) < len(series):
        chart.axes[0].set_xlabel(f"target ε; the {len(best)} best of {len(series):,} mechanisms")
    return chart.markup()


def _best(table: TaskTable, series: tuple[int | str, list[ChartPoint]]) -> float:
    """A key to sort by: the best score of a line comes first."""
    values = [point.value for point in series[1]]
    return min(values) if table.lower_is_better(table.metric) else -max(values)


@in_print
def printed(tables: Sequence[tuple[str, TaskTable]], about: str) -> Chart:
    """Privacy against utility for a paper in two columns: a panel for each (title, table), and one legend. about: what
    the legend says of all of them.

    One panel is as wide as a column (3.5 inches), several are as wide as the page (7 inches).
    """
    styles, controls = series_styles(table for _, table in tables), _controls(table for _, table in tables)
    columns, (width, names) = min(3, len(tables)), (252, 2) if len(tables) == 1 else (504, 4)
    rows = math.ceil(len(tables) / columns)
    height = 135 * rows + 12 * math.ceil((len(styles) + len(controls) + 2) / names) + 12
    chart = Chart(width, height, "score against ε", layout="constrained")
    panels = chart.subplots(rows, columns, squeeze=False).flat
    lines = {label: Line2D([], [], **look(style)) for label, style in styles.items()}
    for axes, (title, table) in zip(panels, tables, strict=False):
        lines |= _against_epsilon(chart, axes, _series(table, styles), _references(table, controls))
        axes.set(title=cut(title, 40), ylabel=cut(metric_name(table.metric), 40))
    for axes in panels[len(tables) :]:
        axes.set_axis_off()
    chart.key(list(lines.values()), list(lines), loc="outside lower center", ncols=names, title=cut(about, 60))
    return chart


def _series(table: TaskTable, styles: Mapping[str, int]) -> Series:
    points: dict[str, list[ChartPoint]] = {}
    for row in sorted(table.rows, key=lambda row: (row.label, row.epsilon)):
        words = f"{row.title}: {row.score:.3f} [{row.low:.3f}, {row.high:.3f}], proved ε {epsilon_text(row.proved)}"
        if row.epsilon > 0:
            names = f"{row.label} {row.mechanism}"
            point = ChartPoint(row.epsilon, row.score, row.low, row.high, words, names=names, label=row.label)
            points.setdefault(row.label, []).append(point)
    return [(styles[label], own) for label, own in points.items()]


def _controls(tables: Iterable[TaskTable]) -> list[str]:
    """Labels of rows at ε = 0."""
    return sorted({row.label for table in tables for row in table.rows if row.epsilon == 0})


def _references(table: TaskTable, controls: Sequence[str]) -> list[Reference]:
    baselines = [row for row in (table.zero_shot, table.real_data) if row is not None]
    named: list[tuple[str, Row, Any]] = [(_BASELINES[row.mechanism], row, _DASHES[row.mechanism]) for row in baselines]
    for row in table.rows:
        if row.epsilon == 0:  # a line with as many dots as there were controls before, and one
            named.append((f"{row.label}, ε = 0", row, (0, (6, 2) + (1, 2) * (1 + controls.index(row.label)))))
    return [Reference(name, row.score, row.low, row.high, dashes) for name, row, dashes in named]


def _against_epsilon(chart: Chart, axes: Axes, series: Series, references: Iterable[Reference]) -> dict[str, Line2D]:
    """Both kinds of line, and an axis with the ε that occur; the references' lines are returned by their names."""
    place = Epsilons(one.at for _, own in series for one in own)
    chart.series(axes, series, place)
    axes.grid(visible=False, axis="x")
    place.label(axes, "target ε")
    return {one.name: chart.reference(axes, one) for one in references}


@on_page
def track_plot(tracks: Sequence[Track], styles: Mapping[str, int], title: str) -> Markup:
    """Score against release, of tracks that share theirs: hollow after a break, ▲ or ▼ above a better or worse one."""
    chart = Chart(WIDTH, HEIGHT, title)
    axes = chart.box()
    chart.series(
        axes, [(styles[one.label], [_at_release(one, point) for point in one.points]) for one in tracks], float
    )
    releases = len(tracks[0].releases)
    axes.set(xlim=(0.5, releases + 0.5), xlabel="release, oldest first", ylabel="score")
    axes.set_xticks(range(1, releases + 1, math.ceil(releases / 20)))
    axes.grid(visible=False, axis="x")
    return chart.markup()


def _at_release(track: Track, point: Release) -> ChartPoint:
    words, broken = track_words(track, point), bool(point.broken)
    return ChartPoint(point.release.number, point.score, point.low, point.high, words, broken, not broken, point.sign)


def track_words(track: Track, point: Release) -> str:
    """A point of a track in words."""
    where = f"{track.label} on {track.task} ({track.suite}), release {point.release.number}"
    text = f"{where}: {point.score:.3f} [{point.low:.3f}, {point.high:.3f}]"
    if point.broken:
        return f"{text}; not comparable with the release before: {point.broken}"
    if point.step:
        return f"{text}; change {point.step.gain:+.3f}, adjusted p {point.step.test.adjusted:.3f}"
    return text


@dataclass(frozen=True)
class Dot:
    """One marker. words: says it all. low, high: its interval. first: whether the row may be the best at its ε.

    at: 0 for the first of two ε, 1 for the second. names: of row and mechanism, which filters look for.
    """

    label: str
    value: float
    low: float
    high: float
    words: str
    epsilon: float
    first: bool
    names: str = ""
    baseline: bool = False
    at: int = 0


def of_task(table: TaskTable, epsilons: Sequence[float], styles: Mapping[str, int]) -> Markup | None:
    """Scores at one ε or at two, with controls and reference baselines; None without a row at these ε."""
    chart = _of_task(table, epsilons, styles)
    return None if chart is None else on_page(chart.markup)()


def picture(table: TaskTable, epsilon: float, styles: Mapping[str, int]) -> bytes | None:
    """The same at one ε as a PNG file."""
    chart = _of_task(table, [epsilon], styles)
    return None if chart is None else on_page(chart.file)("png")


def _of_task(table: TaskTable, epsilons: Sequence[float], styles: Mapping[str, int]) -> Chart | None:
    rows = [row for row in table.in_order if row.at_an_end or row.epsilon in epsilons]
    if all(row.at_an_end for row in rows):
        return None
    lower = table.lower_is_better(table.metric)
    dots = [_dot(row, epsilons, compared(table, row.key)) for row in rows]
    where = names_text(epsilon_text(epsilon) for epsilon in epsilons)
    axis = metric_name(table.metric) + (", lower is better" if lower else "")
    return _plot(f"{table.task}: scores at ε = {where}, with 95% intervals", axis, dots, epsilons, styles, lower)


def _dot(row: Row, epsilons: Sequence[float], told: bool) -> Dot:
    words = f"{row.title}: {row.score:.3f} [{row.low:.3f}, {row.high:.3f}], proved ε {epsilon_text(row.proved)}"
    return Dot(
        label=row.label,
        value=row.score,
        low=row.low,
        high=row.high,
        words=words,
        epsilon=row.epsilon,
        first=told and row.rank is not None and row.rank.first,
        names=f"{row.label} {row.mechanism}",
        baseline=row.is_baseline,
        at=0 if row.at_an_end else list(epsilons).index(row.epsilon),
    )


@on_page
def _plot(
    title: str, axis: str, dots: Sequence[Dot], epsilons: Sequence[float], styles: Mapping[str, int], lower: bool
) -> Chart:
    best = sorted(dots, key=lambda dot: (dot.at, dot.value if lower else -dot.value, dot.label))
    every = list(dict.fromkeys(dot.label for dot in best))
    kept = {dot.label for dot in dots if dot.baseline or dot.epsilon == 0}
    kept |= set([label for label in every if label not in kept][:MOST_LABELS])
    labels = [label for label in every if label in kept]
    two = len(epsilons) > 1
    first, *others = map(epsilon_text, epsilons)
    words = wrap(axis, _WORDS)
    words += [f"(hollow: ε = {first}, filled: ε = {others[0]})"] if others else []
    words += [f"the {MOST_LABELS} best of {len(every):,}, and controls"] if len(labels) < len(every) else []
    room = _WORDS_LINE * (len(words) - 1)
    chart = Chart(WIDTH, 62 + room + _LINE * len(labels), title)
    axes = chart.box(left=_LEFT, bottom=46 + room)
    for i, label in enumerate(labels):
        own = [dot for dot in best if dot.label == label]
        data = {"row": own[0].names, "kind": "reference baselines" if own[0].baseline else ""}
        if not two and own[0].first:
            axes.axhspan(i - 0.5, i + 0.5, color=GOOD, linewidth=0, zorder=0, gid=chart.part(**data))
        name = axes.text(-0.025, i, cut(label, _NAME), transform=axes.get_yaxis_transform(), ha="right", va="center")
        name.set_gid(chart.part(**data))
        for epsilon, at in groupby(own, key=lambda dot: dot.epsilon):
            for dot in at:
                y = i + (0.17 * (2 * dot.at - 1) if two and not (dot.baseline or epsilon == 0) else 0)
                how = look(
                    BASELINE if dot.baseline else styles.get(label, BASELINE),
                    hollow=dot.baseline or epsilon == 0 or (two and dot.at == 0),
                )
                more = data | {"epsilon": epsilon_text(epsilon)}
                line = axes.plot([dot.low, dot.high], [y, y], color=how["color"], alpha=0.6)
                line[0].set_gid(chart.part(**more))
                axes.plot([dot.value], [y], **how, gid=chart.say(dot.words, **more))
    for dot in dots:
        if dot.baseline:
            axes.axvline(dot.value, color=INK if dot.epsilon else QUIET, linestyle=":", linewidth=1, zorder=0.5)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_yticks([])
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("\n".join(words))
    return chart
