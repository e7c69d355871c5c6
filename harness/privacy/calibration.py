"""From a target epsilon to the mechanism's knob: the least noise whose proved epsilon is within the target.

The harness calibrates, never the mechanism: `calibrate` searches the knob so that ``mechanism.events(knob, sizes)``
costs at most epsilon at delta. A coarse accountant finds the place, the full accountants (both of them, where there are
two) decide on the value that is returned, and the knob is rounded up. Answers are cached on disk.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache as remember
from pathlib import Path
from typing import Final

from dp_accounting import dp_event as dp

from dpicl.harness.core.errors import AccountantsDisagree, UnsupportedEvent, UsageError
from dpicl.harness.mechanism.bases import Knob, Mechanism, Sizes
from dpicl.harness.privacy import calibration_cache
from dpicl.harness.privacy.accountants import check_delta, check_epsilon, epsilon, rough_epsilon
from dpicl.harness.privacy.bounds import Bounds
from dpicl.harness.privacy.events import to_json
from dpicl.harness.privacy.search import Meeting, meet, round_up

MODES: Final = ("proved", "paper")
#: Grid cells of the rough accountant, and how close below the target its search ends.
ROUGH_STAGES: Final = ((150, 3e-2), (1000, 2e-4))
#: How close below the target the full accountants must find the result (a search with an exact formula is as close as
#: the last rough stage).
FULL_TOLERANCE = 1e-2
PAPER_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Calibration:
    """A knob value and what it costs.

    bounds: of the event at this knob; ``bounds.upper`` lies in [0.98 epsilon, epsilon] unless even the lower end of the
        knob costs less. In paper mode the authors' own number, with the proved one under ``accountants["proved"]``.
    event: everything that a run may cause at this knob.
    """

    knob: float
    epsilon: float
    delta: float
    bounds: Bounds
    event: dp.DpEvent
    mode: str


def calibrate(
    mechanism: Mechanism,
    sizes: Sizes,
    epsilon: float,
    delta: float,
    mode: str = "proved",
    cache: Path | None = calibration_cache.DEFAULT,
) -> Calibration:
    """The least knob value (rounded up to 6 digits) at which a run costs at most ``epsilon`` at ``delta``.

    mode: "proved" bounds the cost by `dpicl.harness.privacy.accountants`; "paper" by ``mechanism.paper_epsilon``.
    epsilon = inf gives ``knob.non_private``; a mechanism without a knob gives its event as it is.
    cache: folder of stored answers; None stores nothing.
    Raises UsageError when epsilon or delta make no sense, when the mechanism has no paper accounting, and when the
    target cannot be reached; UnsupportedEvent when the mechanism's events have no theorem.
    """
    if mode not in MODES:
        raise UsageError(f"mode must be 'proved' or 'paper', not {mode!r}.")
    delta = check_delta(delta)
    if mechanism.knob is None:
        return _without_knob(mechanism, sizes, epsilon, delta, mode)
    target = check_epsilon(epsilon)
    if math.isinf(target):
        knob = mechanism.knob.non_private
        event = mechanism.events(knob, sizes)
        return Calibration(knob, target, delta, Bounds(math.inf, math.inf, math.inf), event, mode)
    key = calibration_cache.key(mechanism, sizes, target, delta, mode)
    stored = calibration_cache.read(cache, key)
    if stored is not None and _still_true(stored, mechanism, sizes, delta, mode):
        return Calibration(stored.knob, target, delta, stored.bounds, stored.event, mode)
    search = _paper if mode == "paper" else _proved
    knob, bounds = search(mechanism, mechanism.knob, sizes, target, delta)
    event = mechanism.events(knob, sizes)
    calibration_cache.write(cache, key, calibration_cache.Stored(knob, bounds, event))
    return Calibration(knob, target, delta, bounds, event, mode)


def _still_true(stored: calibration_cache.Stored, mechanism: Mechanism, sizes: Sizes, delta: float, mode: str) -> bool:
    """True when the mechanism, whose code may have been edited, still costs at the stored knob what was stored."""
    if to_json(mechanism.events(stored.knob, sizes)) != to_json(stored.event):
        return False
    return mode == "proved" or mechanism.paper_epsilon(stored.knob, sizes, delta) == stored.bounds.upper


def _without_knob(mechanism: Mechanism, sizes: Sizes, target: float, delta: float, mode: str) -> Calibration:
    """The event as it is: nothing can be tuned. The target may be 0 for a mechanism that costs nothing."""
    event = mechanism.events(0.0, sizes)
    bounds = epsilon(event, delta)
    if not target >= bounds.upper:
        raise UsageError(
            f"{mechanism.name} has no knob and costs epsilon = {bounds.upper:g}, more than the target {target:g}; "
            "ask for a larger epsilon or for another mechanism."
        )
    return Calibration(0.0, float(target), delta, bounds, event, mode)


def _proved(mechanism: Mechanism, knob: Knob, sizes: Sizes, target: float, delta: float) -> tuple[float, Bounds]:
    """Search with rougher and finer grids, then with the full accountants around the place found."""

    def cost(cells: int) -> Callable[[float], float]:
        return lambda value: rough_epsilon(mechanism.events(value, sizes), delta, cells)

    @remember
    def full(value: float) -> Bounds:
        return epsilon(mechanism.events(value, sizes), delta)

    place = Meeting(math.sqrt(knob.low * knob.high), -1.0)
    for cells, tolerance in ROUGH_STAGES:
        place = _search(mechanism, cost(cells), target, place, tolerance)
    found = _search(mechanism, lambda value: full(value).upper, target, place, FULL_TOLERANCE).x
    return found, full(found)


def _paper(mechanism: Mechanism, knob: Knob, sizes: Sizes, target: float, delta: float) -> tuple[float, Bounds]:
    """Search with the authors' own formula, and say beside it what is proved."""

    def claimed(value: float) -> float:
        cost = mechanism.paper_epsilon(value, sizes, delta)
        if cost is None:
            raise UsageError(f"{mechanism.name} has no accounting of its paper; use mode 'proved'.")
        return cost

    start = Meeting(math.sqrt(knob.low * knob.high), -1.0)
    found = _search(mechanism, claimed, target, start, PAPER_TOLERANCE).x
    cost = claimed(found)
    notes: tuple[str, ...] = ("the authors' accounting, not a proof",)
    try:
        proved = epsilon(mechanism.events(found, sizes), delta)
        said = {"paper": cost, "proved": {"upper": proved.upper, "accountants": proved.accountants}}
        notes += proved.notes
    except (UnsupportedEvent, AccountantsDisagree) as error:
        said = {"paper": cost, "proved": None}
        notes += (f"nothing is proved: {error}",)
    return found, Bounds(cost, cost, cost, said, notes)


def _search(
    mechanism: Mechanism, cost: Callable[[float], float], target: float, start: Meeting, tolerance: float
) -> Meeting:
    """`meet` over knob values that are rounded up to 6 digits. Raises UsageError when the target cannot be reached."""
    knob = mechanism.knob
    assert knob is not None

    def tidy(value: float) -> float:
        return min(round_up(value), knob.high)

    found = meet(lambda x: cost(tidy(x)), target, knob.low, knob.high, start.x, tolerance, start.slope)
    if found is None:
        raise UsageError(
            f"{mechanism.name} cannot reach epsilon = {target:g}: even {knob.name} = {knob.high:g}, its upper end, "
            f"costs {cost(knob.high):.4g}. Ask for a larger epsilon or delta, fewer tokens or shots, or a smaller "
            "share of the records."
        )
    return Meeting(tidy(found.x), found.slope)
