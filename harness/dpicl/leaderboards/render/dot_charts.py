"""Dot plots: a line for each row, sorted, with its interval, and the rows that may be the best on a shaded ground."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap

from markupsafe import Markup

from dpicl.leaderboards.model.metrics import metric_name
from dpicl.leaderboards.model.ranks import compared
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import Ranking, Standing, TaskTable
from dpicl.leaderboards.model.text import epsilon_text, names_text, recovery_text
from dpicl.leaderboards.render.charts import BASELINE, GOOD, INK, MOST_LABELS, QUIET, WIDTH, Chart, cut, look, on_page

#: Pixels of a line, and left of the axis; characters of a name that have room there.
_LINE, _LEFT, _NAME = 22, 172, 25
#: Characters of a line of words below the axis, and its pixels.
_WORDS, _WORDS_LINE = 36, 16


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


def over_tasks(
    ranking: Ranking, tables: Sequence[TaskTable], epsilon: float, styles: Mapping[str, int]
) -> Markup | None:
    """Mean recovery over the tasks of a ranking at one ε; None without a row."""
    by_task = {table.task: table for table in tables}
    rows = [{row.key: row for row in by_task[task].in_order} for task in ranking.tasks]
    dots = []
    for one in ranking.standings:
        if one.recovery is not None and (one.epsilon == epsilon or one.is_baseline or one.epsilon == 0):
            low, high = _interval(one, [own.get((one.label, "proved", one.epsilon)) for own in rows])
            words = f"{one.name} at ε = {epsilon_text(one.epsilon)}: {recovery_text(one.recovery)}"
            words += f" [{recovery_text(low)}, {recovery_text(high)}]"
            first = one.rank is not None and one.rank.first and compared(ranking, (one.label, one.epsilon))
            dots.append(Dot(one.label, one.recovery, low, high, words, one.epsilon, first, one.label, one.is_baseline))
    if all(dot.baseline or dot.epsilon == 0 for dot in dots):
        return None
    title = f"{ranking.title}: mean recovery at ε = {epsilon_text(epsilon)}, with 95% intervals"
    chart = _plot(title, "mean recovery (0: zero-shot, 1: real)", dots, [epsilon], styles, False)
    return on_page(chart.markup)()


def _interval(one: Standing, rows: Iterable[Row | None]) -> tuple[float, float]:
    """Of a mean over tasks, which are independent: the squares of the tasks' half widths add up."""
    intervals = [row.recovery_interval for row in rows if row is not None and row.recovery_interval is not None]
    value = one.recovery or 0.0
    if not intervals:
        return value, value
    half = math.sqrt(sum(((high - low) / 2) ** 2 for low, high in intervals)) / len(intervals)
    return value - half, value + half


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
