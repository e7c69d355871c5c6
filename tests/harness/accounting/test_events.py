"""Event trees: canonical form, JSON form, groups."""

import json
import math

import pytest
from dp_accounting import dp_event as dp
from hypothesis import given
from hypothesis import strategies as st

from dpicl.accounting.events import (
    AboveThresholdDpEvent,
    BoundedRangeDpEvent,
    EpsilonDeltaDpEvent,
    ParallelDpEvent,
    compose,
    flatten,
    from_json,
    parallel,
    to_json,
)
from dpicl.core.errors import UnsupportedEvent

numbers = st.floats(0.01, 10.0)
simple_events = st.one_of(
    st.builds(dp.GaussianDpEvent, numbers),
    st.builds(dp.LaplaceDpEvent, numbers),
    st.builds(dp.ZCDpEvent, numbers),
    st.builds(BoundedRangeDpEvent, numbers),
    st.builds(AboveThresholdDpEvent, numbers),
    st.builds(EpsilonDeltaDpEvent, numbers, st.floats(0.0, 0.5)),
    st.just(dp.NoOpDpEvent()),
    st.just(dp.NonPrivateDpEvent()),
)


def branchings(inner: st.SearchStrategy[dp.DpEvent]) -> st.SearchStrategy[dp.DpEvent]:
    return st.one_of(
        st.builds(dp.SelfComposedDpEvent, inner, st.integers(1, 5)),
        st.builds(
            lambda events: dp.ComposedDpEvent(tuple(events)),
            st.lists(inner, min_size=1, max_size=3),
        ),
        st.builds(dp.PoissonSampledDpEvent, st.floats(0.0, 1.0), inner),
        st.builds(lambda event: dp.SampledWithoutReplacementDpEvent(10, 2, event), inner),
        st.builds(
            lambda event: parallel(
                {
                    "a": event,
                    "b": dp.GaussianDpEvent(1.0),
                }
            ),
            inner,
        ),
    )


trees = st.recursive(simple_events, branchings, max_leaves=6)


@given(trees)
def test_json_round_trip_gives_the_same_event(event):
    assert from_json(json.loads(json.dumps(to_json(event)))) == event


@given(st.lists(trees, max_size=4))
def test_compose_is_canonical(events):
    once = compose(events)
    assert compose([once]) == once
    assert compose(reversed(events)) == once


def test_compose_counts_equal_events():
    gaussian, other = dp.GaussianDpEvent(1.0), dp.ZCDpEvent(0.1)
    nested = dp.ComposedDpEvent((gaussian, dp.SelfComposedDpEvent(gaussian, 3)))
    assert compose([nested, other]) == dp.ComposedDpEvent(
        (dp.SelfComposedDpEvent(gaussian, 4), other)
    )
    assert compose([gaussian]) == gaussian


def test_compose_drops_what_is_free():
    assert compose([]) == dp.NoOpDpEvent()
    assert (
        compose([dp.NoOpDpEvent(), dp.PoissonSampledDpEvent(0.1, dp.NoOpDpEvent())])
        == dp.NoOpDpEvent()
    )


def test_a_sample_is_one_leaf_with_a_canonical_inside():
    gaussian = dp.GaussianDpEvent(1.0)
    sample = dp.PoissonSampledDpEvent(0.1, dp.ComposedDpEvent((gaussian, gaussian)))
    assert flatten(sample) == {
        dp.PoissonSampledDpEvent(0.1, dp.SelfComposedDpEvent(gaussian, 2)): 1
    }


def test_a_single_unnamed_group_is_no_group():
    assert parallel({None: dp.GaussianDpEvent(1.0)}) == dp.GaussianDpEvent(1.0)


def test_groups_are_sorted_by_name():
    branches = parallel({"b": dp.GaussianDpEvent(1.0), "a": dp.GaussianDpEvent(2.0)})
    assert isinstance(branches, ParallelDpEvent)
    assert [name for name, _ in branches.branches] == ["a", "b"]


def test_groups_and_the_whole_set_cannot_be_mixed():
    with pytest.raises(UnsupportedEvent, match="overlap"):
        parallel({None: dp.GaussianDpEvent(1.0), "a": dp.GaussianDpEvent(1.0)})


def test_unknown_kinds_are_refused():
    with pytest.raises(UnsupportedEvent, match="DiscreteLaplace"):
        to_json(dp.DiscreteLaplaceDpEvent(1.0, 1))


GAUSSIAN = {"event": "gaussian", "noise_multiplier": 1.5}
HOSTILE = {
    "no object": [1, 2],
    "unknown kind": {"event": "magic"},
    "kind is a list": {"event": ["gaussian"]},
    "missing key": {"event": "gaussian"},
    "more keys": {**GAUSSIAN, "sensitivity": 0},
    "text": {"event": "gaussian", "noise_multiplier": "1.5"},
    "boolean": {"event": "gaussian", "noise_multiplier": True},
    "negative": {"event": "gaussian", "noise_multiplier": -1.5},
    "infinite": {"event": "gaussian", "noise_multiplier": math.inf},
    "not a number": {"event": "zcdp", "rho": math.nan, "xi": 0.0},
    "rate above 1": {"event": "poisson", "rate": 1.5, "of": GAUSSIAN},
    "half a count": {"event": "repeat", "count": 0.5, "of": GAUSSIAN},
    "huge count": {"event": "repeat", "count": 10**12, "of": GAUSSIAN},
    "negative count": {"event": "repeat", "count": -1, "of": GAUSSIAN},
    "no list": {"event": "compose", "of": GAUSSIAN},
    "no groups": {"event": "parallel", "of": [GAUSSIAN]},
    "many": {"event": "compose", "of": [GAUSSIAN] * 5001},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_event_that_no_ledger_writes_is_refused(name):
    with pytest.raises(UnsupportedEvent):
        from_json(HOSTILE[name])


@pytest.mark.parametrize("levels", [20, 5000])
def test_an_event_that_is_nested_too_deeply_is_refused(levels):
    data: dict = GAUSSIAN
    for _ in range(levels):
        data = {"event": "repeat", "count": 1, "of": data}
    with pytest.raises(UnsupportedEvent, match="deep"):
        from_json(data)
