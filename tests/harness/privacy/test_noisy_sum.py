"""`NoisySum`: one record moves the sum by at most its radius, exactly; what is released lies on a public grid."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpicl.attacks.observers import Recording
from dpicl.core.errors import UsageError
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Record
from dpicl.privacy.primitives import NoisySum
from dpicl.privacy.private_set import Sample
from dpicl.privacy.release_hooks import observing
from tests.examples import examples

ANYTHING = st.floats(width=64) | st.sampled_from(
    [
        np.inf,
        -np.inf,
        np.nan,
        1e308,
        5e-324,
        0.1,
    ]
)


def records(number):
    return [Record(f"text {n}", "World") for n in range(number)]


def sum_vectors(vectors, weights, noisy):
    recording = Recording(lambda number, release: release.clean)
    sample = Sample(
        [[each] for each in records(len(vectors))],
        noisy.event,
        streams(0).source("noise"),
        own_slots=True,
    )
    with observing(recording):
        noisy.release(np.asarray(vectors, dtype=np.float64), sample, weights)
    return recording.observed_releases[0].release


@settings(max_examples=examples(150))
@given(
    arrays(np.float64, (4, 3), elements=ANYTHING),
    arrays(np.float64, (4, 2), elements=ANYTHING),
    st.sampled_from([0.3, 1.0, 1.5]),
)
def test_an_added_row_moves_the_sum_by_at_most_the_radius(vectors, weights, radius):
    noisy = NoisySum(1.0, radius)
    without, with_it = (
        sum_vectors(
            vectors[:n],
            weights[:n],
            noisy,
        )
        for n in (3, 4)
    )
    moved = with_it.clean - without.clean
    step = with_it.grid
    whole = [
        int(value) for value in (moved / step).ravel()
    ]  # exact: both sums are whole multiples of a power of 2
    assert np.array_equal(moved / step, np.reshape(whole, moved.shape))
    assert sum(value**2 for value in whole) <= (radius / step) ** 2
    assert np.array_equal(
        moved,
        sum_vectors(
            vectors[3:],
            weights[3:],
            noisy,
        ).clean,
    )
    other_order = [2, 0, 1]
    assert np.array_equal(
        without.clean, sum_vectors(vectors[other_order], weights[other_order], noisy).clean
    )


def test_a_release_is_the_sum_plus_noise_that_no_record_changes():
    """The lowest bits of a plain float sum tell which sum the noise was added to; here both share one grid."""
    vectors = np.random.default_rng(0).normal(size=(50, 8))
    noisy = NoisySum(0.7)

    def release(rows):
        sample = Sample(
            [[r] for r in records(len(rows))],
            noisy.event,
            streams(5).source("noise"),
            own_slots=True,
        )
        return noisy.release(rows, sample)

    full, fewer = release(vectors), release(vectors[:-1])
    clean = sum_vectors(vectors, None, noisy)
    assert math.frexp(clean.grid)[0] == 0.5  # a power of 2
    assert np.array_equal(
        full - clean.clean,
        fewer - sum_vectors(vectors[:-1], None, noisy).clean,
    )
    for values in (full, fewer):
        assert np.array_equal(values / clean.grid, np.rint(values / clean.grid))
    assert np.abs(full - clean.clean).max() > 0.1


def test_close_to_the_plain_sum():
    vectors = np.random.default_rng(0).normal(size=(200, 16))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    weights = np.random.default_rng(1).normal(size=(200, 3)) / 10
    assert sum_vectors(vectors, None, NoisySum(1.0)).clean == pytest.approx(
        vectors.sum(axis=0)[None], abs=1e-3
    )
    assert sum_vectors(vectors, weights, NoisySum(1.0)).clean == pytest.approx(
        weights.T @ vectors, abs=0.05
    )


@pytest.mark.parametrize("radius", [5e-324, 1e-310, 1.7e308, math.nan])
def test_a_radius_at_the_ends_of_float64_is_refused(radius):
    """There its steps are 0 or infinite, and a sum that holds a record would be NaN."""
    with pytest.raises(UsageError, match="radius"):
        NoisySum(1.0, radius)
