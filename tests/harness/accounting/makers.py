"""Events and small mechanisms for the tests of accounting and calibration."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from dp_accounting import dp_event as dp
from hypothesis import strategies as st

from dpicl.accounting.ledger import Ledger
from dpicl.core.seeds import SeededNoise
from dpicl.mechanism.bases import Context, Demonstration, DemonstrationMechanism, Knob, Sizes
from dpicl.privacy.private_set import PrivateSet, Sample

SIZES = Sizes(
    records={"Sports": 30000, "World": 40000},
    shots={"Sports": 1, "World": 1},
)
DELTA = 1e-5


def sampled_gaussians(noise: float, rate: float, steps: int) -> dp.DpEvent:
    """Gaussians of one noise multiplier, each on a Poisson sample of its own."""
    return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)), steps)


def prism(
    temperature: float, tokens: int = 100, clip: float = 10, prompts: int = 380
) -> dp.DpEvent:
    """PRISM without amplification: choices of bounded range clip/(prompts * temperature)."""
    return dp.SelfComposedDpEvent(
        dp.ZCDpEvent((clip / (prompts * temperature)) ** 2 / 8),
        tokens,
    )


class Nothing(DemonstrationMechanism):
    """Only the accounting half of a mechanism."""

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        return []


@dataclass(frozen=True)
class SoftTokens(Nothing):
    """As PRISM without amplification: T bounded-range choices at a temperature."""

    name = "soft_tokens"
    knob = Knob("temperature", low=0.01, high=100.0, non_private=0.0)
    clip: float = 10
    prompts: int = 380
    tokens: int = 100

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        rho = (self.clip / (self.prompts * knob)) ** 2 / 8
        return dp.SelfComposedDpEvent(dp.ZCDpEvent(rho), self.tokens)

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float:
        return self.clip * math.sqrt(2 * self.tokens * math.log(1 / delta)) / (self.prompts * knob)


@dataclass(frozen=True)
class OneGaussian(Nothing):
    name = "one_gaussian"
    knob = Knob("sigma", low=0.1, high=50.0, non_private=0.0)
    sensitivity: float = math.sqrt(2)

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return dp.GaussianDpEvent(knob / self.sensitivity)


class Fixed(Nothing):
    name = "fixed"
    knob = None

    def __init__(self, event: dp.DpEvent) -> None:
        self.event = event

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return self.event


class FixedSize(Nothing):
    name = "fixed_size"
    knob = Knob("sigma", low=0.1, high=50.0, non_private=0.0)

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return dp.SampledWithoutReplacementDpEvent(100, 10, dp.GaussianDpEvent(knob))

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float:
        return 3 / knob


class Recorder:
    """Zeros for noise, and a list of what was asked for; ``allowed=False``: must not be asked."""

    seeded = True

    def __init__(self, allowed: bool = True) -> None:
        self.allowed = allowed
        self.asked: list[tuple[str, float, int]] = []

    def gaussian(self, scale: float, size: int) -> np.ndarray:
        return self._note("gaussian", scale, size)

    def gumbel(self, size: int) -> np.ndarray:
        return self._note("gumbel", 1.0, size)

    def uniform(self, size: int) -> np.ndarray:
        return np.zeros(size)

    def _note(self, law: str, scale: float, size: int) -> np.ndarray:
        assert self.allowed, "noise was drawn"
        self.asked.append((law, scale, size))
        return np.zeros(size)


#: Numbers of any kind, in rows that a primitive gets.
WILD = st.floats(width=32, allow_nan=True, allow_infinity=True)


def make_noise(seed: int = 0) -> SeededNoise:
    return SeededNoise(lambda shot: np.random.default_rng(seed))


def pay(primitive: Any, noise: Any, times: int = 1, own_slots: int | None = None) -> Sample:
    """A sample without records on which the primitive's event was charged so many times: one shared slot, or so many
    slots of which each is a record's own."""
    slots: tuple[tuple[()], ...] = ((),) * (1 if own_slots is None else own_slots)
    return Sample(
        slots,
        dp.SelfComposedDpEvent(primitive.event, times),
        noise,
        own_slots=own_slots is not None,
    )


@dataclass(frozen=True)
class Row:
    text: str
    label: str = "a"


def private_set(texts: Sequence[str], ledger: Ledger | None = None, **more: Any) -> PrivateSet:
    """Records of the class "a" with these texts, as many as are declared, seeded, and any budget."""
    settings: dict[str, Any] = {
        "sizes": {"a": len(texts)},
        "sampling": make_noise(1),
        "noise": make_noise(),
        **more,
    }
    return PrivateSet(
        [Row(text) for text in texts],
        ledger or Ledger(None, math.inf),
        **settings,
    )


Pair = tuple[np.ndarray, np.ndarray]


def softmax(scores: np.ndarray) -> np.ndarray:
    return np.exp(scores - np.logaddexp.reduce(scores))


def divergence(p: np.ndarray, q: np.ndarray, x: float) -> float:
    """The hockey-stick divergence of p from q at e^x."""
    return float(
        np.maximum(
            p - math.exp(x) * q,
            0,
        ).sum()
    )


def worst_choice(size: float, t: float) -> Pair:
    """Output probabilities with and without the record: the choice of that range whose losses are t and t - size."""
    high = -math.expm1(t - size) / -math.expm1(-size)
    with_record = np.array([high, 1 - high])
    return with_record, with_record * np.exp([-t, size - t])


def product(pairs: Sequence[Pair]) -> Pair:
    """All outcomes of independent pairs."""
    present, absent = (reduce(np.outer, side).ravel() for side in zip(*pairs, strict=True))
    return present, absent


def times(pair: Pair, count: int) -> Pair:
    return product([pair] * count)


def mix(pair: Pair, rate: float) -> Pair:
    """The pair of a Poisson sample: the record is in it with probability rate."""
    return (1 - rate) * pair[1] + rate * pair[0], pair[1]
