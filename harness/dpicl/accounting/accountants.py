"""The epsilon of an event tree, proved: `epsilon(event, delta)`.

| event | theorem and accountant |
|---|---|
| Gaussians | the exact Gaussian curve |
| Poisson-subsampled Gaussians (and Gaussians) | prv-accountant and dp_accounting's PLD, cross-checked; Renyi DP |
| zCDP (and the above) | Renyi DP, converted at the best order |
| bounded-range choices, AboveThreshold (and Gaussians, Laplace, (epsilon, delta)) | PLD; also as zCDP |
| Poisson samples of composites of these (and these) | PLD; also by the two rules below |
| one Poisson sample of anything else | amplification of (epsilon0, delta0) |
| several of those, (epsilon, delta) events, Laplace, mixtures | PLD of approximate-DP parameters |
| ParallelDpEvent | the worst group |

Neighbours differ by adding or removing one record. Where two proofs hold the smaller bound counts. Anything else raises
UnsupportedEvent: no theorem, no epsilon.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from dp_accounting.rdp import rdp_privacy_accountant as rdp

from dpicl.accounting import dp_event as dp
from dpicl.accounting import gaussians, parameters, sampled_composites
from dpicl.accounting.bounds import Bounds
from dpicl.accounting.decomposition import (
    DecomposedEvents,
    components,
    gaussian_multiplier,
    groups,
    is_sampled_gaussian,
    of_kind,
    recompose,
)
from dpicl.accounting.events import AboveThresholdDpEvent, BoundedRangeDpEvent, bounded_range
from dpicl.accounting.fixed_sampling import fixed_replace_one
from dpicl.accounting.parameters import FULL
from dpicl.core.errors import UnsupportedEvent, UsageError

#: Releases of one kind that are composed; more cost hours and gigabytes.
MOST_RELEASES = 1_000_000
#: Kinds of components from which on a composition takes long to account for.
_MANY_KINDS = 3
#: So few cells ask for a bound in seconds.
_QUICK_CELLS = 100
#: Components whose loss lies in an interval: they have a privacy loss distribution, and zCDP besides.
_CHOICES = (BoundedRangeDpEvent, AboveThresholdDpEvent)


def epsilon(event: dp.DpEvent, delta: float) -> Bounds:
    """Proved bounds of the epsilon of an event at this delta; only the upper one may be claimed.

    NonPrivate costs infinity, NoOp nothing. Raises UsageError for a delta outside (0, 1), UnsupportedEvent for a
    combination without a theorem, AccountantsDisagree when two accountants differ by more than 1%.
    """
    result = _worst_group(event, check_delta(delta), FULL)
    return replace(result, accountants=copy.deepcopy(result.accountants))


def rough_epsilon(event: dp.DpEvent, delta: float, cells: int = 1000) -> float:
    """About the upper bound that `epsilon` gives, some ten times faster; for searches, never for a claim.

    cells: grid steps for epsilon's scale (1000: within about 1%; 150: 5%).
    """
    return _worst_group(event, check_delta(delta), cells).upper


def quick_epsilon(event: dp.DpEvent, delta: float) -> Bounds:
    """An upper bound as `epsilon` gives, in seconds where that takes minutes: a composition of many different Gaussians
    by Renyi DP alone, whatever else on a coarse pessimistic grid. It is a proof, and not the smallest one."""
    counted = groups(event)
    if any(len(each) > _MANY_KINDS for each in counted.values()):
        value = _worst_group(event, check_delta(delta), _QUICK_CELLS).upper
        return Bounds(0.0, value, value, {"quick": value})
    return epsilon(event, delta)


def check_delta(delta: float) -> float:
    """The delta, or a UsageError when it is not in (0, 1)."""
    if not isinstance(delta, (int, float)) or not 0 < delta < 1:
        raise UsageError(
            f"delta must lie strictly between 0 and 1, not {delta}; 1e-5 is the usual choice."
        )
    return float(delta)


def check_epsilon(value: float) -> float:
    """The epsilon, or a UsageError when it is not a positive number; infinity stands for no privacy."""
    if not isinstance(value, (int, float)) or math.isnan(value) or value <= 0:
        raise UsageError(f"epsilon must be a positive number (or inf for no privacy), not {value}.")
    return float(value)


def account_subsampled_gaussian(
    noise: float,
    rate: float,
    steps: int,
    delta: float,
) -> dict[str, Any]:
    """Every accounting of ``steps`` Gaussians of one noise multiplier, each on a sample at ``rate``, as JSON.

    prv, pld: Poisson sampling, add/remove of one record. fixed_replace_one: samples of fixed size, replacement of one
    record. One of them is None, with a note, where that accountant gives no answer. rdp: where it is the smallest bound
    of Poisson sampling, and counts. Raises UsageError for bad numbers.
    """
    if not (math.isfinite(noise) and noise > 0):
        raise UsageError(
            f"The noise must be a positive number (standard deviation / sensitivity), not {noise}."
        )
    if not 0 < rate <= 1:
        raise UsageError(f"The sampling rate must lie in (0, 1], not {rate}.")
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise UsageError(f"The number of steps must be a whole number of at least 1, not {steps}.")
    result = gaussians.bounds(((float(rate), float(noise), steps),), check_delta(delta))
    fixed = fixed_replace_one(float(noise), float(rate), steps, delta)
    notes = list(result.notes)
    if math.isinf(fixed):
        notes.append("the fixed-size accounting gave no finite number")
    answer = {
        "prv": copy.deepcopy(result.accountants.get("prv")),
        "pld": result.accountants.get("pld"),
        "fixed_replace_one": None if math.isinf(fixed) else fixed,
    }
    if "rdp" in result.accountants:
        answer["rdp"] = result.accountants["rdp"]
    return answer | ({"notes": notes} if notes else {})


def _worst_group(event: dp.DpEvent, delta: float, cells: int) -> Bounds:
    """The bounds of the group of records that loses most; groups with equal components are computed once."""
    members: dict[dp.DpEvent, list[str | None]] = {}
    for name, counted in groups(event).items():
        members.setdefault(recompose(counted), []).append(name)
    answers = {one: _composition(one, delta, cells) for one in members}
    worst = max(answers, key=lambda one: answers[one].upper)
    if members[worst] == [None]:
        return answers[worst]
    accountants = {**answers[worst].accountants, "worst_groups": members[worst]}
    return replace(answers[worst], accountants=accountants)


def worst_group(event: dp.DpEvent, delta: float) -> dp.DpEvent:
    """What a record of the group that loses most can touch, as one event without groups."""
    each = {recompose(counted) for counted in groups(event).values()}
    return max(
        each,
        key=lambda one: (
            _composition(one, delta, FULL).upper,
            repr(one),
        ),
    )


@lru_cache(maxsize=1024)
def _composition(event: dp.DpEvent, delta: float, cells: int) -> Bounds:
    """Bounds of a composition without groups, by the tightest theorem that covers all its components."""
    counted = components(event, None)
    if not counted:
        return Bounds(0.0, 0.0, 0.0, {"exact": 0.0})
    if dp.NonPrivateDpEvent() in counted:
        return Bounds(math.inf, math.inf, math.inf, {"exact": math.inf})
    if all(isinstance(component, dp.GaussianDpEvent) for component in counted):
        value = gaussians.exact_epsilon(gaussian_multiplier(counted), delta)
        return Bounds(value, value, value, {"exact": value})
    samples = of_kind(counted, dp.PoissonSampledDpEvent)
    inside = [components(sample.event, None) for sample in samples]
    most = max(max(each.values(), default=0) for each in (counted, *inside))
    if most > MOST_RELEASES:
        raise UnsupportedEvent(
            f"{most:,} releases of one kind are too many to account for ({MOST_RELEASES:,} at most); ask for fewer."
        )
    if all(
        isinstance(component, dp.GaussianDpEvent) or is_sampled_gaussian(component)
        for component in counted
    ):
        parts = gaussians.parts_of(counted)
        if cells == FULL:
            return gaussians.bounds(parts, delta)
        is_quick = cells <= _QUICK_CELLS
        value = (
            gaussians.rdp_epsilon(parts, delta)
            if is_quick
            else gaussians.rough_epsilon(parts, delta, cells)
        )
        return Bounds(0.0, value, value)
    if any(
        isinstance(component, _CHOICES) or _is_sampled_composite(component) for component in counted
    ):
        composed = _take_smaller(counted, delta, cells)
        pure = float(parameters.pure_epsilon(counted))
        if pure >= composed.upper:
            return composed
        accountants = {
            "rule": "the sum of the largest losses, at every delta",
            "other_proof": {"epsilon": composed.upper},
        }
        return Bounds(0.0, pure, pure, accountants)
    return _curves_or_parameters(counted, delta, cells)


def _curves_or_parameters(counted: DecomposedEvents, delta: float, cells: int) -> Bounds:
    """Renyi DP where every component has a curve, else amplification and composition of privacy parameters."""
    if all(
        isinstance(component, (dp.GaussianDpEvent, dp.ZCDpEvent)) or is_sampled_gaussian(component)
        for component in counted
    ):
        return _renyi(recompose(counted), delta)
    first = next(iter(counted))
    if sum(counted.values()) == 1 and isinstance(first, dp.PoissonSampledDpEvent):
        return parameters.one_sample(first, delta, _composition, cells)
    return parameters.composition(counted, delta, _composition, cells)


def _take_smaller(counted: DecomposedEvents, delta: float, cells: int) -> Bounds:
    """The smaller of two bounds: by privacy loss distributions, and with every choice as zCDP (a round of
    AboveThreshold is one of range 3 epsilon).

    A rough answer leaves the second out where it is slow and the first is finite.
    """
    pld = math.inf
    if all(sampled_composites.has_distribution(component) for component in counted):
        steps = sampled_composites.STEPS if cells == FULL else max(6, min(16, cells // 25))
        pld = sampled_composites.composed_epsilon(counted, delta, steps)
    if (
        cells != FULL
        and math.isfinite(pld)
        and any(_is_sampled_composite(component) for component in counted)
    ):
        return Bounds(0.0, pld, pld, {"pld": pld})
    as_zcdp: DecomposedEvents = Counter()
    for component, count in counted.items():
        if isinstance(component, _CHOICES):
            size = (
                component.epsilon
                if isinstance(component, BoundedRangeDpEvent)
                else 3 * component.epsilon
            )
            component = bounded_range(size)
        as_zcdp[component] += count
    other = _curves_or_parameters(as_zcdp, delta, cells)
    if pld > other.upper:
        accountants = {
            **other.accountants,
            "pld_of_samples_and_choices": pld if math.isfinite(pld) else None,
        }
        return replace(other, accountants=accountants)
    accountants = {
        "pld": pld,
        "rule": "composition and Poisson sampling of privacy loss distributions",
    }
    return Bounds(
        0.0,
        pld,
        pld,
        accountants | {"other_proof": {"epsilon": other.upper, "accountants": other.accountants}},
    )


def _is_sampled_composite(component: dp.DpEvent) -> bool:
    """True for a Poisson sample, not of one Gaussian, that has a privacy loss distribution."""
    sampled = isinstance(component, dp.PoissonSampledDpEvent) and not is_sampled_gaussian(component)
    return sampled and sampled_composites.has_distribution(component)


def _renyi(event: dp.DpEvent, delta: float) -> Bounds:
    """Renyi DP of zCDP, Gaussians and sampled Gaussians, converted at the best order.

    zCDP is linear in the order (Bun & Steinke 2016, definition 8.1 for xi); the conversion is Canonne, Kamath & Steinke
    2020, proposition 12. Every order gives a proof, so a dense grid around the optimum is a bound that loses nothing.
    """
    counted = components(event, None)
    rho = sum(event.rho * n for event, n in of_kind(counted, dp.ZCDpEvent).items())
    rho += 0.5 / gaussian_multiplier(counted) ** 2
    # a closed form at whole orders only
    if any(is_sampled_gaussian(component) for component in counted):
        large = np.geomspace(64, 4096, 40).round()
        orders = np.unique(np.concatenate([np.arange(2, 64), large]))
    else:
        best = math.sqrt(math.log(1 / delta) / rho) if rho else 1e6
        orders = 1 + np.concatenate(
            [
                np.geomspace(0.02, 5, 30),
                best * np.geomspace(0.1, 10, 1500),
            ]
        )
    accountant = rdp.RdpAccountant(orders)
    accountant.compose(event)
    value = float(accountant.get_epsilon(delta))
    return Bounds(0.0, value, value, {"rdp": value})
