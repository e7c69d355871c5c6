"""Hot PATE: Cohen et al., ICLR 2026 (arXiv 2312.02132), coordinated ensembles. As Tang et al. (mechanisms/tang.py),
but every slot votes for one token, drawn from its own distribution with randomness that all slots share.

For every token of a synthetic demonstration:

1. K = the top-k tokens of the public prompt; with ``top_p`` also its head;
2. draw u_v ~ Exp(1) for every v in K, publicly: the same for all slots, another one for every token of every text;
3. sample records of the label and assign them to M slots. With N = 1 every sampled record has a slot of its own, M in
   expectation;
4. slot i, with the distribution p_i on K, votes for argmax_v p_i(v)/u_v. One slot's vote is a draw from p_i over u, and
   slots whose distributions agree vote alike: what is diverse within each slot is so between texts, and not between
   slots, where it would spread the votes (section 3);
5. the next token is the argmax over K of the votes + N(0, 2 sigma^2), with N = 1 + N(0, sigma^2).

Privacy (unit: one record; neighbours: add/remove; proved mode). K follows from public things, and u is drawn from the
public stream of the text, so it is independent of the records. Given u, a vote is a function of its own slot: a corner
of the simplex, or 0 where a slot has no numbers. A record touches one slot, whose vote moves from corner to corner:
sqrt(2) in L2 on the sum. With N = 1 it adds a vote and changes no other: 1. That holds for every u, so u may be told to
everybody, and the cost is Tang's: T * shots Poisson-subsampled Gaussian releases for a label; labels are disjoint and
compose in parallel. The released code adds no noise to the votes, so it has no epsilon, and none is claimed here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpicl import Sizes
from dpicl.mechanisms.tang import Tang


@dataclass(frozen=True)
class HotPATE(Tang):
    """Options as Tang's: slots M, examples_per_slot N, tokens T, top_k, top_p."""

    name = "hot_pate"
    source = "Cohen et al., ICLR 2026, arXiv 2312.02132"
    summary = "writes demonstrations token by token by noisy votes of coordinated slots"
    published = {}

    def votes(self, weights: np.ndarray, randomness: np.random.Generator) -> np.ndarray:
        return coordinated_ballots(
            weights, randomness.standard_exponential(size=(weights.shape[1],))
        )

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float | None:
        return None


def coordinated_ballots(weights: np.ndarray, shared: np.ndarray) -> np.ndarray:
    """float64[M, K]: 1 at argmax_v weights[i, v]/shared[v] of every row, 0 elsewhere; of equal ones the first.

    weights: of each row, up to a factor; what is not finite counts as 0, and a row without a weight above 0 abstains.
    shared: float64[K] of Exp(1): the vote of a row is then v with probability weights[i, v]/sum.
    """
    weights = np.where(np.isfinite(weights), weights, 0.0).clip(min=0.0)
    with np.errstate(over="ignore"):
        best = (weights / np.maximum(shared, np.finfo(float).tiny)).argmax(axis=1)
    ballots = np.zeros(weights.shape)
    rows = np.flatnonzero(weights.any(axis=1))
    ballots[rows, best[rows]] = 1.0
    return ballots
