"""Ledgers from files: read strictly, added up, compared with public sizes and with what mechanisms declare."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import dp_event as dp

from dpicl.accounting.events import ParallelDpEvent, bounded_range, from_json, to_json
from dpicl.core.errors import UnsupportedEvent
from dpicl.leaderboards.gate.ledgers import add_up, bounds_of, events_of, ledger_problem, recompute
from dpicl.results.parts import LedgerRow
from dpicl.results.store import Store
from tests.leaderboards.factory import make_result

RESULTS = Path(__file__).parents[3] / "results"
SUITES = ("ginc", "generation", "open")
GAUSSIAN = {"event": "gaussian", "noise_multiplier": 1.5}


def test_rows_of_a_ledger_add_up_over_groups():
    rows = [
        LedgerRow(partition="World", event=GAUSSIAN, count=3, note=""),
        LedgerRow(partition="Sports", event=GAUSSIAN, count=1, note=""),
        LedgerRow(
            partition=None, event={"event": "laplace", "noise_multiplier": 2.0}, count=1, note=""
        ),
    ]
    event = add_up(rows)
    assert isinstance(event, ParallelDpEvent)
    world = to_json(dict(event.branches)["World"])
    assert {"event": "repeat", "count": 3, "of": GAUSSIAN} in world["of"]
    assert {"event": "laplace", "noise_multiplier": 2.0} in world["of"]


def charge(event: dict, partition: str | None, **more):
    """A result whose ledger is one event, with a proved epsilon that nobody looks at here."""
    result = make_result(**more)
    row = LedgerRow(partition=partition, event=event, count=1, note="")
    whole = {"event": "parallel", "of": {partition: event}} if partition else event
    return result.model_copy(
        update={"privacy": result.privacy.model_copy(update={"ledger": [row], "event": whole})}
    )


def poisson(rate: float) -> dict:
    return {"event": "poisson", "rate": rate, "of": GAUSSIAN}


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (charge(poisson(0.02), "World"), ""),
        (charge(poisson(0.02), "Weather"), "charges groups of records that the task does not have"),
        (charge(poisson(0.02), "Sports"), "whose records are not on the ledger"),
        (charge(poisson(0.0205001), "World"), "expects no whole number of 1000 records"),
        (charge(poisson(0.0004), "World"), "expects no whole number of 1000 records"),
        (charge(poisson(0.01), None), ""),
        (
            charge(GAUSSIAN, None, answers=[("a", "x"), ("b", "y")], queries=1),
            "covers 1 queries, and it answered 2",
        ),
        (charge(GAUSSIAN, None, proved=1.1), "is above the target 1"),
    ],
)
def test_a_ledger_fits_the_public_sizes(result, sentence: str):
    problem = ledger_problem(result)
    assert sentence in problem if sentence else problem == ""


def test_an_event_without_a_theorem_has_no_epsilon():
    with pytest.raises(UnsupportedEvent):
        bounds_of(dp.SampledWithoutReplacementDpEvent(100, 10, dp.GaussianDpEvent(1.0)), 1e-5)


@pytest.mark.parametrize("suite", SUITES)
def test_every_ledger_of_record_is_what_its_mechanism_declares(suite: str):
    results, damaged = Store(RESULTS, suite).load_all()
    ours = [result for result in results if math.isfinite(result.cell.epsilon)]
    assert len(ours) > 5 and not damaged
    assert {ledger_problem(result) for result in ours} == {""}
    for declared, result in zip(events_of(ours, []), ours, strict=True):
        charged = to_json(from_json(result.privacy.event))
        assert charged in (declared, as_zcdp(declared))


def as_zcdp(event: Any) -> Any:
    """The JSON of an event with every bounded-range choice as its zCDP: what PRISM's results from before it charge."""
    if isinstance(event, list):
        return [as_zcdp(part) for part in event]
    if not isinstance(event, dict):
        return event
    if event.get("event") == "bounded_range":
        return to_json(bounded_range(event["epsilon"]))
    return {key: as_zcdp(value) for key, value in event.items()}


def test_a_file_never_says_less_than_its_ledger_costs():
    """A file from before a tighter proof says up to 2% more; what says much more lacks a part of its ledger."""
    event = dp.GaussianDpEvent(3.75)
    cost = bounds_of(event, 1e-5).upper
    files = {
        factor: charge(to_json(event), "World", proved=factor * cost)
        for factor in (1.05, 1.003, 1.0, 0.99)
    }
    problems = {factor: recompute(file)[0] for factor, file in files.items()}
    assert problems[1.003] == problems[1.0] == ""
    assert "and the file says" in problems[0.99]
    assert "and the file says" in problems[1.05]
