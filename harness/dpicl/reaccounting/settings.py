"""A published setting: what one noisy release is, how often it happens and on which samples. No accounting here.

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
table.py accounts for a setting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from dpicl.core.errors import UsageError, require_known

#: The fields that each family reads besides rate, sample, steps and delta. The first one is needed (bounded-range: one
#: of the first two).
FAMILIES: Final = {
    "gaussian": ("noise", "noise_on", "slots", "sensitivity", "claimed_sensitivity"),
    "classical": ("epsilon0", "noise_on", "slots", "sensitivity", "claimed_sensitivity"),
    "bounded-range": ("epsilon0", "temperature", "delta0", "noise", "sensitivity", "claimed_sensitivity"),
    "above-threshold": ("noise", "epsilon0", "sensitivity", "claimed_sensitivity"),
    "epsilon-delta": ("epsilon0", "delta0"),
    "no-noise": (),
}


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
        given = [name for names in FAMILIES.values() for name in names if getattr(self, name) is not None]
        for name in given:
            if name not in FAMILIES[self.family]:
                known = ", ".join(family for family, names in FAMILIES.items() if name in names)
                raise UsageError(f"'{name}' says nothing about the family {self.family}; it goes with {known}.")
        needed = FAMILIES[self.family][:1]
        if self.family == "bounded-range":
            if (self.epsilon0 is None) == (self.temperature is None):
                raise UsageError("The family bounded-range needs either 'epsilon0' or 'temperature'.")
            if self.temperature is not None and (self.noise is not None or self.claimed_sensitivity is not None):
                raise UsageError(
                    "'temperature' is on the scale of the scores; leave 'claimed_sensitivity' and 'noise' out, or give"
                    " 'epsilon0' instead."
                )
        elif needed and needed[0] not in given:
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
        return self.claimed_range if self.temperature is not None else self.claimed_range * self.moved


def classical_multiplier(epsilon: float, delta: float) -> float:
    """Noise over L2 sensitivity by the classical Gaussian mechanism: sqrt(2 ln(1.25/delta))/epsilon.

    Dwork & Roth 2014, theorem A.1, proves it for epsilon < 1 only and it is wasteful there; it is in use beyond.
    """
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon
