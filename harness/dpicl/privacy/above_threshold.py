"""AboveThreshold, the sparse vector technique, for queries that one more record can only raise.

A round asks one query after another until one is above a noisy threshold:

    rho ~ Exp(b) once a round; for each query h_i: nu_i ~ Exp(b); "above", and the end, where h_i + nu_i >= t + rho.

t is public and b = bound/epsilon, where one more record raises a query by at most ``bound`` and never lowers it. The
queries may depend on the answers before. However many answers there are, with P for the answers with the record and Q
for those without

    -2 epsilon <= ln(P/Q) <= epsilon.

*Proof.* Let S(y) = P(nu >= y) and f the density of t + rho. S falls, and S(y + x) >= e^(-x/b) S(y) for x >= 0; also
f(y + x) >= e^(-x/b) f(y). Of k - 1 times "below" and "above" then, with the queries h_i, and h_i + d_i with the record,
0 <= d_i <= bound, given the same answers before:

    Q = integral f(z) prod_(i<k) (1 - S(z - h_i)) S(z - h_k) dz,
    P = integral f(z) prod_(i<k) (1 - S(z - h_i - d_i)) S(z - h_k - d_k) dz.

P <= e^(d_k/b) Q, factor by factor: a query that rises is below less often. With z = y + bound, P >= e^(-epsilon)
integral f(y) prod (1 - S(y - h_i - (d_i - bound))) S(y - h_k + bound - d_k) dy >= e^(-epsilon - (bound - d_k)/b) Q.
Answers that are all "below" lack the last factor: -epsilon <= ln(P/Q) <= 0. []

So a round is dominated by one pair with two outcomes (`dpicl.accounting.bounded_range.round_pair`), rounds and
other releases compose adaptively, and a Poisson sample of all of them is accounted like that of any other pair. The
variance of its loss is about 2 epsilon^2, where (2 epsilon)-DP alone would have 4 epsilon^2. For queries that a
record may move both ways the upper bound fails: from P <= e^(d_k/b) Q on, the threshold would have to pay too.

Exponential noise has half the variance of Laplace noise, for which the same proof holds (Lyu, Su & Li 2017 have
monotone queries with Laplace noise, and 2 epsilon both ways). Both means cancel: nu - rho is Laplace(b), so for the
first query of a round the chance of "above" is 1/2 at h = t.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpicl.accounting import dp_event as dp
from dpicl.accounting.events import above_threshold
from dpicl.privacy.primitives import check_slots, finite_rows
from dpicl.privacy.private_set import Sample

#: Exponent of the largest rate of "above": e^-700 is as good as never below.
_LARGEST = 700.0


@dataclass(frozen=True)
class AboveThreshold:
    """Whether a mean of values in [0, 1], one a slot, is above ``threshold``, at ``epsilon`` a round.

    query = (1/divisor) * sum of the values. One more record adds one value, so it raises every query by at most
    1/divisor and lowers none. ``divisor`` is a constant, never the number of slots. An empty sample has the query 0.
    """

    threshold: float
    divisor: float
    epsilon: float

    @property
    def bound(self) -> float:
        """How far one record raises a query, at most."""
        return 1 / self.divisor

    @property
    def scale(self) -> float:
        """b, the mean and standard deviation of the noise of the threshold, and of that of each query."""
        return self.bound / self.epsilon

    @property
    def event(self) -> dp.DpEvent:
        """One round."""
        return above_threshold(self.epsilon)

    def start(self, sample: Sample) -> Callable[[np.ndarray], bool]:
        """Spends a round; what it returns says of the values [M] of one query after another whether it is above.

        Values are clipped to [0, 1]; those that are not finite count as 0. The round ends with its first "above": the
        next question raises BudgetExceeded. Raises PluginError once the sample is closed, and for one whose slots are
        shared (a record would replace a value, and might lower a query) or are not one a value.
        """
        above = sample.spend(self.event).threshold_round(self.threshold, self.bound)

        def ask(values: np.ndarray) -> bool:
            check_slots(values, True, sample)
            bounded = finite_rows(values).clip(0.0, 1.0)
            return above(float(bounded.sum()) / self.divisor)

        return ask


def first_chances(distance: float, scale: float) -> np.ndarray:
    """float64[2]: chances of "below" and "above" for the first query of a round that is ``distance`` above the
    threshold: a Laplace distribution."""
    if scale == 0:
        above = float(distance >= 0)
    elif distance < 0:
        above = math.exp(distance / scale) / 2
    else:
        above = 1 - math.exp(-distance / scale) / 2
    return np.array([1 - above, above])
