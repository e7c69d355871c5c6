"""AboveThreshold: its theorem and the primitive against exact computation.

With w = e^(-rho/b), uniform on (0, 1), a query is above with probability min(1, w e^((h - t)/b)). So what a round
answers has piecewise polynomial integrals, which Gauss-Legendre quadrature computes exactly.
"""

import itertools
import math

import numpy as np
import pytest
from dp_accounting import dp_event as dp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpicl.accounting.accountants import epsilon
from dpicl.accounting.adversaries import QUESTIONS, round_adversary
from dpicl.accounting.bounded_range import round_pair
from dpicl.accounting.decomposition import components
from dpicl.accounting.events import (
    AboveThresholdDpEvent,
    BoundedRangeDpEvent,
    above_threshold,
    gaussian,
)
from dpicl.accounting.sampled_composites import compose_losses
from dpicl.core.errors import BudgetExceeded, PluginError, UnsupportedEvent
from dpicl.privacy.above_threshold import AboveThreshold, first_chances
from dpicl.privacy.private_set import Sample
from dpicl.privacy.release_hooks import Permit
from tests.examples import examples
from tests.harness.accounting.makers import WILD, Recorder, make_noise

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)


def compute_exactly(queries):
    """float64[n + 1]: chances that the first "above" is at each of n queries, (h - t)/b, and that there is none."""
    levels = np.exp(np.asarray(queries, dtype=float))
    cuts = [0.0, *sorted(1 / level for level in levels if level > 1), 1.0]
    chances = np.zeros(len(levels) + 1)
    for low, high in itertools.pairwise(cuts):
        w = (low + high) / 2 + (high - low) / 2 * NODES
        weights = WEIGHTS * (high - low) / 2
        alive = np.ones_like(w)
        for at, level in enumerate(levels):
            above = np.minimum(1.0, w * level)
            chances[at] += weights @ (alive * above)
            alive = alive * (1 - above)
        chances[-1] += weights @ alive
    return chances


def delta(present, absent, x):
    """The hockey-stick divergence at e^x, of removal and of addition of the record."""
    one = np.maximum(present - math.exp(x) * absent, 0.0).sum()
    return one, np.maximum(absent - math.exp(x) * present, 0.0).sum()


QUERIES = st.lists(st.floats(-6, 2), min_size=1, max_size=7)


@given(
    QUERIES,
    st.lists(st.floats(0, 1), min_size=7, max_size=7),
    st.sampled_from([0.05, 0.2, 1.0]),
    st.floats(-2, 2),
)
@settings(max_examples=examples(200))
def test_no_divergence_of_a_round_is_above_its_two_outcomes(queries, shares, size, x):
    """At the ends of the interval of the theorem, size and 2 size, the bound is 0: no loss lies beyond them."""
    present = compute_exactly([h + size * s for h, s in zip(queries, shares, strict=False)])
    absent = compute_exactly(queries)
    for at in (x, size, 2 * size):
        for divergence, bound in zip(
            delta(present, absent, at), delta(*round_pair(size), at), strict=True
        ):
            assert divergence <= bound + 1e-9


def rounds(size, number, raise_first):
    """(present, absent) of adaptive rounds: the queries of a round depend on where the last one ended."""
    pairs = [(1.0, 1.0, 0)]
    for _ in range(number):
        after = []
        for with_it, without, state in pairs:
            queries = [*[-0.5, -1.5, 0.3][state:], 0.0]
            raised = [h + size * (at < raise_first[state]) for at, h in enumerate(queries)]
            chances = zip(compute_exactly(raised), compute_exactly(queries), strict=True)
            after += [
                (
                    with_it * p,
                    without * q,
                    min(at, 2),
                )
                for at, (p, q) in enumerate(chances)
            ]
        pairs = after
    return np.array([p for p, _, _ in pairs]), np.array([q for _, q, _ in pairs])


@pytest.mark.parametrize("rate", [1.0, 0.2])
@pytest.mark.parametrize(
    "plan",
    [
        (1, 1, 1),
        (9, 9, 9),
        (1, 9, 2),
        (0, 9, 1),
    ],
)
def test_adaptive_rounds_stay_below_the_bound_in_both_directions(plan, rate):
    size, number = 0.4, 4
    present, absent = rounds(size, number, plan)
    assert present.sum() == pytest.approx(1)
    assert absent.sum() == pytest.approx(1)
    present = (1 - rate) * absent + rate * present
    event = dp.PoissonSampledDpEvent(
        rate, dp.SelfComposedDpEvent(AboveThresholdDpEvent(size), number)
    )
    total = compose_losses(components(event, None), 64)
    for x in np.linspace(0, 1.5, 7):
        assert max(delta(present, absent, x)) <= total.get_delta_for_epsilon(x) + 1e-9


def test_rounds_and_choices_on_one_sample_stay_below_the_bound():
    """A round, then a choice of two at one end of its range, twice; both directions, with and without sampling."""
    size, width, rate = 0.3, 0.5, 0.1
    first = np.stack(
        [
            compute_exactly([0.0, 0.5]),
            compute_exactly([-size, 0.5]),
        ]
    )
    t = 0.7 * width
    high = math.expm1(t - width) / math.expm1(-width)
    choice = np.array(
        [
            [high, 1 - high],
            [
                high * math.exp(-t),
                (1 - high) * math.exp(width - t),
            ],
        ]
    )
    once = [np.outer(a, b).ravel() for a, b in zip(first, choice, strict=True)]
    present, absent = (np.outer(side, side).ravel() for side in once)
    assert present.sum() == pytest.approx(1, abs=1e-9)
    assert absent.sum() == pytest.approx(1)
    inside = dp.SelfComposedDpEvent(
        dp.ComposedDpEvent((AboveThresholdDpEvent(size), BoundedRangeDpEvent(width))), 2
    )
    for q in (1.0, rate):
        total = compose_losses(components(dp.PoissonSampledDpEvent(q, inside), None), 64)
        for x in (0.0, 0.1, 0.4, 0.9):
            divergence = max(delta((1 - q) * absent + q * present, absent, x))
            assert divergence <= total.get_delta_for_epsilon(x) + 1e-9


def test_two_outcomes_compose_as_binomials():
    """The accounting of rounds alone, against the exact sum."""
    size, number = 0.3, 12
    present, absent = round_pair(size)
    np.testing.assert_allclose(np.log(present / absent), [size, -2 * size])
    k = np.arange(number + 1)
    ways = np.array(
        [math.comb(number, int(each)) for each in k],
        dtype=float,
    )
    p, q = [ways * side[0] ** k * side[1] ** (number - k) for side in (present, absent)]
    event = dp.SelfComposedDpEvent(AboveThresholdDpEvent(size), number)
    upper = epsilon(event, 1e-5).upper
    assert max(delta(p, q, upper)) <= 1e-5 < max(delta(p, q, 0.99 * upper))


def test_the_adversary_of_the_slack_is_a_round():
    pair = round_adversary(0.4)
    np.testing.assert_allclose(
        pair.present,
        compute_exactly([0.0] * (QUESTIONS + 1)),
        atol=1e-12,
    )
    np.testing.assert_allclose(
        pair.absent,
        compute_exactly([-0.4] + [0.0] * QUESTIONS),
        atol=1e-12,
    )


def sample(primitive, noise, slots=1, times=1):
    return Sample(
        ((),) * slots, dp.SelfComposedDpEvent(primitive.event, times), noise, own_slots=True
    )


def test_the_primitive_answers_with_the_exact_chances():
    queries = [-1.2, 0.4, -0.3]
    ends = np.zeros(4)
    primitive, noise = AboveThreshold(0.5, 1, 8.0), make_noise(3)
    assert primitive.scale == 1 / 8
    for _ in range(2000):
        ask, at = primitive.start(sample(primitive, noise)), 0
        while at < len(queries) and not ask(np.array([0.5 + queries[at] / 8])):
            at += 1
        ends[at] += 1
    assert stats.chisquare(ends, 2000 * compute_exactly(queries)).pvalue > 1e-4


def test_a_threshold_is_drawn_once_a_round_and_queries_afresh():
    primitive, noise = (
        AboveThreshold(0.5, 1, 1.0),
        Recorder(),
    )  # zeros: threshold and queries have the same noise
    one = sample(primitive, noise, times=2)
    for number in (1, 2):
        ask = primitive.start(one)
        assert [ask(np.array([h])) for h in (0.4, 0.49, 0.5)] == [False, False, True]
        assert noise.asked == [("gumbel", 1.0, 1)] * (4 * number)


def test_a_round_ends_with_its_first_yes_and_with_its_sample():
    primitive = AboveThreshold(0.5, 1, 1.0)
    one = sample(primitive, Recorder())
    ask = primitive.start(one)
    assert ask(np.array([1.0]))
    with pytest.raises(BudgetExceeded, match="second charge"):
        ask(np.array([0.0]))
    with pytest.raises(BudgetExceeded, match="was not charged"):
        primitive.start(one)
    other = sample(primitive, Recorder())
    ask = primitive.start(other)
    other.close()
    with pytest.raises(PluginError, match="closed"):
        ask(np.array([0.0]))


@given(st.lists(WILD, max_size=5), WILD)
@settings(max_examples=examples(200))
def test_one_more_value_raises_a_query_by_at_most_its_bound(values, value):
    primitive, values_of_queries = AboveThreshold(0.5, 3, 1.0), list[float]()

    class Watching(Recorder):
        def gumbel(self, size):
            return np.zeros(size)

    def note(value):
        values_of_queries.append(value)
        return True

    def query(rows):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Permit, "threshold_round", lambda self, threshold, bound: note)
            primitive.start(sample(primitive, Watching(), slots=len(rows)))(
                np.array(rows, dtype=np.float32)
            )
        return values_of_queries[-1]

    move = query([*values, value]) - query(values)
    assert -1e-12 <= move <= primitive.bound + 1e-12
    assert query([]) == 0


def test_shared_slots_and_missing_rows_are_refused():
    primitive = AboveThreshold(0.5, 3, 1.0)
    shared = Sample(((), ()), primitive.event, Recorder())
    with pytest.raises(PluginError, match="slot of its own"):
        primitive.start(shared)(np.zeros(2))
    with pytest.raises(PluginError, match="one row a slot"):
        primitive.start(sample(primitive, Recorder(), slots=2))(np.zeros(3))


def test_events_and_permits_of_rounds():
    assert above_threshold(0.0) == dp.NoOpDpEvent()
    assert AboveThreshold(0.5, 3, math.inf).event == dp.NonPrivateDpEvent()
    for event in (
        gaussian(1.0),
        BoundedRangeDpEvent(1.0),
        dp.SelfComposedDpEvent(AboveThresholdDpEvent(1.0), 2),
    ):
        with pytest.raises(UnsupportedEvent):
            Permit(event, Recorder(allowed=False)).threshold_round(0.5, 1.0)
    with pytest.raises(UnsupportedEvent):
        Permit(AboveThresholdDpEvent(1.0), Recorder(allowed=False)).noisy_choice(np.zeros(2), 1.0)
    with pytest.raises(PluginError, match="above 0"):
        Permit(AboveThresholdDpEvent(1.0), Recorder(allowed=False)).threshold_round(0.5, 0.0)


def test_without_noise_the_comparison_is_exact():
    primitive = AboveThreshold(0.5, 2, math.inf)
    ask = primitive.start(
        Sample(
            ((), ()),
            primitive.event,
            Recorder(allowed=False),
            own_slots=True,
        )
    )
    assert not ask(np.array([0.5, 0.4]))
    assert ask(np.array([0.5, 0.5]))


@pytest.mark.parametrize("distance", [-0.7, 0.0, 0.2])
def test_the_chance_of_a_first_yes_is_that_of_laplace_noise(distance):
    np.testing.assert_allclose(
        first_chances(distance, 0.3), compute_exactly([distance / 0.3])[::-1], atol=1e-9
    )
    assert first_chances(distance, 0.0).tolist() == [
        float(distance < 0),
        float(distance >= 0),
    ]
