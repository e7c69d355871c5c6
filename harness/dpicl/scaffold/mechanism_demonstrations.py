"""my_method: every token of a synthetic demonstration is the noisy plurality vote of prompts with private records.

1. the public prompt (instruction, label, text so far) allows its `top_k` likeliest tokens;
2. records of the label are sampled and assigned to `slots` prompts, each of which votes for its favourite of these;
3. the token with the most votes after Gaussian noise is released, and so on until the text ends.

Privacy (unit: one record; neighbours: add/remove). A record is in one slot at most, so it moves one vote: the counts
change by at most sqrt(2) in L2, which is what `GaussianSum` is made for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from dp_accounting import dp_event as dp

from dpicl import (
    Context,
    Demonstration,
    DemonstrationMechanism,
    GaussianSum,
    Knob,
    PrivateSet,
    PromptWriter,
    PublicTask,
    ReleasedText,
    Sizes,
    check_positive,
    parallel,
    public_log_probs,
    public_vocabulary,
    sampling_rate,
)


@dataclass(frozen=True)
class MyMethod(DemonstrationMechanism):
    name = "my_method"
    source = "an example"
    # Decide: the number that buys privacy. The harness finds the value whose proved epsilon meets the target.
    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)
    # Each label has noise of its own, which the harness calibrates with that label's number of records.
    knob_per_label = True

    # Decide: the options, with their defaults. A suite or `--option slots=20` changes them.
    slots: int = 10
    tokens: int = 12
    top_k: int = 10

    def __post_init__(self) -> None:
        check_positive(slots=self.slots, tokens=self.tokens, top_k=self.top_k)

    def skip(self, task: PublicTask) -> str | None:
        # Decide: which tasks the method cannot do. The board shows the reason.
        return "it writes one text for a public label" if task.kind == "generation" else None

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        return context.for_each_shot(lambda label: self._write(label, private, context.for_label(label)))

    def _write(self, label: str, private: PrivateSet, context: Context) -> Demonstration:
        model, noisy = context.model, GaussianSum(context.knob)
        sampler = private.poisson_slots(
            self.slots, self.slots, partition=private.partition_of(label), releases=noisy.event, times=self.tokens
        )
        prompts = PromptWriter(context.task, model, label, self.tokens, None, "completion")
        text = ReleasedText(context.task, model)
        while not text.ended and len(text.tokens) < self.tokens:
            public = model.next_token_log_probs([[*prompts.public, *text.tokens]], prompts.prefix)
            allowed = public_vocabulary(public_log_probs(public, model)[0], self.top_k, top_p=None)

            sample = sampler.draw()
            asked = [[*prompts.private(slot), *text.tokens] for slot in sample.slots]
            favourites = model.next_token_log_probs(asked, prompts.prefix).numpy()[:, allowed].argmax(axis=1)

            # Decide: what a slot may say. One row a slot, in the simplex: that is what bounds a record's influence.
            votes = np.eye(len(allowed))[favourites]
            text.append(noisy.choose(votes, sample, allowed))
        return text.demonstration(label)

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        # Decide: everything that `release` may cost, at worst. Epsilon is proved for this, and a run that spends more
        # is stopped. Records of different labels are different people's, so labels compose in parallel.
        costs: dict[str | None, dp.DpEvent] = {}
        for label, shots in sizes.shots.items():
            rate = sampling_rate(self.slots, sizes.records[label], label)
            token = dp.PoissonSampledDpEvent(rate, GaussianSum(knob).event)
            costs[label] = dp.SelfComposedDpEvent(token, self.tokens * shots)
        return parallel(costs)
