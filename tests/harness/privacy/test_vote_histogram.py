"""Histograms of votes: one more record adds 1 to one count, noise of the stated scale, and what follows from it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpicl.attacks.observers import Recording
from dpicl.core.errors import BudgetExceeded, PluginError
from dpicl.privacy.private_set import Sample
from dpicl.privacy.release_hooks import observing
from dpicl.privacy.vote_histogram import VoteHistogram
from tests.harness.privacy.makers import Recorder, paid, seeded

GROUPS = ((0, 2, 4), (1, 3))
VOTES = st.lists(st.integers(-3, 8), max_size=12)


def clean_counts(votes):
    recording, histogram = Recording(), VoteHistogram(1.0)
    with observing(recording):
        histogram.best(np.array(votes, dtype=np.int64), GROUPS, 1, paid(histogram, Recorder(), own_slots=len(votes)))
    (observation,) = recording.observed_releases
    return observation.noisy_release


@given(VOTES, st.integers(-3, 8))
def test_one_more_vote_adds_one_to_one_count_or_nothing(votes, added):
    before, after = clean_counts(votes), clean_counts([*votes, added])
    move = after.clean - before.clean
    assert move.tolist() == [float(at == added) for at in range(5)]
    assert np.linalg.norm(move) <= before.bound == VoteHistogram.bound


@given(VOTES)
def test_the_counts_are_those_of_a_slow_count_and_others_abstain(votes):
    assert clean_counts(votes).clean.tolist() == [votes.count(at) for at in range(5)]


def test_the_noise_is_sigma_on_every_count():
    histogram, source = VoteHistogram(0.51), Recorder()
    histogram.best(np.zeros(4, dtype=np.int64), GROUPS, 1, paid(histogram, source, own_slots=4))
    assert source.asked == [("gaussian", pytest.approx(0.51), 5)]


def test_without_noise_the_best_of_each_group_are_the_sorted_counts():
    off, votes = VoteHistogram(0.0), np.array([4, 4, 4, 0, 3, 3, 1, -1])
    best = off.best(votes, GROUPS, 2, paid(off, seeded(), own_slots=8))
    assert best == [[4, 0], [3, 1]]
    assert off.best(votes, GROUPS, 9, paid(off, seeded(), own_slots=8)) == [[4, 0, 2], [3, 1]]


def test_draws_follow_the_counts_that_reach_the_threshold():
    generator, off = np.random.default_rng(0), VoteHistogram(0.0)
    votes = np.array([0] * 6 + [2] * 2 + [3])
    first, second = off.draw(votes, GROUPS, 4000, paid(off, seeded(), own_slots=9), generator)
    assert set(first) == {0, 2} and set(second) == {3}
    assert stats.binomtest(first.count(0), 4000, 0.75).pvalue > 1e-4
    silent = VoteHistogram(1.0, threshold=4.0)  # the recorder's noise is 0
    first, second = silent.draw(votes, GROUPS, 4000, paid(silent, Recorder(), own_slots=9), generator)
    assert set(first) == {0}
    assert stats.binomtest(second.count(1), 4000, 0.5).pvalue > 1e-4  # none reaches it: uniform


@pytest.mark.parametrize("groups", [((0, 1), (1, 2)), ((0, 2),), ((0,), ()), ((1, 2),)])
def test_groups_that_are_no_partition_are_refused(groups):
    histogram = VoteHistogram(1.0)
    with pytest.raises(PluginError):
        histogram.best(np.zeros(1, dtype=np.int64), groups, 1, paid(histogram, Recorder(False), own_slots=1))


def test_shared_slots_other_numbers_of_votes_and_unpaid_releases_are_refused_before_noise_is_drawn():
    histogram, votes = VoteHistogram(1.0), np.zeros(1, dtype=np.int64)
    for sample in (paid(histogram, Recorder(False)), paid(histogram, Recorder(False), own_slots=2)):
        with pytest.raises(PluginError):
            histogram.best(votes, ((0,),), 1, sample)
    unpaid = Sample(((),), VoteHistogram(2.0).event, Recorder(False), own_slots=True)
    with pytest.raises(BudgetExceeded):
        histogram.best(votes, ((0,),), 1, unpaid)
