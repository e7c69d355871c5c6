"""The ledger: every charge is there, the budget refuses before anything happens, groups compose as they must."""

import math

import pytest
from dp_accounting import dp_event as dp

from dpicl.accounting import accountants, events
from dpicl.accounting.ledger import Ledger
from dpicl.core.errors import BudgetExceeded, UnsupportedEvent

RELEASE = dp.PoissonSampledDpEvent(0.02, dp.GaussianDpEvent(1.0))


def test_charges_inside_the_allowance_need_no_accountant(monkeypatch):
    ledger = Ledger(dp.SelfComposedDpEvent(RELEASE, 3), epsilon=1.0)
    monkeypatch.setattr(accountants, "epsilon", lambda *a: pytest.fail("an accountant was asked"))
    for _ in range(3):
        ledger.charge(RELEASE)
    assert ledger.event() == dp.SelfComposedDpEvent(RELEASE, 3)


def test_a_charge_over_the_budget_is_refused_and_leaves_no_trace():
    ledger = Ledger(dp.GaussianDpEvent(10.0), epsilon=0.5)
    ledger.charge(dp.GaussianDpEvent(10.0))
    before = ledger.to_json()
    with pytest.raises(BudgetExceeded, match="not among the releases"):
        ledger.charge(dp.GaussianDpEvent(1.0))
    assert ledger.to_json() == before


def test_a_charge_outside_the_allowance_is_refused_if_it_fits():
    """What is charged may follow from what was read, and no theorem here composes events that are chosen so."""
    for allowance in (None, dp.GaussianDpEvent(20.0)):
        ledger = Ledger(allowance, epsilon=1.0)
        with pytest.raises(BudgetExceeded, match="not among the releases"):
            ledger.charge(dp.GaussianDpEvent(10.0))
        assert ledger.event() == dp.NoOpDpEvent()


def test_a_read_without_a_mechanism_makes_the_ledger_infinite():
    ledger = Ledger(None, epsilon=math.inf)
    ledger.charge(RELEASE, "Sports")
    ledger.charge(dp.NonPrivateDpEvent())
    assert accountants.epsilon(ledger.event(), 1e-5).upper == math.inf
    bounded = Ledger(None, epsilon=1.0)
    with pytest.raises(BudgetExceeded):
        bounded.charge(dp.NonPrivateDpEvent())


def test_groups_compose_in_parallel_charges_to_all_reach_each():
    ledger = Ledger(None, epsilon=math.inf)
    ledger.charge(RELEASE, "a")
    ledger.charge(RELEASE, "b")
    ledger.charge(RELEASE, "b")
    ledger.charge(dp.GaussianDpEvent(5.0))
    branches = dict(ledger.event().branches)
    assert events.flatten(branches["a"]) == {RELEASE: 1, dp.GaussianDpEvent(5.0): 1}
    assert events.flatten(branches["b"]) == {RELEASE: 2, dp.GaussianDpEvent(5.0): 1}


def test_rows_for_the_result_file_count_every_charge():
    ledger = Ledger(None, epsilon=math.inf)
    for _ in range(4):
        ledger.charge(RELEASE, "a", note="Poisson sample")
    assert ledger.to_json() == [
        {"partition": "a", "event": events.to_json(RELEASE), "count": 4, "note": "Poisson sample"}
    ]


def test_a_negative_charge_is_refused_however_deep_it_hides():
    ledger = Ledger(None, epsilon=math.inf)
    ledger.charge(RELEASE)
    negative = dp.SelfComposedDpEvent(dp.GaussianDpEvent(1.0), -1)
    for event in (
        negative,
        dp.ComposedDpEvent((RELEASE, negative)),
        dp.PoissonSampledDpEvent(0.1, negative),
    ):
        with pytest.raises(UnsupportedEvent, match="-1 times"):
            ledger.charge(event)
    assert ledger.event() == RELEASE


def test_an_allowance_for_groups_covers_no_charge_to_all_records():
    group = dp.GaussianDpEvent(5.0)
    ledger = Ledger(events.parallel({"a": group, "b": group}), 1.0)
    with pytest.raises(BudgetExceeded):
        ledger.charge(group, None)
    ledger.charge(group, "a")
    with pytest.raises(BudgetExceeded):
        ledger.charge(group, "a")


def test_a_run_inside_its_allowance_costs_all_of_it():
    """How far a run came may follow from what it read: the declared worst case is proved and published."""
    declared = dp.SelfComposedDpEvent(RELEASE, 3)
    ledgers = []
    for charged in range(4):
        ledger = Ledger(declared, epsilon=1.0)
        for _ in range(charged):
            ledger.charge(RELEASE, note="Poisson sample")
        ledger.settle()
        ledgers.append((ledger.event(), ledger.to_json()))
    assert ledgers == ledgers[:1] * 4
    assert ledgers[0][1][0]["count"] == 3


def test_an_allowance_for_all_records_covers_a_group():
    ledger = Ledger(dp.SelfComposedDpEvent(RELEASE, 2), epsilon=1.0)
    ledger.charge(RELEASE)
    ledger.charge(RELEASE, "a")
    ledger.charge(RELEASE, "b")
    with pytest.raises(BudgetExceeded, match="not among the releases"):
        ledger.charge(RELEASE, "b")


def test_nothing_declared_leaves_nothing_on_the_ledger():
    ledger = Ledger(dp.NoOpDpEvent(), epsilon=0.0)
    ledger.settle()
    assert ledger.to_json() == [] and ledger.event() == dp.NoOpDpEvent()
