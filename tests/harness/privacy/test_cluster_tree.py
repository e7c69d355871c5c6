"""DPM's tree: what one replaced point moves, whatever it holds, noise of the stated scale, and without noise DPM done
slowly."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from dpicl.accounting.events import BoundedRangeDpEvent, flatten
from dpicl.privacy.cluster_tree import (
    SCORE_RANGE,
    ClusterTree,
    _Box,
    _halves,
    grid_positions,
    split_scores,
)
from dpicl.privacy.primitives import clip_norm
from tests.examples import examples
from tests.harness.accounting.makers import WILD, make_noise, pay

#: Coordinates that fall on grid positions and interval borders as often as beside them.
COORDINATE = st.one_of(
    st.sampled_from([i / 8 for i in range(-8, 9)]),
    st.floats(-1, 1),
)
RADIUS = 0.7


def points(minimum=0, maximum=12, dimensions=2, elements=COORDINATE):
    return st.integers(minimum, maximum).flatmap(
        lambda n: hnp.arrays(np.float64, (n, dimensions), elements=elements)
    )


def slow_scores(inside, grid, interval, expected):
    """DPM's two scores, point by point, in numbers of points."""
    scores = np.zeros((inside.shape[1], len(grid)))
    for dimension, at in itertools.product(
        range(inside.shape[1]),
        range(len(grid)),
    ):
        column, s = inside[:, dimension].tolist(), grid[at]
        below = sum(x < s for x in column)
        share = min(below, len(column) - below) / expected
        if share <= 1 / 12:
            centre = 0.3 * share / (1 / 12)
        else:
            centre = min(
                1.0,
                0.3 + 0.7 * (share - 1 / 12) / (1 / 2 - 1 / 12),
            )
        near = sum(s - interval / 2 <= x < s + interval / 2 for x in column)
        scores[dimension, at] = expected * (centre + 5 * max(0.0, 1 - near / expected))
    return scores


@given(
    points(maximum=10),
    st.floats(0.5, 30),
    st.integers(1, 8),
)
def test_scores_are_dpms_centreness_and_emptiness(inside, expected, intervals):
    grid = grid_positions(1.0, intervals)
    got = split_scores(inside, grid, 2 / intervals, expected)
    np.testing.assert_allclose(
        got, slow_scores(inside, grid, 2 / intervals, expected), rtol=1e-9, atol=1e-9
    )


@given(
    points(),
    hnp.arrays(np.float64, (1, 2), elements=COORDINATE),
    st.floats(0.5, 30),
    st.integers(1, 8),
)
@settings(max_examples=examples(300))
def test_one_more_point_moves_scores_inside_the_stated_interval(
    inside, record, expected, intervals
):
    grid = grid_positions(1.0, intervals)
    with_it, without = (
        split_scores(some, grid, 2 / intervals, expected)
        for some in (np.vstack([inside, record]), inside)
    )
    move = with_it - without
    assert -5 - 1e-9 <= move.min() <= move.max() <= 3.6 + 1e-9


def test_the_stated_interval_of_moves_is_reached():
    """Rank 0 of 12 becomes 1 of 12 at a position beside the new point, whose own interval fills."""
    inside = np.full((20, 1), 1.0)
    grid = np.array([-0.5, -0.25, 0.5])
    with_it = np.vstack([inside, [[-0.5]]])
    move = split_scores(with_it, grid, 0.2, 20.0) - split_scores(inside, grid, 0.2, 20.0)
    assert move[0].tolist() == pytest.approx([-5, 3.6, 3.6])
    assert np.ptp(move) == pytest.approx(SCORE_RANGE)


def test_splits_pay_for_a_replaced_point_or_an_added_one():
    """A point that is added moves the scores of one box; one that is replaced moves scores twice."""
    assert ClusterTree(0.7, 1.0, expected=6.0).split_width == SCORE_RANGE
    assert ClusterTree(0.7, 1.0).split_width == 2 * SCORE_RANGE


def log_softmax(scores):
    return scores - np.log(np.exp(scores - scores.max()).sum()) - scores.max()


class Readable:
    """Counts get known numbers in place of noise, far above them and falling, so that every box is split and clusters
    come in the order of their boxes; sums get none. Splits: all random, or on positions that a seed fixes."""

    seeded = True

    def __init__(self, levels, seed, forced=True):
        self.counts_left = levels
        self.generator = np.random.default_rng(seed)
        self.forced = forced

    def gaussian(self, scale, size):
        self.counts_left -= 1
        return make_values(size) if self.counts_left >= 0 else np.zeros(size)

    def gumbel(self, size):
        if not self.forced:
            return self.generator.gumbel(size=size)
        return np.where(
            np.arange(size) == self.generator.integers(size),
            1e9,
            0.0,
        )


def make_values(size):
    return 1000.0 * np.arange(size, 0, -1)


POINT = st.one_of(COORDINATE.map(np.float32), WILD)


@pytest.mark.parametrize("own_slots", [False, True])
@given(
    hnp.arrays(np.float32, (6, 2), elements=POINT),
    hnp.arrays(np.float32, (1, 2), elements=POINT),
    st.integers(0, 100),
    st.integers(0, 6),
)
@settings(max_examples=examples(150))
def test_one_point_moves_counts_and_sums_by_at_most_their_bounds(
    own_slots, values, record, seed, number
):
    """A replaced point moves counts by sqrt(2) and sums by two radii, an added one (own slots) by one and by a radius,
    also where there was none."""
    tree = ClusterTree(1.0, RADIUS, levels=2, expected=6.0 if own_slots else None)
    assert (tree.count_bound, tree.sum_bound) == (
        (1, RADIUS) if own_slots else (math.sqrt(2), 2 * RADIUS)
    )

    def measure(rows):
        clusters = tree.clusters(
            rows, pay(tree, Readable(2, seed), own_slots=len(rows) if own_slots else None)
        )
        assert len(clusters) == 4
        weights = np.array([cluster.weight for cluster in clusters])
        return weights - make_values(4), weights[:, None] * np.array(
            [cluster.centre for cluster in clusters]
        )

    before, after = (
        (values[:number], [*values[:number], record[0]])
        if own_slots
        else (values, [record[0], *values[1:]])
    )
    (counts, sums), (other_counts, other_sums) = measure(before), measure(np.array(after))
    assert counts.sum() == len(before) and other_counts.sum() == len(after)
    assert np.linalg.norm(counts - other_counts) <= tree.count_bound + 1e-9
    assert np.linalg.norm(sums - other_sums) <= tree.sum_bound + 1e-9


def test_the_number_of_points_shows_nowhere_where_it_is_private():
    """Nothing is split, so the one cluster shows what is released without noise: the expected number."""
    for number in (0, 3, 40):
        tree = ClusterTree(1.0, RADIUS, levels=1, intervals=1, expected=6.0)
        clusters = tree.clusters(
            np.full((number, 2), 0.3),
            pay(tree, Unsplit(), own_slots=number),
        )
        assert [cluster.weight for cluster in clusters] == [6.0]


class Unsplit:
    """Counts get noise far below 0, so that no box is split."""

    seeded = True

    def gaussian(self, scale, size):
        return np.full(size, -1e9)

    def gumbel(self, size):
        return np.zeros(size)


def slow_tree(rows, radius, levels, intervals):
    """DPM by recursion, exact: (number of points, their mean) of every cluster."""
    grid = [-radius + 2 * radius / intervals * (j + 0.5) for j in range(intervals)]

    def grow(inside, lower, upper, level):
        places = [(d, s) for d in range(rows.shape[1]) for s in grid if lower[d] < s < upper[d]]
        if level == levels or not places:
            return [inside]
        scores = slow_scores(
            np.array(inside).reshape(-1, rows.shape[1]),
            grid,
            2 * radius / intervals,
            len(rows) / 2**level,
        )
        d, s = max(
            places,
            key=lambda place: scores[place[0], grid.index(place[1])],
        )
        left = [p for p in inside if p[d] < s]
        right = [p for p in inside if p[d] >= s]
        if min(len(left), len(right)) <= len(rows) / 2 ** (levels + 1):
            return [inside]
        low, high = list(lower), list(upper)
        high[d] = low[d] = s
        return grow(left, lower, high, level + 1) + grow(right, low, upper, level + 1)

    return grow(
        list(rows),
        [-radius] * rows.shape[1],
        [radius] * rows.shape[1],
        0,
    )


@pytest.mark.parametrize("seed", range(6))
def test_without_noise_the_tree_is_dpm_done_slowly(seed):
    rows = clip_norm(
        np.random.default_rng(seed).normal(
            0,
            0.4,
            size=(24, 2 + seed % 2),
        ),
        RADIUS,
    )
    off = ClusterTree(0.0, RADIUS, levels=3, intervals=6)
    got = off.clusters(rows, pay(off, make_noise()))
    slow = slow_tree(rows, RADIUS, 3, 6)
    assert [c.weight for c in got] == sorted(map(len, slow), reverse=True)
    expected = sorted(
        (np.mean(cluster, axis=0) for cluster in slow), key=lambda mean: mean.tolist()
    )
    np.testing.assert_allclose(
        sorted(c.centre.tolist() for c in got),
        expected,
        atol=1e-12,
    )


def test_counts_and_sums_have_noise_of_the_stated_scale():
    """Two points far apart on one axis and a grid of one position: the split is certain."""
    rows = np.repeat([[-1.0], [1.0]], 50, axis=0)
    tree = ClusterTree(0.4, 1.0, levels=1, intervals=1)
    noise = make_noise()
    counts, sums = [], []
    for _ in range(600):
        got = tree.clusters(rows, pay(tree, noise))
        counts += [c.weight - 50 for c in got]
        sums += [float(c.centre[0] * c.weight - math.copysign(50, c.centre[0])) for c in got]
    assert (
        stats.kstest(
            counts,
            stats.norm(scale=math.sqrt(2) * tree.count_multiplier).cdf,
        ).pvalue
        > 1e-4
    )
    assert (
        stats.kstest(
            sums,
            stats.norm(scale=2 * tree.sum_multiplier).cdf,
        ).pvalue
        > 1e-4
    )


def test_a_split_has_the_chances_of_the_exponential_mechanism():
    rows = np.array([[-0.8], [-0.7], [-0.4], [-0.3], [0.1], [0.2], [0.3], [0.4], [0.8], [0.9]])
    tree = ClusterTree(1.0, 1.0, levels=1, intervals=4)
    draws = 1500
    grid = grid_positions(1.0, 4)
    scores = split_scores(rows, grid, 0.5, 10.0)[0]
    expected = np.exp(log_softmax(scores * tree.split_epsilon / (2 * SCORE_RANGE)))
    below = [
        make_values(2)[0] + (rows < position).sum() for position in grid
    ]  # tells the position of a split
    weights = [
        tree.clusters(
            rows,
            pay(
                tree,
                Readable(1, seed, forced=False),
            ),
        )[0].weight
        for seed in range(draws)
    ]
    assert len(set(below)) == 4 and set(weights) <= set(below)
    assert (
        stats.chisquare(
            [weights.count(weight) for weight in below],
            expected * draws,
        ).pvalue
        > 1e-4
    )


@pytest.mark.parametrize("sigma", [0.3, 1.0, 40.0])
@pytest.mark.parametrize(
    "shares",
    [
        (0.18, 0.18, 0.6),
        (1.0, 1.0, 1.0),
    ],
)
@pytest.mark.parametrize("levels", [1, 3])
def test_the_whole_tree_costs_the_zcdp_of_one_gaussian(sigma, shares, levels):
    tree = ClusterTree(sigma, 1.0, levels, 8, *shares)
    parts = flatten(tree.event)
    assert sum(parts.values()) == 2 * levels + 1
    rho = sum(
        n
        * (
            part.epsilon**2 / 8
            if isinstance(part, BoundedRangeDpEvent)
            else 1 / (2 * part.noise_multiplier**2)
        )
        for part, n in parts.items()
    )
    assert rho == pytest.approx(1 / (2 * sigma**2))


@pytest.mark.parametrize("sigma", [0.0, 1.0])
@pytest.mark.parametrize(
    "rows",
    [
        np.zeros((1, 2)),
        np.full((5, 2), np.nan),
        np.full((4, 3), 1e300),
        np.ones((7, 1)),
    ],
)
def test_one_point_or_equal_points_are_one_cluster_without_noise(sigma, rows):
    tree = ClusterTree(sigma, RADIUS, levels=3)
    got = tree.clusters(rows, pay(tree, make_noise()))
    assert all(np.isfinite(c.centre).all() and np.isfinite(c.weight) for c in got)
    if sigma == 0:
        assert [c.weight for c in got] == [len(rows)]
        np.testing.assert_allclose(got[0].centre, clip_norm(rows, RADIUS)[0])


def test_a_box_without_a_grid_position_left_stays_whole():
    rows = np.repeat([[-1.0], [1.0]], 8, axis=0)
    off = ClusterTree(0.0, 1.0, levels=4, intervals=1)
    assert [c.weight for c in off.clusters(rows, pay(off, make_noise()))] == [8, 8]


def test_a_point_on_a_border_is_in_the_half_that_scores_count():
    rows = np.array(
        [
            [-0.5, 0.0],
            [0.25, 0.0],
            [0.25, 0.1],
            [0.5, 0.0],
        ]
    )
    box = _Box(
        np.array([-1.0, -1.0]),
        np.array([1.0, 1.0]),
        np.arange(4),
        4.0,
    )
    left, right = _halves(box, rows, 0, 0.25)
    assert left.members.tolist() == [0]
    assert right.members.tolist() == [1, 2, 3]
    score = split_scores(rows, np.array([0.25]), 1e-9, 4.0)[0, 0]
    assert (
        score
        == slow_scores(
            rows,
            np.array([0.25]),
            1e-9,
            4.0,
        )[0, 0]
    )
    assert min(len(left.members), len(right.members)) == 1
