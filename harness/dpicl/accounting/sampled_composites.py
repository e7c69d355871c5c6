"""Privacy loss distributions of Poisson samples of composites, such as k noisy counts on one sample, Q times over.

Every component with a dominating pair (Gaussian, Laplace, bounded range, rounds of AboveThreshold, (epsilon, delta),
samples of these) has a privacy loss distribution; compositions convolve them (Zhu, Dong & Wang 2022, theorem 10). If
(P, Q) dominates the inside of a Poisson sample at rate q, P with the record and Q without, then ((1 - q)Q + qP, Q)
dominates the sample when the record is removed and (Q, (1 - q)Q + qP) when it is added (theorem 11). In hockey-stick
divergences:

    H_a((1 - q)Q + qP || Q) = q H_(1 + (a - 1)/q)(P || Q), or 1 - a for a <= 1 - q,
    H_a(Q || (1 - q)Q + qP) = (1 - a(1 - q)) H_(aq/(1 - a(1 - q)))(Q || P), or 0 for a(1 - q) >= 1.

On a discrete distribution this moves each loss and reweights it, without subtraction and so without cancellation. A
moved loss is split between the two grid points beside it so that both its mass and its mass under the other
distribution stay: Connect the Dots (Doroshenko et al. 2022), an upper bound at every epsilon.

Samples of a single choice each go by a recursion of their own (dpicl.accounting.bounded_range), which is tighter:
the distribution of one such sample is the worst at every threshold at once, and no mechanism is that on all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as pld

from dpicl.accounting import dp_event as dp
from dpicl.accounting import gaussians
from dpicl.accounting.bounded_range import choice_pld, choices_pld, round_pair, sampled_choices_pld
from dpicl.accounting.decomposition import components, gaussian_multiplier, of_kind
from dpicl.accounting.events import AboveThresholdDpEvent, BoundedRangeDpEvent, EpsilonDeltaDpEvent
from dpicl.accounting.parameters import dominate_parameters
from dpicl.core.errors import UnsupportedEvent

#: Grid steps for the standard deviation of an average component: the variance of a sum grows by 1/(6 steps^2) at most.
STEPS = 32
#: The same for samples of one choice each, and cells of the range of a choice: (at most, for a proof; for a search).
CHOICE_STEPS, CHOICE_CELLS = (6, 4), (48, 24)
#: A grid has at most this many cells for the widest component.
MOST_CELLS = 50_000
#: A wider grid than this means losses in the hundreds; no distribution is worked out.
WIDEST_GRID = 1.0
#: Losses below this are raised to it: after sampling they cannot be told from -infinity.
LOWEST_LOSS = -12.0

Counted = Mapping[dp.DpEvent, int]


@dataclass(frozen=True)
class Losses:
    """A discrete privacy loss distribution off the grid: losses and their masses, shape (n,), and the infinite mass."""

    loss: np.ndarray
    mass: np.ndarray
    infinite: float


@dataclass(frozen=True)
class Sampled:
    """A Poisson sample whose inside is worked out, with how often it happens."""

    remove: Losses
    add: Losses
    count: int

    @property
    def variance(self) -> float:
        """Of one loss, the larger one of both directions."""
        return max(_variance(self.remove), _variance(self.add))

    @property
    def reach(self) -> float:
        """The largest loss of either sign and direction."""
        return float(max(np.abs(side.loss).max() for side in (self.remove, self.add)))

    def build_distribution(self, grid: float) -> pld.PrivacyLossDistribution:
        """One sample's pessimistic distribution on multiples of ``grid``."""
        return pld.PrivacyLossDistribution(_pmf(self.remove, grid), _pmf(self.add, grid))


def has_distribution(component: dp.DpEvent) -> bool:
    """True for a component with a dominating pair, not known by its Renyi curve alone."""
    if isinstance(component, dp.PoissonSampledDpEvent):
        return all(has_distribution(inner) for inner in components(component.event, None))
    native = (
        dp.GaussianDpEvent,
        dp.LaplaceDpEvent,
        BoundedRangeDpEvent,
        AboveThresholdDpEvent,
        EpsilonDeltaDpEvent,
    )
    return isinstance(component, native)


def composed_epsilon(counted: Counted, delta: float, steps: int = STEPS) -> float:
    """Upper bound on epsilon of a composition of components that all have distributions; infinity where none is found.

    Raises UnsupportedEvent for a delta that is lost in rounding errors.
    """
    gaussians.check_delta(delta)
    with np.errstate(over="ignore"):  # of e^epsilon, on very large epsilons
        total = compose_losses(counted, steps)
        return (
            math.inf
            if total is None
            else float(total.get_epsilon_for_delta(delta - gaussians.ROUNDING))
        )


def compose_losses(counted: Counted, steps: int) -> pld.PrivacyLossDistribution | None:
    """The pessimistic privacy loss distribution of a composition; None when its losses are far too large for a grid."""
    samples, others = [], dict(counted)
    for component, count in counted.items():
        if isinstance(component, dp.PoissonSampledDpEvent):
            inside = compose_losses(components(component.event, None), steps)
            if inside is None:
                return None
            samples.append(sample_losses(inside, component.sampling_probability, count))
            if len(counted) == 1 and isinstance(component.event, BoundedRangeDpEvent):
                return _sampled_choices(
                    component.event, component.sampling_probability, samples[0], steps
                )
            del others[component]
    grid = _grid(others, samples, steps)
    choices = {choice.epsilon: n for choice, n in of_kind(others, BoundedRangeDpEvent).items()}
    main = max(choices, key=lambda size: choices[size] * size**2, default=0.0)
    # the family of choices with the largest share is worked out by its recursion, on a grid of its
    # own
    if main > grid:
        cells = math.ceil(main / grid)
        grid = main / cells
    if not grid <= WIDEST_GRID:
        return None
    total = choices_pld(main, choices.pop(main), cells) if main > grid else pld.identity(grid)
    for size, n in choices.items():
        total = total.compose(choice_pld(size, grid).self_compose(n))
    for sample in samples:
        total = total.compose(sample.build_distribution(grid).self_compose(sample.count))
    for component, count in others.items():
        if not isinstance(component, BoundedRangeDpEvent):
            total = total.compose(_build_plain(component, count, grid))
    return total


def _sampled_choices(
    choice: BoundedRangeDpEvent, rate: float, sample: Sampled, steps: int
) -> pld.PrivacyLossDistribution | None:
    rough = steps < STEPS
    grid = _grid({}, [sample], min(steps, CHOICE_STEPS[rough]))
    if not grid <= WIDEST_GRID:
        return None
    return sampled_choices_pld(choice.epsilon, rate, sample.count, grid, CHOICE_CELLS[rough])


def _build_plain(component: dp.DpEvent, count: int, grid: float) -> pld.PrivacyLossDistribution:
    match component:
        case dp.GaussianDpEvent():
            sigma = component.noise_multiplier / math.sqrt(count)
            return pld.from_gaussian_mechanism(sigma, value_discretization_interval=grid)
        case dp.LaplaceDpEvent():
            one = pld.from_laplace_mechanism(
                component.noise_multiplier, value_discretization_interval=grid
            )
        case EpsilonDeltaDpEvent():
            one = dominate_parameters(component.epsilon, component.delta, grid)
        case AboveThresholdDpEvent():
            present, absent = round_pair(component.epsilon)
            loss = np.log(present / absent)
            one = pld.PrivacyLossDistribution(
                _pmf(Losses(loss, present, 0.0), grid),
                _pmf(Losses(-loss, absent, 0.0), grid),
            )
        case _:
            raise UnsupportedEvent(f"The event {component!r} has no privacy loss distribution.")
    return one.self_compose(count)


def sample_losses(inside: pld.PrivacyLossDistribution, rate: float, count: int = 1) -> Sampled:
    """The losses of a Poisson sample at ``rate`` in (0, 1) of a mechanism that ``inside`` dominates."""
    log_absent, part = math.log1p(-rate), math.log(rate)
    removed, added = _losses(inside._pmf_remove), _losses(inside._pmf_add)
    # Under P the record is there: P-mass m at loss l is Q-mass m e^-l. What Q has besides lies at loss -infinity.
    others = removed.mass * np.exp(-removed.loss)
    rest = max(0.0, 1.0 - float(others.sum()))
    remove = Losses(
        np.append(np.logaddexp(log_absent, part + removed.loss), log_absent),
        np.append((1 - rate) * others + rate * removed.mass, (1 - rate) * rest),
        rate * removed.infinite,
    )
    add = Losses(
        np.append(-np.logaddexp(log_absent, part - added.loss), -log_absent),
        np.append(added.mass, added.infinite),
        0.0,
    )
    return Sampled(remove, add, count)


def _losses(pmf: pld_pmf.PLDPmf) -> Losses:
    """The atoms of a distribution of `dp_accounting`, which has no public access to them; rounding noise cut off."""
    dense = pmf.to_dense_pmf()
    loss = (np.arange(dense.size) + dense._lower_loss) * dense._discretization
    return Losses(
        np.maximum(loss, LOWEST_LOSS),
        np.maximum(dense._probs, 0.0),
        dense._infinity_mass,
    )


def _variance(losses: Losses) -> float:
    mean = float(losses.mass @ losses.loss)
    return float(losses.mass @ (losses.loss - mean) ** 2)


def _pmf(losses: Losses, grid: float) -> pld_pmf.PLDPmf:
    """Connect the Dots: each loss on the two grid points beside it, with its mass and its e^-loss kept."""
    cell = np.floor(losses.loss / grid).astype(int)
    upper = losses.mass * np.expm1(cell * grid - losses.loss) / math.expm1(-grid)
    lowest = int(cell.min())
    size = int(cell.max()) - lowest + 2
    mass = np.bincount(
        cell - lowest,
        losses.mass - upper,
        size,
    ) + np.bincount(cell - lowest + 1, upper, size)
    return pld_pmf.DensePLDPmf(grid, lowest, mass, losses.infinite, True)


def _grid(others: Counted, samples: list[Sampled], steps: int) -> float:
    """A grid that resolves the average component's loss in ``steps`` steps, within the limit on cells."""
    scales = [(sample.count, sample.variance, sample.reach) for sample in samples]
    plain = gaussian_multiplier(others)
    if math.isfinite(plain):
        scales.append((1, plain**-2, plain**-2 / 2 + 10 / plain))
    for component, count in others.items():
        if not isinstance(component, dp.GaussianDpEvent):
            size, share = _size(component)
            scales.append((count, (size * share) ** 2, size))
    number = sum(count for count, _, _ in scales)
    variance = sum(count * one for count, one, _ in scales)
    return max(
        math.sqrt(variance / number) / steps, max(reach for _, _, reach in scales) / MOST_CELLS
    )


def _size(component: dp.DpEvent) -> tuple[float, float]:
    """The largest loss of a component, and the share of it that the standard deviation can be."""
    if isinstance(component, (BoundedRangeDpEvent, EpsilonDeltaDpEvent)):
        return component.epsilon, 0.5 if isinstance(component, BoundedRangeDpEvent) else 1.0
    if isinstance(component, AboveThresholdDpEvent):
        return 2 * component.epsilon, math.sqrt(0.5)
    return 1 / component.noise_multiplier, 1.0
