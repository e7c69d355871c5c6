"""DP few-shot generation: Tang et al., "Privacy-Preserving In-Context Learning with Differentially Private Few-Shot
Generation", ICLR 2024 (arXiv 2309.11765), algorithm 1, Gaussian variant.

For every token of a synthetic demonstration:

1. K = the top-k tokens of the public prompt (instruction, label, tokens so far); with ``top_p`` also its head (BA2
   of PTA);
2. sample records of the label and sample them into M slots; a slot's records are the examples of its prompt;
3. every slot answers with its next-token distribution on K, renormalised per slot (an empty slot: the public prompt's);
4. the next token is the argmax over K of the sum over slots + N(0, 2 sigma^2).

Privacy (unit: one record; neighbours: add/remove; proved mode). A record is sampled with q = MN/n_y and touches one
slot, whose distribution moves inside the simplex: the sum moves by at most sqrt(2) in L2. T tokens for each of the
shots of a label are T * shots Poisson-subsampled Gaussian releases; labels are disjoint and compose in parallel.
Unlike the released code, which samples a fixed number without replacement, claims the accountant's estimate, and
takes the argmax over the whole vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from dp_accounting import dp_event as dp

from dpicl.harness.mechanism.bases import Context, Demonstration, DemonstrationMechanism, Knob, Sizes
from dpicl.harness.mechanism.generation import (
    PromptWriter,
    ReleasedText,
    check_positive,
    public_log_probs,
    public_vocabulary,
)
from dpicl.harness.privacy import accountants
from dpicl.harness.privacy.events import parallel
from dpicl.harness.privacy.primitives import GaussianSum
from dpicl.harness.privacy.private_set import PrivateSet, sampling_rate

if TYPE_CHECKING:
    from dpicl.harness.data.task import PublicTask


@dataclass(frozen=True)
class Tang(DemonstrationMechanism):
    """Options, with the paper's symbols: slots M, examples_per_slot N, tokens T (T_max - 1: one is kept for the
    end)."""

    name = "tang"
    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)
    source = "Tang et al., ICLR 2024, arXiv 2309.11765"
    published = {
        "agnews": {"slots": 10, "examples_per_slot": 2, "tokens": 100, "top_k": 100},
        "dbpedia": {"slots": 40, "examples_per_slot": 2, "tokens": 100, "top_k": 100},
        "trec": {"slots": 80, "examples_per_slot": 1, "tokens": 15, "top_k": None},
        "mit_g": {"slots": 20, "examples_per_slot": 4, "tokens": 20, "top_k": 100},
        "mit_d": {"slots": 20, "examples_per_slot": 4, "tokens": 20, "top_k": 100},
    }

    slots: int = 20
    examples_per_slot: int = 1
    tokens: int = 50
    top_k: int | None = 100
    top_p: float | None = None
    record_tokens: int | None = None
    style: str = "completion"

    def __post_init__(self) -> None:
        check_positive(
            slots=self.slots,
            examples_per_slot=self.examples_per_slot,
            tokens=self.tokens,
            top_k=self.top_k,
            top_p=self.top_p,
            record_tokens=self.record_tokens,
        )

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        release = GaussianSum(knob).event
        return parallel(
            {
                group: dp.SelfComposedDpEvent(
                    dp.PoissonSampledDpEvent(self._rate(sizes.records[group], group), release), self.tokens * shots
                )
                for group, shots in sizes.shots.items()
            }
        )

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float:
        """The estimate, not the upper bound, of the PRV accountant for Poisson sampling (section 4.1)."""
        return accountants.epsilon(self.events(knob, sizes), delta).estimate

    def skip(self, task: PublicTask) -> str | None:
        if task.kind == "generation":
            return (
                "a demonstration is an input with its output here, and the paper releases one text for a public label"
            )
        return None

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        return context.for_each_shot(lambda label: self._write(label, private, context))

    def _write(self, label: str, private: PrivateSet, context: Context) -> Demonstration:
        model, group = context.model, private.partition_of(label)
        mechanism = GaussianSum(context.knob)
        expected = self.slots * self.examples_per_slot
        sampler = private.poisson_slots(
            expected, self.slots, partition=group, releases=mechanism.event, times=self.tokens
        )
        prompts = PromptWriter(context.task, model, label, self.tokens, self.record_tokens, self.style)
        public = model.decoder([prompts.public])
        text = ReleasedText(context.task, model)
        while not text.ended and len(text.tokens) < self.tokens:
            if text.tokens:
                public.append(text.tokens[-1])
            public_row = public_log_probs(public.log_probs, model)[0]
            allowed = public_vocabulary(public_row, self.top_k, self.top_p)

            sample = sampler.draw()
            filled = [[*prompts.private(slot), *text.tokens] for slot in sample.slots if slot]
            rows = np.tile(renormalised(public_row[allowed]), (self.slots, 1))
            if filled:
                rows[: len(filled)] = renormalised(model.next_token_log_probs(filled).numpy()[:, allowed])
            text.append(int(allowed[mechanism.choose(rows, sample)]))
        return text.demonstration(label)

    def _rate(self, records: int, group: str | None) -> float:
        return sampling_rate(self.slots * self.examples_per_slot, records, group)


def renormalised(log_probs: np.ndarray) -> np.ndarray:
    """Probabilities over the given tokens alone, each row on its own; rows that are not finite are the primitive's."""
    values = np.asarray(log_probs, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        weights = np.exp(values - values.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True)
