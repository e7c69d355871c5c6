"""Top-1 with a limited domain: its divergence on every tiny histogram, its noise, and what it refuses."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import softmax

from dpicl.accounting import accountants
from dpicl.accounting.bounded_range import choice_delta
from dpicl.accounting.events import EpsilonDeltaDpEvent, flatten
from dpicl.core.errors import BudgetExceeded, PluginError
from dpicl.privacy.limited_domain import LimitedDomain
from dpicl.privacy.private_set import Sample
from tests.harness.accounting.makers import Recorder, make_noise, pay


def neighbours(size, most=3):
    """Every histogram of counts below ``most``, with one vote more and without."""
    for counts in itertools.product(range(most), repeat=size):
        for at in range(size):
            yield np.array(counts), np.array(counts) + np.eye(size, dtype=np.int64)[at]


def excess(epsilon, failure, size, domain, threshold=0.0):
    """How far the hockey-stick divergence of the worst neighbours exceeds what is stated, over many thresholds.

    threshold: what is added to the score of nothing.
    """
    mechanism, worst = LimitedDomain(1 / epsilon, domain, failure), -math.inf
    x = np.linspace(-2 * epsilon, 2 * epsilon, 41)
    stated = failure + (1 - failure) * choice_delta(epsilon, x)

    def release(counts):
        scores = mechanism.scores(counts)
        scores[-1] += threshold
        return softmax(epsilon * scores)

    for fewer, more in neighbours(size):
        p, q = release(fewer), release(more)
        for one, other in ((p, q), (q, p)):
            divergences = np.maximum(
                one[:, None] - np.exp(x) * other[:, None],
                0.0,
            ).sum(axis=0)
            worst = max(worst, float((divergences - stated).max()))
    return worst


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
@pytest.mark.parametrize(
    ("size", "domain"),
    [
        (3, 1),
        (4, 2),
        (4, 3),
    ],
)
@pytest.mark.parametrize("failure", [0.2, 0.01])
def test_no_neighbours_diverge_more_than_a_choice_and_a_failure(epsilon, size, domain, failure):
    assert excess(epsilon, failure, size, domain) <= 1e-12


def test_a_threshold_one_vote_lower_would_break_the_bound():
    assert excess(1.0, 0.01, 4, 2, threshold=-1.0) > 1e-3


def test_the_event_composes_and_costs_what_the_divergence_says():
    event = LimitedDomain(0.5, 10, 1e-6).event
    choice = LimitedDomain(0.5, 10, 1e-6).choice
    failure = EpsilonDeltaDpEvent(0.0, 1e-6)
    assert flatten(event) == {choice: 1, failure: 1}
    upper = accountants.epsilon(event, 1e-5).upper
    assert 1e-6 + (1 - 1e-6) * choice_delta(2.0, np.array([upper]))[0] <= 1e-5 * (1 + 1e-6)
    assert (
        1e-6
        + (1 - 1e-6)
        * choice_delta(
            2.0,
            np.array([upper * 0.99]),
        )[0]
        > 1e-5
    )


def test_without_noise_it_is_the_most_frequent_vote_or_nothing():
    off = LimitedDomain(0.0, 2, 1e-7)

    def choose(*votes):
        return off.choose(
            np.array(votes, dtype=np.int64),
            5,
            pay(
                off,
                make_noise(),
                own_slots=len(votes),
            ),
        )

    assert choose(3, 3, 1, -1, 9) == 3
    assert choose(4) == 4
    assert choose() is None and choose(-1, 9) is None
    assert choose(0, 1, 2) is None  # the third one is as frequent


def test_a_release_draws_once_an_index_and_spends_both_parts():
    mechanism, source = LimitedDomain(0.5, 2, 1e-3), Recorder()
    sample = pay(mechanism, source, own_slots=3)
    mechanism.choose(np.array([1, 1, 2]), 5, sample)
    assert source.asked == [("gumbel", 1.0, 6)]
    with pytest.raises(BudgetExceeded):
        sample.spend(EpsilonDeltaDpEvent(0.0, 1e-3))


def test_shares_of_releases_are_those_of_the_softmax():
    mechanism = LimitedDomain(1.0, 2, 0.5)
    noise = make_noise()
    draws = 2000
    votes = np.array([0, 0, 0, 1, 1])
    chosen = [
        mechanism.choose(
            votes,
            4,
            pay(mechanism, noise, own_slots=5),
        )
        for _ in range(draws)
    ]
    expected = softmax(mechanism.scores(np.bincount(votes, minlength=4)))
    assert set(chosen) == {0, 1, None}
    for at, outcome in (
        (0, 0),
        (1, 1),
        (4, None),
    ):
        share = chosen.count(outcome) / draws
        assert abs(share - expected[at]) < 4 * math.sqrt(expected[at] * (1 - expected[at]) / draws)


def test_misuse_is_refused_before_noise_is_drawn():
    mechanism = LimitedDomain(1.0, 2, 1e-3)
    votes = np.zeros(1, dtype=np.int64)
    source = Recorder(False)
    for sample, size in (
        (pay(mechanism, source), 5),
        (pay(mechanism, source, own_slots=1), 2),
    ):
        with pytest.raises(PluginError):
            mechanism.choose(votes, size, sample)
    with pytest.raises(BudgetExceeded):
        mechanism.choose(
            votes,
            5,
            Sample(((),), mechanism.choice, source, own_slots=True),
        )
