"""Exact audits end to end, on the simulated model: sound mechanisms stay below their proof, others do not."""

import itertools
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq

from dpicl import audit
from dpicl.accounting import slack
from dpicl.api.tables import failure
from dpicl.attacks.exact_groups import _weights
from dpicl.attacks.exact_pairs import epsilon_of_mu
from dpicl.attacks.results import EXACT, GROUP, LowerBound, attack_from_text
from dpicl.attacks.table import attacks_table, pair_with_settings
from dpicl.core.errors import UsageError
from dpicl.privacy.primitives import GaussianSum
from dpicl.results.schema import to_text
from tests.harness.attacks.understating import Understating
from tests.harness.parrot import Parrot

#: Mechanism -> task, and options that a test can afford.
ROWS = {
    "tang": ("agnews", {"slots": 8, "examples_per_slot": 1, "tokens": 4}),
    "pta": ("agnews", {"slots": 8, "examples_per_slot": 1, "tokens": 4}),
    "hot_pate": ("agnews", {"slots": 8, "examples_per_slot": 1, "tokens": 4}),
    "prism": ("agnews", {"prompts": 8, "tokens": 4}),
    "invisible_ink": ("agnews", {"prompts": 8, "tokens": 4}),
    "private_prediction": ("agnews", {"prompts": 8, "tokens": 4, "private_tokens": 2}),
    "private_evolution": (
        "agnews",
        {"rounds": 2, "candidates": 3, "tokens": 4, "embedding": "sim"},
    ),
    "one_vote": ("agnews", {"candidates": 6, "tokens": 4, "embedding": "sim"}),
    "topic_words": ("agnews", {"words": 4}),
    "dp_opt": ("agnews", {"slots": 6, "instructions": 1, "tokens": 3}),
    "voting": ("agnews", {"slots": 4}),
    "voting_nearest": (
        "agnews",
        {"slots": 4, "embedding": "sim", "threshold": -1.0, "uses": 3},
    ),
    "product_of_experts": ("agnews", {"slots": 6}),
    "embedding_centroids": ("agnews", {"embedding": "sim"}),
    "esa": ("samsum", {"slots": 4, "examples_per_slot": 1, "candidates": 4, "embedding": "sim"}),
    "ksa": ("samsum", {"slots": 4}),
    "sga": ("samsum", {"slots": 4, "public_slots": 4, "embedding": "sim"}),
    "sga_histogram": ("samsum", {"slots": 4, "public_slots": 4, "embedding": "sim"}),
}
#: Those that a canary can move by all that is paid for, whatever the model says.
WHOLE = (
    "hot_pate",
    "private_evolution",
    "one_vote",
    "voting_nearest",
    "embedding_centroids",
    "esa",
)
FAST = ("invisible_ink", "voting", "topic_words", "embedding_centroids")
#: States 1 where one record moves by root two.
BROKEN = Path(__file__).parents[1] / "conformance" / "broken" / "sensitivity_one_for_root_two.py"


def audit_mechanism(mechanism, task="agnews", **changes):
    settings = {
        "epsilon": 1.0,
        "model": "sim",
        "source": "synthetic",
        "test_records": 6,
        "progress": False,
        **changes,
    }
    return audit(mechanism, task=task, exact=True, **settings)[0]


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in ROWS]
)
def test_every_mechanism_is_audited_and_stays_below_its_proof(own_cache, name):
    task, options = ROWS[name]
    result = audit_mechanism(name, task, options=options)
    bound, proved = result.bound, result.privacy.epsilon_proved
    assert 0 <= bound.epsilon <= proved <= 1
    assert (bound.method, bound.confidence) == ("exact", 1.0)
    assert 0 <= result.details["share_of_bound"]["most"] <= 1 + 1e-9
    assert result.details["label_only"] is None or result.details["label_only"] <= bound.epsilon
    assert attack_from_text(to_text(result)) == result
    if name in WHOLE:
        assert bound.epsilon >= 0.95 * proved


def test_queries_that_an_adversary_chose_show_what_was_proved(own_cache):
    task, options = ROWS["voting"]
    settings = {"options": options, "test_records": 9}
    usual, chosen = (
        audit_mechanism("voting", task, queries=queries, **settings)
        for queries in ("own", "chosen")
    )
    assert chosen.counts["releases"] == 9 and chosen.id != usual.id
    assert (
        0.95 * chosen.privacy.epsilon_proved
        <= chosen.bound.epsilon
        <= chosen.privacy.epsilon_proved
    )
    with pytest.raises(UsageError, match="no query"):
        audit_mechanism("tang", task, queries="chosen")


@pytest.mark.parametrize("copies", [2, 5, 10])
def test_copies_that_are_all_released_move_a_sum_so_many_times(own_cache, copies):
    """Centroids: no sampling, so k copies are one Gaussian of k times the move, exactly."""
    task, options = ROWS["embedding_centroids"]
    one, group = (
        audit_mechanism("embedding_centroids", task, options=options, copies=k) for k in (1, copies)
    )
    mu = brentq(lambda mu: epsilon_of_mu(mu, 1e-5) - one.bound.epsilon, 0.01, 5)
    shown, proved = (group.measures[name].value for name in ("group_epsilon", "group_bound"))
    assert group.bound is None and group.attack == GROUP and group.id != one.id
    assert (
        0.98 * epsilon_of_mu(copies * mu, 1e-5)
        <= shown
        <= epsilon_of_mu(copies * mu, 1e-5)
        <= proved
    )
    assert (
        shown > copies * one.bound.epsilon
    )  # at the same delta group privacy gives more than k epsilon
    assert attack_from_text(to_text(group)) == group and failure(group) is None
    assert f"copies {copies}; group epsilon {shown:.2f}" in str(
        attacks_table("", pair_with_settings([group], {}))
    )


def test_a_grid_that_would_be_too_fine_leaves_the_first_ones(own_cache, monkeypatch):
    """As on GINC, where a canary moves PRISM's choices little beside what two of them may."""
    task, options = ROWS["embedding_centroids"]

    def show() -> float:
        result = audit_mechanism("embedding_centroids", task, options=options, copies=2)
        return result.measures["group_epsilon"].value

    finest = show()
    monkeypatch.setattr(
        slack, "MOST_CELLS", 6600
    )  # the first grid has 5,854 cells here, the finer one 6,923
    assert 0.95 * finest < show() <= finest


def test_copies_in_samples_cost_less_than_group_privacy_allows(own_cache):
    task, options = ROWS["voting"]
    one, two = (audit_mechanism("voting", task, options=options, copies=k) for k in (1, 2))
    assert (
        1.5 * one.bound.epsilon
        < two.measures["group_epsilon"].value
        < two.measures["group_bound"].value
    )


def test_weights_are_the_chances_of_copies_in_different_slots():
    """Against all assignments of three copies to three slots or none."""
    rate, slots = 0.3, 3
    expected = np.zeros(4)
    for places in itertools.product(range(slots + 1), repeat=3):  # 0: not in the sample
        inside = [place for place in places if place]
        if len(set(inside)) == len(inside):
            expected[len(inside)] += math.prod(
                rate / slots if place else 1 - rate for place in places
            )
    assert _weights(3, rate, slots) == pytest.approx(expected)
    assert _weights(3, rate, None).sum() == pytest.approx(1)
    assert list(_weights(2, 1.0, 0)) == [
        0,
        0,
        1,
    ]


@dataclass(frozen=True)
class Sized(Parrot):
    """Releases a sum of a size that tells whether anybody is there."""

    name = "sized"

    def answer(self, query, sample, context):
        rows = np.zeros(
            (
                len(sample.slots),
                2 + any(map(bool, sample.slots)),
            )
        )
        return context.task.labels[GaussianSum(context.knob).choose(rows, sample)]


@pytest.mark.parametrize(
    ("method", "confidence"),
    [
        ("exact", 0.95),
        ("rates", 1.0),
        ("gaussian", 1.0),
    ],
)
def test_only_an_exact_bound_is_certain(method, confidence):
    with pytest.raises(ValueError, match="confidence"):
        LowerBound(epsilon=0.5, delta=1e-5, confidence=confidence, method=method)


@pytest.mark.parametrize("copies", [1, 2])
def test_half_the_noise_is_refuted(own_cache, copies):
    result = audit_mechanism(Understating(slots=4, examples_per_slot=2), copies=copies)
    assert failure(result) is not None
    assert copies > 1 or result.bound.epsilon > result.privacy.epsilon_proved


def test_a_refuted_mechanism_fails_the_command(dpicl, tmp_path):
    words = "--exact --task agnews --model sim --source synthetic --epsilon 1 --option slots=4 --limit 2"
    where = ("--plugin", BROKEN, "--results", tmp_path)
    answer = dpicl("audit", BROKEN.stem, *words.split(), *where)
    assert answer.code == 1 and "FAILED" in answer.out
    progress = re.search(
        r"exact audit of \w+ on agnews, epsilon=1: (\d+) runs of the mechanism", answer.err
    )
    assert progress and int(progress[1]) % 2 == 0


def test_a_release_whose_size_follows_from_records_is_named(own_cache):
    with pytest.raises(UsageError, match="size"):
        audit_mechanism(Sized(slots=4, examples_per_slot=2))


@pytest.mark.parametrize(
    ("name", "epsilon"),
    [("zero_shot", 1.0), ("voting", math.inf)],
)
def test_where_there_is_nothing_to_audit_it_says_why(own_cache, name, epsilon):
    with pytest.raises(UsageError):
        audit_mechanism(name, epsilon=epsilon)


def test_the_command_audits_a_suite_s_rows_and_finds_them_again(dpicl, tmp_path):
    suite = tmp_path / "two.yaml"
    suite.write_text(
        "name: two\nversion: 1\nsource: synthetic\nmodels: [sim]\nseeds: [3, 1]\nepsilons: [1, 8]\ntest_records: 2\n"
        "tasks: [agnews]\nmechanisms:\n  - name: zero_shot\n  - name: voting\n    options: {slots: 4}\n"
    )
    words = f"audit --exact --suite {suite} --results {tmp_path}/results --json"
    first, again = dpicl(words), dpicl(words)
    assert first.code == again.code == 0 and first.out == again.out
    results = json.loads(first.out)
    subjects = [
        (
            row["attack"],
            row["subject"]["epsilon"],
            row["subject"]["seed"],
        )
        for row in results
    ]
    assert subjects == [(EXACT, 1.0, 1), (EXACT, 8.0, 1)]
    assert len(list((tmp_path / "results" / "attacks" / EXACT).rglob("*.json"))) == 2
