"""Decomposes an event tree into counted components that one record of one group can touch.

A component is one of: Gaussian, Laplace, zCDP, bounded range, a round of AboveThreshold, (epsilon, delta), a Poisson
sample of one Gaussian, a Poisson sample of anything else, or NonPrivate. Every other event is refused: no theorem, no
epsilon.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from dpicl.accounting import dp_event as dp
from dpicl.accounting.events import compose
from dpicl.core.errors import UnsupportedEvent

#: Components of one composition with how often each occurs.
DecomposedEvents: TypeAlias = "Counter[dp.DpEvent]"


def groups(event: dp.DpEvent) -> dict[str | None, DecomposedEvents]:
    """The components that one record can touch, for each group that it may belong to.

    One record is in one group, so it meets one branch of every ParallelDpEvent in the tree (parallel composition); a
    group that a ParallelDpEvent does not name is not touched by it. Without a ParallelDpEvent the only group is None.
    Raises UnsupportedEvent for an event without a theorem.
    """
    partitions = {names for names in _partitions(event) if names}
    # Two partitions (labels, and months, say) overlap: one record would meet a branch of each.
    if any(one.isdisjoint(other) for one in partitions for other in partitions):
        raise UnsupportedEvent(
            "Two ParallelDpEvents share no group: if they divide the records in two ways, one record meets both and"
            " there is no theorem; if it is one division, write it as one ParallelDpEvent."
        )
    if not partitions:
        return {None: components(event, None)}
    return {name: components(event, name) for name in sorted(frozenset().union(*partitions))}


def components(event: dp.DpEvent, group: str | None) -> DecomposedEvents:
    """The components of an event for a record of the group; empty when it costs nothing."""
    match event:
        case dp.NoOpDpEvent():
            return Counter()
        case dp.ComposedDpEvent():
            total: DecomposedEvents = Counter()
            for part in event.events:
                total.update(components(part, group))
            return (
                Counter({dp.NonPrivateDpEvent(): 1}) if dp.NonPrivateDpEvent() in total else total
            )
        case dp.SelfComposedDpEvent():
            _require(event.count >= 0, event)
            inside = components(event.event, group).items()
            return Counter({component: n * event.count for component, n in inside if event.count})
        case dp.ParallelDpEvent():
            branch = dict(event.branches).get(str(group), dp.NoOpDpEvent())
            return components(branch, group)
        case dp.PoissonSampledDpEvent():
            return _decompose_sample(event, group)
        case dp.SampledWithoutReplacementDpEvent():
            raise UnsupportedEvent(
                "Sampling of a fixed size has no proved accounting under add/remove of one record: "
                "use Poisson slots (`dpicl calibrate --mode paper` solves the published accounting)."
            )
    return _decompose_elementary(event)


def of_kind(counted: Mapping[dp.DpEvent, int], kind: type[dp.DpEvent]) -> dict[Any, int]:
    """The components of one kind, with their counts."""
    return {component: n for component, n in counted.items() if isinstance(component, kind)}


def gaussian_multiplier(counted: Mapping[dp.DpEvent, int]) -> float:
    """The noise multiplier of the one Gaussian that all Gaussians among components equal: (sum n/sigma^2)^(-1/2);
    infinity without any."""
    gaussians = of_kind(counted, dp.GaussianDpEvent)
    try:
        precision = sum(n * (1 / event.noise_multiplier) ** 2 for event, n in gaussians.items())
    except OverflowError:
        raise UnsupportedEvent(
            "A noise multiplier below 1e-154 is too small to be accounted for."
        ) from None
    return precision**-0.5 if precision else math.inf


def is_sampled_gaussian(event: dp.DpEvent) -> bool:
    """True for a Poisson sample of one Gaussian, the event of the PRV and PLD accountants."""
    return isinstance(event, dp.PoissonSampledDpEvent) and isinstance(
        event.event, dp.GaussianDpEvent
    )


def recompose(counted: Mapping[dp.DpEvent, int]) -> dp.DpEvent:
    """The canonical event with these components."""
    return compose(dp.SelfComposedDpEvent(component, n) for component, n in counted.items())


def _partitions(event: dp.DpEvent, inside: bool = False) -> Iterator[frozenset[str]]:
    """The names of the groups of every ParallelDpEvent in the tree. inside: whether the event is in a branch of one."""
    if isinstance(event, dp.ParallelDpEvent):
        if inside:
            raise UnsupportedEvent(
                "Groups within groups: parallel composition is proved for one partition only."
            )
        names = frozenset(name for name, _ in event.branches)
        if len(names) < len(event.branches):
            raise UnsupportedEvent(
                "Two branches of a ParallelDpEvent have one name; compose them into one branch."
            )
        yield names
        for _, branch in event.branches:
            yield from _partitions(branch, inside=True)
    elif isinstance(event, dp.ComposedDpEvent):
        for part in event.events:
            yield from _partitions(part, inside)
    elif isinstance(event, (dp.SelfComposedDpEvent, dp.PoissonSampledDpEvent)):
        yield from _partitions(event.event, inside)


def _decompose_sample(event: dp.PoissonSampledDpEvent, group: str | None) -> DecomposedEvents:
    """Components of a Poisson sample: nested samples multiply their rates, Gaussians on one sample become one."""
    rate = event.sampling_probability
    _require(0 <= rate <= 1, event)
    inside = components(event.event, group)
    if not inside or rate == 0:
        return Counter()
    if rate == 1 or dp.NonPrivateDpEvent() in inside:
        return inside
    if all(isinstance(component, dp.GaussianDpEvent) for component in inside):
        inner: dp.DpEvent = dp.GaussianDpEvent(gaussian_multiplier(inside))
    else:
        inner = recompose(inside)
        if isinstance(inner, dp.PoissonSampledDpEvent):
            rate, inner = rate * inner.sampling_probability, inner.event
    return Counter({dp.PoissonSampledDpEvent(rate, inner): 1})


def _decompose_elementary(event: dp.DpEvent) -> DecomposedEvents:
    """An elementary event as a component; empty when it is free, NonPrivate when it has no noise at all."""
    match event:
        case dp.NonPrivateDpEvent():
            return Counter({dp.NonPrivateDpEvent(): 1})
        case dp.GaussianDpEvent() | dp.LaplaceDpEvent():
            _require(event.noise_multiplier >= 0, event)
            free, exposed = math.isinf(event.noise_multiplier), event.noise_multiplier == 0
        case dp.ZCDpEvent():
            _require(event.rho >= 0 and event.xi >= 0, event)
            free = event.rho == 0 == event.xi
            exposed = math.isinf(event.rho) or math.isinf(event.xi)
        case dp.BoundedRangeDpEvent() | dp.AboveThresholdDpEvent():
            _require(event.epsilon >= 0, event)
            free, exposed = event.epsilon == 0, math.isinf(event.epsilon)
        case dp.EpsilonDeltaDpEvent():
            _require(event.epsilon >= 0 and 0 <= event.delta <= 1, event)
            free = event.epsilon == 0 == event.delta
            exposed = math.isinf(event.epsilon) or event.delta == 1
        case _:
            raise UnsupportedEvent(
                f"No theorem is implemented for the event {type(event).__name__}: {event!r}. "
                "Use an event of docs/accounting.md, or add one with its theorem in harness/dpicl/accounting."
            )
    if exposed:
        return Counter({dp.NonPrivateDpEvent(): 1})
    return Counter() if free else Counter({event: 1})


def _require(condition: bool, event: dp.DpEvent) -> None:
    if not condition:
        raise UnsupportedEvent(f"The event {event!r} has a parameter outside its range.")
