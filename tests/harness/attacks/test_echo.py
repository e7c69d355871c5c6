"""Echo: n-grams by hand, a copy that is found and refuted, and releases that hold no record."""

import math
from collections import Counter
from dataclasses import dataclass
from itertools import cycle

import numpy as np
import pytest

from dpicl.attacks.broken import broken_mechanisms
from dpicl.attacks.driver import jobs_of
from dpicl.attacks.echo import Echo, NGrams
from dpicl.core.plugins import Registered
from dpicl.core.vocabulary import Demonstration
from dpicl.mechanism.bases import DemonstrationMechanism, Knob
from dpicl.mechanism.registry import load_mechanisms
from dpicl.privacy.primitives import GaussianSum
from dpicl.run.workbench import Workbench

MECHANISMS = load_mechanisms() | broken_mechanisms()
GAME = {"model": "sim", "members": 40, "others": 40}


@dataclass(frozen=True)
class Copier(DemonstrationMechanism):
    """Releases records word for word and states the cost of one noisy sum."""

    name = "copier"
    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)
    source = "broken on purpose"
    summary = "copies"
    needs = "nothing"

    def events(self, knob, sizes):
        return GaussianSum(knob, own_slots=True).event

    def release(self, private, context):
        event = GaussianSum(context.knob, own_slots=True).event
        sample = private.poisson_slots(
            private.size(None), None, partition=None, releases=event
        ).draw()
        sample.spend(event).noisy_sum(np.zeros(2), 1.0)
        stock = cycle(record.text for (record,) in sample.slots)
        return [
            Demonstration(text, label) for text, label in zip(stock, context.shots, strict=False)
        ]


def attack(mechanism, task, epsilon=math.inf, **setting):
    job = jobs_of(
        Echo(generations=2, trials=5), task, mechanism, [epsilon], {}, **{**GAME, **setting}
    )[0]
    return job.run(Workbench(MECHANISMS))


def test_n_grams_have_the_probabilities_of_the_definition():
    grams = [("a", "b"), ("b", "a"), ("a", "b")]
    model = NGrams.of([grams])
    expected = (math.log(3 / 5) + math.log(1 / 5)) / 2  # two words, and one that was never seen
    assert model.mean_log_prob([("a", "b"), ("a", "c")]) == pytest.approx(expected)
    assert model.mean_log_prob(grams, Counter(grams)) == pytest.approx(math.log(1 / 3))
    assert NGrams.of([]).mean_log_prob(grams) == 0.0 == model.mean_log_prob([])


@pytest.mark.parametrize("name", ["real_demonstrations", "broken_demonstrations"])
def test_records_that_are_shown_are_found(name, agnews, own_cache):
    auc = attack(MECHANISMS[name], agnews).measures["auc"]
    assert auc.value > 0.95 and auc.low > 0.8


@pytest.mark.parametrize("name", ["zero_shot", "prism"])
def test_releases_without_records_give_nobody_away(name, agnews, own_cache):
    result = attack(MECHANISMS[name], agnews, 1.0)
    assert result.measures["auc"].low < 0.5 < result.measures["auc"].high
    assert result.bound.epsilon <= result.privacy.epsilon_proved


def test_a_mechanism_that_copies_is_refuted(samsum, own_cache):
    result = attack(Registered(Copier, "test"), samsum, 0.5, shots=30)
    assert result.bound.epsilon > result.privacy.epsilon_proved
    assert result.curve_bound > result.bound.epsilon and result.refutes_proof


def test_answers_are_no_texts_to_compare_with(agnews):
    assert "no texts" in Echo().skip(MECHANISMS["voting"].cls(), agnews)
