"""Finds, in few evaluations, the knob value at which a decreasing cost just meets its target."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context

#: (log x, log cost) of one evaluation.
Point = tuple[float, float]
#: Evaluations after which a search that does not converge ends with the best value so far.
MOST_EVALUATIONS = 60


def round_up(value: float) -> float:
    """The value rounded up to six significant decimal digits."""
    return float(Context(prec=6, rounding=ROUND_CEILING).create_decimal(repr(value)))


@dataclass(frozen=True)
class Meeting:
    """Where the cost meets its target, and d log cost / d log x near it."""

    x: float
    slope: float


def meet(
    cost: Callable[[float], float],
    target: float,
    low: float,
    high: float,
    start: float,
    tolerance: float,
    slope: float,
) -> Meeting | None:
    """A knob x in [low, high] with cost(x) in [(1 - tolerance) target, target], for a cost that decreases with x.

    Secant steps on (log x, log cost) from ``start``, kept inside the bracket found so far; slope is a first guess of
    d log cost / d log x (negative). At ``low`` a cheaper cost is accepted. None when even cost(high) is too large.
    """
    aim = math.log(target * (1 - tolerance / 2))
    above: Point | None = None  # the largest x that costs too much
    below: Point | None = None  # the smallest x that is cheap enough
    last: Point | None = None
    x = min(max(start, low), high)
    for evaluation in range(MOST_EVALUATIONS):
        value = cost(x)
        point = (
            math.log(x),
            math.log(value) if 0 < value < math.inf else math.copysign(700.0, value - target),
        )
        slope, last = _slope(last, point, slope), point
        if value > target:
            if x >= high:
                return None
            above = point
        else:
            if value >= (1 - tolerance) * target or x <= low:
                return Meeting(x, slope)
            below = point
        x = min(
            max(
                math.exp(_next(above, below, aim, slope, evaluation)),
                low,
            ),
            high,
        )
        if above and below and below[0] - above[0] < 1e-9:
            break
    return Meeting(math.exp(below[0]), slope) if below else None


def _slope(last: Point | None, point: Point, known: float) -> float:
    """The slope between two evaluations; the known one where they tell nothing."""
    if last is None or abs(last[0] - point[0]) < 1e-6:
        return known
    if max(abs(last[1]), abs(point[1])) >= 700:
        return known
    slope = (last[1] - point[1]) / (last[0] - point[0])
    return max(slope, -100.0) if slope < -1e-3 else known


def _next(
    above: Point | None,
    below: Point | None,
    aim: float,
    slope: float,
    evaluation: int,
) -> float:
    """The next log x: by the secant inside a bracket (every third time its middle), else a step towards the target."""
    if above is None or below is None:
        point = above or below
        assert point is not None  # one evaluation has been made
        step = (aim - point[1]) / slope
        return point[0] + math.copysign(min(max(abs(step), 1e-5), 1.5), step)
    width = below[0] - above[0]
    if (evaluation % 3 == 2 and width > 0.02) or not above[1] > below[1]:
        return above[0] + width / 2
    share = (above[1] - aim) / (above[1] - below[1])
    return above[0] + width * min(max(share, 0.02), 0.98)
