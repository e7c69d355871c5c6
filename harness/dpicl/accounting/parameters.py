"""Epsilon of compositions in which parts are known by their privacy parameters (epsilon0, delta0) alone.

Such parts are: events that say so, zCDP parts next to others, and Poisson samples of anything but one Gaussian. A
sample at rate q of an (epsilon0, delta0) mechanism is (ln(1 + q(e^epsilon0 - 1)), q delta0) (Li, Qardaji & Su 2012;
Balle, Barthe & Gaboardi 2018, theorem 8). For one such sample delta0 = delta/q. Several of them, and all other parts,
are composed through the privacy loss distribution that dominates every (epsilon, delta) mechanism (Kairouz, Oh &
Viswanath 2015); delta is split between the parts and the composition, and the best split of a small grid counts: each
one is a proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as pld

from dpicl.accounting import decomposition, gaussians
from dpicl.accounting import dp_event as dp
from dpicl.accounting.bounds import Bounds
from dpicl.accounting.decomposition import is_sampled_gaussian, of_kind
from dpicl.accounting.events import (
    AboveThresholdDpEvent,
    BoundedRangeDpEvent,
    EpsilonDeltaDpEvent,
)

#: Shares of delta that the parts may take; the rest is left to the composition.
SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)
ROUGH_SHARES = (0.1, 0.35, 0.65)
#: Cells of the composed grid for its scale of epsilon.
RESOLUTION = 2000

#: Stands for the full accounting where a number of cells would ask for a rough one.
FULL = 0
ROUGH = 150
#: epsilon of an event at a delta, with a rough grid of so many cells, or FULL.
Account = Callable[[dp.DpEvent, float, int], Bounds]


@dataclass(frozen=True)
class Parameters:
    """count mechanisms that are (epsilon, delta)-DP each."""

    epsilon: float
    delta: float
    count: int


def amplify(epsilon: float, rate: float) -> float:
    """ln(1 + rate (e^epsilon - 1)), without overflow."""
    if epsilon > 1:
        return epsilon + math.log1p((1 - rate) * math.expm1(-epsilon))
    return math.log1p(rate * math.expm1(epsilon))


def pure_epsilon(components: Mapping[dp.DpEvent, int]) -> float:
    """The sum of the largest losses of all components, which bounds epsilon at every delta; infinity where one has
    none."""
    return sum(n * _largest_loss(component) for component, n in components.items())


def _largest_loss(component: dp.DpEvent) -> float:
    match component:
        case BoundedRangeDpEvent() | EpsilonDeltaDpEvent(delta=0):
            return component.epsilon
        case AboveThresholdDpEvent():
            return 2 * component.epsilon
        case dp.LaplaceDpEvent():
            return 1 / component.noise_multiplier
        case dp.PoissonSampledDpEvent():
            inside = pure_epsilon(decomposition.components(component.event, None))
            return (
                amplify(inside, component.sampling_probability)
                if math.isfinite(inside)
                else math.inf
            )
    return math.inf


def one_sample(
    event: dp.PoissonSampledDpEvent,
    delta: float,
    account: Account,
    cells: int,
) -> Bounds:
    """Epsilon of one Poisson sample of any mechanism: the whole delta goes into its inside, delta0 = delta/q."""
    rate = event.sampling_probability
    if delta >= rate:
        rule = {"rule": f"a record is sampled with probability {rate:g} <= delta"}
        return Bounds(0.0, 0.0, 0.0, rule)
    inside = account(event.event, delta / rate, cells)
    value = amplify(inside.upper, rate)
    accountants = {
        "rule": f"Poisson amplification at rate {rate:g} of the (epsilon, delta) inside",
        "inside": {
            "epsilon": inside.upper,
            "delta": delta / rate,
            "accountants": inside.accountants,
        },
    }
    return Bounds(0.0, value, value, accountants, inside.notes)


def composition(
    components: Mapping[dp.DpEvent, int],
    delta: float,
    account: Account,
    cells: int,
) -> Bounds:
    """Epsilon of a composition of any components, through privacy loss distributions."""
    known = tuple(
        Parameters(e.epsilon, e.delta, n)
        for e, n in of_kind(components, EpsilonDeltaDpEvent).items()
    )
    native = {component: n for component, n in components.items() if _is_native(component)}
    if native:
        gaussians.check_delta(delta)
    unknown = _conditional(components)

    def compose_at(share: float, effort: int) -> tuple[float, tuple[Parameters, ...]]:
        parts = known + _resolve(unknown, share * delta, account, effort)
        return compose_parameters(parts, native, delta), parts

    shares = (SHARES if cells == FULL else ROUGH_SHARES) if unknown else (0.0,)
    best = shares[0]
    if len(shares) > 1:
        best = min(shares, key=lambda share: compose_at(share, ROUGH)[0])
    value, parts = compose_at(best, cells)
    accountants: dict[str, Any] = {
        "pld": value,
        "rule": "composition of privacy parameters",
        "delta_share_of_parts": best,
    }
    if not native:
        spare = delta - sum(part.delta * part.count for part in known)
        simple = known + (_resolve(unknown, spare, account, cells) if spare > 0 else ())
        if spare >= 0 and (spare > 0 or not unknown):
            accountants["basic"] = sum(part.epsilon * part.count for part in simple)
            if accountants["basic"] < value:
                value, parts = accountants["basic"], simple
    accountants["parts"] = [
        {
            "epsilon": part.epsilon,
            "delta": part.delta,
            "count": part.count,
        }
        for part in parts
    ]
    return Bounds(0.0, value, value, accountants)


def compose_parameters(
    parts: tuple[Parameters, ...],
    native: Mapping[dp.DpEvent, int],
    delta: float,
) -> float:
    """Upper bound on the epsilon of all parts and of native components (Gaussians, their samples, Laplace) together."""
    total_delta = sum(part.delta * part.count for part in parts)
    if any(math.isinf(part.epsilon) for part in parts) or total_delta >= 1:
        return math.inf
    if delta < gaussians.SMALLEST_DELTA:
        return math.inf  # lost in rounding errors; plain addition may still bound it
    grid = _grid(parts, native, delta)
    total = pld.identity(grid)
    with np.errstate(over="ignore"):  # of e^epsilon, on very large epsilons
        for part in parts:
            total = total.compose(
                dominate_parameters(
                    part.epsilon,
                    part.delta,
                    grid,
                ).self_compose(part.count)
            )
        for component, count in native.items():
            total = total.compose(_build_native(component, count, grid))
    return float(total.get_epsilon_for_delta(delta - gaussians.ROUNDING))


def _is_native(component: dp.DpEvent) -> bool:
    return isinstance(component, (dp.GaussianDpEvent, dp.LaplaceDpEvent)) or is_sampled_gaussian(
        component
    )


def _conditional(components: Mapping[dp.DpEvent, int]) -> tuple[tuple[dp.DpEvent, int], ...]:
    """Components that need a delta of their own; all zCDP together counts as one event."""
    curves = of_kind(components, dp.ZCDpEvent).items()
    rho = sum(event.rho * n for event, n in curves)
    xi = sum(event.xi * n for event, n in curves)
    samples = of_kind(components, dp.PoissonSampledDpEvent).items()
    rest = tuple((sample, n) for sample, n in samples if not is_sampled_gaussian(sample))
    return ((dp.ZCDpEvent(rho, xi), 1), *rest) if rho or xi else rest


def _resolve(
    unknown: tuple[tuple[dp.DpEvent, int], ...], delta: float, account: Account, cells: int
) -> tuple[Parameters, ...]:
    """Privacy parameters of the components that need a delta, which share ``delta`` equally."""
    total = sum(n for _, n in unknown)
    parts = []
    for component, n in unknown:
        share, sampled = delta / total, isinstance(component, dp.PoissonSampledDpEvent)
        bounds = (
            one_sample(component, share, account, cells)
            if sampled
            else account(component, share, cells)
        )
        parts.append(Parameters(bounds.upper, share, n))
    return tuple(parts)


def _grid(
    parts: tuple[Parameters, ...],
    native: Mapping[dp.DpEvent, int],
    delta: float,
) -> float:
    """A grid fine enough for the smallest part and for the composed epsilon; the largest part lies on it exactly."""
    basic = sum(part.epsilon * part.count for part in parts)
    squares = sum(part.epsilon**2 * part.count for part in parts)
    scale = min(basic, squares / 2 + math.sqrt(2 * math.log(1 / delta) * squares))
    laplace = of_kind(native, dp.LaplaceDpEvent)
    smooth = gaussians.parts_of(native)
    scale += gaussians.rdp_epsilon(smooth, delta) if smooth else 0.0
    scale += sum(n / event.noise_multiplier for event, n in laplace.items())
    sizes = [part.epsilon for part in parts if part.epsilon > 0]
    grid = max(scale, 1e-3) / RESOLUTION
    if not sizes:
        return grid
    grid = max(min(grid, min(sizes) / 10), grid / 500)
    return max(sizes) / math.ceil(max(sizes) / grid)


def dominate_parameters(epsilon: float, delta: float, grid: float) -> pld.PrivacyLossDistribution:
    """The privacy loss distribution that dominates every (epsilon, delta) mechanism, pessimistic on the grid.

    Its curve between -epsilon and epsilon is delta + (1 - delta)(e^epsilon - e^x)/(1 + e^epsilon).
    """
    ends = np.array([-epsilon, epsilon]) / grid
    points = np.unique(np.concatenate([np.floor(ends), np.ceil(ends)])).astype(int)
    x = points * grid
    between = -np.expm1(np.minimum(x - epsilon, 0.0)) / (1 + math.exp(-epsilon))
    curve = np.where(
        x <= -epsilon,
        -np.expm1(np.minimum(x, 0.0)),
        between,
    )
    deltas = np.clip(delta + (1 - delta) * curve, 0.0, 1.0)
    return pld.PrivacyLossDistribution(
        pld_pmf.create_pmf_pessimistic_connect_dots(grid, points, deltas).to_dense_pmf()
    )


def _build_native(component: dp.DpEvent, count: int, grid: float) -> pld.PrivacyLossDistribution:
    if isinstance(component, dp.LaplaceDpEvent):
        one = pld.from_laplace_mechanism(
            component.noise_multiplier, value_discretization_interval=grid
        )
        return one.self_compose(count)
    return gaussians.composed_pld(gaussians.parts_of({component: count}), grid)
