"""The kinds of events: all of `dp_accounting`, and four that it lacks."""

from __future__ import annotations

import attr
from dp_accounting.dp_event import *  # noqa: F403
from dp_accounting.dp_event import DpEvent


@attr.s(frozen=True, slots=True, auto_attribs=True)
class EpsilonDeltaDpEvent(DpEvent):
    """Any mechanism that is (epsilon, delta)-DP under add/remove."""

    epsilon: float
    delta: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BoundedRangeDpEvent(DpEvent):
    """A choice whose privacy loss lies in an interval of length epsilon for each pair of neighbours (Durfee & Rogers
    2019)."""

    epsilon: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class AboveThresholdDpEvent(DpEvent):
    """One round of AboveThreshold, whose queries one more record raises or leaves: the loss ln(P/Q) of its answers, P
    with the record and Q without, lies in [-2 epsilon, epsilon] (dpicl.privacy.above_threshold)."""

    epsilon: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ParallelDpEvent(DpEvent):
    """Branches on disjoint groups of records: ((name of the group, event), ...), sorted by name."""

    branches: tuple[tuple[str, DpEvent], ...]
