"""Primitives: one record moves what is released by at most what is stated, whatever rows hold, and the noise has the
charged scale; charges come before noise; without noise the answer is the obvious slow one."""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event as dp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from dpicl.accounting.events import BoundedRangeDpEvent, flatten
from dpicl.core.errors import BudgetExceeded, PluginError
from dpicl.core.seeds import SecureNoise, SeededNoise, streams
from dpicl.privacy.cluster_tree import ClusterTree
from dpicl.privacy.primitives import (
    BoundedRangeChoice,
    DifferenceChoice,
    GaussianSum,
    NearestToMean,
    NoisySum,
    ProductChoice,
    clip_log_probs,
    clip_norm,
    clip_scores,
    project_sub_simplex,
)
from dpicl.privacy.private_set import Sample
from dpicl.privacy.release_hooks import NoisyRelease
from dpicl.privacy.top_k import NoisyTopK
from dpicl.privacy.vote_histogram import VoteHistogram
from tests.harness.accounting.makers import WILD, Recorder, make_noise, pay
from tests.samples import noisy_releases

SIZE, RADIUS, SIGMA = 4, 0.7, 0.51
PUBLIC = np.log([0.1, 0.2, 0.3, 0.4])
FIRST, SECOND = np.eye(SIZE)[:2]
NOTHING = np.zeros(SIZE)
#: Log-probabilities, or logits, that say one thing and its opposite as loudly as floats can.
FOR = np.array([0.0, -99.0, -99.0, -99.0])
AGAINST = np.array([-99.0, 0.0, 0.0, 0.0])


def votes_of(rows: np.ndarray) -> np.ndarray:
    """A vote from the first number of each row, also for what is no candidate."""
    return (
        np.nan_to_num(
            rows[:, 0],
            posinf=9,
            neginf=-9,
        )
        .clip(-9, 9)
        .astype(np.int64)
    )


@dataclass(frozen=True)
class Use:
    """A primitive that is asked about rows [M, SIZE].

    bound: what one record moves its release by at most: in L2 (a sum), or the range of the moves (a choice); a row that
    is ``before`` (None: not there, every record has a slot of its own) and ``after`` reach it.
    """

    mechanism: Any
    bound: float
    after: np.ndarray
    before: np.ndarray | None = None
    ask: Callable[[Any, np.ndarray, Sample], Any] = lambda mechanism, rows, sample: (
        mechanism.choose(rows, sample)
    )

    @property
    def own(self) -> bool:
        return self.before is None

    def sample(self, noise: Any, slots: int = 3) -> Sample:
        return pay(self.mechanism, noise, own_slots=slots if self.own else None)

    def release(self, rows: np.ndarray) -> NoisyRelease:
        """What is released of the rows, before its noise."""
        with noisy_releases() as releases:
            self.ask(self.mechanism, rows, self.sample(Recorder(), len(rows)))
        return releases[0]

    def measure_move(self, rows: Sequence[np.ndarray], more: Sequence[np.ndarray]) -> float:
        """How far a sum, or the range of scores, is moved between two neighbours, whose scale and bound are one."""
        one, other = (self.release(np.array(each).reshape(-1, SIZE)) for each in (rows, more))
        assert one.bound == other.bound
        assert one.scale == other.scale
        move = other.clean - one.clean
        return float(np.linalg.norm(move) if one.kind == "gaussian" else np.ptp(move))


def ask_near(mechanism: NearestToMean, rows: np.ndarray, sample: Sample) -> int:
    return mechanism.choose(rows, NOTHING, np.eye(SIZE), sample)


def ask_with_public(mechanism: BoundedRangeChoice, rows: np.ndarray, sample: Sample) -> int:
    return mechanism.choose(rows, PUBLIC, sample)


def ask_votes(mechanism: VoteHistogram, rows: np.ndarray, sample: Sample) -> list[list[int]]:
    return mechanism.best(
        votes_of(rows),
        ((0, 1, 2), (3,)),
        1,
        sample,
    )


def ask_held(mechanism: NoisyTopK, rows: np.ndarray, sample: Sample) -> list[int]:
    """Each word three times, and two that are none."""
    held = [
        [
            *np.flatnonzero(np.nan_to_num(row) > 0).tolist() * 3,
            -1,
            SIZE,
        ]
        for row in rows
    ]
    return mechanism.choose_held(held, SIZE, sample)


SUMS = {
    "sum": Use(GaussianSum(SIGMA), math.sqrt(2), FIRST, SECOND),
    "sum, own slots": Use(GaussianSum(SIGMA, own_slots=True), 1, FIRST),
    "nearest": Use(
        NearestToMean(SIGMA, RADIUS, 5),
        2 * RADIUS,
        9 * FIRST,
        -9 * FIRST,
        ask_near,
    ),
    "nearest, own slots": Use(
        NearestToMean(SIGMA, RADIUS, 5, own_slots=True), RADIUS, 9 * FIRST, ask=ask_near
    ),
    "votes": Use(VoteHistogram(SIGMA), 1, FIRST, ask=ask_votes),
    "exact sum": Use(
        NoisySum(SIGMA, RADIUS),
        RADIUS,
        9 * FIRST,
        ask=lambda noisy, rows, sample: noisy.release(rows, sample),
    ),
}
CHOICES = {
    "softmax": Use(BoundedRangeChoice(10, 4, 1.5), 10 / 4, FOR, ask=ask_with_public),
    "differences": Use(
        DifferenceChoice(10, 4, 1.5), 2 * 10 / 4, 99 * FIRST - 50, ask=ask_with_public
    ),
    "top k": Use(NoisyTopK(2, 1.5), 2, FIRST, SECOND),
    "top k, own slots": Use(NoisyTopK(2, 1.5, own_slots=True), 1, FIRST),
    "top k, held": Use(NoisyTopK(2, 1.5), 2, FIRST, SECOND, ask_held),
    "top k, held, own slots": Use(NoisyTopK(2, 1.5, own_slots=True), 1, FIRST, ask=ask_held),
    "product": Use(ProductChoice(RADIUS, 0.4), 2 * RADIUS, FOR, AGAINST),
    "product, own slots": Use(ProductChoice(RADIUS, 0.4, own_slots=True), RADIUS, FOR),
}
RELEASES = SUMS | CHOICES
#: Besides, what releases several times, or another thing of the same sum.
ALL = RELEASES | {
    "rank": Use(
        GaussianSum(SIGMA),
        0,
        FIRST,
        SECOND,
        lambda mechanism, rows, sample: mechanism.rank(rows, sample),
    ),
    "tree": Use(
        ClusterTree(1.0, 1.0),
        0,
        FIRST,
        SECOND,
        lambda tree, rows, sample: tree.clusters(rows, sample),
    ),
    "tree, own slots": Use(
        ClusterTree(1.0, 1.0, expected=3.0),
        0,
        FIRST,
        ask=lambda tree, rows, sample: tree.clusters(rows, sample),
    ),
}


# --- what one record moves, and the noise


@pytest.mark.parametrize("name", RELEASES)
@given(
    rows=arrays(np.float32, (3, SIZE), elements=WILD),
    record=arrays(np.float32, SIZE, elements=WILD),
)
def test_one_record_moves_a_release_by_at_most_its_bound(name, rows, record):
    use = RELEASES[name]
    pairs = [(rows, [*rows, record]), ([], [record])] if use.own else [(rows, [record, *rows[1:]])]
    for without, with_it in pairs:
        assert use.measure_move(without, with_it) <= use.bound * (1 + 1e-9)


def test_rows_in_float32_are_summed_in_float64():
    """Rounding moved a sum of shares by more than the stated bound."""
    rows = np.array(
        [[0, 1, 0, 0], [0, 1 / 3, 0, 0]],
        dtype=np.float32,
    )
    use = RELEASES["top k, own slots"]
    assert (
        use.measure_move(
            rows,
            [
                *rows,
                np.array(
                    [0, 1, 1, 1],
                    dtype=np.float32,
                ),
            ],
        )
        <= use.bound
    )


@pytest.mark.parametrize("name", RELEASES)
def test_the_bound_is_reached_and_its_noise_is_what_was_charged(name):
    use, source = RELEASES[name], Recorder()
    rows = [] if use.before is None else [use.before]
    assert use.measure_move(rows, [use.after]) == pytest.approx(use.bound, rel=1e-4)
    release = use.release(np.array([use.after]))
    assert release.bound == pytest.approx(use.bound)
    if name in SUMS:
        assert use.mechanism.event == dp.GaussianDpEvent(SIGMA)
        assert release.scale == pytest.approx(use.bound * SIGMA)
        use.ask(
            use.mechanism,
            np.ones((3, SIZE)),
            use.sample(source),
        )
        ((law, scale, size),) = source.asked
        assert law == "gaussian"
        assert size == SIZE
        assert scale == pytest.approx(use.bound * SIGMA)
    else:
        ((event, count),) = flatten(use.mechanism.event).items()
        assert isinstance(event, BoundedRangeDpEvent) and count == release.count
        assert (
            event.epsilon == pytest.approx(use.bound / release.scale) == use.mechanism.range_epsilon
        )
        assert release.scale == pytest.approx(use.mechanism.temperature)


def compute_ordered_draws(scores: np.ndarray, count: int) -> dict[tuple[int, ...], float]:
    """Probability of every ordered choice, drawn one after the other by softmax."""
    chances = {}
    for order in itertools.permutations(range(len(scores)), count):
        left, probability = list(range(len(scores))), 1.0
        for at in order:
            probability *= math.exp(scores[at]) / sum(math.exp(scores[other]) for other in left)
            left.remove(at)
        chances[order] = probability
    return chances


@pytest.mark.parametrize("name", CHOICES)
def test_choices_are_draws_from_the_softmax_in_order(name):
    use, noise, draws = CHOICES[name], make_noise(), 1200
    rows = (
        np.array(
            [
                [0.9, 0.4, 0.0, 0.2],
                [0.6, 0.0, 1.0, 0.1],
                [0.3, 0.8, 0.2, 0.0],
            ]
        )
        - 0.1
    )
    release = use.release(rows)
    expected = compute_ordered_draws(release.clean / release.scale, release.count)
    counts: Counter[tuple[int, ...]] = Counter()
    for _ in range(draws):
        counts[tuple(np.atleast_1d(use.ask(use.mechanism, rows, use.sample(noise))).tolist())] += 1
    observed = [counts[order] for order in expected]
    assert (
        stats.chisquare(
            observed,
            [draws * p for p in expected.values()],
        ).pvalue
        > 1e-4
    )


# --- slots and charges

OWN = [name for name in ALL if ALL[name].own]


@pytest.mark.parametrize("name", OWN)
def test_a_bound_on_an_added_row_is_refused_for_a_replaced_one(name):
    use = ALL[name]
    with pytest.raises(PluginError, match="poisson_slots"):
        use.ask(
            use.mechanism,
            np.eye(3, SIZE),
            pay(use.mechanism, Recorder(allowed=False)),
        )
    use.ask(
        use.mechanism,
        np.eye(3, SIZE),
        use.sample(make_noise()),
    )


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("number", [0, 2, 5])
def test_own_slots_have_one_row_each_and_none_is_left_out(name, number):
    """Public rows that fill up to a constant number are replaced by a record's: that moves a sum by up to twice the
    bound. The charge is still there for the slots' own rows."""
    use, source = ALL[name], Recorder(allowed=False)
    sample = use.sample(source, number)
    with pytest.raises(PluginError, match="one row a slot"):
        use.ask(use.mechanism, np.eye(3, SIZE), sample)
    source.allowed = True
    use.ask(
        use.mechanism,
        np.eye(3, SIZE)[[0] * number],
        sample,
    )


def test_shared_slots_may_have_any_number_of_rows():
    """A row may be the public prompt's, and every sample of a scheme has the same number of them."""
    for name, number in itertools.product(("sum", "top k"), (1, 2, 5)):
        use = ALL[name]
        chosen = use.ask(
            use.mechanism,
            np.eye(SIZE)[[0] * number],
            use.sample(make_noise()),
        )
        assert set(np.atleast_1d(chosen)) <= set(range(SIZE))


@pytest.mark.parametrize("name", ALL)
def test_a_release_that_was_not_charged_is_refused_before_noise(name):
    use, source = ALL[name], Recorder()
    sample = use.sample(source)
    use.ask(use.mechanism, np.eye(3, SIZE), sample)
    source.allowed = False
    with pytest.raises(BudgetExceeded, match="was not charged"):
        use.ask(use.mechanism, np.eye(3, SIZE), sample)
    other = Sample(
        ((),) * 3,
        dp.GaussianDpEvent(17.0),
        source,
        own_slots=use.own,
    )
    with pytest.raises(BudgetExceeded):
        use.ask(use.mechanism, np.eye(3, SIZE), other)


# --- rows are bounded one by one


@given(
    arrays(
        np.float32,
        (4, 6),
        elements=WILD,
    ),
    st.floats(0.5, 20),
)
def test_bounded_rows_stay_in_their_public_set_whatever_comes(values, bound):
    simplex = project_sub_simplex(values)
    assert (simplex >= 0).all()
    assert (simplex.sum(axis=1) <= 1 + 1e-9).all()
    assert (np.linalg.norm(clip_norm(values, bound), axis=1) <= bound * (1 + 1e-9)).all()
    assert (np.abs(clip_scores(values, bound)) <= bound + 1e-9).all()


@pytest.mark.parametrize(
    "bounded", [project_sub_simplex, partial(clip_norm, radius=0.5), partial(clip_scores, clip=10)]
)
def test_a_row_is_bounded_to_the_same_bits_beside_any_others(
    bounded,
):
    """Columns that are picked from several rows lie one after the other in memory, those of one row do not."""
    picked = np.random.default_rng(0).random((5, 700))[:, np.arange(0, 600, 2)]
    for at, row in enumerate(bounded(picked)):
        assert row.tobytes() == bounded(picked[[at]])[0].tobytes()


def test_what_is_inside_passes_and_vectors_keep_their_direction():
    simplex = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.1]])
    np.testing.assert_allclose(project_sub_simplex(simplex), simplex)
    np.testing.assert_array_equal(
        clip_norm(np.array([[0.3, -0.4]]), 0.5),
        [[0.3, -0.4]],
    )
    clipped = clip_norm(
        np.array(
            [
                [30.0, -40.0],
                [1e300, 1e300],
            ]
        ),
        0.5,
    )
    np.testing.assert_allclose(clipped[0], [0.3, -0.4])
    assert np.linalg.norm(clipped[1]) <= 0.5


def test_clipping_is_the_published_formula_and_ignores_a_shift():
    z = np.array([[3.0, -1.0, 2.5, -40.0]])
    np.testing.assert_allclose(
        clip_scores(z, 10),
        np.maximum(-10, z - 3.0 + 10),
    )
    np.testing.assert_allclose(clip_scores(z - 123.0, 10), clip_scores(z, 10))


# --- without noise


def pay_without_noise(mechanism: Any, slots: int | None = None) -> Sample:
    return pay(mechanism, Recorder(allowed=False), own_slots=slots)


def test_a_ranking_is_the_sorted_sum_and_starts_with_the_choice():
    rows = np.eye(5)[[3, 3, 3, 1, 1, 4]]
    assert GaussianSum(0.0).rank(
        rows,
        pay(GaussianSum(0.0), make_noise()),
    ) == [3, 1, 4, 0, 2]
    noisy = GaussianSum(3.0)
    for seed in range(20):
        assert noisy.rank(rows, pay(noisy, make_noise(seed)))[0] == noisy.choose(
            rows, pay(noisy, make_noise(seed))
        )


def test_the_nearest_candidate_is_that_of_the_slow_mean():
    rows, public = (
        x / np.linalg.norm(x, axis=1, keepdims=True)
        for x in np.random.default_rng(1).normal(size=(2, 6, 4))
    )
    centre = public.mean(axis=0)
    mean = centre.copy()
    for row in rows:
        away = row - centre
        mean += away * min(1, RADIUS / math.sqrt(sum(away**2))) / 10
    slow = min(
        range(6),
        key=lambda at: sum((public[at] - mean) ** 2),
    )
    nearest = NearestToMean(0.0, RADIUS, divisor=10)
    assert nearest.choose(rows, centre, public, pay(nearest, Recorder())) == slow


def test_softmax_scores_are_clipped_rows_over_the_constant():
    values = np.array([[0.1, 0.7, 0.2], [0.5, 0.4, 0.1]])
    greedy, logits = BoundedRangeChoice(10, 2, 0.0), np.log(values)
    clipped = [
        [
            max(
                -10,
                z[i] - max(z) + 10,
            )
            for i in range(3)
        ]
        for z in logits
    ]
    slow = [(clipped[0][i] + clipped[1][i]) / 4 + clipped[1][i] / 2 for i in range(3)]
    assert greedy.choose(
        logits,
        logits[1],
        pay_without_noise(greedy, 2),
    ) == int(np.argmax(slow))
    assert (
        greedy.choose(
            np.zeros((0, 3)),
            np.log([0.1, 0.2, 0.7]),
            pay_without_noise(greedy, 0),
        )
        == 2
    )  # the public scores are left
    # Divided by the number of rows, this one would decide.
    faint = BoundedRangeChoice(clip=10, divisor=100, temperature=0.0)
    assert (
        faint.choose(
            np.array([[0.0, -20.0]]),
            np.array([-0.5, 0.0]),
            pay_without_noise(faint, 1),
        )
        == 1
    )


def test_the_range_of_prism_is_c_over_s_tau():
    prism = BoundedRangeChoice(clip=10, divisor=380, temperature=1.1295)
    assert prism.range_epsilon == pytest.approx(0.02330, abs=1e-5)
    for off in (
        BoundedRangeChoice(10, 380, 0),
        ProductChoice(1, 0),
        NoisyTopK(3, 0),
        GaussianSum(0),
    ):
        assert off.event == dp.NonPrivateDpEvent()


def test_all_k_choices_are_charged_also_of_a_short_list():
    mechanism = NoisyTopK(10, 4.0)
    assert flatten(mechanism.event) == {BoundedRangeDpEvent(0.5): 10}
    assert sorted(
        mechanism.choose(
            np.ones((3, 2)),
            pay(mechanism, make_noise()),
        )
    ) == [0, 1]
    assert (
        mechanism.choose(
            np.ones((3, 0)),
            pay(mechanism, make_noise()),
        )
        == []
    )


@given(arrays(np.float32, (3, 4), elements=WILD))
def test_top_k_are_the_largest_counts_of_clipped_rows(rows):
    first = NoisyTopK(3, 0.0)
    assert first.choose(
        np.array(
            [
                [0, 1, 1, 0, 1],
                [0, 1, 0, 0, 1],
            ]
        ),
        pay_without_noise(first),
    ) == [
        1,
        4,
        2,
    ]  # of equal ones the first
    every = NoisyTopK(4, 0.0)
    counts = [
        sum(min(max(x, 0), 1) if math.isfinite(x) else 0 for x in column.tolist())
        for column in rows.T
    ]
    assert [counts[at] for at in every.choose(rows, pay_without_noise(every))] == pytest.approx(
        sorted(counts, reverse=True)
    )


@given(arrays(np.bool_, (3, 4)))
def test_rows_of_a_long_list_count_as_whole_ones_do(rows):
    every = NoisyTopK(4, 0.0)
    held = [np.flatnonzero(row).tolist() for row in rows]
    assert every.choose_held(held, 4, pay_without_noise(every)) == every.choose(
        rows, pay_without_noise(every)
    )
    assert every.choose_held(held, 0, pay_without_noise(every)) == []


def test_nan_says_nothing_and_an_impossible_label_is_the_floor():
    rows = np.array(
        [
            [-0.5, np.nan, 0.0],
            [-1.0, -0.4, -np.inf],
            [-1.0, -0.4, -9.0],
        ]
    )
    assert clip_log_probs(rows, 2.0).tolist() == [
        [0, 0, 0],
        [-1.0, -0.4, -2.0],
        [-1.0, -0.4, -2.0],
    ]
    sure = ProductChoice(2.0, 0.0, own_slots=True)
    assert sure.choose(rows, pay_without_noise(sure, 3)) == 1


# --- histograms of votes

GROUPS = ((0, 2, 4), (1, 3))


@given(st.lists(st.integers(-3, 8), max_size=12))
def test_votes_are_those_of_a_slow_count_and_others_abstain(votes):
    histogram = VoteHistogram(0.0)
    sample = pay(histogram, Recorder(), own_slots=len(votes))
    best = histogram.best(
        np.array(votes, dtype=np.int64),
        GROUPS,
        2,
        sample,
    )
    assert best == [
        sorted(
            group,
            key=lambda at: -votes.count(at),
        )[:2]
        for group in GROUPS
    ]


def test_draws_follow_the_counts_that_reach_the_threshold():
    generator = np.random.default_rng(0)
    votes = np.array([0] * 6 + [2] * 2 + [3])
    every = VoteHistogram(0.0)
    first, second = every.draw(
        votes,
        GROUPS,
        4000,
        pay(every, Recorder(), own_slots=9),
        generator,
    )
    assert set(first) == {0, 2} and set(second) == {3}
    assert stats.binomtest(first.count(0), 4000, 0.75).pvalue > 1e-4
    silent = VoteHistogram(1.0, threshold=4.0)  # the recorder's noise is 0
    first, second = silent.draw(
        votes, GROUPS, 4000, pay(silent, Recorder(), own_slots=9), generator
    )
    assert set(first) == {0}
    assert stats.binomtest(second.count(1), 4000, 0.5).pvalue > 1e-4  # none reaches it: uniform


@pytest.mark.parametrize(
    "groups",
    [
        ((0, 1), (1, 2)),
        ((0, 2),),
        ((0,), ()),
        ((1, 2),),
    ],
)
def test_groups_that_are_no_partition_are_refused(groups):
    histogram = VoteHistogram(1.0)
    with pytest.raises(PluginError):
        histogram.best(
            np.zeros(1, dtype=np.int64),
            groups,
            1,
            pay_without_noise(histogram, 1),
        )


# --- sources of noise


@pytest.mark.parametrize(
    "source",
    [SecureNoise(), SeededNoise(lambda shot: np.random.default_rng(1))],
    ids=["secure", "seeded"],
)
def test_noise_sources_draw_the_stated_distributions(source):
    n = 20_000
    assert (
        stats.kstest(
            source.gaussian(2.5, n),
            stats.norm(scale=2.5).cdf,
        ).pvalue
        > 1e-4
    )
    assert stats.kstest(source.gumbel(n), stats.gumbel_r.cdf).pvalue > 1e-4
    assert stats.kstest(source.uniform(n), stats.uniform.cdf).pvalue > 1e-4


def test_secure_noise_never_repeats_and_holds_no_seed():
    assert not np.array_equal(
        SecureNoise().gaussian(1.0, 50),
        SecureNoise().gaussian(1.0, 50),
    )
    for name in ("noise", "sampling"):
        assert not streams(7, "secure").source(name).seeded
        assert streams(7, "seeded").source(name).seeded
