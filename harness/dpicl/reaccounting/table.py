"""One published setting (settings.py), accounted twice: by the formula of its authors, and by what is proved here.

`reaccount` answers with every accounting that fits, each with its theorem, its neighbours and whether it is a bound.
Claims take the sensitivity that the noise was set for; proofs take the one that the code has. The published settings
are in docs/reports/re-accounting.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from dp_accounting import dp_event as dp

from dpicl.core.errors import UsageError
from dpicl.privacy.accountants import account_subsampled_gaussian, epsilon
from dpicl.privacy.events import EpsilonDeltaDpEvent, bounded_range, bounded_range_choice
from dpicl.privacy.slack import below_proof, checked_lower_bound, rounds_bound
from dpicl.reaccounting import published
from dpicl.reaccounting.settings import Setting

ADD_REMOVE = "add or remove one record"
STATED = "the neighbours that the sensitivity is stated for"
REPLACE = "replace one record"
_ADVERSARY = "one record moves each release by its whole sensitivity, and the adversary knows all others"


#: (name, value, kind of bound, theorem) of one accounting; its neighbours follow from the setting.
Accounting = tuple[str, Any, str, str]


def reaccount(setting: Setting) -> dict[str, Any]:
    """Every accounting of the setting, as JSON: {name: epsilon}, "about" ({name: bound, theorem, neighbours}), "notes".

    "proved" is always there: the upper bound that may be claimed. So is "lower": what the best adversary that was found
    reaches, a mechanism with these releases; epsilon lies between both. A Gaussian on samples also has "prv" (low,
    estimate, upper), "pld" and "fixed_replace_one". None, with a note, is where one of them gives no answer.
    Raises UnsupportedEvent where there is no theorem.
    """
    answer: dict[str, Any] = {"about": {}, "notes": []}
    stated = ADD_REMOVE if setting.rate < 1 else STATED
    for name, value, bound, theorem in _ACCOUNTINGS[setting.family](answer, setting):
        answer[name] = value
        neighbours = REPLACE if name == "fixed_replace_one" else stated
        answer["about"][name] = {"bound": bound, "theorem": theorem, "neighbours": neighbours}
    return answer


def _event(setting: Setting, release: dp.DpEvent) -> dp.DpEvent:
    """All steps of the setting on its samples."""
    if setting.sample == "once":
        return dp.PoissonSampledDpEvent(setting.rate, dp.SelfComposedDpEvent(release, setting.steps))
    return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(setting.rate, release), setting.steps)


def _ends(setting: Setting, event: dp.DpEvent, theorem: str = "") -> Iterator[Accounting]:
    """Between what epsilon lies: the proof, and the best adversary. theorem: "" for what the accountants say."""
    found = epsilon(event, setting.delta)
    default = "bounded range as zCDP (Cesar & Rogers 2021), by Renyi DP"
    yield "proved", found.upper, "upper", theorem or str(found.accountants.get("rule", default))
    yield "lower", checked_lower_bound(event, setting.delta, found.upper), "lower", _ADVERSARY


def _gaussian(answer: dict[str, Any], setting: Setting) -> Iterator[Accounting]:
    """Gaussians: the exact curve, or the accountants of samples, and what the claimed sensitivity would give."""
    multiplier = setting.claimed_multiplier / setting.moved
    answer["noise_multiplier"] = multiplier
    event = _event(setting, dp.GaussianDpEvent(multiplier))
    if setting.rate == 1:
        proved = epsilon(event, setting.delta).upper
        yield "proved", proved, "exact", "the exact Gaussian curve (Balle & Wang 2018, theorem 8)"
        yield "lower", proved, "exact", f"{_ADVERSARY}: the same curve"
    else:
        theorem = "the smaller one of prv.upper and pld, for both directions of neighbours; Poisson sampling"
        yield from _ends(setting, event, theorem)
        # T Gaussians on one sample are one Gaussian of T^-1/2 times the multiplier.
        once = setting.sample == "once"
        one = multiplier / math.sqrt(setting.steps) if once else multiplier
        said = account_subsampled_gaussian(one, setting.rate, 1 if once else setting.steps, setting.delta)
        answer["notes"] += said.get("notes", [])
        theorem = "PRV accountant (Gopi, Lee & Wutschitz 2021); Poisson sampling"
        yield "prv", said["prv"], "low, estimate, upper", theorem
        theorem = "privacy loss distribution (Doroshenko et al. 2022); Poisson sampling"
        yield "pld", said["pld"], "upper", theorem
        theorem = "samples of fixed size without replacement (Balle, Barthe & Gaboardi 2018, theorem 9)"
        yield "fixed_replace_one", said["fixed_replace_one"], "upper", theorem
    if setting.moved != 1:
        claimed = epsilon(_event(setting, dp.GaussianDpEvent(setting.claimed_multiplier)), setting.delta).estimate
        yield "as_claimed", claimed, "estimate", "the same accounting at the claimed sensitivity"


def _bounded_range(answer: dict[str, Any], setting: Setting) -> Iterator[Accounting]:
    """Choices, with their failures and the Gaussian after each: proved at the true range, and what authors compute."""
    size = setting.range_epsilon
    answer["range_epsilon"] = size
    release = [bounded_range_choice(size)]
    if setting.delta0:
        release.append(EpsilonDeltaDpEvent(0.0, setting.delta0))
    if setting.noise is not None:
        release.append(dp.GaussianDpEvent(setting.claimed_multiplier / setting.moved))
    yield from _ends(setting, _event(setting, dp.ComposedDpEvent(tuple(release))))
    if setting.rate == 1 and len(release) == 1:
        zcdp = epsilon(dp.SelfComposedDpEvent(bounded_range(size), setting.steps), setting.delta).upper
        yield "zcdp", zcdp, "upper", "bounded range as zCDP, rho = range^2/8 (Cesar & Rogers 2021), by Renyi DP"
    yield from _published(answer, setting, setting.claimed_range)


def _above_threshold(answer: dict[str, Any], setting: Setting) -> Iterator[Accounting]:
    """``steps`` rounds of AboveThreshold, each with the private choice that follows its "above".

    Laplace noise of scale b on the threshold and 2b on every query, the threshold drawn again in each round: with
    queries that one record moves by at most D either way a round is (2 D/b)-DP (Dwork & Roth 2014, theorem 3.23), as
    zCDP (2 D/b)^2/2 (Amin et al. 2024). It is not more for the queries before the "above".
    """
    noise, choice = setting.noise or math.nan, setting.epsilon0 or 0.0
    claimed = 2 / noise
    answer["round_epsilon"] = claimed * setting.moved
    release = [EpsilonDeltaDpEvent(claimed * setting.moved, 0.0), *([bounded_range_choice(choice)] if choice else [])]
    event = _event(setting, dp.ComposedDpEvent(tuple(release)))
    proved = next(_ends(setting, event))
    yield proved
    if setting.rate == 1:  # an adversary of epsilon-DP rounds is none of AboveThreshold: this one asks it
        lower = rounds_bound(noise, setting.moved, choice, setting.steps, setting.delta, proved[1])
        lower = below_proof(lower, event, setting.delta, proved[1])
        yield "lower", lower, "lower", f"{_ADVERSARY}, and chooses all queries of a round"
        rho = setting.steps * (claimed**2 / 2 + choice**2 / 8)
        theorem = "zCDP of rounds and choices at the claimed sensitivity (Amin et al. 2024), by Renyi DP"
        yield "as_claimed", epsilon(dp.ZCDpEvent(rho), setting.delta).upper, "estimate", theorem


def _parameters(answer: dict[str, Any], setting: Setting) -> Iterator[Accounting]:
    """(epsilon0, delta0)-DP releases, by their parameters alone."""
    epsilon0 = setting.claimed_range
    yield from _ends(setting, _event(setting, EpsilonDeltaDpEvent(epsilon0, setting.delta0 or 0.0)))
    yield from _published(answer, setting, epsilon0)


def _published(answer: dict[str, Any], setting: Setting, epsilon0: float) -> Iterator[Accounting]:
    """What the authors of choices compute from epsilon0 alone, where their formula applies."""
    rate, steps, delta, delta0 = setting.rate, setting.steps, setting.delta, setting.delta0 or 0.0
    if rate == 1 and not delta0 and setting.noise is None:
        yield "basic_composition", steps * epsilon0, "upper", "the sum over all steps, at every delta"
        value = published.prism_formula(epsilon0, steps, delta)
        yield "prism_formula", value, "no bound", "PRISM: advanced composition without its second term, no theorem"
        value = published.advanced_composition(epsilon0, steps, delta)
        yield "advanced_composition", value, "upper", "Dwork, Rothblum & Vadhan 2010, theorem III.3"
    if setting.sample == "once" or epsilon0 > published.LARGEST:
        return
    try:
        if setting.noise is not None:
            value = published.ksa_ptr_epsilon(epsilon0, setting.noise, delta0, rate, steps, delta)
            theorem = "autodp's Renyi DP, failures of one step charged for all, as KSA-PTR's printed numbers have it"
            yield "ksa_ptr", value, "no bound", theorem
        elif delta0:
            value = published.dp_opt_epsilon(epsilon0, delta0, rate, steps, delta)
            yield "dp_opt", value, "estimate", "autodp's Renyi DP with every failure charged, as DP-OPT's code"
        else:
            value = published.sampled_exponential_epsilon(epsilon0, rate, steps, delta)
            theorem = "autodp's Renyi DP of Poisson samples of epsilon0-DP choices (Zhu & Wang 2019)"
            yield "autodp", value, "estimate", theorem
    except UsageError as error:
        answer["notes"].append(f"the published accounting gives no number: {error}")


def _no_noise(answer: dict[str, Any], setting: Setting) -> Iterator[Accounting]:
    """A value that shows a record whenever the record is in a sample, which happens with some probability p.

    Exact: the outputs that only the record can cause have probability p with it and 0 without it, so no epsilon helps
    as long as delta < p; and with probability 1 - p nothing depends on it, which is (0, p)-DP.
    """
    once = setting.rate == 1 or setting.steps == 1 or setting.sample == "once"
    seen = setting.rate if once else -math.expm1(setting.steps * math.log1p(-setting.rate))
    theorem = f"the record itself is released with probability {seen:.4g}; no epsilon exists for a smaller delta"
    for end in ("proved", "lower"):
        yield end, math.inf if setting.delta < seen else 0.0, "exact", theorem


_ACCOUNTINGS: Final = {
    "gaussian": _gaussian,
    "classical": _gaussian,
    "bounded-range": _bounded_range,
    "above-threshold": _above_threshold,
    "epsilon-delta": _parameters,
    "no-noise": _no_noise,
}
