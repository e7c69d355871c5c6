"""Events: what a private access costs, as trees of `dp_accounting` DpEvents, and their JSON form for result files.

The neighbour relation is add/remove of one record. To the events of dp_accounting this adds `EpsilonDeltaDpEvent`,
`BoundedRangeDpEvent`, `AboveThresholdDpEvent` and `ParallelDpEvent`: mechanisms that run on disjoint groups of records
(a record has one label), so that one record touches one branch only and the cost is the worst branch (parallel
composition; Dwork & Roth 2014, add/remove only).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dpicl.accounting import dp_event as dp
from dpicl.core.errors import UnsupportedEvent


def __getattr__(name: str) -> Any:
    """The kinds themselves, here too."""
    return getattr(dp, name)


def parallel(branches: Mapping[str | None, dp.DpEvent]) -> dp.DpEvent:
    """The event of disjoint groups; with the single group None (no partition) it is that group's event."""
    if set(branches) == {None}:
        return branches[None]
    if None in branches:
        raise UnsupportedEvent(
            "A run cannot use labelled groups and the unpartitioned set at once: they overlap."
        )
    return dp.ParallelDpEvent(tuple(sorted((str(name), event) for name, event in branches.items())))


def merge_groups(events: Iterable[dp.DpEvent]) -> dp.DpEvent:
    """Events of disjoint groups, each a `ParallelDpEvent` of its own groups, as one."""
    branches: dict[str | None, dp.DpEvent] = {}
    for event in events:
        groups = event.branches if isinstance(event, dp.ParallelDpEvent) else ((None, event),)
        if taken := branches.keys() & {name for name, _ in groups}:
            raise UnsupportedEvent(
                f"Two events are of the group {sorted(map(str, taken))[0]!r}: they overlap."
            )
        branches.update(groups)
    return parallel(branches)


def gaussian(noise_multiplier: float) -> dp.DpEvent:
    """The Gaussian mechanism with noise of ``noise_multiplier`` times its L2 sensitivity; 0: not private."""
    return dp.GaussianDpEvent(noise_multiplier) if noise_multiplier > 0 else dp.NonPrivateDpEvent()


def bounded_range(epsilon: float) -> dp.DpEvent:
    """An epsilon-bounded-range choice: epsilon^2/8-zCDP (Cesar & Rogers 2021, lemma 3.4); infinite: not private."""
    return dp.ZCDpEvent(epsilon**2 / 8) if math.isfinite(epsilon) else dp.NonPrivateDpEvent()


def bounded_range_choice(epsilon: float) -> dp.DpEvent:
    """An epsilon-bounded-range choice, kept as such: it has a privacy loss distribution besides its zCDP, and so a
    tight Poisson sample. 0: free; infinite: not private."""
    if epsilon == 0:
        return dp.NoOpDpEvent()
    return dp.BoundedRangeDpEvent(epsilon) if math.isfinite(epsilon) else dp.NonPrivateDpEvent()


def above_threshold(epsilon: float) -> dp.DpEvent:
    """One round of AboveThreshold; 0: free; infinite: not private."""
    if epsilon == 0:
        return dp.NoOpDpEvent()
    return dp.AboveThresholdDpEvent(epsilon) if math.isfinite(epsilon) else dp.NonPrivateDpEvent()


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
    """The components of a composition with their counts, each at least 1; a sampled or parallel event is one."""
    if isinstance(event, dp.ComposedDpEvent):
        total: Counter[dp.DpEvent] = Counter()
        for part in event.events:
            total.update(flatten(part))
        return total
    if isinstance(event, dp.SelfComposedDpEvent):
        if not isinstance(event.count, int) or event.count < 0:
            raise UnsupportedEvent(
                f"An event cannot happen {event.count!r} times; counts are whole numbers from 0 on."
            )
        # 0 times is nothing at all: as a component it would be a release that costs nothing.
        inside = flatten(event.event).items()
        return Counter({component: n * event.count for component, n in inside if event.count})
    if isinstance(event, dp.PoissonSampledDpEvent):
        inner = compose([event.event])
        if isinstance(inner, dp.NoOpDpEvent):
            return Counter()
        if isinstance(inner, dp.NonPrivateDpEvent) or event.sampling_probability == 1.0:
            return flatten(inner)
        return Counter({dp.PoissonSampledDpEvent(event.sampling_probability, inner): 1})
    return Counter({event: 1})


#: Kind of event in JSON -> the name of its class, and its numbers: key in JSON -> attribute.
_KINDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "none": ("NoOpDpEvent", {}),
    "non_private": ("NonPrivateDpEvent", {}),
    "gaussian": ("GaussianDpEvent", {"noise_multiplier": "noise_multiplier"}),
    "laplace": ("LaplaceDpEvent", {"noise_multiplier": "noise_multiplier"}),
    "zcdp": ("ZCDpEvent", {"rho": "rho", "xi": "xi"}),
    "epsilon_delta": ("EpsilonDeltaDpEvent", {"epsilon": "epsilon", "delta": "delta"}),
    "bounded_range": ("BoundedRangeDpEvent", {"epsilon": "epsilon"}),
    "above_threshold": ("AboveThresholdDpEvent", {"epsilon": "epsilon"}),
    "poisson": ("PoissonSampledDpEvent", {"rate": "sampling_probability"}),
    "fixed_size": (
        "SampledWithoutReplacementDpEvent",
        {"size": "source_dataset_size", "sample": "sample_size"},
    ),
    "repeat": ("SelfComposedDpEvent", {"count": "count"}),
    "compose": ("ComposedDpEvent", {}),
    "parallel": ("ParallelDpEvent", {}),
}
#: Kinds that hold other events, under the key "of" in JSON -> attribute.
_INSIDE = {
    "poisson": "event",
    "fixed_size": "event",
    "repeat": "event",
    "compose": "events",
    "parallel": "branches",
}
_WHOLE_NUMBERS = ("count", "size", "sample")
_DEEPEST, _MOST_PARTS, _LARGEST_COUNT = 12, 5000, 10**9


def to_json(event: dp.DpEvent) -> dict[str, Any]:
    """A JSON object that `from_json` turns back into an equal event."""
    for kind, (name, numbers) in _KINDS.items():
        if isinstance(event, getattr(dp, name)):
            document = {
                "event": kind,
                **{name: getattr(event, attribute) for name, attribute in numbers.items()},
            }
            inside: Any = getattr(event, _INSIDE[kind]) if kind in _INSIDE else None
            if kind == "compose":
                document["of"] = [to_json(part) for part in inside]
            elif kind == "parallel":
                document["of"] = {name: to_json(branch) for name, branch in inside}
            elif kind in _INSIDE:
                document["of"] = to_json(inside)
            return document
    raise UnsupportedEvent(
        f"No JSON form for the event {event!r}; add one in harness/dpicl/accounting/events.py."
    )


def from_json(data: Any) -> dp.DpEvent:
    """The event that `to_json` wrote. Raises UnsupportedEvent, as `check_json` does."""
    check_json(data)
    return _build(data)


def check_json(data: Any, depth: int = 0) -> None:
    """Raises UnsupportedEvent for a kind that this version does not know, and for anything that `to_json` does not
    write just so: a file may be somebody else's. It makes no event, and so needs no accountant."""
    if depth > _DEEPEST or not isinstance(data, Mapping):
        raise UnsupportedEvent(f"An event of a ledger is an object, at most {_DEEPEST} deep.")
    kind = data.get("event")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise UnsupportedEvent(
            f"Unknown kind of event '{str(kind)[:40]}' in a ledger; was it written by a newer version?"
        )
    _, numbers = _KINDS[kind]
    keys = {"event", *numbers, *(("of",) if kind in _INSIDE else ())}
    if set(data) != keys:
        raise UnsupportedEvent(f"The event {kind} has {', '.join(sorted(keys))}, and nothing else.")
    for name in numbers:
        _require_number(kind, name, data[name])
    if kind == "compose":
        _check_parts(kind, data["of"], list, depth)
    elif kind == "parallel":
        _check_parts(kind, data["of"], dict, depth)
    elif kind in _INSIDE:
        check_json(data["of"], depth + 1)


def _build(data: Mapping[str, Any]) -> dp.DpEvent:
    kind = data["event"]
    name, numbers = _KINDS[kind]
    attributes = {attribute: data[key] for key, attribute in numbers.items()}
    if kind == "compose":
        attributes["events"] = tuple(_build(part) for part in data["of"])
    elif kind == "parallel":
        attributes["branches"] = tuple(
            (group, _build(branch)) for group, branch in data["of"].items()
        )
    elif kind in _INSIDE:
        attributes["event"] = _build(data["of"])
    return getattr(dp, name)(**attributes)


def _check_parts(
    kind: str,
    inside: Any,
    shape: type[Any],
    depth: int,
) -> None:
    if not isinstance(inside, shape) or len(inside) > _MOST_PARTS:
        what = "an object of groups" if shape is dict else "a list of events"
        raise UnsupportedEvent(f"The event {kind} has {what}, at most {_MOST_PARTS} of them.")
    for part in inside.values() if shape is dict else inside:
        check_json(part, depth + 1)


def _require_number(kind: str, name: str, value: Any) -> None:
    whole = name in _WHOLE_NUMBERS
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        raise UnsupportedEvent(
            f"{name} of the event {kind} is not a {'whole ' if whole else ''}number."
        )
    if (
        not 0 <= value < math.inf
        or (whole and value > _LARGEST_COUNT)
        or (name in ("rate", "delta") and value > 1)
    ):
        raise UnsupportedEvent(f"{name} of the event {kind} is out of range.")
