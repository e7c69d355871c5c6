"""Calibrates a mechanism's knob: the least noise whose proved epsilon is within the target.

The harness calibrates, never the mechanism: `calibrate` searches for the knob at which ``events(knob)`` costs at most
epsilon at delta. A coarse accountant narrows the search, the full accountants (both of them, where there are two)
decide on the value that is returned, and the knob is rounded up. Answers are cached on disk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache as remember
from pathlib import Path

from dpicl.accounting import calibration_cache, time_limit
from dpicl.accounting import dp_event as dp
from dpicl.accounting.accountants import check_delta, check_epsilon, epsilon, rough_epsilon
from dpicl.accounting.bounds import Bounds
from dpicl.accounting.events import to_json
from dpicl.accounting.search import Meeting, meet, round_up
from dpicl.accounting.slack import slack
from dpicl.core.errors import AccountantsDisagree, UnsupportedEvent, UsageError, one_line
from dpicl.core.vocabulary import Knob

MODES = ("proved", "paper")
#: Grid cells of the rough accountant, and how close below the target its search ends.
ROUGH_STAGES = ((150, 3e-2), (1000, 2e-4))
#: How close below the target the full accountants must find the result (a search with an exact formula is as close as
#: the last rough stage).
FULL_TOLERANCE = 1e-2
PAPER_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Calibration:
    """A knob value and what it costs.

    knob: the value; where labels have values of their own (`by_label`), the largest of them.

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
    by_label: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def from_labels(cls, each: Mapping[str, Calibration], event: dp.DpEvent) -> Calibration:
        """Labels that compose in parallel, each calibrated by itself to the same target; ``event`` is of them all."""
        worst = max(each.values(), key=lambda calibration: calibration.bounds.upper)
        knobs = {label: calibration.knob for label, calibration in each.items()}
        return replace(worst, knob=max(knobs.values()), event=event, by_label=knobs)


#: Knob -> everything that a run may cause.
Events = Callable[[float], dp.DpEvent]


def calibrate(
    events: Events,
    knob: Knob | None,
    epsilon: float,
    delta: float,
    *,
    name: str = "This mechanism",
    paper: Callable[[float], float | None] = lambda value: None,
    mode: str = "proved",
    cache: Path | None = calibration_cache.DEFAULT,
) -> Calibration:
    """The least knob value (rounded up to 6 digits) at which ``events`` cost at most ``epsilon`` at ``delta``.

    mode: "proved" bounds the cost by `dpicl.accounting.accountants`; "paper" by ``paper``, the authors' own
    formula (None: there is none). epsilon = inf gives ``knob.non_private``; without a knob the events are as they are.
    name: for messages. cache: folder of stored answers; None stores nothing. Raises UsageError when epsilon or delta
    make no sense, when there is no paper accounting, when the target cannot be reached, and when the events leave the
    range of numbers; UnsupportedEvent when the events have no theorem.
    """
    if mode not in MODES:
        raise UsageError(f"mode must be 'proved' or 'paper', not {mode!r}.")
    delta = check_delta(delta)
    if knob is None:
        return _calibrate_without_knob(events(0.0), epsilon, delta, mode, name)
    target = check_epsilon(epsilon)
    if math.isinf(target):
        bounds = Bounds(math.inf, math.inf, math.inf)
        return Calibration(knob.non_private, target, delta, bounds, events(knob.non_private), mode)
    middle = math.sqrt(knob.low * knob.high)
    key = calibration_cache.key(name, knob, events(middle), target, delta, mode)
    if stored := calibration_cache.read(cache, key):
        value, bounds, event = stored
        # The code of what is run may have been edited: it must still cost at this knob what was stored.
        same = to_json(events(value)) == to_json(event)
        if same and (mode == "proved" or paper(value) == bounds.upper):
            return Calibration(value, target, delta, bounds, event, mode)
    search = _Search(events, knob, target, delta, name, Meeting(middle, -1.0))
    try:
        value, bounds = (
            search.search_by_paper(paper) if mode == "paper" else search.search_by_proof()
        )
    except ArithmeticError as error:
        raise UsageError(
            f"{name} cannot be calibrated: what it releases leaves the range of numbers ({one_line(error, 100)}); an"
            " option is far too large or far too small."
        ) from error
    event = events(value)
    calibration_cache.write(cache, key, value, bounds, event)
    return Calibration(value, target, delta, bounds, event, mode)


def slack_of(
    event: dp.DpEvent, delta: float, upper: float, cache: Path | None = calibration_cache.DEFAULT
) -> float | None:
    """`dpicl.accounting.slack.slack`, worked out once for each event: stored in the same folder. None, too, where
    it takes too long."""
    key = calibration_cache.slack_key(event, delta, upper)
    if stored := calibration_cache.read_value(cache, key):
        value: float | None = stored[0]
        return value
    try:
        value = time_limit.run_within(
            time_limit.ACCOUNTANT_SECONDS, lambda: slack(event, delta, upper)
        )
    except (time_limit.TookTooLong, MemoryError):
        return None
    calibration_cache.write_value(cache, key, value)
    return value


def _calibrate_without_knob(
    event: dp.DpEvent,
    target: float,
    delta: float,
    mode: str,
    name: str,
) -> Calibration:
    """The event as it is: nothing can be tuned. The target may be 0 for a mechanism that costs nothing."""
    bounds = epsilon(event, delta)
    if not target >= bounds.upper:
        raise UsageError(
            f"{name} has no knob and costs epsilon = {bounds.upper:g}, more than the target {target:g}; "
            "ask for a larger epsilon or for another mechanism."
        )
    return Calibration(0.0, float(target), delta, bounds, event, mode)


@dataclass(frozen=True)
class _Search:
    """The search for the knob value. Each method returns the value and its bounds; ``start`` is a first guess."""

    events: Events
    knob: Knob
    target: float
    delta: float
    name: str
    start: Meeting

    def search_by_proof(self) -> tuple[float, Bounds]:
        """With a rough grid and a finer one, then with the full accountants near the value found."""

        def cost(cells: int) -> Callable[[float], float]:
            return lambda value: rough_epsilon(self.events(value), self.delta, cells)

        @remember
        def compute_bounds(value: float) -> Bounds:
            return epsilon(self.events(value), self.delta)

        place = self.start
        for cells, tolerance in ROUGH_STAGES:
            place = self._meet(cost(cells), place, tolerance)
        answer = self._meet(lambda value: compute_bounds(value).upper, place, FULL_TOLERANCE).x
        return answer, compute_bounds(answer)

    def search_by_paper(self, paper: Callable[[float], float | None]) -> tuple[float, Bounds]:
        """With the authors' own formula; the bounds also hold what is proved."""

        def claim(value: float) -> float:
            cost = paper(value)
            if cost is None:
                raise UsageError(f"{self.name} has no accounting of its paper; use mode 'proved'.")
            return cost

        knob = self._meet(claim, self.start, PAPER_TOLERANCE).x
        cost = claim(knob)
        notes: tuple[str, ...] = ("the authors' accounting, not a proof",)
        try:
            proved = epsilon(self.events(knob), self.delta)
            accountants = {
                "paper": cost,
                "proved": {"upper": proved.upper, "accountants": proved.accountants},
            }
            notes += proved.notes
        except (UnsupportedEvent, AccountantsDisagree) as error:
            accountants = {"paper": cost, "proved": None}
            notes += (f"nothing is proved: {error}",)
        return knob, Bounds(cost, cost, cost, accountants, notes)

    def _meet(
        self,
        cost: Callable[[float], float],
        start: Meeting,
        tolerance: float,
    ) -> Meeting:
        """`meet` over knob values that are rounded up to 6 digits. Raises UsageError for a target out of reach."""
        knob = self.knob

        def tidy(value: float) -> float:
            return min(round_up(value), knob.high)

        meeting = meet(
            lambda x: cost(tidy(x)),
            self.target,
            knob.low,
            knob.high,
            start.x,
            tolerance,
            start.slope,
        )
        if meeting is None:
            raise UsageError(
                f"{self.name} cannot reach epsilon = {self.target:g}: even {knob.name} = {knob.high:g}, its upper end, "
                f"costs {cost(knob.high):.4g}. Ask for a larger epsilon or delta, fewer tokens or shots, or a smaller "
                "share of the records."
            )
        return Meeting(tidy(meeting.x), meeting.slope)
