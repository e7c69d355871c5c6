"""Plausible Token Amplification: Yamasaki et al., "Plausible Token Amplification for Improving Accuracy of
Differentially Private In-Context Learning Based on Implicit Bayesian Inference", ICML 2025, algorithms 1 and 2.

For every token of a synthetic demonstration:

1. V_pub = the top-k tokens of the public prompt; with ``top_p`` its head only (PA2);
2. sample records of the label and assign them to M slots; a slot's records are the examples of its prompt. With N = 1
   every sampled record has a slot of its own, M in expectation;
3. every slot answers with p(v) proportional to p_base(v) * (p(v | private prompt) / p(v | public prompt))^alpha:
   tokens that the private examples make more plausible are amplified. p_base conditions on the generated text alone
   (eq. 11); without ``base`` it is constant (PA3). All in log space, and normalised per slot: over V_pub, as eq. 11 and
   appendix E.1 derive it (``normalise: public``), or over the full vocabulary, as algorithm 1 (line 6) says
   (``all``), where the weight on V_pub, and so the signal under the same noise, may be small;
4. the next token is the argmax over V_pub of the sum over slots + N(0, 2 sigma^2), with N = 1 + N(0, sigma^2).

Privacy (unit: one record; neighbours: add/remove; proved mode): as for Tang. A record touches one slot, whose
distribution moves inside the simplex of V_pub, or inside that of the vocabulary, of which the public V_pub is a part:
sqrt(2) in L2 on the sum either way, and 1 with N = 1, where a record adds a slot. Normalising after averaging (eq. 2)
would have no such bound, and the noise of eq. 3 or of line 8 is not the noise of Table 4's epsilon; this file adds the
noise to the sum. An empty one of M slots has the public prompt, so it answers with p_base.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpicl import Knob, NoisyTokens, check_positive, softmax


@dataclass(frozen=True)
class PTA(NoisyTokens):
    """Options, with the paper's symbols: slots M, examples_per_slot N, tokens T, top_k k, top_p p, alpha.

    ``published`` holds the paper's alpha of variant P1 for its third model (tables 7 and 8: MA3 for GINC, else Mistral
    7B), chosen there by test accuracy.
    """

    name = "pta"
    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)
    source = "Yamasaki et al., ICML 2025, openreview.net/forum?id=skAjaAEuA2"
    summary = "Tang with rare but plausible tokens amplified"
    published = {
        "agnews": {"slots": 10, "examples_per_slot": 2, "tokens": 100, "alpha": 1.5},
        "dbpedia": {"slots": 40, "examples_per_slot": 2, "tokens": 100, "alpha": 1.0},
        "trec": {"slots": 80, "examples_per_slot": 1, "tokens": 15, "alpha": 2.0},
        "ginc": {"slots": 5, "examples_per_slot": 4, "tokens": 10, "alpha": 5.0},
    }

    top_k: int | None = 10
    alpha: float = 1.0
    base: bool = True
    normalise: Literal["public", "all"] = "public"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(alpha=self.alpha)

    def public_prompts(self, prompt: list[int]) -> list[list[int]]:
        return [prompt, []]

    def distributions(
        self, rows: np.ndarray, public: np.ndarray, allowed: np.ndarray
    ) -> np.ndarray:
        base = public[1] if self.base else np.zeros_like(public[0])
        if self.normalise == "public":
            return self.amplify_private(rows[:, allowed], public[0, allowed], base[allowed])
        return self.amplify_private(rows, public[0], base)[:, allowed]

    def amplify_private(
        self, private: np.ndarray, public: np.ndarray, base: np.ndarray
    ) -> np.ndarray:
        """float64[B, K]: softmax(log p_base + alpha (log p_priv - log p_pub)) over the K tokens that are given, each of
        the B rows on its own (lines 5-6).

        A token that the public prompt gives probability 0 gets weight 0: it is outside V_pub anyway.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            possible = np.isfinite(public) & np.isfinite(base)
            ratio = np.subtract(
                private, public, out=np.full(private.shape, -np.inf), where=possible
            )
            return softmax(np.where(possible, base + self.alpha * ratio, -np.inf))
