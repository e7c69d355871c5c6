"""Slack: the adversaries behind it are real, meet what is known exactly, and never cost more than what is proved."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event as dp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import laplace

from dpicl.accounting import calibration
from dpicl.accounting.accountants import epsilon
from dpicl.accounting.adversaries import (
    MOST_CHOICES,
    WorstPair,
    choices_pair,
    compose_pairs,
    following_pair,
    gaussian_pair,
    hockey,
    moment,
    threshold_rounds,
)
from dpicl.accounting.bounded_range import choices_delta, sampled_choices_delta
from dpicl.accounting.calibration import slack_of
from dpicl.accounting.events import (
    AboveThresholdDpEvent,
    BoundedRangeDpEvent,
    EpsilonDeltaDpEvent,
    compose,
    gaussian,
    parallel,
)
from dpicl.accounting.slack import (
    LARGEST,
    compute_lower_bound,
    lower_bound,
    pairs_epsilon,
    rounds_bound,
    slack,
)
from dpicl.core.errors import AccountantsDisagree
from tests.examples import examples
from tests.harness.accounting.makers import divergence, mix, times, worst_choice

Sampled, Repeated, Choice = dp.PoissonSampledDpEvent, dp.SelfComposedDpEvent, BoundedRangeDpEvent
NOTHING = WorstPair(np.ones(1), np.ones(1))
DELTA = 1e-5


def costs(pair: WorstPair, x: float) -> float:
    return divergence(pair.present, pair.absent, x)


def slack_at(event: dp.DpEvent, delta: float = DELTA) -> float:
    ratio = slack(event, delta, epsilon(event, delta).upper)
    assert ratio is not None
    return ratio


#: What mechanisms charge, where a theorem or an exact recursion gives the upper bound.
TIGHT = {
    "one Gaussian": gaussian(3.7),
    "Gaussians, once": Repeated(gaussian(45.7), 150),
    "Gaussians, one sample": Sampled(0.0067, Repeated(gaussian(7.6), 150)),
    "Gaussians, a sample each": Repeated(Sampled(0.0053, gaussian(0.7)), 20),
    "very many samples": Repeated(Sampled(0.001, gaussian(0.8)), 2000),
    "choices": Repeated(Choice(0.04), 200),
    "PRISM": Sampled(0.0213, Repeated(Choice(0.557), 20)),
    "PRISM at 8": Sampled(0.0213, Repeated(Choice(1.22), 20)),
    "PRISM, a demonstration with tokens of its own": Repeated(
        Sampled(0.0053, Repeated(Choice(0.407), 56)), 5
    ),
    "Laplace": Repeated(dp.LaplaceDpEvent(8.0), 30),
    "randomised response": Repeated(Sampled(0.1, EpsilonDeltaDpEvent(1.0, 0.0)), 30),
}


@pytest.mark.parametrize("name", TIGHT)
def test_bounds_by_a_theorem_or_an_exact_recursion_are_tight(name):
    assert 1 <= slack_at(TIGHT[name]) <= (LARGEST if "demonstration" in name else 1.01)


def test_a_bound_below_what_an_adversary_costs_is_refused():
    event = TIGHT["PRISM"]
    with pytest.raises(AccountantsDisagree, match="one of them is wrong"):
        slack(event, DELTA, 0.95 * epsilon(event, DELTA).upper)


def atoms() -> st.SearchStrategy[dp.DpEvent]:
    return st.one_of(
        st.floats(0.6, 20).map(gaussian),
        st.floats(0.02, 2).map(Choice),
        st.floats(0.02, 1).map(AboveThresholdDpEvent),
        st.floats(0.6, 20).map(dp.LaplaceDpEvent),
        st.floats(0.05, 1.5).map(lambda size: EpsilonDeltaDpEvent(size, 0.0)),
    )


def compositions() -> st.SearchStrategy[dp.DpEvent]:
    counted = st.builds(
        Repeated,
        atoms(),
        st.sampled_from([1, 2, 5]),
    )
    return st.lists(counted, min_size=1, max_size=2).map(compose)


PARTS = st.tuples(
    compositions(),
    st.sampled_from([1.0, 0.3, 0.02]),
    st.sampled_from([1, 3, 10]),
)


@given(
    st.lists(PARTS, min_size=1, max_size=2),
    st.sampled_from([1e-3, 1e-5]),
)
@settings(max_examples=examples(12))
def test_no_adversary_costs_more_than_what_is_proved(parts, delta):
    """Two computations that share nothing but the events: a wrong theorem on either side would cross."""
    event = compose([Repeated(Sampled(rate, inside), count) for inside, rate, count in parts])
    upper = epsilon(event, delta).upper
    if 0 < upper < 50:
        assert lower_bound(event, delta, upper) <= upper


@pytest.mark.parametrize(
    "aim",
    [
        hockey(0.8),
        hockey(-0.5),
        moment(-2.0),
    ],
)
@pytest.mark.parametrize(
    ("size", "count"),
    [(0.7, 4), (0.1, 60)],
)
def test_an_adversary_is_a_chain_of_choices_of_that_range(size, count, aim):
    """Both sides are distributions, and no divergence is above what the exact recursion allows."""
    pair = choices_pair(size, count, 0.1, NOTHING, aim)
    assert pair.present.sum() == pytest.approx(1, abs=1e-9)
    assert pair.absent.sum() == pytest.approx(1, abs=1e-9)
    deltas = choices_delta(size, count, 40)
    for cell in range(-80, 81, 8):
        if abs(cell) <= len(deltas) // 2:
            assert costs(pair, size * cell / 40) <= deltas[len(deltas) // 2 + cell] + 1e-12


def test_merged_outcomes_lose_little_and_never_gain():
    whole = gaussian_pair(0.7)
    merged = whole.merge(300)
    assert merged.present.size <= 302
    for x in (-1.0, 0.0, 1.0, 4.0):
        assert 0.99 * costs(whole, x) - 1e-12 <= costs(merged, x) <= costs(whole, x) + 1e-15


def test_the_group_that_loses_most_decides():
    small = Sampled(0.02, Repeated(Choice(0.5), 20))
    large = Sampled(0.2, Repeated(Choice(0.5), 20))
    assert slack_at(parallel({"a": small, "b": large})) == slack_at(large)


def test_what_costs_nothing_or_everything_has_no_slack():
    assert slack(dp.NoOpDpEvent(), DELTA, 0.0) is None
    assert slack(dp.NonPrivateDpEvent(), DELTA, math.inf) is None


def test_the_slack_of_an_event_is_worked_out_once(tmp_path, monkeypatch):
    event = gaussian(2.0)
    upper = epsilon(event, DELTA).upper
    first = slack_of(event, DELTA, upper, tmp_path)
    monkeypatch.setattr(calibration, "slack", lambda *words: pytest.fail("it is stored"))
    assert slack_of(event, DELTA, upper, tmp_path) == first


def test_several_starts_and_parts_are_all_lower_bounds():
    """Next to each other: samples of choices, a Gaussian, and choices on the whole set."""
    parts = [
        Repeated(Sampled(0.01, Repeated(Choice(0.8), 4)), 10),
        gaussian(6.0),
        Repeated(Choice(0.1), 5),
    ]
    alone = [lower_bound(part, DELTA, epsilon(part, DELTA).upper) for part in parts]
    both = compose(parts)
    upper = epsilon(both, DELTA).upper
    lower = lower_bound(both, DELTA, upper)
    assert max(alone) < lower <= upper < 1.15 * lower


@pytest.mark.parametrize("count", [MOST_CHOICES, MOST_CHOICES + 1, 3 * MOST_CHOICES])
def test_many_choices_are_as_many_as_were_charged(count):
    """In blocks; one too many would be no adversary of this event."""
    event = Repeated(Choice(0.03), count)
    upper = epsilon(event, DELTA).upper
    assert 0.97 * upper <= lower_bound(event, DELTA, upper) <= upper
    pair = compose_pairs({Choice(0.03): count}, 1.0, moment(2.0))
    assert 0.98 < variance(pair) / (count * 0.03**2 / 4) <= 1.0001


def variance(pair: WorstPair) -> float:
    some = (pair.present > 0) & (pair.absent > 0)
    loss = np.log(pair.present[some] / pair.absent[some])
    mass = pair.present[some]
    return float(mass @ (loss - mass @ loss) ** 2)


def test_choices_after_a_gaussian_go_by_what_it_showed():
    """Counts, splits and sums on one sample (SGA): the bound composes the choices after everything else."""
    event = Sampled(
        0.02,
        compose(
            [
                gaussian(1.5),
                Repeated(Choice(0.8), 2),
            ]
        ),
    )
    assert slack_at(event) < 1.01


@pytest.mark.parametrize("way", [1, -1])
def test_an_adversary_who_follows_the_loss_beats_fixed_ranges(way):
    size, rate, count, threshold = 1.5, 0.3, 3, 0.25
    pair = following_pair(size, rate, count, threshold, way)
    assert pair.present.sum() == pytest.approx(1)
    assert pair.absent.sum() == pytest.approx(1)

    def reach_by(present, absent):
        return divergence(*((present, absent) if way == 1 else (absent, present)), threshold)

    fixed = []
    for t in np.linspace(0, size, 41)[1:-1]:
        one = mix(worst_choice(size, t), rate)
        fixed.append(reach_by(*times(one, count)))
    upper = sampled_choices_delta(size, rate, count, 0.001, removed=way == 1, cells=64)
    reached = reach_by(pair.present, pair.absent)
    assert 0.99 * max(fixed) <= reached <= upper[len(upper) // 2 + 250] + 1e-9


@pytest.mark.parametrize("noise", [0.001, 0.01])
@pytest.mark.parametrize("upper", [1e3, 1e300])
def test_hardly_any_noise_has_no_slack_that_floats_could_tell(noise, upper):
    assert (
        slack(
            Repeated(Sampled(0.5, dp.GaussianDpEvent(noise)), 4),
            1e-6,
            upper,
        )
        is None
    )


def test_choices_that_may_fail_have_an_adversary_who_looks_back():
    """DP-OPT's samples: better than any range that is the same on all of them, and below what is proved."""
    rate, size, failure, count, delta = 0.05, 2.0, 1e-7, 60, 1e-5
    event = Repeated(
        Sampled(rate, compose([Choice(size), EpsilonDeltaDpEvent(0.0, failure)])), count
    )
    upper = epsilon(event, delta).upper
    fixed = []
    for t in np.linspace(0, size, 25)[1:-1]:
        pair = WorstPair(*worst_choice(size, t))
        fixed.append(pairs_epsilon([(pair.sample(rate), count)], delta, upper))
    assert max(fixed) < lower_bound(event, delta, upper) <= upper


def test_failures_as_likely_as_delta_leave_no_epsilon():
    event = Repeated(
        Sampled(
            0.5,
            compose([Choice(1.0), EpsilonDeltaDpEvent(0.0, 1e-5)]),
        ),
        4,
    )
    assert lower_bound(event, 1e-5, 100.0) == math.inf


@pytest.mark.parametrize(
    ("size", "count"),
    [(10.0, 100), (50.0, 20)],
)
def test_an_epsilon_beyond_float_ratios_has_an_adversary(size, count):
    event = Repeated(Choice(size), count)
    upper = epsilon(event, DELTA).upper
    assert upper > 600 and 0.95 * upper < lower_bound(event, DELTA, upper) <= upper


def test_rounds_of_above_threshold_are_below_their_guarantee():
    for moved in (0.1, 2.0):
        for pair in threshold_rounds(1.0, moved):
            some = pair.present > 0
            losses = np.log(pair.present[some] / pair.absent[some])
            assert pair.present.sum() == pytest.approx(1, abs=1e-12) == pair.absent.sum()
            assert np.abs(losses).max() <= 2 * moved + 1e-9


def test_a_round_of_one_query_is_what_integration_gives():
    pair = next(
        threshold_rounds(2.0, 1.0)
    )  # no query before; the last is 3 scales below, .5 higher with the record
    for got, at in (
        (pair.present[1], -2.5),
        (pair.absent[1], -3.0),
    ):
        both = quad(
            lambda x, at=at: laplace.pdf(x) * laplace.sf(x - at, scale=2),
            -40,
            40,
            points=[0, at],
            limit=200,
        )
        assert got == pytest.approx(both[0], rel=1e-9)


@pytest.mark.parametrize(
    ("scale", "count"),
    [
        (0.001, 3),
        (0.05, 100),
        (1.0, 1),
        (10.0, 20),
    ],
)
def test_what_an_adversary_of_rounds_reaches_is_below_the_proof(scale, count):
    event = Repeated(EpsilonDeltaDpEvent(2 / scale, 0.0), count)
    upper = epsilon(event, DELTA).upper
    reached = rounds_bound(scale, 1.0, 0.0, count, DELTA, upper)
    assert 0 < reached <= upper and compute_lower_bound(event, DELTA, upper) <= upper
    if scale == 1.0:  # the round with the largest mean and deviation of its loss reaches 1.347 only
        assert reached > 1.45
