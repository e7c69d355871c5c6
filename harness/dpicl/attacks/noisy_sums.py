"""What a white-box auditor of answers sees: the one noisy sum behind every answer, of votes or of
embeddings.

* `reference_vector`: releases with the canary and without it differ by a direction that is learned
  on the runs that choose, and every noisy sum is projected on it. Choi et al. 2025 (ContextLeak,
  arXiv 2512.16059) do so with the noisy mean embeddings of ESA; for Yes and No votes it is the
  difference of both counts, as Xia et al. 2025 (arXiv 2511.13502) take it.
* `estimate_by_gdp`: the estimate of Xia et al. 2025: the clean values of all runs are drawn again
  and again with fresh noise, 400,000 trials a side; the threshold with the largest
  mu = ppf(1 - FNR) - ppf(FPR), both by one-sided Clopper-Pearson limits at 95%, is sought on the
  very trials that it is judged by; five repeats, of which the mean counts; mu becomes epsilon by
  the Gaussian's curve. It is no bound: it takes the release for Gaussian, the threshold is chosen
  on the trials that judge it, and the limits leave out that there are few clean values.
  (Guessed: that epsilons are averaged and not mus, and that 200 thresholds are tried.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri
from scipy.stats import beta

from dpicl.attacks.exact_pairs import epsilon_of_mu
from dpicl.attacks.lower_bounds import CONFIDENCE, MOST_THRESHOLDS, Score
from dpicl.attacks.observers import Observation
from dpicl.attacks.results import Estimate

#: Trials on each side, and repeats, of the published estimate.
TRIALS = 400_000
REPEATS = 5
#: The note of the estimate wherever it is shown.
NO_BOUND = (
    "an estimate (Xia et al. 2025), no bound: it takes the release for Gaussian and its threshold is chosen on the"
    " trials that judge it"
)
#: Generator -> the noisy scores of `TRIALS` trials, float64[n].
Trials = Callable[[np.random.Generator], np.ndarray]


@dataclass(frozen=True)
class NoisySums:
    """Of n runs on one side. clean: float64[n, d]. noisy: float64[n, m, d], with m draws of the
    noise. scale: its standard deviation on every coordinate."""

    clean: np.ndarray
    noisy: np.ndarray
    scale: float

    def trials_along(self, direction: np.ndarray) -> Trials:
        """Noisy projections on a direction [d]."""
        projected = self.clean @ direction
        spread = self.scale * float(np.linalg.norm(direction))

        def draw(generator: np.random.Generator) -> np.ndarray:
            return generator.choice(projected, TRIALS) + spread * generator.normal(size=TRIALS)

        return draw

    def trials_won_by(self, coordinate: int) -> Trials:
        """1 where this coordinate is the largest noisy one, else 0."""

        def draw(generator: np.random.Generator) -> np.ndarray:
            noise = generator.normal(scale=self.scale, size=(TRIALS, self.clean.shape[1]))
            winners = (generator.choice(self.clean, TRIALS) + noise).argmax(axis=1)
            return (winners == coordinate).astype(np.float64)

        return draw


def noisy_sums(runs: Sequence[Sequence[Sequence[Observation]]]) -> NoisySums | None:
    """Of the noisy releases behind every answer, by run and draw; None where an answer has another number of them than
    one, or another kind or size."""
    answers = [observations for run in runs for observations in run]
    kinds = [[observation.release.kind for observation in observations] for observations in answers]
    if any(of_answer != ["gaussian"] for of_answer in kinds):
        return None
    if len({observations[0].release.clean.size for observations in answers}) != 1:
        return None
    clean = np.array([run[0][0].release.clean.ravel() for run in runs])
    noisy = np.array([[observations[0].released.ravel() for observations in run] for run in runs])
    return NoisySums(clean, noisy, answers[0][0].release.scale)


def reference_vector(members: np.ndarray, others: np.ndarray) -> np.ndarray:
    """float64[d] of length 1: the mean difference of sums [n, ..., d] with the canary and without; 0 where there is
    none."""
    size = members.shape[-1]
    difference = members.reshape(-1, size).mean(axis=0) - others.reshape(-1, size).mean(axis=0)
    length = float(np.linalg.norm(difference))
    return difference / length if length > 0 else difference


def learn_reference_vector(members: np.ndarray, others: np.ndarray) -> Score:
    """Projects noisy sums [n, m, d] on the reference vector of the runs that choose."""
    direction = reference_vector(members, others)

    def project(runs: np.ndarray) -> np.ndarray:
        return runs @ direction

    return project


def estimate_by_gdp(inside: Trials, outside: Trials, delta: float, seed: int) -> Estimate:
    """The published estimate of epsilon at delta."""
    generator = np.random.default_rng(seed)
    epsilons = []
    for _ in range(REPEATS):
        mu = largest_mu(inside(generator), outside(generator))
        epsilons.append(epsilon_of_mu(mu, delta))
    return Estimate(value=float(np.mean(epsilons)), note=NO_BOUND)


def largest_mu(members: np.ndarray, others: np.ndarray) -> float:
    """The largest lower limit of mu >= 0 over thresholds of scores, [n] on each side."""
    scores = np.unique(np.concatenate([members, others]))
    places = np.linspace(0, len(scores) - 1, min(len(scores), MOST_THRESHOLDS) + 1)[:-1]
    thresholds = scores[places.astype(int)]
    hits, alarms = _count_above(members, thresholds), _count_above(others, thresholds)
    trials = len(members)
    alpha = 1 - CONFIDENCE
    tpr_lower = beta.ppf(alpha, np.maximum(hits, 1), trials - hits + 1)
    fpr_upper = beta.ppf(1 - alpha, alarms + 1, np.maximum(trials - alarms, 1))
    tpr = np.where(hits > 0, tpr_lower, 0.0)
    fpr = np.where(alarms < trials, fpr_upper, 1.0)
    return max(0.0, float((ndtri(tpr) - ndtri(fpr)).max()))


def _count_above(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    return len(scores) - np.searchsorted(np.sort(scores), thresholds, side="right")
