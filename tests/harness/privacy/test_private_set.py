"""Private records come out only through noisy releases that charge; samples are Poisson; a record touches one slot."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event as dp
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpicl.accounting.ledger import Ledger
from dpicl.core.errors import BudgetExceeded, DataError, UsageError
from tests.harness.accounting.makers import make_noise, private_set

GAUSS = dp.GaussianDpEvent(1.0)


def make_numbered_set(n=50, seed=0, epsilon=math.inf, sampling=None):
    """(a private set of n records, its ledger)."""
    ledger = Ledger(None, epsilon)
    return private_set(
        [str(i) for i in range(n)], ledger, sampling=sampling or make_noise(seed)
    ), ledger


def test_revealing_costs_infinity():
    private, ledger = make_numbered_set(3)
    assert len(private.reveal()) == 3
    assert ledger.event() == dp.NonPrivateDpEvent()


def test_a_sample_over_the_budget_flips_no_coin():

    class NoCoins:
        seeded = True

        def uniform(self, size):
            pytest.fail("records were sampled")

    private, _ = make_numbered_set(50, epsilon=0.001, sampling=NoCoins())
    with pytest.raises(BudgetExceeded):
        private.poisson_slots(5, 2, partition="a", releases=GAUSS).draw()


def test_the_number_sampled_is_binomial_and_slots_are_uniform():
    private, _ = make_numbered_set(40)
    sizes, places = [], np.zeros(4)
    sampler = private.poisson_slots(4, 4, partition="a", releases=GAUSS, times=3000)
    for _ in range(3000):
        sample = sampler.draw()
        sizes.append(sum(map(len, sample.slots)))
        places += [len(slot) for slot in sample.slots]
    observed = np.bincount(np.minimum(sizes, 10), minlength=11)
    expected = stats.binom.pmf(np.arange(11), 40, 0.1)
    expected[-1] = stats.binom.sf(9, 40, 0.1)
    assert stats.chisquare(observed, expected / expected.sum() * 3000).pvalue > 1e-4
    assert stats.chisquare(places).pvalue > 1e-4


@given(
    st.integers(1, 30),
    st.integers(1, 8),
    st.integers(0, 1000),
)
def test_every_sampled_record_is_in_exactly_one_slot(n, slots, seed):
    private, _ = make_numbered_set(n, seed)
    sample = private.poisson_slots(n / 2, slots, partition="a", releases=GAUSS).draw()
    texts = [row.text for slot in sample.slots for row in slot]
    assert len(sample.slots) == slots
    assert len(texts) == len(set(texts)) <= n


def test_without_slots_every_sampled_record_stands_alone():
    private, _ = make_numbered_set(30)
    sample = private.poisson_slots(30, None, partition="a", releases=GAUSS).draw()
    assert [len(slot) for slot in sample.slots] == [1] * 30


def test_a_class_below_the_expected_sample_is_refused():
    private, _ = make_numbered_set(10)
    with pytest.raises(UsageError, match="class 'a', which has 10"):
        private.poisson_slots(11, 2, partition="a", releases=GAUSS).draw()


def test_a_class_without_records_is_refused():
    private, _ = make_numbered_set(10)
    with pytest.raises(DataError, match="no private record of 'b'"):
        private.poisson_slots(1, 2, partition="b", releases=GAUSS).draw()


def test_without_labels_all_records_are_one_group():
    private = private_set(["0"] * 10, sizes={None: 10})
    assert private.partition_of("whatever") is None
    assert private.size(None) == 10


def test_samples_are_paid_for_before_the_first_and_no_more_drawn():
    private, ledger = make_numbered_set(10)
    sampler = private.poisson_slots(2, 2, partition="a", releases=GAUSS, times=3)
    assert ledger.to_json()[0]["count"] == 3
    for _ in range(3):
        sampler.draw()
    with pytest.raises(BudgetExceeded, match="More samples"):
        sampler.draw()
    assert ledger.to_json()[0]["count"] == 3


def test_a_sample_is_charged_at_the_rate_of_the_public_size():
    ledger = Ledger(None, math.inf)
    private_set(["a text"] * 51, ledger, sizes={"a": 50}).poisson_slots(
        5, 2, partition="a", releases=GAUSS
    )
    assert ledger.to_json()[0]["event"] == {
        "event": "poisson",
        "rate": 0.1,
        "of": {"event": "gaussian", "noise_multiplier": 1.0},
    }


@pytest.mark.parametrize("times", [0, -5, 2.5])
def test_a_number_of_samples_that_is_no_count_charges_nothing(times):
    private, ledger = make_numbered_set(10)
    private.poisson_slots(2, 2, partition="a", releases=GAUSS, times=5)
    before = ledger.to_json()
    with pytest.raises(UsageError, match="whole number of at least 1"):
        private.poisson_slots(2, 2, partition="a", releases=GAUSS, times=times)
    assert ledger.to_json() == before
