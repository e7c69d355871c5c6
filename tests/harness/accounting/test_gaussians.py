"""The two accountants of sampled Gaussians: their cross-check, their failures and their limits."""

import json
import math
import threading
import time
from typing import Any

import numpy as np
import pytest
from dp_accounting import dp_event as dp
from dp_accounting.pld import privacy_loss_distribution as pld

from dpicl.accounting import accountants, gaussians, time_limit
from dpicl.accounting.accountants import Bounds, account_subsampled_gaussian, epsilon
from dpicl.accounting.calibration import calibrate
from dpicl.accounting.decomposition import groups, is_sampled_gaussian
from dpicl.accounting.events import from_json
from dpicl.accounting.fixed_sampling import fixed_size_delta
from dpicl.core.errors import AccountantsDisagree, UnsupportedEvent
from dpicl.core.vocabulary import Knob
from tests.conftest import COMMITTED
from tests.harness.accounting.makers import sampled_gaussians

Gaussian, Sampled, Repeated = dp.GaussianDpEvent, dp.PoissonSampledDpEvent, dp.SelfComposedDpEvent


def account_ten() -> Bounds:
    """Of ten Gaussians, each on a sample of its own."""
    return epsilon(sampled_gaussians(1.0, 0.1, 10), 1e-5)


@pytest.fixture
def fresh():
    """No remembered answers, before and after: for tests that replace an accountant."""
    caches = (gaussians.bounds, accountants._composition)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.parametrize(
    "part",
    [
        (0.001, 0.5, 100),
        (0.1, 1.3, 15),
        (0.01, 40.0, 30),
        (1.0, 300.0, 1),
    ],
)
def test_quick_answers_are_those_of_all_orders_and_directions(
    part,
):
    orders = sorted({*gaussians._QUICK_ORDERS, *gaussians._LARGE_ORDERS})
    assert gaussians._quick_bound((part,), 1e-5) == gaussians._rdp_bound((part,), 1e-5, orders)
    grid = gaussians.rdp_epsilon((part,), 1e-5) / 150
    assert gaussians._removal_epsilon((part,), 1e-5, grid) == gaussians.pld_epsilon(
        (part,), 1e-5, grid
    )


def test_accountants_that_disagree_stop_the_run(monkeypatch, fresh):
    original = gaussians.pld_epsilon
    monkeypatch.setattr(gaussians, "pld_epsilon", lambda *words: 0.97 * original(*words))
    with pytest.raises(
        AccountantsDisagree, match=r"prv-accountant says .* and dp_accounting"
    ) as caught:
        account_ten()
    assert "more than 1% apart" in str(caught.value)


def test_an_upper_bound_below_a_lower_one_stops_the_run(monkeypatch, fresh):
    """Half a percent apart counts as agreement of two estimates, but one of these two bounds is false."""
    original, grids = gaussians.prv_epsilon, []
    discrete = account_ten().accountants["pld"]

    def answer_too_high(*words: Any) -> dict[str, float]:
        grids.append(words)
        return original(*words) | {
            "low": 1.001 * discrete,
            "estimate": 1.005 * discrete,
            "upper": 1.01 * discrete,
        }

    gaussians.bounds.cache_clear()
    accountants._composition.cache_clear()
    monkeypatch.setattr(gaussians, "prv_epsilon", answer_too_high)
    with pytest.raises(AccountantsDisagree):
        account_ten()
    assert grids


def test_many_tiny_steps_are_settled_on_a_finer_grid(monkeypatch, fresh):
    original, grids = gaussians.pld_epsilon, []

    def answer_by_grid(parts: gaussians.Parts, delta: float, grid: float) -> float:
        grids.append(grid)
        return original(parts, delta, grid) * (1.05 if grid == grids[0] else 1.0)

    monkeypatch.setattr(gaussians, "pld_epsilon", answer_by_grid)
    bounds = account_ten()
    assert len(grids) == 2
    assert grids[1] < grids[0]
    assert bounds.accountants["pld"] == pytest.approx(bounds.estimate, rel=0.01)


def test_prv_that_gives_up_on_a_large_epsilon_leaves_the_pld(fresh):
    bounds = epsilon(sampled_gaussians(0.3, 0.1, 50), 1e-5)
    assert "prv" not in bounds.accountants
    assert bounds.upper == bounds.accountants["pld"] > 30
    assert any("Discrete mean differs" in note for note in bounds.notes)


def test_the_smallest_valid_upper_bound_counts_also_by_renyi_dp(fresh):
    """A million tiny steps: prv-accountant gives up, and the PLD's rounding adds up."""
    event = sampled_gaussians(100.0, 1e-3, 10**6)
    bounds = epsilon(event, 1e-6)
    assert bounds.accountants["pld"] == pytest.approx(0.0616, abs=1e-4)
    assert bounds.upper == bounds.accountants["rdp"] == pytest.approx(0.0371, abs=1e-4)
    assert any(
        note.startswith("the bound by Renyi DP counts") and "0.0615" in note
        for note in bounds.notes
    )
    assert not any("the PLD alone counts" in note for note in bounds.notes)
    central_limit = exact_of_limit(1e-3, 100.0, 10**6, 1e-6)
    assert central_limit < bounds.upper < 1.2 * central_limit
    assert accountants.rough_epsilon(event, 1e-6) < 1.1 * bounds.upper
    answer = account_subsampled_gaussian(100.0, 1e-3, 10**6, 1e-6)
    assert answer["rdp"] == bounds.upper and answer["prv"] is None


def exact_of_limit(rate: float, sigma: float, steps: int, delta: float) -> float:
    """Epsilon of the Gaussian that very many samples tend to (Dong, Roth & Su 2022): mu = q sqrt(T(e^(1/s^2) - 1))."""
    return gaussians.exact_epsilon(
        1 / (rate * math.sqrt(steps * math.expm1(sigma**-2))),
        delta,
    )


def test_calibration_ends_just_below_the_target_also_by_renyi_dp():
    knob = Knob("sigma", low=20.0, high=1000.0, non_private=0.0)
    calibrated = calibrate(
        lambda sigma: sampled_gaussians(sigma, 1e-3, 10**6), knob, 0.04, 1e-6, cache=None
    )
    assert 0.98 * 0.04 <= calibrated.bounds.upper <= 0.04 and "rdp" in calibrated.bounds.accountants
    assert calibrated.knob < 100  # what the PLD proves of 100 is .0616


def test_a_renyi_bound_below_a_lower_bound_stops_the_run(monkeypatch, fresh):
    monkeypatch.setattr(gaussians, "_rdp_bound", lambda parts, delta, orders: (0.5, 8))
    with pytest.raises(
        AccountantsDisagree, match=r"Renyi DP proves 0\.5 and prv-accountant 2\.\d+ at least"
    ):
        account_ten()


def test_committed_rows_claim_what_they_claimed(fresh):
    """Renyi DP proves less than the other accountants for none of them."""
    claims = set()
    for path in (*COMMITTED.glob("open/*/*/*/*.json"), *COMMITTED.glob("record/*/tang*/*/*.json")):
        content = json.loads(path.read_text())
        if "scored_release" in content:  # the claim is its release's
            continue
        privacy = content["privacy"]
        for counted in groups(from_json(privacy["event"])).values():
            if counted and all(is_sampled_gaussian(component) for component in counted):
                claims.add(
                    (gaussians.parts_of(counted), privacy["delta"], privacy["epsilon_proved"])
                )
    assert len(claims) > 20
    for parts, delta, proved in claims:
        assert gaussians._renyi_below(parts, delta, proved) is None


def test_without_the_pld_there_is_no_proof(monkeypatch, fresh):
    def fail(*words: Any) -> float:
        raise OverflowError("too large")

    monkeypatch.setattr(gaussians, "pld_epsilon", fail)
    with pytest.raises(UnsupportedEvent, match=r"no proved epsilon: .* \(too large\)"):
        account_ten()


def test_an_accountant_that_takes_too_long_is_left_behind(monkeypatch, fresh):
    stop = threading.Event()
    monkeypatch.setattr(time_limit, "ACCOUNTANT_SECONDS", 5.0)

    def wait_forever(*words: Any) -> dict[str, float]:
        stop.wait(60)
        return {}

    monkeypatch.setattr(gaussians, "prv_epsilon", wait_forever)
    bounds = account_ten()
    stop.set()
    assert set(bounds.accountants) == {"pld"}
    assert any("no answer within" in note for note in bounds.notes)


def test_the_time_limit_works_in_any_thread():
    caught: list[BaseException] = []

    def work() -> None:
        try:
            time_limit.run_within(0.05, lambda: time.sleep(2))
        except time_limit.TookTooLong as error:
            caught.append(error)

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    assert len(caught) == 1
    assert time_limit.run_within(5, lambda: 42) == 42


def test_deltas_near_rounding_errors_are_refused():
    with pytest.raises(UnsupportedEvent, match="rounding"):
        epsilon(sampled_gaussians(1.0, 0.1, 10), 1e-13)
    assert epsilon(Gaussian(1.0), 1e-13).upper > 0


def test_accounting_without_subsampling_is_the_exact_curve():
    answer = account_subsampled_gaussian(20.0, 1.0, 10, 1e-5)
    exact = epsilon(Gaussian(20.0 / math.sqrt(10)), 1e-5).upper
    assert answer["prv"]["low"] <= exact <= answer["prv"]["upper"]
    assert answer["pld"] == pytest.approx(exact, rel=1e-3)
    assert answer["fixed_replace_one"] == pytest.approx(exact, rel=1e-3)


def test_fixed_size_curve_is_a_hockey_stick_curve():
    points = np.linspace(-3, 3, 601)
    curve = fixed_size_delta(points, 1.0, 0.1)
    assert np.all(np.diff(curve) <= 1e-15)
    assert np.all(curve >= np.maximum(0.0, 1 - np.exp(points)) - 1e-12)
    assert fixed_size_delta(np.array([0.0]), 1.0, 0.1)[0] == pytest.approx(
        0.1 * math.erf(0.5 / math.sqrt(2))
    )


def test_the_upper_bound_covers_both_directions_of_neighbours():
    event = sampled_gaussians(1.0, 0.3, 3)
    both = pld.from_gaussian_mechanism(
        1.0, sampling_prob=0.3, value_discretization_interval=1e-4
    ).self_compose(3)
    assert epsilon(event, 1e-3).upper >= both.get_epsilon_for_delta(1e-3)


def test_extreme_noise_gives_a_number_or_a_reason():
    assert epsilon(Repeated(Gaussian(1e200), 100), 1e-5).upper < 1e-9
    assert epsilon(Gaussian(1e-3), 1e-5).upper > 1e5
    with pytest.raises(UnsupportedEvent, match="more noise or fewer steps"):
        epsilon(sampled_gaussians(1e-3, 0.1, 100), 1e-5)


def test_sampled_and_plain_gaussians_compose_in_both_accountants():
    event = dp.ComposedDpEvent(
        (sampled_gaussians(1.0, 0.02, 50), sampled_gaussians(0.8, 0.01, 20), Gaussian(4.0))
    )
    bounds = epsilon(event, 1e-5)
    assert bounds.accountants["prv"]["estimate"] == pytest.approx(
        bounds.accountants["pld"], rel=0.01
    )
    assert bounds.low <= bounds.accountants["pld"] <= bounds.upper
