"""The charts of the boards: what is drawn of tables, attacks and releases (render/charts.py says how)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from dpicl.attacks.results import AttackResult, External
from dpicl.leaderboards.compare.track import Point as Release
from dpicl.leaderboards.compare.track import Track
from dpicl.leaderboards.model.audits import attack_name
from dpicl.leaderboards.model.metrics import metric_name
from dpicl.leaderboards.model.rows import REAL_DATA, ZERO_SHOT, Row
from dpicl.leaderboards.model.standings import TaskTable
from dpicl.leaderboards.model.text import bound_text, confidence_text, epsilon_text
from dpicl.leaderboards.render.charts import (
    BASELINE,
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
    key,
    look,
    on_page,
)

#: Name of the measure of membership attacks that is drawn: area under the ROC curve.
AUC = "auc"
#: The styles of `three_epsilons`, and their names.
_THREE = {"claimed": "claimed by its authors", "proved": "proved from the ledger", "audited": "audited"}
_DASHES = {ZERO_SHOT: ":", REAL_DATA: "--"}
_BASELINES = {ZERO_SHOT: "zero-shot, ε = 0", REAL_DATA: "real demonstrations, ε = ∞"}
#: Smaller bounds are drawn at this value.
_SMALLEST = 1e-3
#: Pixels left of the bars of `three_epsilons`; characters of a row's name that have room there beside its ε, in the
#: larger type of a phone too.
_BAR_LEFT, _BAR_NAME = 206, 18
#: Rows of `three_epsilons`, those with the best scores.
_MOST_BARS = 2 * MOST_LABELS
#: Lines of a chart against ε where there are more than `MOST_LABELS`: they have a mark at every ε.
_MOST_LINES = MOST_LABELS // 2
#: Steps to move a marker sideways, the smallest first.
_ASIDE = (0, *(sign * step for step in range(1, 7) for sign in (1, -1)))


def series_styles(tables: Iterable[TaskTable]) -> dict[str, int]:
    """Label -> number of its look, of the rows that are a line."""
    return fixed_looks(row.label for table in tables for row in table.rows if row.epsilon > 0)


@on_page
def privacy_utility(table: TaskTable, styles: Mapping[str, int]) -> Markup:
    """Score against ε with intervals, and the baselines as lines across. styles: see `series_styles`."""
    title = f"{table.task}: score against ε, with 95% intervals"
    series, controls = _series(table, styles), _controls([table])
    best = series if len(series) <= MOST_LABELS else sorted(series, key=partial(_best, table))[:_MOST_LINES]
    chart = _one_task(title, "score", [one for one in series if one in best], _references(table, controls))
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


@on_page
def auc(results: Sequence[tuple[str, AttackResult]], styles: Mapping[str, int], title: str) -> Markup:
    """AUC of one attack against ε: (label, result) pairs that all have an AUC; those of the baselines are lines."""
    references: dict[Reference, None] = {}
    points: dict[str, list[ChartPoint]] = {}
    for label, one in sorted(results, key=lambda pair: (pair[0], pair[1].subject.epsilon)):
        found, epsilon = one.measures[AUC], one.subject.epsilon
        if name := _BASELINES.get(one.subject.mechanism):
            low, high = (found.value if end is None else end for end in (found.low, found.high))
            references[Reference(name, found.value, low, high, _DASHES[one.subject.mechanism])] = None
            continue
        words = f"{label} at ε = {epsilon_text(epsilon)}, {one.access} {one.attack}: AUC {found.value:.3f}"
        words += "" if found.low is None or found.high is None else f" [{found.low:.3f}, {found.high:.3f}]"
        point = ChartPoint(epsilon, found.value, found.low, found.high, words, one.access != "white-box", joined=False)
        points.setdefault(label, []).append(point)
    chart = _one_task(title, "AUC", [(styles[label], own) for label, own in points.items()], list(references))
    (axes,) = chart.axes
    axes.set_ylim(-0.02, 1.02)
    axes.axhline(0.5, color=QUIET, linewidth=1)
    axes.text(1, 0.5, "chance", transform=axes.get_yaxis_transform(), ha="right", va="bottom", fontsize="small")
    return chart.markup()


def _series(table: TaskTable, styles: Mapping[str, int]) -> Series:
    points: dict[str, list[ChartPoint]] = {}
    for row in sorted(table.rows, key=lambda row: (row.label, row.epsilon)):
        words = f"{row.title}: {row.score:.3f} [{row.low:.3f}, {row.high:.3f}], proved ε {epsilon_text(row.proved)}"
        if row.epsilon > 0:
            point = ChartPoint(row.epsilon, row.score, row.low, row.high, words, names=f"{row.label} {row.mechanism}")
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


def _one_task(title: str, axis: str, series: Series, references: Sequence[Reference]) -> Chart:
    room = 16 * len(references)
    chart = Chart(WIDTH, HEIGHT + room, title)
    axes = chart.box(bottom=52 + room)
    lines = _against_epsilon(chart, axes, series, references)
    axes.set_ylabel(axis)
    names = [f"{one.name}: {one.value:.3f}" for one in references]
    chart.key([lines[one.name] for one in references], names, loc="lower left")
    return chart


def _against_epsilon(chart: Chart, axes: Axes, series: Series, references: Iterable[Reference]) -> dict[str, Line2D]:
    """Both kinds of line, and an axis with the ε that occur; the references' lines are returned by their names."""
    place = Epsilons(one.at for _, own in series for one in own)
    chart.series(axes, series, place)
    axes.grid(visible=False, axis="x")
    place.label(axes, "x", place.all, "target ε")
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


def epsilon_key() -> list[tuple[Markup, str]]:
    """(marker, name) of the three ε."""
    return [(key(style), name) for style, name in _THREE.items()]


@on_page
def three_epsilons(table: TaskTable) -> Markup | None:
    """Claimed, proved and audited ε, a line for each row whose proved ε is above 0 and finite; None without one.

    The bar between audited (a lower bound) and proved (an upper one) is unknown; without an audit it is dashed.
    """
    every = [row for row in (*table.rows, *table.paper) if 0 < row.proved < math.inf]
    if not every:
        return None
    sign = 1 if table.lower_is_better(table.metric) else -1
    shown = {row.key for row in sorted(every, key=lambda row: sign * row.score)[:_MOST_BARS]}
    rows = [row for row in every if row.key in shown]
    found = [{"proved": row.proved, "claimed": row.claimed, "audited": row.audit.epsilon} for row in rows]
    place = Epsilons((one for three in found for one in three.values() if one is not None), _SMALLEST)
    title = f"{table.task}: claimed, proved and audited ε of the rows that prove a finite one above 0"
    chart = Chart(WIDTH, 68 + 21 * len(rows), title)
    axes = chart.box(left=_BAR_LEFT)
    for i, (row, three) in enumerate(zip(rows, found, strict=True)):
        words = f"{row.title} on {row.task}: claimed ε {epsilon_text(row.claimed)}, proved ε {epsilon_text(row.proved)}"
        mark = chart.say(f"{words}, audited ε {bound_text(row.audit.epsilon)}")
        bar = {"linewidth": 3} if row.audit.epsilon is not None else {"linewidth": 1.5, "linestyle": "--"}
        axes.plot([place(row.audit.epsilon or 0), place(row.proved)], [i, i], color=QUIET, alpha=0.5, **bar)
        for kind, number in three.items():
            if number is not None:
                axes.plot([place(number)], [i], **look(kind), gid=mark)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), [f"{cut(row.name, _BAR_NAME)}, ε = {epsilon_text(row.epsilon)}" for row in rows])
    axes.grid(visible=False, axis="y")
    best = f", best {len(rows)} of {len(every):,}" if len(rows) < len(every) else ""
    place.label(axes, "x", place.round_numbers(), f"ε{best}")
    return chart.markup()


def attack_points(label: str, results: Iterable[AttackResult]) -> list[tuple[str, ChartPoint]]:
    """(label, point) for those attacks that give a bound."""
    return [
        _bound(label, one, one.subject.task, one.bound.epsilon, one.bound.confidence, one.privacy.epsilon_proved)
        for one in results
        if one.bound is not None
    ]


def row_points(rows: Iterable[Row]) -> Iterator[tuple[str, ChartPoint]]:
    """(label, point) for every bound on these rows; other people's stand at the row's proved ε."""
    for row in rows:
        yield from attack_points(row.label, row.audit.attacks)
        for one in row.audit.external:
            by = f" by {one.authors} (external)"
            yield _bound(row.label, one, one.task, one.audited, one.confidence, row.proved, by)


def _bound(
    label: str, one: AttackResult | External, task: str, audited: float, confidence: float, proved: float, by: str = ""
) -> tuple[str, ChartPoint]:
    name = attack_name(one) if isinstance(one, AttackResult) else f"{one.access} {one.attack}"
    words = f"{label} on {task}, {name}{by}, {confidence_text(confidence)}:"
    words += f" audited ε {bound_text(audited)}, proved ε {epsilon_text(proved)}"
    return label, ChartPoint(proved, audited, None, None, words, hollow=one.access != "white-box")


@on_page
def audited_proved(points: Sequence[tuple[str, ChartPoint]], styles: Mapping[str, int]) -> Markup | None:
    """Audited against proved ε, white-box filled, black-box hollow; above the diagonal a bound refutes a proof.

    None without a point.
    """
    if not points:
        return None
    place = Epsilons((number for _, one in points for number in (one.at, one.value)), _SMALLEST)
    chart = Chart(WIDTH, HEIGHT, "audited ε against proved ε")
    axes = chart.box()
    low, high = place.label(axes, "x", place.round_numbers(), "proved ε")
    place.label(axes, "y", place.round_numbers(), "audited ε")
    axes.fill([low, high, low], [low, high, high], color=INK, alpha=0.07, linewidth=0)
    axes.plot([low, high], [low, high], color=INK, linestyle="--", linewidth=1.2)
    axes.text(0.03, 0.97, "audited above proved", transform=axes.transAxes, va="top")
    spots = _side_by_side([(place(one.at), place(one.value)) for _, one in points], low, high)
    for (label, one), (x, y) in zip(points, spots, strict=True):
        axes.plot([x], [y], **look(styles.get(label, BASELINE), one.hollow), gid=chart.say(one.words))
    return chart.markup()


def _side_by_side(spots: Iterable[tuple[float, float]], low: float, high: float) -> list[tuple[float, float]]:
    """The places of markers; one that would hide another moves sideways, and never across the diagonal."""
    wide, tall = ((high - low) * 8 / room for room in (WIDTH - 70, HEIGHT - 68))
    taken: list[tuple[float, float]] = []
    for x, y in spots:
        allowed = [at for n in _ASIDE if low < (at := x + n * wide) < high and (at < y) == (x < y)]
        free = [at for at in allowed if all(abs(at - u) > 0.99 * wide or abs(y - v) >= tall for u, v in taken)]
        taken.append(([*free, *allowed, x][0], y))
    return taken
