"""Computes a lower bound on epsilon from one run, in which every record is included by a fair coin.

Steinke, Nasr & Jagielski 2023, "Privacy auditing with one (1) training run", NeurIPS (arXiv 2305.08846), theorem 5.2.
m records are in or out by independent fair coins S. From what an (epsilon, delta)-DP mechanism (add or remove one
record) releases, an attacker guesses r of the coins and abstains on the others. Then, for every v,

    P[at least v of the r guesses are right] <= P[B >= v] + 2 m delta max_i (1/i) P[v > B >= v - i],

with B binomial(r, e^epsilon / (1 + e^epsilon)). So many right guesses refute every epsilon for which the right side is
below 1 - confidence. Unlike rates over the records of one release, it does not take their scores as independent.

Several releases, each with coins and a budget of its own, are one mechanism for the theorem: a coin moves one of them.

What it rests on: the coins are fair and independent, the guesses are a function of what was released and of the
candidates alone, and nothing else (such as n_y, which sets the noise) depends on the coins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from dpicl.attacks.lower_bounds import CONFIDENCE
from dpicl.core.errors import UsageError

#: Rules that are tried, fixed before any score is seen: the share of the candidates with the largest scores that is
#: guessed to be in, and the share with the smallest scores that is guessed to be out. The level is divided by their
#: number.
RULES = (
    (0.5, 0.5),
    (0.25, 0.25),
    (0.125, 0.125),
    (0.0625, 0.0625),
    (0.125, 0.0),
)

#: The largest bound that is tested.
LARGEST = 30.0
#: Steps of the grid that is searched for the first epsilon that is not refuted, and then of a finer one before it.
COARSE, FINE = 0.25, 0.01


@dataclass(frozen=True)
class OneRun:
    """epsilon: the lower bound. candidates: m. guesses: r, of which `correct` were right, by the rule that gave the
    bound (the level pays for all rules)."""

    epsilon: float
    candidates: int
    guesses: int
    correct: int


def p_value(
    candidates: int,
    guesses: int,
    correct: int,
    epsilon: np.ndarray,
    delta: float,
) -> np.ndarray:
    """float64[n], as ``epsilon``: bound on the probability of so many right guesses under (epsilon, delta)-DP.

    Raises UsageError unless 0 <= correct <= guesses <= candidates.
    """
    if not 0 <= correct <= guesses <= candidates:
        raise UsageError(
            f"{correct} right of {guesses} guesses about {candidates} records is not possible."
        )
    right = (1 / (1 + np.exp(-epsilon)))[:, None]
    at_least = stats.binom.sf(correct - 1, guesses, right)[:, 0]
    slack = np.zeros_like(at_least)
    if delta > 0 and correct > 0:
        # P[v > B >= v - i] for i = 1 .. v; larger i add nothing and only divide by more.
        numbers = np.arange(correct - 1, -1, -1)
        below = np.cumsum(stats.binom.pmf(numbers, guesses, right), axis=1)
        slack = (below / np.arange(1, correct + 1)).max(axis=1)
    return np.minimum(at_least + 2 * candidates * delta * slack, 1.0)


def epsilon_lower(
    candidates: int,
    guesses: int,
    correct: int,
    delta: float,
    alpha: float,
) -> float:
    """The epsilon up to which all are refuted at level alpha; 0 where none is. At most LARGEST."""
    start = 0.0
    for step, reach in ((COARSE, LARGEST), (FINE, COARSE)):
        grid = start + np.arange(0.0, reach + step, step)
        possible = p_value(candidates, guesses, correct, grid, delta) > alpha
        if possible[0]:
            return 0.0
        first = int(np.argmax(possible)) if possible.any() else len(grid)
        start = float(grid[first - 1])
    return min(start, LARGEST)


def guess_by_rules(
    scores: Sequence[float] | np.ndarray,
    inside: Sequence[bool] | np.ndarray,
    delta: float,
) -> list[OneRun]:
    """What each of RULES guesses, and its bound at its share of the level.

    scores: float64[m], a larger one speaks for membership; of equal scores the first counts as larger, so their order
    must not depend on the coins. inside: bool[m], the coins. Raises UsageError for fewer than 2 records and a NaN.
    """
    values, coins = np.asarray(scores, dtype=np.float64), np.asarray(inside, dtype=bool)
    number = len(values)
    if values.ndim != 1 or values.shape != coins.shape or number < 2:
        raise UsageError("One run needs at least two records, each with one score and one coin.")
    if np.isnan(values).any():
        raise UsageError(
            "A score is NaN; fix the attack, since dropping the record would bias the bound."
        )
    ranked = coins[np.argsort(-values, kind="stable")]  # the largest score first
    alpha = (1 - CONFIDENCE) / len(RULES)
    runs = []
    for top, bottom in RULES:
        first = round(top * number)
        last = min(round(bottom * number), number - first)
        guesses = first + last
        correct = int(ranked[:first].sum() + (~ranked[number - last :]).sum())
        epsilon = epsilon_lower(number, guesses, correct, delta, alpha)
        runs.append(OneRun(epsilon, number, guesses, correct))
    return runs
