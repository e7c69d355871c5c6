"""The charts of the boards: what is drawn of tables and releases (render/charts.py says how)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
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
from dpicl.leaderboards.model.text import epsilon_text
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
        words = _words(row)
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


@on_page
def of_task(table: TaskTable, epsilon: float, styles: Mapping[str, int]) -> Markup | None:
    """Scores at one ε, best first, with controls and reference baselines; rows that may be the best are on a shaded
    ground. None without a row at this ε."""
    every = [row for row in table.in_order if row.at_an_end or row.epsilon == epsilon]
    if all(row.at_an_end for row in every):
        return None
    lower = table.lower_is_better(table.metric)
    every.sort(key=lambda row: (row.score if lower else -row.score, row.label))
    best = {row.key for row in [row for row in every if not row.at_an_end][:MOST_LABELS]}
    rows = [row for row in every if row.at_an_end or row.key in best]
    words = wrap(metric_name(table.metric) + (", lower is better" if lower else ""), _WORDS)
    words += [f"the {MOST_LABELS} best of {len(every):,}, and controls"] if len(rows) < len(every) else []
    room = _WORDS_LINE * (len(words) - 1)
    title = f"{table.task}: scores at ε = {epsilon_text(epsilon)}, with 95% intervals"
    chart = Chart(WIDTH, 62 + room + _LINE * len(rows), title)
    axes = chart.box(left=_LEFT, bottom=46 + room)
    for i, row in enumerate(rows):
        kind = "reference baselines" if row.is_baseline else ""
        data = {"row": f"{row.label} {row.mechanism}", "kind": kind, "epsilon": epsilon_text(row.epsilon)}
        if row.rank is not None and row.rank.first and compared(table, row.key):
            axes.axhspan(i - 0.5, i + 0.5, color=GOOD, linewidth=0, zorder=0, gid=chart.part(**data))
        name = axes.text(
            -0.025, i, cut(row.label, _NAME), transform=axes.get_yaxis_transform(), ha="right", va="center"
        )
        name.set_gid(chart.part(**data))
        how = look(BASELINE if row.is_baseline else styles.get(row.label, BASELINE), hollow=row.at_an_end)
        line = axes.plot([row.low, row.high], [i, i], color=how["color"], alpha=0.6)
        line[0].set_gid(chart.part(**data))
        axes.plot([row.score], [i], **how, gid=chart.say(_words(row), **data))
        if row.is_baseline:
            axes.axvline(row.score, color=INK if row.epsilon else QUIET, linestyle=":", linewidth=1, zorder=0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks([])
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("\n".join(words))
    return chart.markup()


def _words(row: Row) -> str:
    return f"{row.title}: {row.score:.3f} [{row.low:.3f}, {row.high:.3f}], proved ε {epsilon_text(row.proved)}"
