"""Epsilon of compositions of Gaussians and Poisson-subsampled Gaussians, by two independent accountants.

`prv-accountant` (Gopi, Lee & Wutschitz 2021, theorem 5.5) brackets epsilon; `dp_accounting`'s privacy loss
distributions (Doroshenko et al. 2022, "Connect the Dots") give a second upper bound, for both directions of add/remove.
They must agree to 1%. Where Renyi DP (Mironov, Talwar & Zhang 2019) proves less than both, as for very many steps that
prv-accountant gives up on, its bound counts. Without subsampling the exact Gaussian curve (Balle & Wang 2018, theorem
8) answers instead.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
from dp_accounting import gaussian_mechanism
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from dp_accounting.rdp import rdp_privacy_accountant as rdp
from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant
from prv_accountant.privacy_random_variables.gaussian_mechanism import GaussianMechanism

from dpicl.accounting import dp_event as dp
from dpicl.accounting import time_limit
from dpicl.accounting.bounds import Bounds
from dpicl.accounting.decomposition import gaussian_multiplier, of_kind
from dpicl.core.errors import AccountantsDisagree, UnsupportedEvent

#: (rate, noise multiplier, count) of each part; rate 1: a Gaussian without subsampling.
Parts = tuple[tuple[float, float, int], ...]

#: How far the accountants may differ, relative to epsilon (or absolutely, where epsilon is below 0.01).
AGREEMENT = 0.01
ABSOLUTE_AGREEMENT = 1e-4
GRID = 5e-4
#: From here on delta may cover the whole loss, and its scale says nothing about the grid.
LARGE_DELTA = 0.1
EPS_ERROR = 0.01
DELTA_ERROR = 1e-10
#: Rounding errors of the Fourier transforms reach 1e-14: a delta near them cannot be computed.
SMALLEST_DELTA = 1e-11
#: Mass set aside for those rounding errors.
ROUNDING = 1e-13
#: More cells than this in prv-accountant's grid would take minutes and gigabytes.
MOST_CELLS = 2_000_000

#: By how much the bound at the best of the quick orders may exceed that at the best of all.
_QUICK_LOSS = 1.25
#: Whole orders only: they have a closed form for sampled Gaussians, which takes as long as the order is large.
_QUICK_ORDERS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_LARGE_ORDERS = (64, 128, 256, 512, 1024)


def exact_epsilon(multiplier: float, delta: float) -> float:
    """The epsilon of one Gaussian of noise multiplier sigma/sensitivity, exact up to 1e-11 (rounded up)."""
    with np.errstate(divide="ignore"):
        return (
            float(gaussian_mechanism.get_epsilon_gaussian(multiplier, delta)) * (1 + 1e-12) + 1e-11
        )


def parts_of(components: Mapping[dp.DpEvent, int]) -> Parts:
    """The parts of a composition of (sampled) Gaussians; the unsampled ones are merged into one."""
    plain = gaussian_multiplier(components)
    parts = [
        (sample.sampling_probability, sample.event.noise_multiplier, n)
        for sample, n in of_kind(components, dp.PoissonSampledDpEvent).items()
    ]
    if math.isfinite(plain):
        parts.append((1.0, plain, 1))
    return tuple(sorted(parts))


def rdp_epsilon(parts: Parts, delta: float) -> float:
    """A quick and loose upper bound by Renyi DP (a few milliseconds): sets the scale of the grids."""
    return _quick_bound(parts, delta)[0]


def _quick_bound(parts: Parts, delta: float) -> tuple[float, int]:
    """`_rdp_bound` at the best of the quick and large orders. The bound falls with the order, and then rises: it is a
    convex function of order - 1, over order - 1. So where the last quick order is not the best, no large one is."""
    quick = _rdp_bound(parts, delta, _QUICK_ORDERS)
    return quick if quick[1] < _QUICK_ORDERS[-1] else _rdp_bound(parts, delta, _LARGE_ORDERS)


def _rdp_bound(
    parts: Parts,
    delta: float,
    orders: Sequence[int],
) -> tuple[float, int]:
    """(upper bound by Renyi DP at the best of these whole orders, that order); for both directions of neighbours."""
    accountant = rdp.RdpAccountant(orders)
    for rate, multiplier, count in parts:
        accountant.compose(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(multiplier)), count)
    value, order = accountant.get_epsilon_and_optimal_order(delta)
    return float(value), int(order)


def _renyi_below(parts: Parts, delta: float, upper: float) -> float | None:
    """A bound by Renyi DP below ``upper``, at the best order; None where there is none, or none worth looking for."""
    quick, order = _quick_bound(parts, delta)
    if quick > upper * _QUICK_LOSS:
        return None
    orders = np.unique(np.linspace(max(2, order // 2), 2 * order, 60).round())
    value = min(
        quick,
        _rdp_bound(
            parts,
            delta,
            [int(each) for each in orders],
        )[0],
    )
    return value if value < upper else None


def composed_pld(parts: Parts, grid: float) -> pld.PrivacyLossDistribution:
    """The pessimistic privacy loss distribution of the composition, on multiples of ``grid``."""
    total = pld.identity(grid)
    for rate, multiplier, count in parts:
        one = pld.from_gaussian_mechanism(
            multiplier, value_discretization_interval=grid, sampling_prob=rate
        )
        total = total.compose(one.self_compose(count))
    return total


def pld_epsilon(parts: Parts, delta: float, grid: float) -> float:
    """Upper bound on epsilon by `dp_accounting`'s privacy loss distribution on multiples of ``grid``."""
    return float(composed_pld(parts, grid).get_epsilon_for_delta(delta - ROUNDING))


def _removal_epsilon(parts: Parts, delta: float, grid: float) -> float:
    """The same for the removal of a record alone: half the work, and nearly always the larger one."""
    total = pld.identity(grid)
    for rate, multiplier, count in parts:
        loss = GaussianPrivacyLoss(
            multiplier, sampling_prob=rate, adjacency_type=AdjacencyType.REMOVE
        )
        one = pld._create_pld_pmf_from_monotone_privacy_loss(
            loss, value_discretization_interval=grid, use_connect_dots=True
        )
        total = total.compose(pld.PrivacyLossDistribution(one).self_compose(count))
    return float(total.get_epsilon_for_delta(delta - ROUNDING))


def addition_epsilon(parts: Parts, delta: float, grid: float) -> float:
    """The same for the addition of a record alone."""
    return float(composed_pld(parts, grid)._pmf_add.get_epsilon_for_delta(delta - ROUNDING))


def prv_epsilon(parts: Parts, delta: float, eps_error: float) -> dict[str, float]:
    """low, estimate and upper bound of epsilon by `prv-accountant`.

    Raises RuntimeError ("Discrete mean differs ...", on a very large epsilon) or OverflowError as the library does, and
    TookTooLong when its grid would be too large.
    """
    counts = [count for _, _, count in parts]
    delta_error = min(DELTA_ERROR, delta / 1000)
    mesh = eps_error / math.sqrt(sum(counts) / 2 * math.log(12 / delta_error))
    if 2 * (rdp_epsilon(parts, delta_error / 4) + 3) / mesh > MOST_CELLS:
        raise time_limit.TookTooLong(f"its grid would have more than {MOST_CELLS:,} cells")
    variables = [_random_variable(rate, multiplier) for rate, multiplier, _ in parts]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        accountant = PRVAccountant(variables, eps_error, delta_error, max_self_compositions=counts)
        low, estimate, upper = accountant.compute_epsilon(delta, counts)
    if not (math.isfinite(estimate) and math.isfinite(upper)):
        raise RuntimeError("prv-accountant gave no finite number")
    return {
        "low": max(0.0, low),
        "estimate": max(0.0, estimate),
        "upper": max(0.0, upper),
    }


def _random_variable(rate: float, multiplier: float) -> Any:
    """A part's privacy loss for prv-accountant."""
    if rate == 1:
        return GaussianMechanism(multiplier)
    variable = PoissonSubsampledGaussianMechanism(rate, multiplier)
    # each order is asked for twice, and takes most of the time
    vars(variable)["rdp"] = cache(variable.rdp)
    return variable


def rough_epsilon(parts: Parts, delta: float, cells: int) -> float:
    """About what `bounds` would answer as its upper bound, from one grid of ``cells`` steps for epsilon's scale."""
    check_delta(delta)
    scale = rdp_epsilon(parts, delta)
    if scale > 200:
        return scale
    grid = max(scale / cells, 1e-5 if delta < LARGE_DELTA else GRID)
    return min(scale, _removal_epsilon(parts, delta, grid))


@lru_cache(maxsize=512)
def bounds(parts: Parts, delta: float) -> Bounds:
    """Epsilon of the composition, cross-checked.

    The privacy loss distribution bounds both directions of neighbours and is a proof by itself; prv-accountant bounds
    the removal of a record, so it is one together with the other direction of the distribution. Renyi DP bounds both.
    The smallest proof counts, and a note says so where it is Renyi DP. Raises AccountantsDisagree beyond 1%, and where
    the upper bound of one is below the lower one of the other.
    """
    check_delta(delta)
    notes: list[str] = []
    grid = _grid_for(rdp_epsilon(parts, delta)) if delta < LARGE_DELTA else GRID
    discrete = _run_guarded("dp_accounting's PLD", notes, lambda: _finite_pld(parts, delta, grid))
    if discrete == 0:
        return Bounds(0.0, 0.0, 0.0, {"pld": 0.0}, ("delta alone covers the whole loss",))
    if discrete is None:  # prv-accountant alone would leave out the addition of a record
        raise UnsupportedEvent(
            f"There is no proved epsilon: {'; '.join(notes)}. Use more noise or fewer steps."
        )
    error = min(EPS_ERROR, 0.02 * discrete)  # 2% where epsilon is below 0.5
    prv = _run_guarded("prv-accountant", notes, lambda: prv_epsilon(parts, delta, error))
    if prv is None:
        crossed = Bounds(
            0.0, discrete, discrete, {"pld": discrete}, (*notes, "the PLD alone counts")
        )
    else:
        discrete = _find_agreement(parts, delta, prv, discrete, grid)
        upper = discrete
        if prv["upper"] < discrete:
            upper = min(discrete, max(prv["upper"], addition_epsilon(parts, delta, grid)))
        crossed = Bounds(
            prv["low"],
            prv["estimate"],
            upper,
            {"prv": prv, "pld": discrete},
            tuple(notes),
        )
    renyi = _renyi_below(parts, delta, crossed.upper)
    return crossed if renyi is None else _take_renyi(crossed, renyi, tuple(notes))


def _take_renyi(crossed: Bounds, renyi: float, notes: tuple[str, ...]) -> Bounds:
    """The bounds with that of Renyi DP, which is below theirs. Raises AccountantsDisagree below a lower bound."""
    if renyi < crossed.low - _CROSSING:
        raise AccountantsDisagree(
            f"Renyi DP proves {renyi:.6g} and prv-accountant {crossed.low:.6g} at least; report these numbers."
        )
    accountants = {**crossed.accountants, "rdp": renyi}
    note = f"the bound by Renyi DP counts: it is smaller than the other ones ({crossed.upper:.6g})"
    return Bounds(
        crossed.low,
        min(crossed.estimate, renyi),
        renyi,
        accountants,
        (*notes, note),
    )


#: By so much an upper bound of one accountant may lie below the lower bound of the other.
_CROSSING = 1e-6


def check_delta(delta: float) -> None:
    if delta < SMALLEST_DELTA:
        raise UnsupportedEvent(
            f"delta = {delta:g} is lost in rounding errors; use at least {SMALLEST_DELTA:g}."
        )


def _grid_for(scale: float) -> float:
    """The standard grid; a finer or coarser one where epsilon is far below or above 1."""
    return scale / 40_000 if scale > 20 else min(GRID, max(scale / 1000, 1e-5))


def _finite_pld(parts: Parts, delta: float, grid: float) -> float:
    value = pld_epsilon(parts, delta, grid)
    if not math.isfinite(value):
        raise RuntimeError("its truncated tails weigh more than delta")
    return value


def _find_agreement(
    parts: Parts,
    delta: float,
    prv: dict[str, float],
    discrete: float,
    grid: float,
) -> float:
    """The PLD's answer once it is within 1% of prv-accountant's and not below its lower bound, on finer grids if need
    be (many tiny steps)."""
    tried = discrete
    for finer in (1, 4, 16):
        if finer > 1:
            again = _run_guarded(
                "dp_accounting's PLD",
                [],
                lambda f=finer: pld_epsilon(parts, delta, grid / f),
            )
            tried = tried if again is None else min(tried, again)
        distance = abs(prv["estimate"] - tried)
        allowed = max(AGREEMENT * max(prv["estimate"], tried), ABSOLUTE_AGREEMENT)
        if distance <= allowed and tried >= prv["low"] - _CROSSING:
            return tried
        if tried < prv["estimate"]:
            break
    raise AccountantsDisagree(
        f"prv-accountant says {prv['low']:.6g} / {prv['estimate']:.6g} / {prv['upper']:.6g} and dp_accounting "
        f"{tried:.6g} for (rate, noise, count) {list(parts)} at delta = {delta:g}: more than 1% apart, or an upper"
        " bound below a lower one. Report these numbers; a slightly different noise or delta may avoid the defect."
    )


def _run_guarded(name: str, notes: list[str], compute: Any) -> Any:
    """The accountant's answer within the time limit; None, and a note, when it has none."""
    try:
        return time_limit.run_within(time_limit.ACCOUNTANT_SECONDS, compute)
    except (
        RuntimeError,
        OverflowError,
        FloatingPointError,
        MemoryError,
        ValueError,
        time_limit.TookTooLong,
    ) as error:
        notes.append(f"{name} gave no answer ({str(error).rstrip('.')})")
        return None
