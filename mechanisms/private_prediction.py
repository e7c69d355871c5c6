"""Private prediction: Amin et al. 2024, arXiv 2407.12108, algorithm 1. PRISM's averaged scores without
its public half, and tokens that the public prompt predicts as well are taken from it at no cost.

For every demonstration, sample records of its label, one for each prompt (s expected); then for every token, with the
log-probabilities z_i after the prompt of slot i and z_0 after the public prompt:

1. h = (1/s) * sum over prompts of half the L1 distance between softmax(z_i) and softmax(z_0), with the constant s;
2. while h + noise is below a noisy threshold, the token is public: drawn from softmax(z_0/tau_pub) with public
   randomness;
3. else it is private: drawn from softmax(z/tau), z = (1/s) * sum over prompts of clip_c(z_i), and the threshold gets
   fresh noise;
4. after r private tokens nothing is asked any more, and the text goes on with public tokens to its end. (The paper's
   batch stops there. It writes many texts of one batch; here a batch writes one text, which would end in the middle.)

Privacy (unit: one record; neighbours: add/remove; proved mode). A half L1 distance lies in [0, 1], so one record adds a
term of [0, 1/s] to every h: it raises each by at most 1/s and lowers none, whatever was released before. That is what
AboveThreshold wants (dpicl.privacy.above_threshold): a round, however many public tokens it passes, has a loss
in [-2 eps_T, eps_T], where both noises are 1/(s eps_T) * Exp(1). A private token is a choice of bounded range epsilon'
= 2c/(s tau): one record adds a vector in [-c, c]^V. A public token follows from answers and public things. A round
comes before each private token and none after the last one, so r rounds and r choices cover every run (not T choices:
without an "above" there is none), and r of each are charged, used or not. All of it runs on one Poisson sample of rate
q = s/n_y: Poisson(q, r x (round eps_T, bounded range epsilon')). Labels are disjoint.

eps_T = epsilon' sqrt(share/(8 (1 - share))): of the variance of the worst losses, about 2 eps_T^2 and epsilon'^2/4, the
public constant ``threshold_share`` is the rounds'. Amin et al. have Laplace noise, twice as much for queries as for the
threshold, and zCDP without sampling. A known reproduction asks how far the softmax of the mean is from the public one,
which a record moves by about c/s, and pays for 1/s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpicl import (
    AboveThreshold,
    BoundedRangeChoice,
    Context,
    Knob,
    NextToken,
    OneSampleTexts,
    Sample,
    Sizes,
    UsageError,
    check_positive,
    draw_in_public,
    softmax,
)
from dpicl import dp_event as dp


@dataclass(frozen=True)
class PrivatePrediction(OneSampleTexts):
    """Options, with the paper's symbols: prompts s (expected), tokens T, private_tokens r (at most T), clip c,
    threshold theta, public_temperature tau_pub; threshold_share: see above."""

    name = "private_prediction"
    knob = Knob("temperature", low=1e-4, high=1e5, non_private=0.0)
    source = "Amin et al. 2024, arXiv 2407.12108"
    summary = "PRISM without its public half; tokens that the public prompt predicts too are free"
    #: Of the paper's grid: s 125 to 1500, theta .3 to .7, tau_pub 1.5; r comes from its budget.
    published = {
        task: {"prompts": 125, "threshold": 0.5, "public_temperature": 1.5}
        for task in ("agnews", "dbpedia", "trec", "mit_g", "mit_d", "wikimovies")
    }

    private_tokens: int = 12
    clip: float = 10.0
    threshold: float = 0.5
    threshold_share: float = 0.5
    public_temperature: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(
            private_tokens=self.private_tokens,
            clip=self.clip,
            public_temperature=self.public_temperature,
        )
        if not 0 < self.threshold_share < 1:
            raise UsageError(
                f"Option threshold_share must lie between 0 and 1, not {self.threshold_share}."
            )

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float:
        """r (c^2/(2 (s tau)^2) + 2/(s sigma)^2)-zCDP, converted to epsilon, without sampling: the paper's batches are
        disjoint. sigma: the scale of the threshold's noise."""

        from dpicl import epsilon  # loads dp_accounting and prv_accountant

        token, noisy = self._token(knob), self._noisy_threshold(knob)
        rho = token.range_epsilon**2 / 8 + 2 * (noisy.bound / noisy.scale) ** 2
        return epsilon(dp.ZCDpEvent(self.rounds * rho), delta).upper

    def text_event(self, knob: float) -> dp.DpEvent:
        private_token = dp.ComposedDpEvent(
            (self._noisy_threshold(knob).event, self._token(knob).event)
        )
        return dp.SelfComposedDpEvent(private_token, self.rounds)

    def next_token(self, context: Context) -> NextToken:
        token, noisy_threshold = self._token(context.knob), self._noisy_threshold(context.knob)
        randomness = context.streams.stream_of_shot(self.name)
        left, is_above = self.rounds, None

        def draw(rows: np.ndarray, public: np.ndarray, sample: Sample) -> int:
            nonlocal left, is_above
            public_token = draw_in_public(public / self.public_temperature, randomness)
            if not left:
                return public_token
            is_above = is_above or noisy_threshold.start(sample)
            if not is_above(distances(rows, public)):
                return public_token
            left, is_above = left - 1, None
            return token.choose(rows, public, sample)

        return draw

    @property
    def rounds(self) -> int:
        """r, but no more than there are tokens."""
        return min(self.private_tokens, self.tokens)

    def _token(self, temperature: float) -> BoundedRangeChoice:
        return BoundedRangeChoice(self.clip, self.prompts, temperature, weight=1.0)

    def _noisy_threshold(self, temperature: float) -> AboveThreshold:
        part = math.sqrt(self.threshold_share / (8 * (1 - self.threshold_share)))
        return AboveThreshold(
            self.threshold, self.prompts, part * self._token(temperature).range_epsilon
        )


def distances(rows: np.ndarray, public: np.ndarray) -> np.ndarray:
    """float64[M]: half the L1 distance between the distribution of each row and the public one, in [0, 1]; NaN where a
    row has no numbers. rows: log-probabilities [M, V]. public: [V]."""
    return np.abs(softmax(rows.astype(np.float64)) - softmax(public[None])).sum(axis=1) / 2
