"""Events: what a private access costs, as trees of `dp_accounting` DpEvents, and their JSON form for result files.

The neighbour relation is add/remove of one record everywhere. To the events of dp_accounting this adds
:class:`EpsilonDeltaDpEvent`, :class:`BoundedRangeDpEvent` and
:class:`ParallelDpEvent`: mechanisms that run on disjoint groups of records (a record has one label), so that one record
touches one branch only and the cost is the worst branch (parallel composition; Dwork & Roth 2014, add/remove only).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import attr
from dp_accounting import dp_event as dp

from dpicl.harness.core.errors import UnsupportedEvent


@attr.s(frozen=True, slots=True, auto_attribs=True)
class EpsilonDeltaDpEvent(dp.DpEvent):
    """Any mechanism that is (epsilon, delta)-DP under add/remove."""

    epsilon: float
    delta: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BoundedRangeDpEvent(dp.DpEvent):
    """A choice whose privacy loss lies in an interval of length epsilon for each pair of neighbours (Durfee & Rogers
    2019)."""

    epsilon: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ParallelDpEvent(dp.DpEvent):
    """Branches on disjoint groups of records: ((name of the group, event), ...), sorted by name."""

    branches: tuple[tuple[str, dp.DpEvent], ...]


def parallel(branches: Mapping[str | None, dp.DpEvent]) -> dp.DpEvent:
    """The event of disjoint groups; with the single group None (no partition) it is that group's event."""
    if set(branches) == {None}:
        return branches[None]
    if None in branches:
        raise UnsupportedEvent("A run cannot use labelled groups and the unpartitioned set at once: they overlap.")
    return ParallelDpEvent(tuple(sorted((str(name), event) for name, event in branches.items())))


def gaussian(noise_multiplier: float) -> dp.DpEvent:
    """The Gaussian mechanism with noise of ``noise_multiplier`` times its L2 sensitivity; without noise, not
    private."""
    return dp.GaussianDpEvent(noise_multiplier) if noise_multiplier > 0 else dp.NonPrivateDpEvent()


def bounded_range(epsilon: float) -> dp.DpEvent:
    """An epsilon-bounded-range choice: epsilon^2/8-zCDP (Cesar & Rogers 2021, lemma 3.4); infinite: not private."""
    return dp.ZCDpEvent(epsilon**2 / 8) if math.isfinite(epsilon) else dp.NonPrivateDpEvent()


def bounded_range_choice(epsilon: float) -> dp.DpEvent:
    """An epsilon-bounded-range choice, kept as such: it has a privacy loss distribution besides its zCDP, and so a
    tight Poisson sample. 0: free; infinite: not private."""
    if epsilon == 0:
        return dp.NoOpDpEvent()
    return BoundedRangeDpEvent(epsilon) if math.isfinite(epsilon) else dp.NonPrivateDpEvent()


def compose(events: Iterable[dp.DpEvent]) -> dp.DpEvent:
    """Adaptive composition, with equal events counted: the canonical form that two ledgers can be compared in."""
    counts: Counter[dp.DpEvent] = Counter()
    for event in events:
        for component, count in flatten(event).items():
            counts[component] += count
    counts.pop(dp.NoOpDpEvent(), None)
    if not counts:
        return dp.NoOpDpEvent()
    parts = [
        component if n == 1 else dp.SelfComposedDpEvent(component, n)
        for component, n in sorted(counts.items(), key=repr)
    ]
    return parts[0] if len(parts) == 1 else dp.ComposedDpEvent(tuple(parts))


def flatten(event: dp.DpEvent) -> Counter[dp.DpEvent]:
    """The leaves of a composition with their counts, each at least 1; a sampled or parallel event is one leaf."""
    if isinstance(event, dp.ComposedDpEvent):
        total: Counter[dp.DpEvent] = Counter()
        for part in event.events:
            total.update(flatten(part))
        return total
    if isinstance(event, dp.SelfComposedDpEvent):
        if not isinstance(event.count, int) or event.count < 0:
            raise UnsupportedEvent(f"An event cannot happen {event.count!r} times; counts are whole numbers from 0 on.")
        # 0 times is nothing at all: as a leaf it would be a release that costs nothing.
        return Counter({component: n * event.count for component, n in flatten(event.event).items() if event.count})
    if isinstance(event, dp.PoissonSampledDpEvent):
        inner = compose([event.event])
        if isinstance(inner, dp.NoOpDpEvent):
            return Counter()
        if isinstance(inner, dp.NonPrivateDpEvent) or event.sampling_probability == 1.0:
            return flatten(inner)
        return Counter({dp.PoissonSampledDpEvent(event.sampling_probability, inner): 1})
    return Counter({event: 1})


def is_gaussian(event: dp.DpEvent) -> bool:
    """Whether it is a composition of Gaussian mechanisms on the whole set, or on each of several disjoint groups."""
    if isinstance(event, ParallelDpEvent):
        return all(is_gaussian(branch) for _, branch in event.branches)
    return all(isinstance(component, dp.GaussianDpEvent) for component in flatten(event))


def to_json(event: dp.DpEvent) -> dict[str, Any]:
    """A JSON object that `from_json` turns back into an equal event."""
    match event:
        case dp.NoOpDpEvent():
            return {"event": "none"}
        case dp.NonPrivateDpEvent():
            return {"event": "non_private"}
        case dp.GaussianDpEvent():
            return {"event": "gaussian", "noise_multiplier": event.noise_multiplier}
        case dp.LaplaceDpEvent():
            return {"event": "laplace", "noise_multiplier": event.noise_multiplier}
        case dp.ZCDpEvent():
            return {"event": "zcdp", "rho": event.rho, "xi": event.xi}
        case EpsilonDeltaDpEvent():
            return {"event": "epsilon_delta", "epsilon": event.epsilon, "delta": event.delta}
        case BoundedRangeDpEvent():
            return {"event": "bounded_range", "epsilon": event.epsilon}
        case dp.PoissonSampledDpEvent():
            return {"event": "poisson", "rate": event.sampling_probability, "of": to_json(event.event)}
        case dp.SampledWithoutReplacementDpEvent():
            return {
                "event": "fixed_size",
                "size": event.source_dataset_size,
                "sample": event.sample_size,
                "of": to_json(event.event),
            }
        case dp.SelfComposedDpEvent():
            return {"event": "repeat", "count": event.count, "of": to_json(event.event)}
        case dp.ComposedDpEvent():
            return {"event": "compose", "of": [to_json(part) for part in event.events]}
        case ParallelDpEvent():
            return {"event": "parallel", "of": {name: to_json(branch) for name, branch in event.branches}}
    raise UnsupportedEvent(f"No JSON form for the event {event!r}; add one in harness/privacy/events.py.")


#: Kind of event -> its numbers, as `to_json` writes them; those of `_INSIDE` have the key `of` as well.
_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "non_private": (),
    "gaussian": ("noise_multiplier",),
    "laplace": ("noise_multiplier",),
    "zcdp": ("rho", "xi"),
    "epsilon_delta": ("epsilon", "delta"),
    "bounded_range": ("epsilon",),
    "poisson": ("rate",),
    "fixed_size": ("size", "sample"),
    "repeat": ("count",),
    "compose": (),
    "parallel": (),
}
_INSIDE = ("poisson", "fixed_size", "repeat", "compose", "parallel")
_WHOLE_NUMBERS = ("count", "size", "sample")
_DEEPEST, _MOST_PARTS, _LARGEST_COUNT = 12, 5000, 10**9


def from_json(data: Any, depth: int = 0) -> dp.DpEvent:
    """The event that `to_json` wrote. Raises UnsupportedEvent for a kind that this version does not know, and for
    anything that `to_json` does not write just so: a file may be somebody else's."""
    if depth > _DEEPEST or not isinstance(data, Mapping):
        raise UnsupportedEvent(f"An event of a ledger is an object, at most {_DEEPEST} deep.")
    kind = data.get("event")
    if not isinstance(kind, str) or kind not in _NUMBERS:
        raise UnsupportedEvent(
            f"Unknown kind of event '{str(kind)[:40]}' in a ledger; was it written by a newer version?"
        )
    wanted = {"event", *_NUMBERS[kind], *(("of",) if kind in _INSIDE else ())}
    if set(data) != wanted:
        raise UnsupportedEvent(f"The event {kind} has {', '.join(sorted(wanted))}, and nothing else.")
    for name in _NUMBERS[kind]:
        _require_number(kind, name, data[name])
    if kind == "compose":
        return dp.ComposedDpEvent(tuple(from_json(part, depth + 1) for part in _parts(kind, data["of"], list)))
    if kind == "parallel":
        groups = _parts(kind, data["of"], dict)
        return ParallelDpEvent(tuple((name, from_json(branch, depth + 1)) for name, branch in groups.items()))
    inside = from_json(data["of"], depth + 1) if kind in _INSIDE else None
    match kind:
        case "none":
            return dp.NoOpDpEvent()
        case "non_private":
            return dp.NonPrivateDpEvent()
        case "gaussian":
            return dp.GaussianDpEvent(data["noise_multiplier"])
        case "laplace":
            return dp.LaplaceDpEvent(data["noise_multiplier"])
        case "zcdp":
            return dp.ZCDpEvent(data["rho"], data["xi"])
        case "epsilon_delta":
            return EpsilonDeltaDpEvent(data["epsilon"], data["delta"])
        case "bounded_range":
            return BoundedRangeDpEvent(data["epsilon"])
        case "poisson":
            return dp.PoissonSampledDpEvent(data["rate"], inside)
        case "fixed_size":
            return dp.SampledWithoutReplacementDpEvent(data["size"], data["sample"], inside)
    return dp.SelfComposedDpEvent(inside, data["count"])  # "repeat", the last of the kinds


def _parts(kind: str, inside: Any, shape: type[Any]) -> Any:
    if not isinstance(inside, shape) or len(inside) > _MOST_PARTS:
        what = "an object of groups" if shape is dict else "a list of events"
        raise UnsupportedEvent(f"The event {kind} has {what}, at most {_MOST_PARTS} of them.")
    return inside


def _require_number(kind: str, name: str, value: Any) -> None:
    whole = name in _WHOLE_NUMBERS
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        raise UnsupportedEvent(f"{name} of the event {kind} is no {'whole ' if whole else ''}number.")
    if not 0 <= value < math.inf or (whole and value > _LARGEST_COUNT) or (name in ("rate", "delta") and value > 1):
        raise UnsupportedEvent(f"{name} of the event {kind} is out of range.")
