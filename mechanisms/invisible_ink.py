"""InvisibleInk: Vinod, Pillutla & Thakurta, NeurIPS 2025 (arXiv 2507.02974), algorithm 1. Private examples change the
public scores of the next token by clipped differences, and only tokens that may be likely are drawn.

For every demonstration, sample records of its label, one for each prompt (s expected); then for every token:

1. z_0 = log-probabilities after the public prompt, z_i = those after the prompt of slot i, each normalised over the
   whole vocabulary;
2. d_i = clip(z_i - z_0, -C, C) and z = z_0 + (1/s) * sum of the d_i, with the constant s;
3. Top-k+ = {v: z_0(v) >= (k-th largest of z_0) - 2C/s}: every token that one record could lift among the k best;
4. draw the token from softmax(z/tau) on Top-k+.

The temperature and k are given, and what the budget buys is C: the knob is 1/C.

Privacy (unit: one record; neighbours: add/remove; proved mode). One record adds one vector of [-C, C]^V to the sum of
the differences and changes no other, so every score moves by at most C/s and the range of the move is at most 2C/s. The
set Top-k+ follows from z_0, k, C and s, all public, and restricting scores widens no range. So a token is an epsilon' =
2C/(s tau) bounded-range choice, which may look at the tokens before it, and the whole demonstration runs on one Poisson
sample of rate q = s/n_y: Poisson(q, T x bounded range epsilon'). Labels are disjoint. A clip is not the same after a
constant is added to a row, but log-probabilities are a function of their own row alone, as everything here needs; with
raw logits the constant of a model would use up C. Without any record the token is drawn from the public scores. Unlike
the released code T is an option and no length of private texts, shots come from a public list, and noise has no fixed
seed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpicl import (
    Context,
    DifferenceChoice,
    Knob,
    NextToken,
    OneSampleTexts,
    Sample,
    Sizes,
    bounded_range,
    check_positive,
)
from dpicl import dp_event as dp

#: C at epsilon = infinity: log-probabilities do not differ by more.
UNCLIPPED = 1e6


@dataclass(frozen=True)
class InvisibleInk(OneSampleTexts):
    """Options, with the paper's symbols: prompts s (its batch, expected), tokens T, temperature tau, top_k k."""

    name = "invisible_ink"
    knob = Knob("inverse_clip", low=1e-3, high=1e6, non_private=0.0)
    source = "Vinod, Pillutla & Thakurta, NeurIPS 2025, arXiv 2507.02974"
    summary = "writes demonstrations by sampling tokens from clipped differences of private and public scores"
    #: Of the paper's grid, for its own records: s 3 to 31, tau 1.0 to 1.2, k 10 to 500.
    published = {
        task: {"prompts": 31, "temperature": 1.1, "top_k": 100}
        for task in ("agnews", "dbpedia", "trec", "mit_g", "mit_d", "wikimovies")
    }

    prompts: int = 16
    temperature: float = 1.1
    top_k: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(temperature=self.temperature, top_k=self.top_k)

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float:
        """T C^2/(2 s^2 tau^2)-zCDP, converted to epsilon, without sampling: the paper's batches are disjoint."""

        from dpicl import epsilon  # loads dp_accounting and prv_accountant

        token = bounded_range(self._token(knob).range_epsilon)
        return epsilon(dp.SelfComposedDpEvent(token, self.tokens), delta).upper

    def text_event(self, knob: float) -> dp.DpEvent:
        return dp.SelfComposedDpEvent(self._token(knob).event, self.tokens)

    def next_token(self, context: Context) -> NextToken:
        token = self._token(context.knob)

        def draw(rows: np.ndarray, public: np.ndarray, sample: Sample) -> int:
            allowed = candidates(public, self.top_k, token.width)
            return token.choose(rows[:, allowed], public[allowed], sample, allowed)

        return draw

    def _token(self, inverse_clip: float) -> DifferenceChoice:
        """At 1/C = 0 nothing is clipped, and the best token is taken."""
        if inverse_clip == 0:
            return DifferenceChoice(UNCLIPPED, self.prompts, 0.0)
        return DifferenceChoice(1 / inverse_clip, self.prompts, self.temperature)


def candidates(public: np.ndarray, top_k: int, width: float) -> np.ndarray:
    """int64[K]: the tokens of Top-k+, in the order of their ids.

    public: log-probabilities [V] after the public prompt, -infinity for a token that is never drawn. width: 2C/s, so
    much lower than the k-th largest one a score may be.
    """
    possible = np.flatnonzero(np.isfinite(public))
    ordered = np.sort(public[possible])
    return possible[public[possible] >= ordered[-min(top_k, len(ordered))] - width]
