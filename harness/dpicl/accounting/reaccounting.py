"""Accounts for a published setting twice: by its authors' formula, and by what is proved here.

A `Setting` is what one noisy release is, how often it happens and on which samples:

| family | one release is | noise is given by |
|---|---|---|
| gaussian | a vector with Gaussian noise | ``noise``: standard deviation / claimed L2 sensitivity |
| classical | the same | ``epsilon0``: nominal epsilon of the classical formula at ``delta`` |
| bounded-range | a choice by softmax or Gumbel noise | ``epsilon0``: its range, or ``temperature`` of the scores |
| above-threshold | AboveThreshold up to "above" | ``noise``: Laplace scale of the threshold / claimed sensitivity |
| epsilon-delta | anything (epsilon0, delta0)-DP | ``epsilon0``, ``delta0`` |
| no-noise | a private value as it is | nothing |

A bounded-range choice may fail with probability ``delta0`` (it then hides nothing), and a Gaussian of multiplier
``noise`` may follow it on the same sample. After each "above" a choice of bounded range ``epsilon0`` may follow.

`reaccount` answers with every accounting that fits, each with its theorem, its neighbours and whether it is a bound.
Claims take the sensitivity that the noise was set for; proofs take the one that the code has. The published settings
are in docs/reports/re-accounting.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dpicl.accounting import dp_event as dp
from dpicl.accounting import published
from dpicl.accounting.accountants import account_subsampled_gaussian, epsilon
from dpicl.accounting.events import EpsilonDeltaDpEvent, bounded_range, bounded_range_choice
from dpicl.accounting.slack import compute_lower_bound, require_below_proof, rounds_bound
from dpicl.core.errors import UsageError, require_known

#: The fields that each family reads besides rate, sample, steps and delta. The first one is needed (bounded-range: one
#: of the first two).
FAMILIES = {
    "gaussian": ("noise", "noise_on", "slots", "sensitivity", "claimed_sensitivity"),
    "classical": ("epsilon0", "noise_on", "slots", "sensitivity", "claimed_sensitivity"),
    "bounded-range": (
        "epsilon0",
        "temperature",
        "delta0",
        "noise",
        "sensitivity",
        "claimed_sensitivity",
    ),
    "above-threshold": ("noise", "epsilon0", "sensitivity", "claimed_sensitivity"),
    "epsilon-delta": ("epsilon0", "delta0"),
    "no-noise": (),
}
ADD_REMOVE = "add or remove one record"
STATED = "the neighbours that the sensitivity is stated for"
REPLACE = "replace one record"
_ADVERSARY = (
    "one record moves each release by its whole sensitivity, and the adversary knows all others"
)


#: (name, value, kind of bound, theorem) of one accounting; its neighbours follow from the setting.
Accounting = tuple[str, Any, str, str]


@dataclass(frozen=True)
class Setting:
    """One setting, of numbers in the ranges that `dpicl account` takes; fields that are None are not given. Raises
    UsageError, with the names of fields in quotes, for those that do not fit together.

    sensitivity, claimed_sensitivity: what one record moves in the code that runs, and what the noise was set for; 1 by
        default.
    noise_on, slots: "sum" (default), or that noise of the same size is drawn on every one of ``slots`` rows ("slot":
        sqrt(slots) times as much on the sum) or on their mean ("mean": slots times as much).
    rate: of the Poisson sample (fixed size: share of the records), 1 without sampling.
    sample: a new one for "each" of the ``steps``, or "once" for all of them.
    """

    family: str
    delta: float
    noise: float | None = None
    epsilon0: float | None = None
    temperature: float | None = None
    delta0: float | None = None
    sensitivity: float | None = None
    claimed_sensitivity: float | None = None
    noise_on: str | None = None
    slots: int | None = None
    rate: float = 1.0
    steps: int = 1
    sample: str = "each"

    def __post_init__(self) -> None:
        require_known("family", [str(self.family)], FAMILIES)
        parameters = [
            name for names in FAMILIES.values() for name in names if getattr(self, name) is not None
        ]
        for name in parameters:
            if name not in FAMILIES[self.family]:
                known = ", ".join(family for family, names in FAMILIES.items() if name in names)
                raise UsageError(
                    f"'{name}' says nothing about the family {self.family}; it goes with {known}."
                )
        needed = FAMILIES[self.family][:1]
        if self.family == "bounded-range":
            if (self.epsilon0 is None) == (self.temperature is None):
                raise UsageError(
                    "The family bounded-range needs either 'epsilon0' or 'temperature'."
                )
            if self.temperature is not None and (
                self.noise is not None or self.claimed_sensitivity is not None
            ):
                raise UsageError(
                    "'temperature' is on the scale of the scores; leave 'claimed_sensitivity' and 'noise' out, or give"
                    " 'epsilon0' instead."
                )
        elif needed and needed[0] not in parameters:
            raise UsageError(f"The family {self.family} needs '{needed[0]}'.")
        if (self.slots is not None) != (self.noise_on in ("slot", "mean")):
            raise UsageError("'noise_on' as slot or mean needs 'slots', and nothing else does.")

    @property
    def moved(self) -> float:
        """What one record moves in the code that runs, in units of the claimed sensitivity."""
        return (self.sensitivity or 1.0) / (self.claimed_sensitivity or 1.0)

    @property
    def claimed_multiplier(self) -> float:
        """Noise over the claimed L2 sensitivity, for the two Gaussian families and for the Gaussian after a choice."""
        if self.family == "classical":
            noise = classical_multiplier(self.epsilon0 or math.nan, self.delta)
        else:
            noise = self.noise or math.nan
        rows = self.slots or 1
        return noise * {"slot": math.sqrt(rows), "mean": rows}.get(self.noise_on or "sum", 1.0)

    @property
    def claimed_range(self) -> float:
        """The range of one choice as claimed; with a temperature, the range 2 sensitivity/temperature that it has."""
        if self.temperature is not None:
            return 2 * (self.sensitivity or 1.0) / self.temperature
        return self.epsilon0 or math.nan

    @property
    def range_epsilon(self) -> float:
        """The bounded range of one choice in the code that runs."""
        return (
            self.claimed_range if self.temperature is not None else self.claimed_range * self.moved
        )


def classical_multiplier(epsilon: float, delta: float) -> float:
    """Noise over L2 sensitivity by the classical Gaussian mechanism: sqrt(2 ln(1.25/delta))/epsilon.

    Dwork & Roth 2014, theorem A.1, proves it for epsilon < 1 only and it is wasteful there; it is in use beyond.
    """
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def reaccount(setting: Setting) -> dict[str, Any]:
    """Every accounting of the setting, as JSON: {name: epsilon}, "about" ({name: bound, theorem, neighbours}), "notes".

    "proved" is always there: the upper bound that may be claimed. So is "lower": what the best adversary that was found
    reaches, a mechanism with these releases; epsilon lies between both. A Gaussian on samples also has "prv" (low,
    estimate, upper), "pld" and "fixed_replace_one", and "rdp" where it is the smallest bound. None, with a note, is
    where one of them gives no answer.
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
        return dp.PoissonSampledDpEvent(
            setting.rate, dp.SelfComposedDpEvent(release, setting.steps)
        )
    return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(setting.rate, release), setting.steps)


def _ends(
    setting: Setting,
    event: dp.DpEvent,
    theorem: str = "",
) -> Iterator[Accounting]:
    """Between what epsilon lies: the proof, and the best adversary. theorem: "" for what the accountants say."""
    bounds = epsilon(event, setting.delta)
    default = "bounded range as zCDP (Cesar & Rogers 2021), by Renyi DP"
    yield "proved", bounds.upper, "upper", theorem or str(bounds.accountants.get("rule", default))
    yield "lower", compute_lower_bound(event, setting.delta, bounds.upper), "lower", _ADVERSARY


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
        theorem = "the smallest one of prv.upper, pld and rdp, for both directions of neighbours; Poisson sampling"
        yield from _ends(setting, event, theorem)
        # T Gaussians on one sample are one Gaussian of T^-1/2 times the multiplier.
        once = setting.sample == "once"
        one = multiplier / math.sqrt(setting.steps) if once else multiplier
        accounts = account_subsampled_gaussian(
            one, setting.rate, 1 if once else setting.steps, setting.delta
        )
        answer["notes"] += accounts.get("notes", [])
        theorem = "PRV accountant (Gopi, Lee & Wutschitz 2021); Poisson sampling"
        yield "prv", accounts["prv"], "low, estimate, upper", theorem
        theorem = "privacy loss distribution (Doroshenko et al. 2022); Poisson sampling"
        yield "pld", accounts["pld"], "upper", theorem
        if "rdp" in accounts:
            theorem = "Renyi DP (Mironov, Talwar & Zhang 2019), converted by Canonne, Kamath & Steinke 2020"
            yield "rdp", accounts["rdp"], "upper", f"{theorem}; Poisson sampling"
        theorem = (
            "samples of fixed size without replacement (Balle, Barthe & Gaboardi 2018, theorem 9)"
        )
        yield "fixed_replace_one", accounts["fixed_replace_one"], "upper", theorem
    if setting.moved != 1:
        claimed = epsilon(
            _event(setting, dp.GaussianDpEvent(setting.claimed_multiplier)), setting.delta
        ).estimate
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
        zcdp = epsilon(
            dp.SelfComposedDpEvent(bounded_range(size), setting.steps), setting.delta
        ).upper
        yield (
            "zcdp",
            zcdp,
            "upper",
            "bounded range as zCDP, rho = range^2/8 (Cesar & Rogers 2021), by Renyi DP",
        )
    yield from _account_published(answer, setting, setting.claimed_range)


def _above_threshold(answer: dict[str, Any], setting: Setting) -> Iterator[Accounting]:
    """``steps`` rounds of AboveThreshold, each with the private choice that follows its "above".

    Laplace noise of scale b on the threshold and 2b on every query, the threshold drawn again in each round: with
    queries that one record moves by at most D either way a round is (2 D/b)-DP (Dwork & Roth 2014, theorem 3.23), as
    zCDP (2 D/b)^2/2 (Amin et al. 2024). It is not more for the queries before the "above".
    """
    noise, choice = setting.noise or math.nan, setting.epsilon0 or 0.0
    claimed = 2 / noise
    answer["round_epsilon"] = claimed * setting.moved
    release = [
        EpsilonDeltaDpEvent(claimed * setting.moved, 0.0),
        *([bounded_range_choice(choice)] if choice else []),
    ]
    event = _event(setting, dp.ComposedDpEvent(tuple(release)))
    proved = next(_ends(setting, event))
    yield proved
    # an adversary of epsilon-DP rounds is none of AboveThreshold: this one asks it
    if setting.rate == 1:
        lower = rounds_bound(
            noise,
            setting.moved,
            choice,
            setting.steps,
            setting.delta,
            proved[1],
        )
        lower = require_below_proof(lower, event, setting.delta, proved[1])
        yield "lower", lower, "lower", f"{_ADVERSARY}, and chooses all queries of a round"
        rho = setting.steps * (claimed**2 / 2 + choice**2 / 8)
        theorem = (
            "zCDP of rounds and choices at the claimed sensitivity (Amin et al. 2024), by Renyi DP"
        )
        yield "as_claimed", epsilon(dp.ZCDpEvent(rho), setting.delta).upper, "estimate", theorem


def _parameters(answer: dict[str, Any], setting: Setting) -> Iterator[Accounting]:
    """(epsilon0, delta0)-DP releases, by their parameters alone."""
    epsilon0 = setting.claimed_range
    yield from _ends(setting, _event(setting, EpsilonDeltaDpEvent(epsilon0, setting.delta0 or 0.0)))
    yield from _account_published(answer, setting, epsilon0)


def _account_published(
    answer: dict[str, Any],
    setting: Setting,
    epsilon0: float,
) -> Iterator[Accounting]:
    """What the authors of choices compute from epsilon0 alone, where their formula applies."""
    rate = setting.rate
    steps = setting.steps
    delta = setting.delta
    delta0 = setting.delta0 or 0.0
    if rate == 1 and not delta0 and setting.noise is None:
        yield (
            "basic_composition",
            steps * epsilon0,
            "upper",
            "the sum over all steps, at every delta",
        )
        value = published.prism_formula(epsilon0, steps, delta)
        yield (
            "prism_formula",
            value,
            "no bound",
            "PRISM: advanced composition without its second term, no theorem",
        )
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
            yield (
                "dp_opt",
                value,
                "estimate",
                "autodp's Renyi DP with every failure charged, as DP-OPT's code",
            )
        else:
            value = published.sampled_exponential_epsilon(epsilon0, rate, steps, delta)
            theorem = (
                "autodp's Renyi DP of Poisson samples of epsilon0-DP choices (Zhu & Wang 2019)"
            )
            yield "autodp", value, "estimate", theorem
    except UsageError as error:
        answer["notes"].append(f"the published accounting gives no number: {error}")


def _no_noise(answer: dict[str, Any], setting: Setting) -> Iterator[Accounting]:
    """A value that shows a record whenever the record is in a sample, which happens with some probability p.

    Exact: the outputs that only the record can cause have probability p with it and 0 without it, so no epsilon helps
    as long as delta < p; and with probability 1 - p nothing depends on it, which is (0, p)-DP.
    """
    once = setting.rate == 1 or setting.steps == 1 or setting.sample == "once"
    probability = setting.rate if once else -math.expm1(setting.steps * math.log1p(-setting.rate))
    theorem = f"the record itself is released with probability {probability:.4g}; no epsilon exists for a smaller delta"
    for end in ("proved", "lower"):
        yield end, math.inf if setting.delta < probability else 0.0, "exact", theorem


_ACCOUNTINGS = {
    "gaussian": _gaussian,
    "classical": _gaussian,
    "bounded-range": _bounded_range,
    "above-threshold": _above_threshold,
    "epsilon-delta": _parameters,
    "no-noise": _no_noise,
}
