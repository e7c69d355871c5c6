from __future__ import annotations

import math

import pytest
from scipy.stats import norm

from dpicl.attacks.trade_offs import delta_of_mu, epsilon_of_mu, epsilon_of_rates, mu_lower
from dpicl.core.errors import UsageError


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 2.5, 10.0, 60.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.01])
def test_epsilon_of_mu_is_where_its_curve_has_delta(mu: float, delta: float) -> None:
    found = epsilon_of_mu(mu, delta)
    assert delta_of_mu(mu, found) == pytest.approx(delta, rel=1e-6) or (found == 0 and delta_of_mu(mu, 0.0) <= delta)
    assert delta_of_mu(mu, found) >= delta or found == 0  # rounded down


def test_delta_of_mu_is_the_textbook_formula() -> None:
    for mu, epsilon in ((0.5, 0.0), (1.0, 1.0), (3.0, 8.0)):
        expected = norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
        assert delta_of_mu(mu, epsilon) == pytest.approx(expected, rel=1e-9)


def test_ends_of_the_gaussian_curve() -> None:
    assert epsilon_of_mu(0.0, 1e-5) == 0.0
    assert epsilon_of_mu(0.01, 0.01) == 0.0  # delta(0; 0.01) = 0.004
    assert epsilon_of_mu(1.0, 0.0) == math.inf
    assert epsilon_of_mu(math.inf, 1e-5) == math.inf
    assert delta_of_mu(0.0, 0.0) == 0.0


def test_rates_that_say_nothing_give_no_mu() -> None:
    assert mu_lower([0.0, 1.0, 0.0], [0.0, 1.0, 1.0]).tolist() == [-math.inf] * 3
    assert epsilon_of_rates([0.0, 1.0, 0.0], [0.0, 1.0, 1.0], 1e-5).tolist() == [0.0] * 3


def test_randomised_response_has_its_own_epsilon_and_not_the_gaussian_one() -> None:
    assert float(epsilon_of_rates(0.75, 0.25, 0.0)) == pytest.approx(math.log(3))
    # a mechanism that is (ln 3, 0)-DP: the Gaussian conversion would claim 6.2 at delta = 1e-5
    assert epsilon_of_mu(float(mu_lower(0.75, 0.25)), 1e-5) == pytest.approx(6.2145, abs=1e-4)


def test_delta_must_be_a_probability_below_one() -> None:
    for delta in (-1e-9, 1.0, math.nan):
        with pytest.raises(UsageError, match="delta"):
            epsilon_of_mu(1.0, delta)
