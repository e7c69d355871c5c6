"""Releases the token with most votes, or nothing: top-1 with a limited domain (Durfee & Rogers 2019, algorithm 1).

One record more adds one vote: h' = h + e_j. Indices are ranked by count, equal ones by number; S holds the first k, t
is the count of rank k + 1, and what is released is a draw from softmax(score / temperature) over S and "nothing", where
the score of an index is its count and that of nothing is t + 1 + temperature ln(1/delta0). With epsilon0 =
1/temperature:

*Same S.* Either the count of one index in S rises by 1, or t rises by 0 or 1: one score rises by at most 1, no other
one moves. The choice is epsilon0-bounded range.

*Another S'.* j takes the place of some i: i ranks k-th in h and j does in h', so S' = S - {i} + {j} and t' = h_i. j
passes i by one vote, so h_i - 1 <= h_j <= t <= h_i. Write * for i in h and for j in h'. Over the rest of S, nothing and
*, the scores move by h_j + 1 - h_i for *, t' - t = h_i - t for nothing, and 0 for the rest. Counts are whole numbers.
If h_j = h_i then t = h_i: * rises by 1 and nothing by 0. If h_j = h_i - 1, then * rises by 0 and nothing by 0 or 1. So
one score rises by at most 1 again: the draws R from h and R' from h' are an epsilon0-bounded-range pair. They differ
from what is released in the name of * alone, and r = R(*) <= e^(epsilon0 (h_i - t - 1)) delta0 <= delta0, since t is
h_i or h_i - 1; r' = R'(*) <= e^(epsilon0 (h_j + 1 - t' - 1)) delta0 <= delta0, since h_j <= h_i.

So with the hockey-stick divergence H_a at a = e^x, released P from h and P' from h', d(a) the largest H_a of an
epsilon0-bounded-range pair, and Q, Q' the draws given that they are not * (a pair of that kind too):

    H_a(P || P') = r + (1 - r) H_b(Q || Q'), b = a (1 - r')/(1 - r), and the same with both exchanged.

If b >= a this is at most delta0 + (1 - delta0) d(a), as H falls in a and d <= 1. Otherwise one of two holds. * rose by
1: then Q = Q', H_b = max(0, 1 - b), and the whole is max(r, 1 - a + a r'), at most delta0 + (1 - delta0) max(0, 1 - a).
Or nothing rose by 1, and P' is compared with P: with c = R'(o)/R(o) for every other o and c2 that of Q' and Q, c2 <= c,
and R' and (1 - r) Q' sum up to 1 and to 1 - r, so replacing c by c2 in H_a costs at most 1 - c r - (1 - r), and H_a(P'
|| P) <= r + (1 - r) H_a(Q' || Q). Hence in all cases, in both directions,

    H_a <= delta0 + (1 - delta0) d(a),

which is what an epsilon0-bounded-range choice and a (0, delta0) mechanism have together: the event is their
composition. The published accounting takes the release as (epsilon0, delta0)-DP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpicl.accounting import dp_event as dp
from dpicl.accounting.events import bounded_range_choice
from dpicl.core.errors import PluginError
from dpicl.privacy.primitives import check_slots
from dpicl.privacy.private_set import Sample


@dataclass(frozen=True)
class LimitedDomain:
    """See above. temperature: of the Gumbel noise on counts, 1/epsilon0. domain: k. failure: delta0, how likely at most
    something is released that the neighbouring set could not release."""

    temperature: float
    domain: int
    failure: float

    #: The range of the moves of all scores when one record is added or removed.
    width = 1.0

    @property
    def choice(self) -> dp.DpEvent:
        """Of the choice alone."""
        return bounded_range_choice(
            self.width / self.temperature if self.temperature > 0 else math.inf
        )

    @property
    def event(self) -> dp.DpEvent:
        if isinstance(self.choice, dp.NonPrivateDpEvent):
            return self.choice
        return dp.ComposedDpEvent((self.choice, dp.EpsilonDeltaDpEvent(0.0, self.failure)))

    def choose(self, votes: np.ndarray, size: int, sample: Sample) -> int | None:
        """An index in [0, size) that has many votes, or None where none stands out.

        votes: int64[n] in [0, size), one a slot; any other number abstains. Raises PluginError for a sample whose slots
        are shared or are not one a vote, and for a domain that is not smaller than ``size``.
        """
        check_slots(votes, True, sample)
        if not 0 < self.domain < size:
            raise PluginError(
                f"The domain of {self.domain} indices must be smaller than the {size} that there are."
            )
        cast = votes[(votes >= 0) & (votes < size)]
        scores = self.scores(np.bincount(cast, minlength=size))
        if self.temperature > 0:
            sample.spend(dp.EpsilonDeltaDpEvent(0.0, self.failure))
        chosen = sample.spend(self.choice).noisy_choice(scores, self.width)[0]
        return None if chosen == size else chosen

    def scores(self, counts: np.ndarray) -> np.ndarray:
        """float64[K + 1] of int64[K] counts: those of the domain, -infinity for the rest, and last that of nothing."""
        order = np.argsort(-counts, kind="stable")
        inside, after = order[: self.domain], order[self.domain]
        scores = np.full(len(counts) + 1, -np.inf)
        scores[inside] = counts[inside]
        scores[-1] = counts[after] + 1 + self.temperature * math.log(1 / self.failure)
        return scores
