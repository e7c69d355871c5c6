"""DP few-shot generation: Tang et al., "Privacy-Preserving In-Context Learning with Differentially Private Few-Shot
Generation", ICLR 2024 (arXiv 2309.11765), algorithm 1, Gaussian variant.

For every token of a synthetic demonstration:

1. K = the top-k tokens of the public prompt (instruction, label, tokens so far); with ``top_p`` also its head (BA2
   of PTA);
2. sample records of the label and assign them to M slots; a slot's records are the examples of its prompt. With N = 1
   every sampled record has a slot of its own, M in expectation;
3. every slot answers with its next-token distribution on K, renormalised per slot (an empty one of M slots: the public
   prompt's);
4. the next token is the argmax over K of the sum over slots + N(0, 2 sigma^2), with N = 1 + N(0, sigma^2).

Privacy (unit: one record; neighbours: add/remove; proved mode). A record is sampled with q = MN/n_y and touches one
slot, whose distribution moves inside the simplex: the sum moves by at most sqrt(2) in L2. With N = 1 it adds a slot and
changes no other: the sum moves by one distribution, at most 1 in L2. T tokens for each of the shots of a label are T *
shots Poisson-subsampled Gaussian releases; labels are disjoint and compose in parallel. Unlike the released code, which
samples a fixed number without replacement, claims the accountant's estimate, and takes the argmax over the whole
vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpicl import Knob, NoisyTokens, softmax


@dataclass(frozen=True)
class Tang(NoisyTokens):
    """Options, with the paper's symbols: slots M, examples_per_slot N, tokens T (T_max - 1: one is kept for the
    end)."""

    name = "tang"
    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)
    source = "Tang et al., ICLR 2024, arXiv 2309.11765"
    summary = (
        "writes demonstrations token by token from noisy sums of slots' next-token distributions"
    )
    published = {
        "agnews": {"slots": 10, "examples_per_slot": 2, "tokens": 100, "top_k": 100},
        "dbpedia": {"slots": 40, "examples_per_slot": 2, "tokens": 100, "top_k": 100},
        "trec": {"slots": 80, "examples_per_slot": 1, "tokens": 15, "top_k": None},
        "mit_g": {"slots": 20, "examples_per_slot": 4, "tokens": 20, "top_k": 100},
        "mit_d": {"slots": 20, "examples_per_slot": 4, "tokens": 20, "top_k": 100},
        "ginc": {"slots": 5, "examples_per_slot": 4, "tokens": 10, "top_k": 10},  # B1 of PTA
    }

    def public_prompts(self, prompt: list[int]) -> list[list[int]]:
        return [prompt]

    def distributions(
        self, rows: np.ndarray, public: np.ndarray, allowed: np.ndarray
    ) -> np.ndarray:
        return softmax(rows[:, allowed].astype(np.float64))
