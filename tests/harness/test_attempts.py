"""Who takes which cell, and what becomes of those whose worker dies."""

from __future__ import annotations

import multiprocessing

from dpicl.core.cell import Cell
from dpicl.engines.attempts import TRIES, Attempts
from dpicl.results.store import Store
from tests.leaderboards.factory import make_result

fork = multiprocessing.get_context("fork")


def cells(model: str, number: int, first: int = 0) -> list[Cell]:
    template = make_result().cell
    return [template.model_copy(update={"model": model, "seed": seed}) for seed in range(first, first + number)]


def test_a_worker_keeps_its_model_and_another_begins_with_another():
    attempts = Attempts([*cells("one", 4), *cells("two", 3)])
    first = attempts.next()
    assert (first.model, first.seed) == ("one", 0)
    assert attempts.next(busy=["one"]).model == "two"
    assert attempts.next(loaded="two", busy=["one"]).model == "two"
    assert attempts.next(loaded="one", busy=["two"]).model == "one"
    assert len(attempts) == 3


def test_a_cell_whose_worker_died_goes_behind_the_others_and_is_given_up_at_last():
    attempts = Attempts(cells("one", 2))
    one = attempts.next()
    assert attempts.lost(one, "was lost") is None
    assert attempts.next() != one
    assert attempts.next() == one
    assert attempts.lost(one, "was lost") is None
    assert TRIES == 3 and attempts.next() == one
    assert str(one) in (attempts.lost(one, "was lost") or "")
    assert len(attempts) == 0


def test_a_result_that_is_there_stays_and_a_damaged_one_is_set_aside(tmp_path):
    store, result = Store(tmp_path, "quick"), make_result()
    store.prepare()
    assert store.write_first(result)
    before = store.path(result.cell).stat().st_mtime_ns
    assert not store.write_first(result.model_copy(update={"created": "2030-01-01T00:00:00+00:00"}))
    assert store.path(result.cell).stat().st_mtime_ns == before
    store.path(result.cell).write_text("{")
    assert store.write_first(result)
    assert store.read(result.cell) == result
    assert len(list(tmp_path.rglob("quarantine/*"))) == 1


def test_a_lock_of_the_store_leaves_nothing(tmp_path):
    store, cell = Store(tmp_path, "quick"), make_result().cell
    store.prepare()
    with store.lock(cell) as mine, store.lock(cell) as again:
        assert (mine, again) == (True, False)
    assert [path.name for path in (tmp_path / "quick" / ".locks").iterdir()] == [".gitignore"]
