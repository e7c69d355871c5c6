"""The kinds of events: all of `dp_accounting`, and four that it lacks."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import PathFinder

import attr

_MODULE = "dp_accounting.dp_event"


def _load_alone() -> None:
    """Loads the module of events before its package, whose accountants import most of scipy: .8 seconds that suites and
    boards have no use for. The package, where it is loaded later, takes this module for its own."""
    package = importlib.util.find_spec("dp_accounting")
    spec = PathFinder.find_spec(_MODULE, package.submodule_search_locations) if package else None
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[_MODULE]
        raise


if _MODULE not in sys.modules:
    _load_alone()

# isort: split
from dp_accounting.dp_event import *  # noqa: E402, F403
from dp_accounting.dp_event import DpEvent  # noqa: E402


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
