"""The accountants against golden numbers, and what they refuse."""

import math
from collections.abc import Callable

import pytest
from dp_accounting import dp_event as dp
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.accounting.accountants import (
    account_subsampled_gaussian,
    check_delta,
    check_epsilon,
    epsilon,
)
from dpicl.accounting.events import (
    BoundedRangeDpEvent,
    EpsilonDeltaDpEvent,
    ParallelDpEvent,
    parallel,
)
from dpicl.core.errors import UnsupportedEvent, UsageError
from tests.examples import examples
from tests.harness.accounting.makers import prism, sampled_gaussians

Gaussian, Sampled, Repeated = dp.GaussianDpEvent, dp.PoissonSampledDpEvent, dp.SelfComposedDpEvent

AGNEWS = (20 / 30000, 100, 1 / 30000)
TREC = (80 / 835, 15, 1 / 835)
MIT_G = (80 / 2953, 80, 1 / 2953)
GINC = (20 / 1600, 40, 1 / 1600)
#: PRIVACY.md: noise, (rate, steps, delta), PRV low / estimate / upper, PLD, fixed size with replace-one.
GOLDEN = [
    pytest.param(
        0.51,
        AGNEWS,
        (0.9549, 0.9649, 0.9749),
        0.9649,
        0.9674,
        id="agnews-1",
    ),
    pytest.param(
        0.39,
        AGNEWS,
        (3.8048, 3.8148, 3.8248),
        3.8148,
        3.8218,
        id="agnews-4",
    ),
    pytest.param(
        1.33,
        TREC,
        (0.9799, 0.9899, 0.9999),
        0.9899,
        1.0585,
        id="trec-1",
    ),
    pytest.param(
        0.51,
        TREC,
        (7.9578, 7.9678, 7.9778),
        7.9675,
        8.3370,
        id="trec-8",
    ),
    pytest.param(
        1.08,
        MIT_G,
        (0.9754, 0.9854, 0.9954),
        0.9854,
        1.1067,
        id="mit_g-1",
    ),
    pytest.param(
        0.70,
        GINC,
        (1.0168, 1.0268, 1.0368),
        1.0268,
        1.0718,
        id="ginc-1",
    ),
]


@pytest.mark.parametrize(("noise", "setting", "prv", "discrete", "fixed"), GOLDEN)
def test_golden_rows(noise, setting, prv, discrete, fixed):
    answer = account_subsampled_gaussian(noise, *setting)
    assert tuple(answer["prv"].values()) == pytest.approx(prv, abs=0.002)
    assert list(answer["prv"]) == ["low", "estimate", "upper"]
    assert answer["pld"] == pytest.approx(discrete, abs=0.002)
    assert answer["fixed_replace_one"] == pytest.approx(fixed, abs=0.002)


@pytest.mark.parametrize(
    ("temperature", "expected"),
    [
        (1.1295, 0.370),
        (0.4616, 1.0),
        (0.2492, 2.0),
        (0.1365, 4.0),
    ],
)
def test_prism_costs_its_bounded_range_in_zcdp(temperature, expected):
    assert epsilon(prism(temperature), 1e-4).upper == pytest.approx(expected, abs=0.001)


def classical(nominal: float) -> float:
    """Noise multiplier of the textbook formula."""
    return math.sqrt(2 * math.log(1.25 / 1e-5)) / nominal


@pytest.mark.parametrize(
    ("event", "expected", "within"),
    [
        (Gaussian(classical(e)), true, 5e-4)
        for e, true in (
            (1, 0.751),
            (2, 1.610),
            (4, 3.511),
            (8, 7.914),
        )
    ]
    + [
        (Gaussian(s / 2**0.5), e, 2e-4)
        for s, e in (
            (5.2759, 1),
            (2.8197, 2),
            (1.5290, 4),
            (0.8489, 8),
        )
    ],
)
def test_gaussian_noise_has_its_exact_epsilon(event, expected, within):
    """Classical noise; sensitivity root two."""
    assert epsilon(event, 1e-5).upper == pytest.approx(expected, rel=within)


def test_what_is_free_costs_nothing_what_is_exposed_everything():
    assert epsilon(dp.NoOpDpEvent(), 1e-5).upper == 0
    assert epsilon(Sampled(0.0, dp.NonPrivateDpEvent()), 1e-5).upper == 0
    assert epsilon(dp.NonPrivateDpEvent(), 1e-5).upper == math.inf
    assert epsilon(Sampled(0.1, Gaussian(0.0)), 1e-5).upper == math.inf
    assert (
        epsilon(
            dp.ComposedDpEvent((Gaussian(1.0), dp.NonPrivateDpEvent())),
            1e-5,
        ).upper
        == math.inf
    )


def test_gaussians_compose_like_one_gaussian():
    composed = dp.ComposedDpEvent((Gaussian(3.0), Repeated(Gaussian(4.0), 2)))
    one = (1 / 9 + 2 / 16) ** -0.5
    assert epsilon(composed, 1e-5).upper == pytest.approx(epsilon(Gaussian(one), 1e-5).upper)
    on_one_sample = epsilon(Repeated(Sampled(0.1, composed), 5), 1e-5)
    assert (
        on_one_sample.upper
        == epsilon(
            Repeated(Sampled(0.1, Gaussian(one)), 5),
            1e-5,
        ).upper
    )


def test_nested_samples_multiply_their_rates():
    nested = Sampled(0.5, Sampled(0.2, Gaussian(1.0)))
    assert epsilon(Repeated(nested, 10), 1e-5) == epsilon(sampled_gaussians(1.0, 0.1, 10), 1e-5)


def test_zcdp_is_never_cheaper_than_the_gaussian_of_its_rho():
    for rho in (1e-4, 0.01, 0.5, 10.0):
        gaussian = epsilon(Gaussian((2 * rho) ** -0.5), 1e-5).upper
        assert (
            gaussian
            <= epsilon(dp.ZCDpEvent(rho), 1e-5).upper
            <= rho + 2 * math.sqrt(rho * math.log(1e5))
        )


def test_zcdp_composes_with_sampled_gaussians():
    sampled, zcdp = sampled_gaussians(1.0, 0.1, 10), dp.ZCDpEvent(0.01)
    both = epsilon(dp.ComposedDpEvent((sampled, zcdp)), 1e-5)
    assert "rdp" in both.accountants
    assert both.upper > epsilon(sampled, 1e-5).low


@pytest.mark.parametrize("size", [80.0, 700.0])
def test_choices_never_cost_more_than_the_sum_of_their_ranges(size):
    assert epsilon(dp.SelfComposedDpEvent(BoundedRangeDpEvent(size), 2), 1e-5).upper <= 2 * size
    sampled = dp.PoissonSampledDpEvent(0.5, dp.SelfComposedDpEvent(BoundedRangeDpEvent(size), 2))
    assert epsilon(sampled, 1e-5).upper <= 2 * size + math.log(0.5) + 1e-9


def test_groups_cost_what_the_worst_one_costs():
    event = parallel(
        {
            "a": Gaussian(3.0),
            "b": Gaussian(2.0),
            "c": Gaussian(2.0),
        }
    )
    bounds = epsilon(event, 1e-5)
    assert bounds.upper == epsilon(Gaussian(2.0), 1e-5).upper
    assert bounds.accountants["worst_groups"] == ["b", "c"]


def test_groups_compose_by_name():
    first = parallel({"a": Gaussian(2.0), "b": Gaussian(3.0)})
    second = parallel({"b": Gaussian(3.0)})
    everyone = Gaussian(5.0)
    cost = epsilon(
        dp.ComposedDpEvent((Repeated(first, 2), second, everyone)),
        1e-5,
    ).upper
    for_a = epsilon(Gaussian((2 / 4 + 1 / 25) ** -0.5), 1e-5).upper
    for_b = epsilon(Gaussian((3 / 9 + 1 / 25) ** -0.5), 1e-5).upper
    assert cost == pytest.approx(max(for_a, for_b))


def test_groups_inside_a_sample_are_sampled_each():
    event = Repeated(
        Sampled(
            0.1,
            parallel(
                {
                    "a": Gaussian(1.0),
                    "b": Gaussian(2.0),
                }
            ),
        ),
        10,
    )
    assert epsilon(event, 1e-5).upper == epsilon(sampled_gaussians(1.0, 0.1, 10), 1e-5).upper


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (dp.SampledWithoutReplacementDpEvent(100, 10, Gaussian(1.0)), "Poisson slots"),
        (
            Sampled(0.1, dp.SampledWithoutReplacementDpEvent(100, 10, Gaussian(1.0))),
            "Poisson slots",
        ),
        (dp.DiscreteLaplaceDpEvent(1.0, 1), "DiscreteLaplaceDpEvent"),
        (dp.ComposedDpEvent((Gaussian(1.0), dp.UnsupportedDpEvent())), "UnsupportedDpEvent"),
        (Sampled(1.5, Gaussian(1.0)), "outside its range"),
        (Gaussian(-1.0), "outside its range"),
        (dp.ZCDpEvent(math.nan), "outside its range"),
        (BoundedRangeDpEvent(-1.0), "outside its range"),
        (BoundedRangeDpEvent(math.nan), "outside its range"),
        (EpsilonDeltaDpEvent(1.0, 1.5), "outside its range"),
        (
            ParallelDpEvent(
                (
                    ("a", Gaussian(1.0)),
                    ("a", Gaussian(1.0)),
                )
            ),
            "one name",
        ),
        (parallel({"a": parallel({"b": Gaussian(1.0)})}), "one partition"),
    ],
)
def test_without_a_theorem_there_is_no_epsilon(event, message):
    with pytest.raises(UnsupportedEvent, match=message):
        epsilon(event, 1e-5)


@pytest.mark.parametrize(
    "delta",
    [0, 1, -1e-5, 1.5, math.nan, math.inf],
)
def test_deltas_that_make_no_sense(delta):
    with pytest.raises(UsageError, match="delta"):
        check_delta(delta)
    with pytest.raises(UsageError, match="delta"):
        epsilon(Gaussian(1.0), delta)


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        math.nan,
        -math.inf,
    ],
)
def test_epsilons_that_make_no_sense(value):
    with pytest.raises(UsageError, match="epsilon"):
        check_epsilon(value)
    assert check_epsilon(math.inf) == math.inf


@pytest.mark.parametrize(
    ("noise", "rate", "steps", "message"),
    [
        (0, 0.1, 10, "noise"),
        (math.nan, 0.1, 10, "noise"),
        (1, 0, 10, "rate"),
        (1, 1.1, 10, "rate"),
        (1, 0.1, 0, "steps"),
        (1, 0.1, 1.5, "steps"),
    ],
)
def test_accounting_refuses_numbers_that_make_no_sense(noise, rate, steps, message):
    with pytest.raises(UsageError, match=message):
        account_subsampled_gaussian(noise, rate, steps, 1e-5)


Maker = Callable[[float, float, int], dp.DpEvent]
MAKERS: dict[str, Maker] = {
    "gaussian": lambda noise, rate, steps: Repeated(Gaussian(noise), steps),
    "sampled gaussian": lambda noise, rate, steps: sampled_gaussians(noise, rate, steps),
    "zcdp": lambda noise, rate, steps: Repeated(
        dp.ZCDpEvent(0.1 / noise**2),
        steps,
    ),
    "sampled zcdp": lambda noise, rate, steps: Repeated(
        Sampled(rate, dp.ZCDpEvent(0.1 / noise**2)), steps
    ),
    "sampled choices": lambda noise, rate, steps: Repeated(
        Sampled(rate, Repeated(BoundedRangeDpEvent(1 / noise), 2)), steps
    ),
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS.keys())
@settings(max_examples=examples(8))
@given(
    noise=st.floats(0.7, 5.0),
    rate=st.floats(0.005, 0.2),
    steps=st.integers(1, 30),
    worse=st.sampled_from(["noise", "rate", "steps"]),
)
def test_less_noise_a_higher_rate_or_more_steps_never_cost_less(maker, noise, rate, steps, worse):
    before = epsilon(maker(noise, rate, steps), 1e-5).upper
    changes = {
        "noise": (0.8, 1, 0),
        "rate": (1, 1.5, 0),
        "steps": (1, 1, 3),
    }
    less, more, further = changes[worse]
    after = epsilon(maker(noise * less, rate * more, steps + further), 1e-5).upper
    assert after >= before * (1 - 2e-3) - 1e-9
