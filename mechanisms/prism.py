"""PRISM: Bhusal et al., arXiv 2509.13625, algorithm 1. One private example a prompt, the same prompts for a whole
demonstration, every token drawn from a softmax of averaged, clipped logits.

For every demonstration, sample records of its label, one for each prompt (s expected); then for every token:

1. z = (1/s) * sum over prompts of clip_c(logits), with the constant s; u = clip_c(logits of the public prompt);
2. draw the token from softmax(((z + u)/2) / tau).

Privacy (unit: one record; neighbours: add/remove; proved mode). One record adds one clipped vector: every score
moves by at most c/(2s), the range of the move is at most c/s, so a token is an epsilon' = c/(s tau) bounded-range
choice, which may look at the tokens before it. The whole demonstration runs on one Poisson sample of rate q = s/n_y:
Poisson(q, T x bounded range epsilon'), accounted by the exact recursion for T adaptive choices and the sampling of its
privacy loss distribution. Labels are disjoint. The paper's own formula, epsilon = sqrt(2 T ln(1/delta)) epsilon', drops
a term of advanced composition and claims no amplification; at the same epsilon it uses a temperature 2 to 3 times
higher than it needs. Written from the paper; its version 4 names the authors' repository, which was not read.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpicl import (
    BoundedRangeChoice,
    Context,
    Knob,
    NextToken,
    OneSampleTexts,
    Sizes,
    check_positive,
    prism_formula,
)
from dpicl import dp_event as dp


@dataclass(frozen=True)
class Prism(OneSampleTexts):
    """Options, with the paper's symbols: prompts s (expected), tokens T, clip c."""

    name = "prism"
    knob = Knob("temperature", low=1e-4, high=1e5, non_private=0.0)
    source = "Bhusal et al., arXiv 2509.13625"
    summary = "writes demonstrations by sampling tokens from averaged, clipped scores of one-record prompts"
    published = {
        task: {"prompts": 380, "tokens": 100}
        for task in ("agnews", "dbpedia", "trec", "mit_g", "mit_d")
    }

    clip: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(clip=self.clip)

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float:
        """sqrt(2 T ln(1/delta)) c/(s tau), whatever the number of (disjoint) demonstrations (section 3.2)."""
        return prism_formula(self._token(knob).range_epsilon, self.tokens, delta)

    def text_event(self, knob: float) -> dp.DpEvent:
        return dp.SelfComposedDpEvent(self._token(knob).event, self.tokens)

    def next_token(self, context: Context) -> NextToken:
        return self._token(context.knob).choose

    def _token(self, temperature: float) -> BoundedRangeChoice:
        return BoundedRangeChoice(self.clip, self.prompts, temperature)
