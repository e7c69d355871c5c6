"""my_method: every token of a synthetic demonstration is the noisy plurality vote of prompts with private records.

The public prompt (instruction, label, text so far) allows its `top_k` likeliest tokens, and each of `slots` prompts
votes for its favourite of these. A record is in one slot at most, so it moves one vote: the counts change by at most
sqrt(2) in L2, which is what `GaussianSum` is made for.
"""

from dataclasses import dataclass

import numpy as np

import dpicl
from dpicl import GaussianSum, Knob, PromptWriter, ReleasedText
from dpicl import dp_event as dp


@dataclass(frozen=True)
class MyMethod(dpicl.DemonstrationMechanism):
    name = "my_method"
    source = "an example"
    knob = Knob(
        "noise_multiplier", low=0.05, high=2000.0, non_private=0.0
    )  # Decide: the number that buys privacy.
    knob_per_label = True  # each label's noise is calibrated with that label's number of records

    slots: int = (
        10  # Decide: the options, with their defaults. A suite or `--option slots=20` changes them.
    )
    tokens: int = 12
    top_k: int = 10

    def __post_init__(self) -> None:
        dpicl.check_positive(slots=self.slots, tokens=self.tokens, top_k=self.top_k)

    def skip(
        self, task: dpicl.PublicTask
    ) -> str | None:  # Decide: why it cannot do a task, if it cannot.
        return "it writes one text for a public label" if task.kind == "generation" else None

    def release(
        self, private: dpicl.PrivateSet, context: dpicl.Context
    ) -> list[dpicl.Demonstration]:
        return context.for_each_shot(
            lambda label: self._write(label, private, context.for_label(label))
        )

    def _write(
        self, label: str, private: dpicl.PrivateSet, context: dpicl.Context
    ) -> dpicl.Demonstration:
        model, noisy = context.model, GaussianSum(context.knob)
        sampler = private.poisson_slots(
            self.slots,
            self.slots,
            partition=private.partition_of(label),
            releases=noisy.event,
            times=self.tokens,
        )
        prompts = PromptWriter(context.task, model, label, self.tokens, None, "completion")
        text = ReleasedText(context.task, model)
        while not text.ended and len(text.tokens) < self.tokens:
            public = model.next_token_log_probs([[*prompts.public, *text.tokens]], prompts.prefix)
            allowed = dpicl.public_vocabulary(
                dpicl.public_log_probs(public, model)[0], self.top_k, top_p=None
            )

            sample = sampler.draw()
            prompts_read = [[*prompts.private(slot), *text.tokens] for slot in sample.slots]
            favourites = (
                model.next_token_log_probs(prompts_read, prompts.prefix)
                .numpy()[:, allowed]
                .argmax(axis=1)
            )
            # Decide: what a slot may say. One row a slot, in the simplex: that is what bounds a record's influence.
            votes = np.eye(len(allowed))[favourites]
            text.append(noisy.choose(votes, sample, allowed))
        return text.demonstration(label)

    def events(self, knob: float, sizes: dpicl.Sizes) -> dp.DpEvent:
        # Decide: everything that `release` may cost, at worst. Epsilon is proved for this, and a run that spends more
        # is stopped. Records of different labels are different people's, so labels compose in parallel.
        costs: dict[str | None, dp.DpEvent] = {}
        for label, shots in sizes.shots.items():
            rate = dpicl.sampling_rate(self.slots, sizes.records[label], label)
            token = dp.PoissonSampledDpEvent(rate, GaussianSum(knob).event)
            costs[label] = dp.SelfComposedDpEvent(token, self.tokens * shots)
        return dpicl.parallel(costs)
