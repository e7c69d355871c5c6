"""Plots of attacks as inline SVG: audited against proved ε, and the AUC of a membership attack against ε.

White-box attacks have filled markers, black-box ones hollow ones; every mechanism has one class, as in
`dpicl.leaderboards.render.plot`. Nothing is loaded from elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup

from dpicl.harness.attacks.results import AttackResult, Estimate, External
from dpicl.leaderboards.model.rows import REAL_DATA, ZERO_SHOT
from dpicl.leaderboards.model.text import bound_text, confidence_text, epsilon_text, visible
from dpicl.leaderboards.render import svg
from dpicl.leaderboards.render.plot import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Scale, line_names

#: Name of the measure of membership attacks that is drawn: area under the ROC curve.
AUC = "auc"
#: Class of series that have none of their own: the ends of the scale.
OTHER_STYLE = svg.STYLES - 1
_ENDS = ((ZERO_SHOT, "zero-shot, ε = 0"), (REAL_DATA, "real demonstrations, ε = ∞"))
_DODGE = 8  # between mechanisms at one ε, which would hide each other
#: Ways to move a marker sideways, the smallest first.
_SHIFTS = [0.0, *(sign * step * _DODGE for step in range(1, 7) for sign in (1, -1))]
_ZERO_SHARE = 0.12  # of a logarithmic axis, between 0 and the smallest number
_INFINITY_SHARE = 0.12
_LINEAR_UP_TO = 12.0  # largest over smallest number on a linear axis
_SMALLEST = 1e-3  # smaller ones stand here on a logarithmic axis


@dataclass(frozen=True)
class Point:
    """One bound. label: of its series. proved, audited: ε; proved may be 0 or infinite. hint: what it is, in words."""

    label: str
    white_box: bool
    proved: float
    audited: float
    hint: str


@dataclass(frozen=True)
class Axis:
    """From an ε >= 0 to a share of the axis in [0, 1]; the same for both directions, so that equal ε are a diagonal.

    Linear from 0 where the numbers are of one size; else logarithmic, with places for 0 and, if asked, infinity.
    """

    smallest: float
    largest: float
    unlimited: bool

    @property
    def logarithmic(self) -> bool:
        return self.largest > _LINEAR_UP_TO * self.smallest

    def share(self, epsilon: float) -> float:
        """0 at ε = 0, 1 at the largest number, or at infinity where it has a place."""
        full = 1 - _INFINITY_SHARE if self.unlimited else 1.0
        if math.isinf(epsilon):
            return 1.0
        if not self.logarithmic:
            return full * epsilon / self.largest
        if epsilon <= 0:
            return 0.0
        first, last = math.log(self.smallest), math.log(self.largest)
        part = (math.log(max(epsilon, self.smallest)) - first) / (last - first)
        return full * (_ZERO_SHARE + (1 - _ZERO_SHARE) * part)

    def ticks(self) -> list[float]:
        """0, round numbers, and infinity where it has a place."""
        if self.logarithmic:
            decades = range(math.ceil(math.log10(self.smallest) - 1e-9), math.floor(math.log10(self.largest)) + 1)
            few = len(decades) <= 2
            steps = [
                m * 10.0**k for k in range(min(decades) - 1, max(decades) + 1) for m in ((1, 2, 5) if few else (1,))
            ]
            inner = [tick for tick in steps if self.smallest * 0.999 <= tick <= self.largest * 1.001]
        else:
            step = _round_step(self.largest / 4)
            inner = [i * step for i in range(1, math.floor(self.largest / step + 1e-9) + 1)]
        return [0.0, *inner, *([math.inf] if self.unlimited else [])]


def axis_of(points: Iterable[Point]) -> Axis:
    """The axis on which all these points have a place."""
    numbers = [number for point in points for number in (point.proved, point.audited)]
    positive = [max(number, _SMALLEST) for number in numbers if 0 < number < math.inf] or [1.0]
    return Axis(min(positive), max(positive) * 1.1, any(map(math.isinf, numbers)))


def attack_points(label: str, results: Iterable[AttackResult]) -> list[Point]:
    """The points of those attacks that give a bound."""
    points = []
    for one in results:
        if one.bound is not None:
            confidence = confidence_text(one.bound.confidence)
            hint = f"{label} on {one.subject.task}, {one.access} {one.attack}, {confidence}"
            points.append(_point(label, one.access, one.privacy.epsilon_proved, one.bound.epsilon, hint))
    return points


def external_point(label: str, one: External, proved: float) -> Point:
    """The point of somebody else's attack on a row with this proved ε."""
    confidence = confidence_text(one.confidence)
    hint = f"{label} on {one.task}, {one.access} {one.attack} by {one.authors} (external), {confidence}"
    return _point(label, one.access, proved, one.audited, hint)


def _point(label: str, access: str, proved: float, audited: float, hint: str) -> Point:
    numbers = f"audited ε {bound_text(audited)}, proved ε {epsilon_text(proved)}"
    return Point(label, access == "white-box", proved, audited, f"{hint}: {numbers}")


def audited_svg(points: Sequence[Point], styles: Mapping[str, int]) -> Markup:
    """Audited against proved ε. Points above the diagonal refute what was proved. styles: label -> its class."""
    axis = axis_of(points)
    parts = [_square(axis)]
    for point, (x, y) in zip(points, _places(axis, points), strict=True):
        style = styles.get(point.label, OTHER_STYLE)
        shape = svg.marker(style, x, y, hollow=not point.white_box)
        parts.append(Markup('<g class="s{}"><title>{}</title>{}</g>').format(style, visible(point.hint), shape))
    return svg.figure(WIDTH, HEIGHT, "audited ε against proved ε", parts)


def _places(axis: Axis, points: Sequence[Point]) -> list[tuple[float, float]]:
    """Pixels of every point. One that would hide another moves sideways, and never across the diagonal."""
    taken: list[tuple[float, float]] = []
    for point in points:
        x, y = _x(axis, point.proved), _y(axis, point.audited)
        border = _x(axis, 0) + axis.share(point.audited) * (_x(axis, math.inf) - _x(axis, 0))
        allowed = [
            x + shift
            for shift in _SHIFTS
            if LEFT + 5 <= x + shift <= WIDTH - RIGHT - 5 and (x + shift < border) == (x < border)
        ]
        free = [at for at in allowed if all(abs(at - u) >= _DODGE or abs(y - v) >= _DODGE for u, v in taken)]
        taken.append((next(iter([*free, *allowed]), x), y))
    return taken


def _x(axis: Axis, epsilon: float) -> float:
    return LEFT + 12 + axis.share(epsilon) * (WIDTH - RIGHT - LEFT - 24)


def _y(axis: Axis, epsilon: float) -> float:
    return HEIGHT - BOTTOM - 8 - axis.share(epsilon) * (HEIGHT - BOTTOM - TOP - 8)


def _shift(index: int, count: int) -> float:
    return min(_DODGE, 48 / max(count, 1)) * (index - (count - 1) / 2)


def _square(axis: Axis) -> Markup:
    """Both axes, the diagonal, and the half plane that no sound mechanism reaches but by chance."""
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    corners = [(_x(axis, 0), _y(axis, 0)), (_x(axis, math.inf), _y(axis, math.inf)), (_x(axis, 0), _y(axis, math.inf))]
    parts = [
        Markup('<polygon class="band" points="{}"/>').format(" ".join(f"{x:.1f},{y:.1f}" for x, y in corners)),
        svg.line("end", *corners[0], *corners[1]),
    ]
    for tick in axis.ticks():
        x, y, words = _x(axis, tick), _y(axis, tick), epsilon_text(tick)
        parts += [svg.line("axis", x, bottom, x, bottom + 5), svg.text("tick", x, bottom + 18, words, "middle")]
        parts += [svg.line("grid", LEFT, y, right, y), svg.text("tick", LEFT - 6, y + 4, words, "end")]
    kind = "logarithmic" if axis.logarithmic else "linear"
    return Markup("").join(
        [
            *parts,
            svg.line("axis", LEFT, bottom, right, bottom),
            svg.text("name", LEFT + 20, TOP + 12, "audited above proved", "start"),
            svg.text("name", (LEFT + right) / 2, HEIGHT - 8, f"proved ε ({kind}); upwards: audited ε", "middle"),
        ]
    )


def _round_step(about: float) -> float:
    """1, 2 or 5 times a power of ten, near a positive number."""
    power = 10.0 ** math.floor(math.log10(about))
    return power * min((1, 2, 5, 10), key=lambda m: abs(m - about / power))


def auc_svg(results: Sequence[tuple[str, AttackResult]], styles: Mapping[str, int], title: str) -> Markup:
    """AUC with its interval against the ε asked for, of one attack: (label, result) pairs that all have an AUC.

    Zero-shot (ε = 0) and real demonstrations (ε = ∞) are lines across, with bands for their intervals.
    """
    inner = [(label, one) for label, one in results if one.subject.mechanism not in (ZERO_SHOT, REAL_DATA)]
    finite = sorted({one.subject.epsilon for _, one in inner if 0 < one.subject.epsilon < math.inf})
    unlimited = any(math.isinf(one.subject.epsilon) for _, one in inner)
    scale = Scale(tuple(finite) or (1.0,), unlimited, 0.0, 1.0)
    parts = [_auc_axes(scale, [*finite, *([math.inf] if unlimited else [])])]
    named = []
    for mechanism, name in _ENDS:
        ends = [one.measures[AUC] for _, one in results if one.subject.mechanism == mechanism]
        parts += [_end(scale, auc) for auc in ends]
        named += dict.fromkeys((scale.y(auc.value), f"{name}: {auc.value:.2f}") for auc in ends)
    labels = sorted({label for label, _ in inner})
    by_label = sorted(inner, key=lambda pair: (pair[0], pair[1].subject.epsilon))
    for label, own in groupby(by_label, key=lambda pair: pair[0]):
        parts.append(
            _series(scale, label, [one for _, one in own], styles[label], _shift(labels.index(label), len(labels)))
        )
    return svg.figure(WIDTH, HEIGHT, title, [*parts, *line_names(named)])


def _auc_axes(scale: Scale, epsilons: Sequence[float]) -> Markup:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = []
    for tenths in range(0, 11, 2):
        y = scale.y(tenths / 10)
        parts += [svg.line("grid", LEFT, y, right, y), svg.text("tick", LEFT - 6, y + 4, f"{tenths / 10:.1f}", "end")]
    for epsilon in epsilons:
        x = scale.x(epsilon)
        words = svg.text("tick", x, bottom + 18, epsilon_text(epsilon), "middle")
        parts += [svg.line("axis", x, bottom, x, bottom + 5), words]
    chance = scale.y(0.5)
    parts += [svg.line("axis", LEFT, chance, right, chance), svg.text("name", right, chance - 4, "chance", "end")]
    name = "ε asked for (logarithmic); upwards: AUC"
    parts += [
        svg.line("axis", LEFT, bottom, right, bottom),
        svg.text("name", (LEFT + right) / 2, HEIGHT - 8, name, "middle"),
    ]
    return Markup("").join(parts)


def _end(scale: Scale, auc: Estimate) -> Markup:
    """One end of the scale: a line and a band."""
    y, right = scale.y(auc.value), WIDTH - RIGHT
    low, high = (auc.value if end is None else end for end in (auc.low, auc.high))
    band = Markup('<rect class="band" x="{}" y="{:.1f}" width="{}" height="{:.1f}"/>').format(
        LEFT, scale.y(high), right - LEFT, max(scale.y(low) - scale.y(high), 0.0)
    )
    return band + svg.line("end", LEFT, y, right, y)


def _series(scale: Scale, label: str, results: Sequence[AttackResult], style: int, shift: float) -> Markup:
    parts = []
    for one in results:
        auc, epsilon = one.measures[AUC], one.subject.epsilon
        x, y = (scale.x(epsilon) if epsilon > 0 else LEFT + 12.0) + shift, scale.y(auc.value)
        hint = f"{label} at ε = {epsilon_text(epsilon)}, {one.access} {one.attack}: AUC {auc.value:.3f}"
        whisker = Markup("")
        if auc.low is not None and auc.high is not None:
            hint += f" [{auc.low:.3f}, {auc.high:.3f}]"
            whisker = svg.line("whisker", x, scale.y(auc.low), x, scale.y(auc.high))
        shape = svg.marker(style, x, y, hollow=one.access != "white-box")
        parts.append(Markup("<g><title>{}</title>{}{}</g>").format(visible(hint), whisker, shape))
    return Markup('<g class="s{}">{}</g>').format(style, Markup("").join(parts))
