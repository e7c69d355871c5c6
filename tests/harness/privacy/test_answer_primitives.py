"""Primitives of answer mechanisms: rankings, nearest candidates, top-k, DPM's tree.

Sensitivity under replacement of one row whatever it holds, noise of the stated scale, charge before noise, and without
noise the obvious slow answer.
"""

import itertools
import math

import numpy as np
import pytest
from dp_accounting import dp_event as dp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from harness.errors import BudgetExceeded
from harness.privacy.cluster_tree import SCORE_RANGE, ClusterTree, grid_positions, split_scores
from harness.privacy.events import BoundedRangeDpEvent, flatten
from harness.privacy.primitives import GaussianSum, NearestToMean, clip_norm
from harness.privacy.private_set import Sample
from harness.privacy.top_k import NoisyTopK
from harness.seeds import SeededNoise

WILD = st.floats(width=32, allow_nan=True, allow_infinity=True)
#: Coordinates that fall on grid positions and interval borders as often as beside them.
COORDINATE = st.one_of(st.sampled_from([i / 8 for i in range(-8, 9)]), st.floats(-1, 1))
RADIUS = 0.7


def points(minimum=0, maximum=12, dimensions=2, elements=COORDINATE):
    return st.integers(minimum, maximum).flatmap(lambda n: hnp.arrays(np.float64, (n, dimensions), elements=elements))


def seeded(seed=0):
    return SeededNoise(np.random.default_rng(seed))


def paid(primitive, times=1):
    return Sample(((),), dp.SelfComposedDpEvent(primitive.event, times))


class Recorder:
    """Zeros for noise, and a list of what was asked for; ``allowed=False``: must not be asked."""

    seeded = True

    def __init__(self, allowed=True):
        self.allowed, self.asked = allowed, []

    def gaussian(self, scale, size):
        assert self.allowed, "noise was drawn"
        self.asked.append(("gaussian", scale, size))
        return np.zeros(size)

    def gumbel(self, size):
        assert self.allowed, "noise was drawn"
        self.asked.append(("gumbel", 1.0, size))
        return np.zeros(size)


# --- rankings of noisy sums


def test_a_ranking_is_the_sorted_sum_and_starts_with_the_choice():
    rows = np.eye(5)[[3, 3, 3, 1, 1, 4]]
    off = GaussianSum(0.0)
    assert off.rank(rows, paid(off), seeded()) == [3, 1, 4, 0, 2]
    noisy = GaussianSum(3.0)
    for seed in range(20):
        assert noisy.rank(rows, paid(noisy), seeded(seed))[0] == noisy.choose(rows, paid(noisy), seeded(seed))


def test_two_candidates_change_places_as_often_as_the_gaussian_says():
    """The difference of two counts has noise of standard deviation sqrt(2) * sqrt(2) * sigma."""
    mechanism, draws, noise = GaussianSum(1.5), 4000, seeded()
    rows = np.eye(2)[[0, 0, 0, 1]]
    first = sum(mechanism.rank(rows, paid(mechanism), noise)[0] == 0 for _ in range(draws))
    assert stats.binomtest(first, draws, stats.norm.cdf(2 / (2 * 1.5))).pvalue > 1e-4


# --- nearest candidate to a noisy mean


@given(hnp.arrays(np.float32, (4, 3), elements=WILD))
def test_clipped_rows_stay_in_the_ball_whatever_comes(values):
    out = clip_norm(values, RADIUS)
    assert np.isfinite(out).all()
    assert (np.linalg.norm(out, axis=1) <= RADIUS * (1 + 1e-9)).all()


def test_rows_inside_the_ball_pass_unchanged_and_others_keep_their_direction():
    np.testing.assert_array_equal(clip_norm(np.array([[0.3, -0.4]]), 0.5), [[0.3, -0.4]])
    np.testing.assert_allclose(clip_norm(np.array([[30.0, -40.0], [1e200, 0.0]]), 0.5)[0], [0.3, -0.4])
    assert np.linalg.norm(clip_norm(np.array([[1e300, 1e300]]), 0.5)) <= 0.5


@given(
    hnp.arrays(np.float32, (4, 3), elements=WILD),
    hnp.arrays(np.float32, (1, 3), elements=WILD),
    st.integers(0, 3),
)
def test_one_replaced_row_moves_a_clipped_sum_by_at_most_two_radii(values, record, at):
    changed = values.copy()
    changed[at] = record
    move = clip_norm(values, RADIUS).sum(axis=0) - clip_norm(changed, RADIUS).sum(axis=0)
    assert np.linalg.norm(move) <= 2 * RADIUS + 1e-9


def test_opposite_rows_reach_the_stated_sensitivity():
    one = clip_norm(np.array([[5.0, 0.0], [-5.0, 0.0]]), RADIUS)
    assert np.linalg.norm(one[0] - one[1]) == pytest.approx(2 * RADIUS)


def test_the_nearest_candidate_is_that_of_the_slow_mean_divided_by_the_constant():
    generator = np.random.default_rng(1)
    rows, public = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in generator.normal(size=(2, 6, 4)))
    centre = public.mean(axis=0)
    off = NearestToMean(0.0, RADIUS, divisor=10)
    mean = centre.copy()
    for row in rows:
        away = row - centre
        mean += away * min(1, RADIUS / math.sqrt(sum(away**2))) / 10
    slow = min(range(6), key=lambda at: sum((public[at] - mean) ** 2))
    assert off.choose(rows, centre, public, paid(off), seeded()) == slow


def test_noise_on_the_sum_of_vectors_is_two_radii_times_sigma():
    mechanism, source = NearestToMean(0.51, RADIUS, divisor=5), Recorder()
    mechanism.choose(np.zeros((5, 3)), np.zeros(3), np.eye(3), paid(mechanism), source)
    assert source.asked == [("gaussian", pytest.approx(2 * RADIUS * 0.51), 3)]


def test_the_nearer_of_two_candidates_wins_as_often_as_the_gaussian_says():
    mechanism, draws, noise = NearestToMean(1.0, 0.5, divisor=3), 4000, seeded()
    rows = np.array([[0.3, 0.0], [0.3, 0.0], [0.0, 0.3]])
    wins = sum(mechanism.choose(rows, np.zeros(2), np.eye(2), paid(mechanism), noise) == 0 for _ in range(draws))
    assert stats.binomtest(wins, draws, stats.norm.cdf(0.3 / math.sqrt(2))).pvalue > 1e-4


# --- top-k


def peeled(counts, k, temperature):
    """Probability of every ordered choice of k, drawn one after the other by softmax."""
    result = {}
    for order in itertools.permutations(range(len(counts)), k):
        left, probability = list(range(len(counts))), 1.0
        for at in order:
            weights = [math.exp((counts[i] - max(counts)) / temperature) for i in left]
            probability *= weights[left.index(at)] / sum(weights)
            left.remove(at)
        result[order] = probability
    return result


def test_top_k_has_the_frequencies_of_k_softmax_draws_in_order():
    rows, mechanism, draws, noise = (
        np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 0]]),
        NoisyTopK(2, 1.5),
        6000,
        seeded(),
    )
    expected = peeled(rows.sum(axis=0).tolist(), 2, 1.5)
    seen = dict.fromkeys(expected, 0)
    for _ in range(draws):
        seen[tuple(mechanism.choose(rows, paid(mechanism), noise))] += 1
    assert stats.chisquare(list(seen.values()), [p * draws for p in expected.values()]).pvalue > 1e-4


@given(
    hnp.arrays(np.int8, (3, 4), elements=st.integers(0, 1)),
    hnp.arrays(np.int8, 4, elements=st.integers(0, 1)),
    st.floats(0.3, 5),
)
@settings(deadline=None)
def test_one_replaced_answer_keeps_every_draw_inside_its_bounded_range(rows, record, temperature):
    changed = np.vstack([rows[:-1], record])
    mechanism = NoisyTopK(2, temperature)
    p, r = (peeled(x.sum(axis=0).tolist(), 1, temperature) for x in (rows, changed))
    ratios = [math.log(p[order] / r[order]) for order in p]
    assert max(ratios) - min(ratios) <= mechanism.range_epsilon + 1e-9
    p, r = (peeled(x.sum(axis=0).tolist(), 2, temperature) for x in (rows, changed))
    assert max(abs(math.log(p[order] / r[order])) for order in p) <= 2 * mechanism.range_epsilon + 1e-9


def test_one_count_up_and_one_down_reach_the_stated_range():
    p, r = (peeled(counts, 1, 1.5) for counts in ([3, 2, 2], [2, 3, 2]))
    ratios = [math.log(p[order] / r[order]) for order in p]
    assert max(ratios) - min(ratios) == pytest.approx(NoisyTopK(1, 1.5).range_epsilon)


def test_all_k_choices_are_charged_also_of_a_short_list():
    mechanism = NoisyTopK(10, 4.0)
    assert flatten(mechanism.event) == {BoundedRangeDpEvent(0.5): 10}
    assert sorted(mechanism.choose(np.ones((3, 2)), paid(mechanism), seeded())) == [0, 1]
    assert mechanism.choose(np.ones((3, 0)), paid(mechanism), seeded()) == []


def test_without_noise_top_k_is_the_true_one_and_the_first_of_equal_counts_wins():
    off = NoisyTopK(3, 0.0)
    assert off.event == dp.NonPrivateDpEvent()
    assert off.choose(np.array([[0, 1, 1, 0, 1], [0, 1, 0, 0, 1]]), paid(off), Recorder(allowed=False)) == [1, 4, 2]


@given(hnp.arrays(np.float32, (3, 4), elements=WILD))
def test_counts_are_clipped_row_by_row_whatever_comes(rows):
    off = NoisyTopK(4, 0.0)
    counts = [sum(min(max(x, 0), 1) if math.isfinite(x) else 0 for x in column.tolist()) for column in rows.T]
    chosen = off.choose(rows, paid(off), Recorder(allowed=False))
    assert [counts[at] for at in chosen] == pytest.approx(sorted(counts, reverse=True))


# --- DPM's tree


def slow_scores(inside, grid, interval, expected):
    """DPM's two scores, point by point, in numbers of points."""
    scores = np.zeros((inside.shape[1], len(grid)))
    for dimension, at in itertools.product(range(inside.shape[1]), range(len(grid))):
        column, s = inside[:, dimension].tolist(), grid[at]
        below = sum(x < s for x in column)
        share = min(below, len(column) - below) / expected
        if share <= 1 / 12:
            centre = 0.3 * share / (1 / 12)
        else:
            centre = min(1.0, 0.3 + 0.7 * (share - 1 / 12) / (1 / 2 - 1 / 12))
        near = sum(s - interval / 2 <= x < s + interval / 2 for x in column)
        scores[dimension, at] = expected * (centre + 5 * max(0.0, 1 - near / expected))
    return scores


@given(points(maximum=10), st.floats(0.5, 30), st.integers(1, 8))
def test_scores_are_dpms_centreness_and_emptiness(inside, expected, intervals):
    grid = grid_positions(1.0, intervals)
    got = split_scores(inside, grid, 2 / intervals, expected)
    np.testing.assert_allclose(got, slow_scores(inside, grid, 2 / intervals, expected), rtol=1e-9, atol=1e-9)


@given(points(), hnp.arrays(np.float64, (1, 2), elements=COORDINATE), st.floats(0.5, 30), st.integers(1, 8))
@settings(max_examples=300)
def test_one_more_point_moves_every_score_of_a_box_inside_the_stated_interval(inside, record, expected, intervals):
    grid = grid_positions(1.0, intervals)
    with_it, without = (
        split_scores(some, grid, 2 / intervals, expected) for some in (np.vstack([inside, record]), inside)
    )
    move = with_it - without
    assert move.max() <= 3.6 + 1e-9
    assert move.min() >= -5 - 1e-9


def test_the_stated_interval_of_moves_is_reached():
    """Rank 0 of 12 becomes 1 of 12 at a position beside the new point, whose own interval fills."""
    inside, grid = np.full((20, 1), 1.0), np.array([-0.5, -0.25, 0.5])
    with_it = np.vstack([inside, [[-0.5]]])
    move = split_scores(with_it, grid, 0.2, 20.0) - split_scores(inside, grid, 0.2, 20.0)
    assert move[0].tolist() == pytest.approx([-5, 3.6, 3.6])
    assert move.max() - move.min() == pytest.approx(SCORE_RANGE)


def log_softmax(scores):
    return scores - np.log(np.exp(scores - scores.max()).sum()) - scores.max()


@given(points(0, 8), points(0, 8), hnp.arrays(np.float64, (2, 1, 2), elements=COORDINATE), st.booleans())
@settings(max_examples=300)
def test_all_splits_of_a_level_together_are_one_bounded_range_choice(left, right, records, crosses):
    """The replaced point is in one box before, and in the same or another one after."""
    tree, grid, before, after = ClusterTree(0.7, 1.0), grid_positions(1.0, 8), records[0], records[1]
    if crosses:
        worlds = [(np.vstack([left, before]), right), (left, np.vstack([right, after]))]
    else:
        worlds = [(np.vstack([left, before]), right), (np.vstack([left, after]), right)]
    losses = [
        [log_softmax(split_scores(box, grid, 0.25, 10.0).ravel() * tree.split_epsilon / (2 * SCORE_RANGE)) for box in w]
        for w in worlds
    ]
    ratio = [np.subtract(a, b) for a, b in zip(*losses, strict=True)]
    assert sum(r.max() - r.min() for r in ratio) <= tree.split_epsilon + 1e-9


class Readable:
    """Counts get known numbers in place of noise, far above them and falling, so that every box is split and clusters
    come in the order of their boxes; sums get none. Splits: all random, or on positions that a seed fixes."""

    seeded = True

    def __init__(self, levels, seed, forced=True):
        self.counts_left, self.generator, self.forced = levels, np.random.default_rng(seed), forced

    def gaussian(self, scale, size):
        self.counts_left -= 1
        return known(size) if self.counts_left >= 0 else np.zeros(size)

    def gumbel(self, size):
        if not self.forced:
            return self.generator.gumbel(size=size)
        return np.where(np.arange(size) == self.generator.integers(size), 1e9, 0.0)


def known(size):
    return 1000.0 * np.arange(size, 0, -1)


@given(
    hnp.arrays(np.float32, (6, 2), elements=st.one_of(COORDINATE.map(np.float32), WILD)),
    hnp.arrays(np.float32, (1, 2), elements=st.one_of(COORDINATE.map(np.float32), WILD)),
    st.integers(0, 100),
)
@settings(max_examples=150, deadline=None)
def test_one_replaced_point_moves_counts_by_sqrt_two_and_sums_by_two_radii(values, record, seed):
    tree = ClusterTree(1.0, RADIUS, levels=2)

    def measured(rows):
        found = tree.clusters(rows, paid(tree), Readable(2, seed))
        assert len(found) == 4
        weights = np.array([cluster.weight for cluster in found])
        return weights - known(4), weights[:, None] * np.array([cluster.centre for cluster in found])

    counts, sums = measured(values)
    other_counts, other_sums = measured(np.vstack([record, values[1:]]))
    assert counts.sum() == other_counts.sum() == 6
    assert np.linalg.norm(counts - other_counts) <= math.sqrt(2) + 1e-9
    assert np.linalg.norm(sums - other_sums) <= 2 * RADIUS + 1e-9


def slow_tree(rows, radius, levels, intervals):
    """DPM by recursion, exact: (number of points, their mean) of every cluster."""
    grid = [-radius + 2 * radius / intervals * (j + 0.5) for j in range(intervals)]

    def grow(inside, lower, upper, level):
        places = [(d, s) for d in range(rows.shape[1]) for s in grid if lower[d] < s < upper[d]]
        if level == levels or not places:
            return [inside]
        scores = slow_scores(
            np.array(inside).reshape(-1, rows.shape[1]), grid, 2 * radius / intervals, len(rows) / 2**level
        )
        d, s = max(places, key=lambda place: scores[place[0], grid.index(place[1])])
        left, right = [p for p in inside if p[d] < s], [p for p in inside if p[d] >= s]
        if min(len(left), len(right)) <= len(rows) / 2 ** (levels + 1):
            return [inside]
        low, high = list(lower), list(upper)
        high[d] = low[d] = s
        return grow(left, lower, high, level + 1) + grow(right, low, upper, level + 1)

    return grow(list(rows), [-radius] * rows.shape[1], [radius] * rows.shape[1], 0)


@pytest.mark.parametrize("seed", range(12))
def test_without_noise_the_tree_is_dpm_done_slowly(seed):
    rows = clip_norm(np.random.default_rng(seed).normal(0, 0.4, size=(24, 2 + seed % 2)), RADIUS)
    off = ClusterTree(0.0, RADIUS, levels=3, intervals=6)
    got = off.clusters(rows, paid(off), seeded())
    slow = slow_tree(rows, RADIUS, 3, 6)
    assert [c.weight for c in got] == sorted(map(len, slow), reverse=True)
    expected = sorted((np.mean(cluster, axis=0) for cluster in slow), key=lambda mean: mean.tolist())
    np.testing.assert_allclose(sorted(c.centre.tolist() for c in got), expected, atol=1e-12)


def test_well_separated_clusters_are_found():
    generator, middles = np.random.default_rng(0), np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5]])
    rows = np.vstack([m + generator.normal(0, 0.03, (n, 2)) for m, n in zip(middles, (12, 9, 8), strict=True)])
    off = ClusterTree(0.0, 1.0, levels=2)
    got = off.clusters(rows, paid(off), seeded())
    assert [c.weight for c in got] == [12, 9, 8]
    np.testing.assert_allclose([c.centre for c in got], middles, atol=0.05)
    noisy = ClusterTree(0.01, 1.0, levels=2)
    got = noisy.clusters(rows, paid(noisy), seeded())
    np.testing.assert_allclose([c.centre for c in got], middles, atol=0.05)


def test_counts_and_sums_have_noise_of_the_stated_scale():
    """Two points far apart on one axis and a grid of one position: the split is certain."""
    rows = np.repeat([[-1.0], [1.0]], 50, axis=0)
    tree, noise, counts, sums = ClusterTree(0.4, 1.0, levels=1, intervals=1), seeded(), [], []
    for _ in range(1500):
        got = tree.clusters(rows, paid(tree), noise)
        counts += [c.weight - 50 for c in got]
        sums += [float(c.centre[0] * c.weight - math.copysign(50, c.centre[0])) for c in got]
    assert stats.kstest(counts, stats.norm(scale=math.sqrt(2) * tree.count_multiplier).cdf).pvalue > 1e-4
    assert stats.kstest(sums, stats.norm(scale=2 * tree.sum_multiplier).cdf).pvalue > 1e-4


def test_a_split_has_the_frequencies_of_the_exponential_mechanism():
    rows = np.array([[-0.8], [-0.7], [-0.4], [-0.3], [0.1], [0.2], [0.3], [0.4], [0.8], [0.9]])
    tree, draws, grid = ClusterTree(1.0, 1.0, levels=1, intervals=4), 4000, grid_positions(1.0, 4)
    scores = split_scores(rows, grid, 0.5, 10.0)[0]
    expected = np.exp(log_softmax(scores * tree.split_epsilon / (2 * SCORE_RANGE)))
    below = [known(2)[0] + (rows < position).sum() for position in grid]  # tells the position of a split
    seen = [tree.clusters(rows, paid(tree), Readable(1, seed, forced=False))[0].weight for seed in range(draws)]
    assert len(set(below)) == 4 and set(seen) <= set(below)
    assert stats.chisquare([seen.count(weight) for weight in below], expected * draws).pvalue > 1e-4


@pytest.mark.parametrize("sigma", [0.3, 1.0, 40.0])
@pytest.mark.parametrize("shares", [(0.18, 0.18, 0.6), (1.0, 1.0, 1.0)])
@pytest.mark.parametrize("levels", [1, 3])
def test_the_whole_tree_costs_the_zcdp_of_one_gaussian(sigma, shares, levels):
    tree = ClusterTree(sigma, 1.0, levels, 8, *shares)
    leaves = flatten(tree.event)
    assert sum(leaves.values()) == 2 * levels + 1
    rho = sum(
        n * (leaf.epsilon**2 / 8 if isinstance(leaf, BoundedRangeDpEvent) else 1 / (2 * leaf.noise_multiplier**2))
        for leaf, n in leaves.items()
    )
    assert rho == pytest.approx(1 / (2 * sigma**2))


@pytest.mark.parametrize("sigma", [0.0, 1.0])
@pytest.mark.parametrize("rows", [np.zeros((1, 2)), np.full((5, 2), np.nan), np.full((4, 3), 1e300), np.ones((7, 1))])
def test_a_tree_of_one_point_or_of_equal_points_is_one_cluster_without_noise(sigma, rows):
    tree = ClusterTree(sigma, RADIUS, levels=3)
    got = tree.clusters(rows, paid(tree), seeded())
    assert all(np.isfinite(c.centre).all() and np.isfinite(c.weight) for c in got)
    if sigma == 0:
        assert [c.weight for c in got] == [len(rows)]
        np.testing.assert_allclose(got[0].centre, clip_norm(rows, RADIUS)[0])


def test_a_box_without_a_grid_position_left_stays_whole():
    rows = np.repeat([[-1.0], [1.0]], 8, axis=0)
    off = ClusterTree(0.0, 1.0, levels=4, intervals=1)
    assert [c.weight for c in off.clusters(rows, paid(off), seeded())] == [8, 8]


# --- charges


@pytest.mark.parametrize(
    ("mechanism", "use"),
    [
        (GaussianSum(1.0), lambda m, s, n: m.rank(np.eye(3), s, n)),
        (NearestToMean(1.0, 0.5, 3), lambda m, s, n: m.choose(np.eye(3), np.zeros(3), np.eye(3), s, n)),
        (NoisyTopK(2, 1.0), lambda m, s, n: m.choose(np.eye(3), s, n)),
        (ClusterTree(1.0, 1.0), lambda m, s, n: m.clusters(np.eye(3), s, n)),
    ],
    ids=["rank", "nearest", "top_k", "tree"],
)
def test_a_release_that_was_not_charged_is_refused_before_noise(mechanism, use):
    sample = paid(mechanism)
    use(mechanism, sample, seeded())
    with pytest.raises(BudgetExceeded, match="was not charged"):
        use(mechanism, sample, Recorder(allowed=False))
    with pytest.raises(BudgetExceeded):
        use(mechanism, Sample(((),), dp.GaussianDpEvent(17.0)), Recorder(allowed=False))
