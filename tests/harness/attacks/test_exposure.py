"""Canary exposure: a model that recalls its prompt gives the suffix away, and nothing is found where none is shown."""

import math

import pytest

from dpicl.attacks.driver import jobs_of
from dpicl.attacks.exposure import Exposure
from dpicl.attacks.power import powers
from dpicl.data.task import Task
from dpicl.mechanism.registry import load_mechanisms
from dpicl.models.simulated import SimulatedLM
from dpicl.run.workbench import Workbench

MECHANISMS = load_mechanisms()
SMALL = {"canaries": 4, "candidates": 16, "generations": 2, "trials": 4}


class Recalling(SimulatedLM):
    """An ending is likely where its prompt holds it; else by its text alone."""

    def score(self, queries, prefix=None):
        rows = []
        for query, endings in queries:
            self.usage.tokens_read += len(query)
            shown = self.decode(query)
            words = [self.decode(ending).strip() for ending in endings]
            rows.append(
                [0.0 if word in shown else -20 - sum(map(ord, word)) / 1000 for word in words]
            )
        return rows


def attack(mechanism, task="agnews", model=None, epsilon=math.inf, **options):
    corpus = Task.load(task, "synthetic", limit_train=60, limit_test=4)
    exposure = Exposure(**{**SMALL, **options})
    (job,) = jobs_of(
        exposure, corpus, MECHANISMS[mechanism], [epsilon], model="recalling", members=24
    )
    bench = Workbench(MECHANISMS)
    bench._models["recalling"] = model or Recalling()
    return job.run(bench)


@pytest.mark.parametrize("task", ["agnews", "samsum"])
def test_the_suffix_of_a_shown_canary_is_the_likeliest(own_cache, task):
    result = attack("real_demonstrations", task)
    assert result.measures["exposure"].value == pytest.approx(math.log2(16))
    assert result.measures["auc"].value == 1
    assert result.counts == {"canaries": 16, "first": 16, "releases": 4}
    assert powers([result])[result.id].sufficient is True and result.bound is None


def test_without_private_examples_a_suffix_has_any_rank(own_cache):
    result = attack("zero_shot", generations=6)
    assert result.counts["canaries"] == 24
    for name, chance in (
        (
            "exposure",
            math.log2(16) - math.log2(math.factorial(16)) / 16,
        ),
        ("auc", 0.5),
    ):
        assert result.measures[name].low <= chance <= result.measures[name].high


def test_equal_likelihoods_share_their_ranks(own_cache):
    class Equal(Recalling):
        def score(self, queries, prefix=None):
            return [[-3.0] * len(endings) for _, endings in queries]

    result = attack("real_demonstrations", model=Equal())
    assert result.measures["auc"].value == 0.5 and result.counts["first"] == 0
    assert powers([result])[result.id].sufficient is False


def test_a_seed_finds_the_same_and_answers_are_left_out(own_cache):
    assert attack("zero_shot").measures == attack("zero_shot").measures
    agnews = Task.load("agnews", "synthetic", limit_train=8, limit_test=4)
    assert "answers" in Exposure().skip(MECHANISMS["voting"].cls(), agnews)
