"""Makes releases with secure noise differentially private in floating point (docs/accounting.md, secure noise).

The theorems are about real numbers. With secure noise three things close the gap, each with a proof where it is made:

* **margins**: the noise is a little larger than was charged (`sum_margin`, `choice_margin`, `threshold_margin`), by
  more than sums of rows, their rounding, and the rounding of scores can enlarge what one record moves;
* **prepared inputs**: sums are rounded to the steps of the noise; scores are counted from the largest one, and end at
  -1024 temperatures (`prepared_sum`, `prepared_scores`);
* **a share of delta** for what is left: Gaussian coordinates differ from ideal ones by `exact_noise.ADDED` and `FACTOR`
  each. `floating_point_delta` bounds the whole run, and `require_share` refuses one for which it is not enough.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable

import numpy as np

from dpicl.accounting import dp_event as dp
from dpicl.accounting.events import flatten
from dpicl.core import exact_noise
from dpicl.core.errors import PluginError, UsageError
from dpicl.core.seeds import SECURE_SHARE

#: Most coordinates of one release: more than any vocabulary or embedding has.
MOST_COORDINATES = 2**20
#: Most rows of a sum: its rounding moves it by less than a quarter of `SUMS`.
MOST_ROWS = 2**17
#: The part of a margin that pays for the rounding of sums of rows: 2^-18 for either neighbour, and as much again.
SUMS = 2.0**-16
#: A release that would need a larger margin than this is refused: the proofs are for smaller ones.
LARGEST_MARGIN = 0.5
#: Scores this many temperatures below the largest one are as good as any that is further below.
LOWEST = -1024.0


def sum_margin(multiplier: float, size: int) -> float:
    """By how much, as a share, the noise on a sum of ``size`` coordinates is larger than its multiplier says.

    Rounding to steps moves either neighbour by half a step a coordinate: together step * sqrt(size) in L2, and a step
    is at most 2^-46 deviations.
    """
    return _require_small(SUMS + 2.0 * multiplier * math.sqrt(size) * 2.0**-exact_noise.STEP_BITS)


def choice_margin(range_epsilon: float, count: int) -> float:
    """By how much, as a share, the temperature of ``count`` choices by one permit is larger than their range says.

    Noisy scores are within e of exact ones. So draw j of a list has a log-probability, given the earlier ones, that is
    off by at most 2 e j^2, and the range of its loss grows by at most 8 e j^2. *Proof.* That i_1, ..., i_j come first,
    in this order, under the errors implies that it does without them where the score of i_m is larger by
    2 e (j - m + 1); this changes its probability by a factor of at most exp(e j (j + 1)). With - e it is implied. Draw
    j given the earlier ones has the ratio of two such probabilities: e j (j + 1) + e (j - 1) j = 2 e j^2.
    """
    return _require_small(SUMS + 16.0 * exact_noise.GUMBEL_ERROR * count**2 / range_epsilon)


def threshold_margin(epsilon: float) -> float:
    """By how much, as a share, the noise of a round of AboveThreshold is larger than its epsilon says.

    A comparison is off by at most c = 2^-29 + 2^-19 epsilon scales: an exponential below 709 by a share of 2^-40, its
    sum with the query by 2^-41, and a sum of values by 2^-19 of what one record raises it. *Then* k - 1 times "below"
    and "above" has its probability but for a factor of e^(+-3c), whatever k is. It implies it for queries lower by c
    that are below and a last one higher by c; at a threshold higher by c, whose density is at most e^c times as high,
    the former are below as they were, and the latter is above with at most e^(2c) times the probability. With -c for c
    it is implied. So the loss lies in an interval that is wider by 6c at either end.
    """
    return _require_small(2 * SUMS + 12.0 * 2.0**-29 / epsilon)


def _require_small(margin: float) -> float:
    if not margin <= LARGEST_MARGIN:
        raise PluginError(
            f"This release is too fine for floating point with secure noise (margin {margin:.3g})."
        )
    return margin


def prepared_sum(clean: np.ndarray, scale: float) -> np.ndarray:
    """The sum in whole steps of the noise. Raises PluginError for more than `MOST_COORDINATES`."""
    _require_few(clean)
    step = exact_noise.step_of(scale)
    return np.rint(np.asarray(clean, dtype=np.float64) / step) * step


def prepared_scores(scores: np.ndarray, temperature: float) -> np.ndarray:
    """The scores less the largest one, none below `LOWEST` temperatures but -infinity, which is no candidate.

    The range of their moves stays: less the largest one, some score moves up or not at all (that which is the largest
    afterwards) and some score down or not at all (that which was), so an interval that holds all moves holds 0, and a
    score that is cut off moves by something between 0 and its own move. Raises PluginError for more than
    `MOST_COORDINATES`.
    """
    _require_few(scores)
    scores = np.asarray(scores, dtype=np.float64)
    less = scores - scores.max(initial=-math.inf)
    return np.where(
        np.isneginf(scores),
        -math.inf,
        np.maximum(less, LOWEST * temperature),
    )


def require_few_rows(rows: float) -> None:
    """Raises UsageError for sums of more rows than the margins are for."""
    if rows > MOST_ROWS:
        raise UsageError(
            f"With secure noise a sum has at most {MOST_ROWS:,} rows, not {rows:,.0f}; use fewer slots or prompts."
        )


def _require_few(values: np.ndarray) -> None:
    if values.size > MOST_COORDINATES:
        raise PluginError(
            f"With secure noise one release has at most {MOST_COORDINATES:,} coordinates, not {values.size:,}; release"
            " fewer numbers at a time, or use `noise: seeded` on public records."
        )


def floating_point_delta(event: dp.DpEvent, epsilon: float) -> float:
    """Upper bound on what a run with this event and secure noise adds to delta at epsilon, in [0, inf].

    (0, delta0) components are failures of a choice by a score of ln(1/delta0) temperatures: a temperature that is
    larger by a share of m makes them delta0^(1/(1 + m)), and errors of scores are less than that again (`_failures`).

    N Gaussian coordinates, each off by a total variation of A and, beside it, a factor of at most e^f either way: with
    x = 2 N f the laws P', Q' of the run have P'(S) <= e^(epsilon + x) Q'(S) + e^x delta + (1 + e^(epsilon + x)) N A.
    For the worst S of P' against e^epsilon Q', e^epsilon Q'(S) <= 1; so delta grows by at most (e^x - 1)(1 + delta) +
    (1 + e^(epsilon + x)) N A. The factors are not multiplied by e^epsilon. Choices have no part: `choice_margin` pays.
    """
    coordinates, failures = float(_sums(event)) * MOST_COORDINATES, _failures(event)
    if coordinates == 0:
        return failures
    factor = 2 * coordinates * exact_noise.FACTOR
    if not epsilon + factor < 700:
        return math.inf
    return (
        failures
        + 2 * math.expm1(factor)
        + (1 + math.exp(epsilon + factor)) * coordinates * exact_noise.ADDED
    )


def require_share(event: dp.DpEvent, epsilon: float) -> None:
    """Raises UsageError for a run whose secure noise may be further from the ideal one than `SECURE_SHARE` pays for."""
    needed = floating_point_delta(event, epsilon)
    if math.isfinite(epsilon) and needed > SECURE_SHARE:
        raise UsageError(
            f"At epsilon = {epsilon:g} floating point may add {needed:.3g} to the delta of {_sums(event):,} noisy sums"
            f" and all choices, and secure noise sets {SECURE_SHARE:g} aside; lower epsilon or make fewer releases."
        )


def _sums(event: dp.DpEvent) -> int:
    """How many sums with Gaussian noise an event may have, in all groups."""
    gaussians = (dp.GaussianDpEvent, dp.ZCDpEvent)

    def of(parts: Counter[dp.DpEvent]) -> float:
        return sum(n for part, n in parts.items() if isinstance(part, gaussians))

    return round(_add_up(event, of, False))


def _failures(event: dp.DpEvent) -> float:
    """By how much all failures of choices may be likelier than was charged; on a sample, at its rate."""

    def of(parts: Counter[dp.DpEvent]) -> float:
        ranges = [part.epsilon for part in parts if isinstance(part, dp.BoundedRangeDpEvent)]
        margin = 2 * choice_margin(min(ranges), 1) if ranges else 0.0
        failing = [
            (part.delta, n) for part, n in parts.items() if isinstance(part, dp.EpsilonDeltaDpEvent)
        ]
        return sum(
            n * delta * math.expm1(-margin * math.log(delta)) for delta, n in failing if delta > 0
        )

    return _add_up(event, of, True)


def _add_up(
    event: dp.DpEvent,
    of: Callable[[Counter[dp.DpEvent]], float],
    at_rates: bool,
) -> float:
    """The sum of ``of`` over everything that is released together: of groups, samples (each at its rate), the rest."""
    if isinstance(event, dp.ParallelDpEvent):
        return sum(_add_up(branch, of, at_rates) for _, branch in event.branches)
    parts = flatten(event)
    return of(parts) + sum(
        n * (part.sampling_probability if at_rates else 1.0) * _add_up(part.event, of, at_rates)
        for part, n in parts.items()
        if isinstance(part, dp.PoissonSampledDpEvent)
    )
