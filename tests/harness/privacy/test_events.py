"""Event trees: canonical form, JSON form, groups."""

from __future__ import annotations

import json

import pytest
from dp_accounting import dp_event as dp
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UnsupportedEvent
from harness.privacy.events import (
    BoundedRangeDpEvent,
    EpsilonDeltaDpEvent,
    ParallelDpEvent,
    compose,
    flatten,
    from_json,
    parallel,
    to_json,
)

numbers = st.floats(0.01, 10.0)
leaf_events = st.one_of(
    st.builds(dp.GaussianDpEvent, numbers),
    st.builds(dp.LaplaceDpEvent, numbers),
    st.builds(dp.ZCDpEvent, numbers),
    st.builds(BoundedRangeDpEvent, numbers),
    st.builds(EpsilonDeltaDpEvent, numbers, st.floats(0.0, 0.5)),
    st.just(dp.NoOpDpEvent()),
    st.just(dp.NonPrivateDpEvent()),
)


def branchings(inner: st.SearchStrategy[dp.DpEvent]) -> st.SearchStrategy[dp.DpEvent]:
    return st.one_of(
        st.builds(dp.SelfComposedDpEvent, inner, st.integers(1, 5)),
        st.builds(lambda events: dp.ComposedDpEvent(tuple(events)), st.lists(inner, min_size=1, max_size=3)),
        st.builds(dp.PoissonSampledDpEvent, st.floats(0.0, 1.0), inner),
        st.builds(lambda event: dp.SampledWithoutReplacementDpEvent(10, 2, event), inner),
        st.builds(lambda event: parallel({"a": event, "b": dp.GaussianDpEvent(1.0)}), inner),
    )


trees = st.recursive(leaf_events, branchings, max_leaves=6)


@given(trees)
def test_json_round_trip_gives_the_same_event(event: dp.DpEvent) -> None:
    assert from_json(json.loads(json.dumps(to_json(event)))) == event


@given(st.lists(trees, max_size=4))
def test_compose_is_canonical(events: list[dp.DpEvent]) -> None:
    once = compose(events)
    assert compose([once]) == once
    assert compose(reversed(events)) == once


def test_compose_counts_equal_events() -> None:
    gaussian, other = dp.GaussianDpEvent(1.0), dp.ZCDpEvent(0.1)
    nested = dp.ComposedDpEvent((gaussian, dp.SelfComposedDpEvent(gaussian, 3)))
    assert compose([nested, other]) == dp.ComposedDpEvent((dp.SelfComposedDpEvent(gaussian, 4), other))
    assert compose([gaussian]) == gaussian


def test_compose_drops_what_is_free() -> None:
    assert compose([]) == dp.NoOpDpEvent()
    assert compose([dp.NoOpDpEvent(), dp.PoissonSampledDpEvent(0.1, dp.NoOpDpEvent())]) == dp.NoOpDpEvent()


def test_a_sample_is_one_leaf_with_a_canonical_inside() -> None:
    gaussian = dp.GaussianDpEvent(1.0)
    sample = dp.PoissonSampledDpEvent(0.1, dp.ComposedDpEvent((gaussian, gaussian)))
    assert flatten(sample) == {dp.PoissonSampledDpEvent(0.1, dp.SelfComposedDpEvent(gaussian, 2)): 1}


def test_a_single_unnamed_group_is_no_group() -> None:
    assert parallel({None: dp.GaussianDpEvent(1.0)}) == dp.GaussianDpEvent(1.0)


def test_groups_are_sorted_by_name() -> None:
    branches = parallel({"b": dp.GaussianDpEvent(1.0), "a": dp.GaussianDpEvent(2.0)})
    assert isinstance(branches, ParallelDpEvent)
    assert [name for name, _ in branches.branches] == ["a", "b"]


def test_groups_and_the_whole_set_cannot_be_mixed() -> None:
    with pytest.raises(UnsupportedEvent, match="overlap"):
        parallel({None: dp.GaussianDpEvent(1.0), "a": dp.GaussianDpEvent(1.0)})


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(UnsupportedEvent, match="newer version"):
        from_json({"event": "magic"})
    with pytest.raises(UnsupportedEvent, match="DiscreteLaplace"):
        to_json(dp.DiscreteLaplaceDpEvent(1.0, 1))
