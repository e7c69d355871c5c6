"""The published accounting of KSA and SGA against the numbers that their authors print."""

import math

import numpy as np
import pytest

from dpicl.accounting.published import pure_dp_curve, sampled_exponential_epsilon
from dpicl.core.errors import UsageError

#: epsilon0, (rate, choices, delta), epsilon to the digits printed; the last rows take the true number of records.
SAMSUM = (400 / 14732, 100, 5e-5)
SAMSUM_SPLIT = (400 / 9821, 100, 5e-5)
CHATDOCTOR = (400 / 3900, 100, 1 / 3900)
CHATDOCTOR_TRUE = (400 / 2600, 100, 1 / 2600)
PUBLISHED = [
    (0.77, SAMSUM, 0.993),
    (1.65, SAMSUM, 2.998),
    (2.67, SAMSUM, 7.996),
    (0.53, SAMSUM_SPLIT, 0.999),
    (1.25, SAMSUM_SPLIT, 2.985),
    (2.22, SAMSUM_SPLIT, 7.957),
    (0.23, CHATDOCTOR, 0.971),
    (0.63, CHATDOCTOR, 2.997),
    (1.32, CHATDOCTOR, 7.969),
]


@pytest.mark.parametrize(("epsilon0", "setting", "printed"), PUBLISHED)
def test_published_numbers(epsilon0, setting, printed):
    assert sampled_exponential_epsilon(epsilon0, *setting) == pytest.approx(printed, abs=6e-4)


@pytest.mark.parametrize(
    ("epsilon0", "true"),
    [
        (0.23, 1.48),
        (0.63, 4.66),
        (1.32, 11.1),
    ],
)
def test_chatdoctor_with_the_records_that_there_are(epsilon0, true):
    assert sampled_exponential_epsilon(epsilon0, *CHATDOCTOR_TRUE) == pytest.approx(true, rel=3e-3)


def test_curve_is_the_one_of_randomised_response():
    """Randomised response attains it: sum of p^a q^(1-a) over its two outcomes."""
    p = np.array([math.exp(0.7), 1.0]) / (1 + math.exp(0.7))
    for order in (1.5, 2.0, 7.0, 40.0):
        exact = math.log(float((p**order * p[::-1] ** (1 - order)).sum())) / (order - 1)
        assert pure_dp_curve(0.7, np.array([order]))[0] == pytest.approx(exact)


def test_no_sampling_is_plain_composition():
    orders = np.linspace(1.01, 200, 50_000)
    expected = np.min(
        10 * pure_dp_curve(0.1, orders)
        + np.log1p(-1 / orders)
        - np.log(1e-5 * orders) / (orders - 1)
    )
    assert sampled_exponential_epsilon(0.1, 1.0, 10, 1e-5) == pytest.approx(
        float(expected), rel=2e-3
    )


@pytest.mark.parametrize(
    "numbers",
    [
        (0.0, 0.1, 10, 1e-5),
        (1.0, 0.0, 10, 1e-5),
        (1.0, 0.1, 0, 1e-5),
        (1.0, 0.1, 1, 1),
    ],
)
def test_numbers_outside_their_range(numbers):
    with pytest.raises(UsageError, match="epsilon0 > 0"):
        sampled_exponential_epsilon(*numbers)
