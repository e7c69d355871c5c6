"""How an auditor turns an observed run into a decision: rules are fitted on the runs that choose, and stay unchanged
for the runs that judge (dpicl.attacks.lower_bounds).

A larger score speaks for membership. A rule says "in" above a threshold (score > t), or, where scores point the other
way, at or below it: equal scores always fall on the same side.

A rule may try several scores, published ones and learned ones. Which of them is used is decided inside the choosing
runs too: half of these fit, the others compare.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from scipy import stats
from scipy.special import ndtr

from dpicl.attacks.observers import Observation
from dpicl.privacy.ledger import Ledger

#: Runs -> scores [n] or [n, m]; a larger one speaks for membership.
Score = Callable[[np.ndarray], np.ndarray]
#: Fits a score to runs with and without the canary.
Fit = Callable[[np.ndarray, np.ndarray], Score]
#: Thresholds that the runs that choose try, at most.
MOST_THRESHOLDS: Final = 200


@dataclass
class Rule:
    """A decision rule: "in" for scores above a threshold (or at most it).

    fits: the scores to try, by name. sd: standard deviation of the noise that is still to be added to a score of clean
    values; None where scores are of noisy observations. chosen: name of the score that was fitted last.
    """

    fits: dict[str, Fit] = field(default_factory=lambda: {"score": as_it_is})
    sd: float | None = None
    chosen: str = ""
    score: Score = field(default=lambda runs: runs, repr=False)

    def candidates(self, members: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Fits to these runs; thresholds [k] to try."""
        self.chosen = self._best(members, others) if len(self.fits) > 1 else next(iter(self.fits))
        self.score = self.fits[self.chosen](members, others)
        found = score_thresholds(self.score(members), self.score(others))
        if not self.sd:
            return found
        reach = 3 * self.sd  # a threshold in the tail of the noise may be the best one
        return np.linspace(found[0] - reach, found[-1] + reach, 101)

    def decide(self, runs: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
        """[n, k]: the probability, or the share of noise resamples, of a score above each threshold; or decisions."""
        scores = self.score(runs)
        if scores.ndim > 1:
            at_most = np.stack([np.searchsorted(row, thresholds, side="right") for row in np.sort(scores, axis=1)])
            return 1 - at_most / scores.shape[1]
        if self.sd:
            return ndtr((scores[:, None] - thresholds) / self.sd)
        return scores[:, None] > thresholds

    def _best(self, members: np.ndarray, others: np.ndarray) -> str:
        """The score that separates the odd runs best after it was fitted to the even ones; of equal ones the first."""

        def distance(fit: Fit) -> float:
            score = fit(members[::2], others[::2])
            inside, outside = score(members[1::2]), score(others[1::2])
            spread = inside.var() + outside.var() + 2 * (self.sd or 0.0) ** 2
            moved = abs(float(inside.mean() - outside.mean()))
            return moved / float(np.sqrt(spread)) if spread > 0 else np.inf if moved > 0 else 0.0

        return max(self.fits, key=lambda name: distance(self.fits[name]))


def score_thresholds(members: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Thresholds between neighbouring distinct scores, 200 at most, denser at both ends; the score if all agree."""
    distinct = np.unique(np.concatenate([members.ravel(), others.ravel()]))
    if len(distinct) == 1:
        return distinct
    lower, upper = distinct[:-1], distinct[1:]
    with np.errstate(invalid="ignore"):
        middle = lower / 2 + upper / 2
    between = np.where((middle > lower) & (middle < upper), middle, lower)  # infinite or adjacent scores: the lower one
    number = len(between)
    if number <= MOST_THRESHOLDS:
        return between
    near = np.unique(np.geomspace(1, number / 2, MOST_THRESHOLDS // 2).round().astype(int))
    return between[np.unique(np.concatenate([near, number + 1 - near])) - 1]


def as_it_is(members: np.ndarray, others: np.ndarray) -> Score:
    """Runs are scores."""
    return lambda runs: runs


def linear(direction: np.ndarray) -> Fit:
    """The score runs . direction, with a direction of length 1 that is known beforehand."""
    unit = direction / np.linalg.norm(direction)
    return lambda members, others: lambda runs: runs @ unit


def reference_vector(members: np.ndarray, others: np.ndarray) -> Score:
    """The score along the difference of the means of both sides (runs [n, d], or [n, m, d] with noise resamples)."""
    axes = tuple(range(members.ndim - 1))
    moved = members.mean(axis=axes) - others.mean(axis=axes)
    length = np.linalg.norm(moved)
    unit = moved / length if length > 0 else np.full(len(moved), 1 / np.sqrt(len(moved)))
    return lambda runs: runs @ unit


def answer_fits(known: Sequence[float]) -> dict[str, Fit]:
    """Runs are codes [n, m] of answers. The score of an answer is ``known`` beforehand, or how much more often it came
    with the canary."""
    scores = np.asarray(known, dtype=np.float64)

    def frequencies(members: np.ndarray, others: np.ndarray) -> Score:
        inside, outside = (np.bincount(runs.ravel(), minlength=len(scores)) / runs.size for runs in (members, others))
        more: np.ndarray = inside - outside
        return lambda runs: more[runs]

    return {"answers": lambda members, others: lambda runs: scores[runs], "frequencies": frequencies}


@dataclass(frozen=True)
class AuditEvidence:
    """What the runs showed at one epsilon.

    members, others: [n, ...], runs with and without the canary, as ``rule`` reads them. ledger: what one run charged.
    gaussian: whether the auditor sees Gaussian releases of the whole private set: then a bound on mu is one on epsilon.
    (Their post-processing, such as the label that won, has another curve: its mu is bounded as well, but epsilon would
    be overstated.) noise_p: see `noise_p_value`; None where no noise was drawn, or none is known. ceiling: of black-box
    votes on labels, see `label_only_ceiling`; else None.
    """

    members: np.ndarray
    others: np.ndarray
    rule: Rule
    ledger: Ledger
    gaussian: bool = False
    noise_p: float | None = None
    ceiling: tuple[float, float] | None = None


def noise_p_value(observed_releases: Sequence[Observation]) -> float | None:
    """p-value that released - clean is N(0, scale^2) at these noisy releases (Kolmogorov-Smirnov): the closed forms of
    an audit rely on the stated scale. None without noise."""
    if not observed_releases[0].release.scale > 0:
        return None
    noise = [(one.released - one.release.clean).ravel() / one.release.scale for one in observed_releases]
    return float(stats.kstest(np.concatenate(noise), stats.norm.cdf).pvalue)
