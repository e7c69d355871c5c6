"""Rankings, nearest candidates and top-k: sensitivity under replacement of one row whatever it holds, noise of the
stated scale, charge before noise, and without noise the obvious slow answer."""

import itertools
import math

import numpy as np
import pytest
from dp_accounting import dp_event as dp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from dpicl.core.errors import BudgetExceeded, PluginError
from dpicl.privacy.cluster_tree import ClusterTree
from dpicl.privacy.events import BoundedRangeDpEvent, flatten
from dpicl.privacy.primitives import (
    BoundedRangeChoice,
    GaussianSum,
    NearestToMean,
    ProductChoice,
    clip_log_probs,
    clip_norm,
)
from dpicl.privacy.private_set import Sample
from dpicl.privacy.top_k import NoisyTopK
from tests.harness.privacy.makers import WILD, Recorder, paid, seeded

RADIUS = 0.7


# --- rankings of noisy sums


def test_a_ranking_is_the_sorted_sum_and_starts_with_the_choice():
    rows = np.eye(5)[[3, 3, 3, 1, 1, 4]]
    off = GaussianSum(0.0)
    assert off.rank(rows, paid(off, seeded())) == [3, 1, 4, 0, 2]
    noisy = GaussianSum(3.0)
    for seed in range(20):
        assert noisy.rank(rows, paid(noisy, seeded(seed)))[0] == noisy.choose(rows, paid(noisy, seeded(seed)))


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


@given(hnp.arrays(np.float32, (4, 3), elements=WILD), hnp.arrays(np.float32, (1, 3), elements=WILD))
def test_one_added_row_moves_a_clipped_sum_by_at_most_one_radius(values, record):
    bound = NearestToMean(1.0, RADIUS, divisor=4, own_slots=True).bound
    for before in (values, values[:0]):
        move = clip_norm(np.vstack([before, record]), RADIUS).sum(axis=0) - clip_norm(before, RADIUS).sum(axis=0)
        assert np.linalg.norm(move) <= bound + 1e-9
    assert bound == RADIUS


@pytest.mark.parametrize("count", [0, 5])
def test_noise_on_the_sum_of_vectors_with_own_slots_is_one_radius_times_sigma(count):
    mechanism, source = NearestToMean(0.51, RADIUS, divisor=5, own_slots=True), Recorder()
    mechanism.choose(np.zeros((count, 3)), np.zeros(3), np.eye(3), paid(mechanism, source, own_slots=count))
    assert source.asked == [("gaussian", pytest.approx(RADIUS * 0.51), 3)]


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
    assert off.choose(rows, centre, public, paid(off, seeded())) == slow


def test_noise_on_the_sum_of_vectors_is_two_radii_times_sigma():
    mechanism, source = NearestToMean(0.51, RADIUS, divisor=5), Recorder()
    mechanism.choose(np.zeros((5, 3)), np.zeros(3), np.eye(3), paid(mechanism, source))
    assert source.asked == [("gaussian", pytest.approx(2 * RADIUS * 0.51), 3)]


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
        seen[tuple(mechanism.choose(rows, paid(mechanism, noise)))] += 1
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


@given(
    hnp.arrays(np.int8, (3, 4), elements=st.integers(0, 1)),
    hnp.arrays(np.int8, 4, elements=st.integers(0, 1)),
    st.floats(0.3, 5),
    st.integers(0, 3),
)
@settings(deadline=None)
def test_one_added_answer_keeps_every_draw_inside_half_the_range(rows, record, temperature, number):
    """Every draw of three, also after any two that were taken before."""
    mechanism, before = NoisyTopK(3, temperature, own_slots=True), rows[:number]
    assert mechanism.range_epsilon == pytest.approx(NoisyTopK(3, temperature).range_epsilon / 2)
    counts = before.sum(axis=0), np.vstack([before, record]).sum(axis=0)
    for taken in ((), (0,), (1, 3)):
        left = [at for at in range(4) if at not in taken]
        p, r = (peeled(own[left].tolist(), 1, temperature) for own in counts)
        ratios = [math.log(p[order] / r[order]) for order in p]
        assert max(ratios) - min(ratios) <= mechanism.range_epsilon + 1e-9


def test_one_count_up_reaches_the_range_with_own_slots_and_has_its_temperature():
    p, r = (peeled(counts, 1, 1.5) for counts in ([3, 2], [2, 2]))
    ratios = [math.log(p[order] / r[order]) for order in p]
    mechanism = NoisyTopK(1, 1.5, own_slots=True)
    assert max(ratios) - min(ratios) == pytest.approx(mechanism.range_epsilon)
    rows, draws, noise = np.array([[1, 0], [1, 0]]), 4000, seeded()
    wins = sum(mechanism.choose(rows, paid(mechanism, noise, own_slots=2)) == [0] for _ in range(draws))
    assert stats.binomtest(wins, draws, 1 / (1 + math.exp(-2 / 1.5))).pvalue > 1e-4


def test_all_k_choices_are_charged_also_of_a_short_list():
    mechanism = NoisyTopK(10, 4.0)
    assert flatten(mechanism.event) == {BoundedRangeDpEvent(0.5): 10}
    assert sorted(mechanism.choose(np.ones((3, 2)), paid(mechanism, seeded()))) == [0, 1]
    assert mechanism.choose(np.ones((3, 0)), paid(mechanism, seeded())) == []


def test_without_noise_top_k_is_the_true_one_and_the_first_of_equal_counts_wins():
    off = NoisyTopK(3, 0.0)
    assert off.event == dp.NonPrivateDpEvent()
    assert off.choose(np.array([[0, 1, 1, 0, 1], [0, 1, 0, 0, 1]]), paid(off, Recorder(allowed=False))) == [1, 4, 2]


@given(hnp.arrays(np.float32, (3, 4), elements=WILD))
def test_counts_are_clipped_row_by_row_whatever_comes(rows):
    off = NoisyTopK(4, 0.0)
    counts = [sum(min(max(x, 0), 1) if math.isfinite(x) else 0 for x in column.tolist()) for column in rows.T]
    chosen = off.choose(rows, paid(off, Recorder(allowed=False)))
    assert [counts[at] for at in chosen] == pytest.approx(sorted(counts, reverse=True))


# --- own slots


#: Every use of a primitive that states what one added row moves.
ADDED_ROW = pytest.mark.parametrize(
    ("mechanism", "use"),
    [
        (GaussianSum(1.0, own_slots=True), lambda m, rows, s: m.rank(rows, s)),
        (GaussianSum(1.0, own_slots=True), lambda m, rows, s: m.choose(rows, s)),
        (BoundedRangeChoice(10, 4, 1.0), lambda m, rows, s: m.choose(rows, np.zeros(3), s)),
        (NearestToMean(1.0, 0.5, 3, own_slots=True), lambda m, rows, s: m.choose(rows, np.zeros(3), np.eye(3), s)),
        (ProductChoice(1.0, 1.0, own_slots=True), lambda m, rows, s: m.choose(rows, s)),
        (NoisyTopK(2, 1.0, own_slots=True), lambda m, rows, s: m.choose(rows, s)),
        (ClusterTree(1.0, 1.0, expected=3.0), lambda m, rows, s: m.clusters(rows, s)),
    ],
    ids=["rank", "choose", "softmax", "nearest", "product", "top_k", "tree"],
)


@ADDED_ROW
def test_a_bound_on_one_added_row_is_refused_where_a_record_replaces_one(mechanism, use):
    shared = Sample(((),) * 3, mechanism.event, Recorder(allowed=False))
    with pytest.raises(PluginError, match="poisson_slots"):
        use(mechanism, np.eye(3), shared)
    use(mechanism, np.eye(3), paid(mechanism, seeded(), own_slots=3))


@ADDED_ROW
@pytest.mark.parametrize("number", [0, 2, 5])
def test_where_slots_are_the_records_own_no_row_stands_in_for_a_missing_one_and_none_is_left_out(
    mechanism, use, number
):
    """Public rows that fill up to a constant number are replaced by a record's: that moves a sum by up to twice the
    bound. The charge is still there for the slots' own rows."""
    source = Recorder(allowed=False)
    sample = paid(mechanism, source, own_slots=number)
    with pytest.raises(PluginError, match="one row a slot"):
        use(mechanism, np.eye(3), sample)
    source.allowed = True
    use(mechanism, np.eye(3)[[0] * number], sample)


def test_shared_slots_may_have_any_number_of_rows():
    """A row may be the public prompt's, and every sample of a scheme has the same number of them."""
    for mechanism in (GaussianSum(1.0), NoisyTopK(1, 1.0)):
        for number in (1, 2, 5):
            chosen = mechanism.choose(np.eye(3)[[0] * number], paid(mechanism, seeded()))
            assert set(np.atleast_1d(chosen)) <= {0, 1, 2}


# --- charges


@pytest.mark.parametrize(
    ("mechanism", "use"),
    [
        (GaussianSum(1.0), lambda m, s: m.rank(np.eye(3), s)),
        (GaussianSum(1.0), lambda m, s: m.choose(np.eye(3), s)),
        (BoundedRangeChoice(10, 4, 1.0), lambda m, s: m.choose(np.zeros((3, 3)), np.zeros(3), s)),
        (NearestToMean(1.0, 0.5, 3), lambda m, s: m.choose(np.eye(3), np.zeros(3), np.eye(3), s)),
        (ProductChoice(1.0, 1.0), lambda m, s: m.choose(np.zeros((3, 3)), s)),
        (NoisyTopK(2, 1.0), lambda m, s: m.choose(np.eye(3), s)),
        (ClusterTree(1.0, 1.0), lambda m, s: m.clusters(np.eye(3), s)),
    ],
    ids=["rank", "choose", "softmax", "nearest", "product", "top_k", "tree"],
)
def test_a_release_that_was_not_charged_is_refused_before_noise(mechanism, use):
    source = Recorder()
    own = 3 if isinstance(mechanism, BoundedRangeChoice) else None
    sample = paid(mechanism, source, own_slots=own)
    use(mechanism, sample)
    source.allowed = False
    with pytest.raises(BudgetExceeded, match="was not charged"):
        use(mechanism, sample)
    with pytest.raises(BudgetExceeded):
        use(mechanism, Sample(((),) * 3, dp.GaussianDpEvent(17.0), source, own_slots=own is not None))


# --- product of experts

LOGS = st.lists(st.floats(-30, 0) | st.sampled_from([-math.inf, math.nan, 1e308, -1e308]), min_size=3, max_size=3)


@pytest.mark.parametrize("own", [True, False])
@given(rows=st.lists(LOGS, max_size=3), record=LOGS)
def test_the_odds_of_a_product_of_experts_move_within_the_stated_range_for_every_pair_of_answers(own, rows, record):
    """Exact: the loss of every answer lies in an interval of the stated length that holds 0."""
    mechanism = ProductChoice(0.7, 0.4, own_slots=own)
    rows = np.array(rows).reshape(-1, 3)
    others = rows if own else rows[:-1]

    def logs(*parts):
        scores = sum((clip_log_probs(part, mechanism.clip).sum(axis=0) for part in parts), np.zeros(3))
        return scores / mechanism.temperature - np.logaddexp.reduce(scores / mechanism.temperature)

    without = logs(others) if own else logs(others, rows[-1:])
    loss = logs(others, np.array([record])) - without
    assert np.ptp(loss) <= mechanism.range_epsilon + 1e-9
    assert loss.min() <= 1e-9 and loss.max() >= -1e-9


def test_a_product_of_experts_draws_from_the_softmax_of_its_scores():
    mechanism = ProductChoice(1.0, 0.5, own_slots=True)
    rows = np.log([[0.6, 0.2, 0.2], [0.4, 0.5, 0.1]])
    scores = np.maximum(rows, -1).sum(axis=0)
    expected = np.exp(scores / 0.5) / np.exp(scores / 0.5).sum()
    drawn = [mechanism.choose(rows, paid(mechanism, seeded(i), own_slots=2)) for i in range(3000)]
    assert np.bincount(drawn, minlength=3) / 3000 == pytest.approx(expected, abs=0.04)
    off = ProductChoice(1.0, 0.0, own_slots=True)
    assert off.choose(rows, paid(off, Recorder(allowed=False), own_slots=2)) == int(scores.argmax())


def test_an_expert_with_a_number_that_is_none_says_nothing_and_an_impossible_label_counts_as_the_floor():
    rows = np.array([[-0.5, np.nan, 0.0], [-1.0, -0.4, -np.inf], [-1.0, -0.4, -9.0]])
    said = clip_log_probs(rows, 2.0)
    assert said.tolist() == [[0, 0, 0], [-1.0, -0.4, -2.0], [-1.0, -0.4, -2.0]]
    sure = ProductChoice(2.0, 0.0, own_slots=True)
    assert sure.choose(rows, paid(sure, Recorder(allowed=False), own_slots=3)) == 1
