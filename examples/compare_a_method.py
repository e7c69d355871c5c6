"""A method of one's own, compared at the same proved epsilon: about a minute on two cores.

    python examples/compare_a_method.py
    python examples/compare_a_method.py --model sim        # a simulated model, some seconds

The next step is `dpicl check` on a file that holds the class: what it proves about itself is tested there.
"""

import argparse

import numpy as np

import dpicl
from dpicl import AnswerMechanism, GaussianSum, Knob


class Ballots(AnswerMechanism):
    """Every slot, a prompt with a few private records, votes for a label; the largest noisy count wins."""

    name = "ballots"
    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)

    def skip(self, task):
        """The reason why it cannot do a task, or None."""
        return None if task.kind == "classification" else "it supports classification tasks only"

    def release(self, knob):
        """What one answer costs: the harness charges it and finds the noise that meets epsilon."""
        return GaussianSum(knob).event

    def answer(self, query, sample, context):
        """A label for one query. One record changes one row of votes, by a bounded amount."""
        scores = context.reader.label_scores(query, sample.slots, calibrated=False)
        votes = np.eye(len(context.task.labels))[scores.argmax(axis=1)]
        votes[np.isnan(scores).any(axis=1)] = 0.0  # the model failed on this slot, which abstains
        return context.task.labels[GaussianSum(context.knob).choose(votes, sample)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="embedded")
    arguments = parser.parse_args()

    results = dpicl.evaluate(
        [Ballots, "zero_shot", "real_demonstrations"],
        task="agnews",
        model=arguments.model,
        epsilon=4,
        seeds=2,
        source="synthetic",
        test_records=20,
    )
    for note in results.notes:
        print(note)
    table = results.to_frame().groupby("mechanism")["score"].agg(["mean", "std", "count"])
    print(table.sort_values("mean", ascending=False).round(3))
    print("Two seeds of 20 records decide nothing; `dpicl run` on a suite with ten seeds does.")
