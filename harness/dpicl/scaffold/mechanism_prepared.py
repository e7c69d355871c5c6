"""my_method: the noisy sum of the embeddings of each class is released once; every query gets the nearest class.

1. every private record becomes a vector of length 1, by a public embedding model;
2. the vectors of each class are summed, with Gaussian noise on every coordinate: this is what is released;
3. a query gets the class whose sum points most in its direction. This follows from what was released, so any number of
   queries is free.

Privacy (unit: one record; neighbours: add/remove). A record has one class and adds one vector of length at most 1 to
its sum, which is what `NoisySum` is made for. The records of different classes are different people's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from dp_accounting import dp_event as dp

from dpicl import (
    Knob,
    NoisySum,
    PreparedContext,
    PreparedMechanism,
    PrivateSet,
    PublicTask,
    Query,
    Sizes,
    parallel,
)


@dataclass(frozen=True)
class MyMethod(PreparedMechanism):
    name = "my_method"
    source = "an example"
    # Decide: the number that buys privacy. The harness finds the value whose proved epsilon meets the target.
    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)

    # Decide: the options, with their defaults.
    embedding: str = "embedded"

    def skip(self, task: PublicTask) -> str | None:
        # Decide: which tasks the method cannot do. An attacker's question (`shown_by`) is a task as well.
        if task.kind != "classification" or task.shown_by is not None:
            return "it answers with the classes of its own task"
        return None

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        # Decide: everything that `prepare` may cost, at worst. Epsilon is proved for this.
        return parallel(dict.fromkeys(sizes.records, NoisySum(knob).event))

    def prepare(self, private: PrivateSet, context: PreparedContext) -> Directions:
        noisy, sums = NoisySum(context.knob), {}
        for label in private.groups:
            # Every record of the class is in the sample, in a slot of its own.
            sampler = private.poisson_slots(private.size(label), None, partition=label, releases=noisy.event)
            sample = sampler.draw()
            # Decide: what a record adds. Each text is embedded by itself, so no record changes another one's vector.
            vectors = context.reader.embed([record.text for (record,) in sample.slots], self.embedding)
            sums[str(label)] = noisy.release(vectors, sample)[0]
        return Directions(sums, context, self.embedding)

    def restore(self, state: Mapping[str, np.ndarray], context: PreparedContext) -> Directions:
        # What was saved by `Directions.state`, perhaps by somebody else: look at it.
        (dimension,) = context.reader.embed([""], self.embedding)[0].shape
        if set(state) - set(context.task.labels) or any(total.shape != (dimension,) for total in state.values()):
            raise ValueError("its sums are not those of the labels")
        return Directions(state, context, self.embedding)


@dataclass(frozen=True)
class Directions:
    """What was released. No record can be read any more when the first query is asked."""

    sums: Mapping[str, np.ndarray]
    context: PreparedContext
    embedding: str

    def answer(self, query: Query) -> str:
        # Decide: how what was released answers. Only released and public things may be used.
        vector = self.context.reader.embed([query.text], self.embedding)[0]
        nearness = {label: float(vector @ total) / (np.linalg.norm(total) or 1.0) for label, total in self.sums.items()}
        return max(nearness, key=lambda label: nearness[label])

    def state(self) -> Mapping[str, np.ndarray]:
        # What `dpicl release` saves, and publishes: only what was released.
        return self.sums
