"""What is kept of finished cells and rows: it saves time and changes nothing, whatever happens to it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from dpicl.core.paths import cache_folder
from dpicl.evaluation import kept_intervals, statistics
from dpicl.run import checked_files, results
from dpicl.run.results import from_text, to_text
from dpicl.run.store import Store
from tests.leaderboards.factory import make_result


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DPICL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def written(tmp_path: Path) -> Store:
    store = Store(tmp_path / "results", "quick")
    store.prepare()
    for seed in range(3):
        store.write(make_result(seed=seed))
    return store


def test_the_second_reading_examines_nothing_again_and_gives_the_same(tmp_path, monkeypatch):
    store = written(tmp_path)
    first, _ = store.load_all()
    monkeypatch.setattr(checked_files, "from_text", lambda text: pytest.fail("examined again"))
    assert store.load_all() == (first, [])


def test_a_file_that_is_edited_is_examined_again(tmp_path):
    store = written(tmp_path)
    (first, *_), _ = store.load_all()
    path = store.path(first.cell)
    data = json.loads(path.read_text())
    data["cell"]["seed"] = 99
    path.write_text(json.dumps(data))
    left, damaged = store.load_all()
    assert len(left) == 2 and [one.path for one in damaged] == [path]


def test_no_damage_of_the_cache_makes_a_damaged_file_a_result(tmp_path, cache):
    store = written(tmp_path)
    (first, *_), _ = store.load_all()
    store.path(first.cell).write_text(to_text(first).replace('"cell_id": "', '"cell_id": "0'))
    generator = random.Random(0)
    (file,) = (cache / "checked").glob("*.sqlite")
    sound = file.read_bytes()
    for _ in range(20):
        content = bytearray(sound)
        for _ in range(generator.randint(1, 2000)):
            content[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
        for old in (cache / "checked").glob("*.sqlite*"):
            old.unlink()
        file.write_bytes(content[: generator.randint(1, len(content))])
        left, damaged = store.load_all()
        assert len(left) == 2 and len(damaged) == 1


def test_a_cache_that_cannot_be_used_changes_nothing(tmp_path, cache):
    cache.parent.mkdir(exist_ok=True)
    cache.write_text("a file where the folder should be")
    store = written(tmp_path)
    assert len(store.load_all()[0]) == 3
    outcomes = [[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]]
    assert kept_intervals.seeds_documents_intervals([outcomes]) == [statistics.seeds_documents_interval(outcomes)]


def test_other_code_examines_again(tmp_path, monkeypatch):
    store = written(tmp_path)
    store.load_all()
    seen = []
    monkeypatch.setattr(checked_files, "_code", lambda: b"another version")
    monkeypatch.setattr(checked_files, "from_text", lambda text: seen.append(1) or from_text(text))
    assert len(store.load_all()[0]) == len(seen) == 3


def test_what_a_run_writes_is_noted_as_examined_and_a_changed_file_is_not(tmp_path, cache, monkeypatch):
    store = Store(tmp_path / "results", "quick")
    results_ = [make_result(seed=seed) for seed in (0, 1)]
    store.write(results_[0])
    assert store.write_first(results_[1])
    seen = []
    monkeypatch.setattr(checked_files, "from_text", lambda text: seen.append(text) or from_text(text))
    assert len(store.load_all()[0]) == 2 and not seen
    path = store.path(results_[0].cell)
    path.write_text(path.read_text() + " ")
    assert len(store.load_all()[0]) == 2 and len(seen) == 1


@pytest.mark.parametrize("write", [Store.write, Store.write_first])
def test_a_result_is_written_before_it_is_noted(tmp_path, monkeypatch, write):
    def stopped(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(checked_files.CheckedFiles, "keep", stopped)
    store, result = Store(tmp_path / "results", "quick"), make_result()
    with pytest.raises(KeyboardInterrupt):
        write(store, result)
    assert store.read(result.cell) == result


def test_a_sound_text_reads_as_the_same_result():
    for one in (make_result(), make_result("real_demonstrations", 0.8), make_result("zero_shot")):
        assert results.from_sound_text(to_text(one)) == from_text(to_text(one)) == one


def test_kept_intervals_are_those_of_the_same_outcomes_and_survive_damage(cache):
    row = np.random.default_rng(0).random((3, 20))
    below = np.full((3, 20), 0.5)
    wanted = [statistics.ratio_interval(row, below)]
    assert kept_intervals.ratio_intervals([(row, below)]) == wanted == kept_intervals.ratio_intervals([(row, below)])
    mixed = [(row, below + 0.1), (row, below), (below, below)]
    assert kept_intervals.ratio_intervals(mixed) == [statistics.ratio_interval(*one) for one in mixed]
    file = kept_intervals._file(cache_folder())

    def damage(connection):
        with connection:
            connection.execute("UPDATE intervals SET value = zeroblob(32)")

    file.run(damage)
    assert kept_intervals.ratio_intervals([(row, below)]) == wanted


def test_a_copy_of_a_cell_with_another_seed_has_another_id():
    cell = make_result().cell
    assert cell.id == cell.model_copy().id != cell.model_copy(update={"seed": cell.seed + 1}).id


def test_results_share_the_ids_of_their_test_records():
    one, other = (from_text(to_text(make_result(seed=seed))) for seed in (0, 1))
    (first, second), metric = (one.documents, other.documents), one.main_metric
    assert first[metric].ids is second[metric].ids
    assert first[metric].ids == make_result().documents[metric].ids
