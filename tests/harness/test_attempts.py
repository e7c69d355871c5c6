"""Who takes which cell, where workers sit, and what expires: the arithmetic of engines, without any cluster."""

from __future__ import annotations

import multiprocessing

import pytest

from dpicl.harness.core.cell import Cell
from dpicl.harness.core.errors import UsageError
from dpicl.harness.run.attempts import TRIES, Attempts
from dpicl.harness.run.ray_cluster import NodeResources, seats, seats_of
from dpicl.harness.run.store import Store
from tests.leaderboards.factory import make_result

fork = multiprocessing.get_context("fork")


def cells(model: str, number: int, first: int = 0) -> list[Cell]:
    template = make_result().cell
    return [template.model_copy(update={"model": model, "seed": seed}) for seed in range(first, first + number)]


def test_a_worker_keeps_its_model_and_another_begins_with_another():
    attempts = Attempts([*cells("one", 4), *cells("two", 3)])
    first = attempts.next(most=2)
    assert [(cell.model, cell.seed) for cell in first] == [("one", 0), ("one", 1)]
    (second,) = attempts.next(busy=["one"])
    assert second.model == "two"
    assert {cell.model for cell in attempts.next(most=9, loaded="one", busy=["two"])} == {"one"}
    assert len(attempts) == 2


def test_a_cell_with_secure_noise_is_alone():
    secure = [cell.model_copy(update={"noise": "secure", "sizes": {"a": 9}}) for cell in cells("one", 3)]
    assert len(Attempts(secure).next(most=8)) == 1


def test_a_cell_whose_worker_died_goes_alone_to_another_node_and_is_given_up_at_last():
    attempts = Attempts(cells("one", 3))
    one, other, rest = attempts.next(most=3)
    assert attempts.lost(one, "was lost", "a") is None
    assert attempts.lost(other, "was lost", "a") is None
    attempts.give_back([rest])
    assert attempts.next(most=3, node="a", nodes={"a", "b"}) == [rest]
    assert attempts.next(most=3, node="a", nodes={"a", "b"}) == []
    assert attempts.next(most=3, node="b", nodes={"a", "b"}) == [one]
    assert attempts.lost(one, "was lost", "b") is None
    assert attempts.next(node="a", nodes={"a"}) == [other]  # there is no other node any more
    assert attempts.next(node="a", nodes={"a", "b"}) == [one]
    assert TRIES == 3
    assert str(one) in (attempts.lost(one, "was lost", "a") or "")
    assert len(attempts) == 0


def node(name: str, cpus: int, gpus: int = 0) -> NodeResources:
    return NodeResources(name, name, cpus, gpus)


@pytest.mark.parametrize(
    ("nodes", "asked", "expected"),
    [
        ([node("a", 2), node("b", 2), node("c", 2)], (None, None, None), {"a": [2], "b": [2], "c": [2]}),
        ([node("a", 2), node("b", 1)], (None, None, None), {"a": [2], "b": [1]}),
        ([node("a", 5)], (None, None, None), {"a": [2, 2]}),
        ([node("a", 4, 1), node("b", 8)], (None, None, None), {"a": [4]}),
        ([node("a", 4, 1), node("b", 8)], (None, None, 0), {"a": [2, 2], "b": [2, 2, 2, 2]}),
        ([node("a", 8, 2)], (None, 3, None), {"a": [3, 3]}),
        ([node("a", 8), node("b", 3)], (None, 4, None), {"a": [4, 4]}),
        ([node("a", 4), node("b", 2)], (3, None, None), {"a": [2, 2], "b": [2]}),
        ([node("a", 1), node("b", 1)], (2, None, None), {"a": [1], "b": [1]}),
    ],
)
def test_seats_fill_the_cluster(nodes, asked, expected):
    found: dict[str, list[int]] = {}
    for seat in seats(nodes, *asked):
        found.setdefault(seat.node.id, []).append(seat.cpus)
    assert found == expected


@pytest.mark.parametrize(
    ("nodes", "asked", "word"),
    [
        ([node("a", 2)], (4, None, None), "--workers"),
        ([node("a", 2), node("b", 2)], (None, 3, None), "--cpus"),
        ([node("a", 2)], (None, None, 1), "--gpus"),
        ([], (None, None, None), "node"),
    ],
)
def test_what_no_node_holds_is_refused(nodes, asked, word):
    with pytest.raises(UsageError, match=word):
        seats(nodes, *asked)
    assert word == "--workers" or seats_of(nodes, asked[1], asked[2] or 0) == []


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
    assert len(list(tmp_path.rglob("set_aside/*"))) == 1


def test_a_lock_of_the_store_leaves_nothing(tmp_path):
    store, cell = Store(tmp_path, "quick"), make_result().cell
    store.prepare()
    with store.lock(cell) as mine, store.lock(cell) as again:
        assert (mine, again) == (True, False)
    assert [path.name for path in (tmp_path / "quick" / ".locks").iterdir()] == [".gitignore"]
