"""Whatever happens to the file of model outputs: no other answer, no end of a run, and nothing kept for longer."""

from __future__ import annotations

import errno
import gc
import multiprocessing
import os
import random
import resource
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from dpicl.core import cache_file
from dpicl.core.errors import ResultError
from dpicl.run.output_cache import OutputCache, clear, collections, key_of
from dpicl.run.store import Store
from tests.faults.deadly import MAY_DIFFER

#: What a model says: the only right answers. Two kinds, several pages of the file.
TRUTH = {key_of(i): [i / 7, -float(i), float("nan") if i % 11 == 0 else 0.5] for i in range(60)} | {
    key_of("text", i): f"answer {i} " * (1 + i % 40) for i in range(60)
}


def same(found: dict[bytes, object]) -> bool:
    """Whether every value found is the model's (NaN equals NaN)."""
    return all(repr(value) == repr(TRUTH[key]) for key, value in found.items())


def asked_as_a_run_asks(folder: Path) -> int:
    """Gets every output, asks the 'model' for those that are missing, keeps them; returns how many were there."""
    cache = OutputCache(folder)
    there = 0
    keys = list(TRUTH)
    for start in range(0, len(keys), 10):
        part = keys[start : start + 10]
        found = cache.get(part)
        assert set(found) <= set(part) and same(found)
        there += len(found)
        cache.put("sim", "agnews", "texts", {key: TRUTH[key] for key in part if key not in found})
    cache.close()
    return there


def whole_again(folder: Path) -> bool:
    """Whether everything is kept again once the cache was cleared."""
    clear(folder)
    asked_as_a_run_asks(folder)
    return asked_as_a_run_asks(folder) == len(TRUTH)


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> dict[str, bytes]:
    """The files of a cache that holds everything: closed, and as a killed process leaves them (with a log)."""
    folder = tmp_path_factory.mktemp("sound")
    asked_as_a_run_asks(folder)
    more = {key_of("more", i): "x" * 50 for i in range(5)}
    cache = OutputCache(folder)
    cache.put("sim", "samsum", "texts", more)
    held = {path.name: path.read_bytes() for path in folder.iterdir()}
    cache.close()
    assert len(held["outputs.sqlite-wal"]) > 4096
    return held


def flipped(content: bytes, chance: random.Random) -> bytes:
    bits = bytearray(content)
    for _ in range(chance.choice([1, 1, 1, 2, 16])):
        bits[chance.randrange(len(bits))] ^= 1 << chance.randrange(8)
    return bytes(bits)


def in_the_head(content: bytes, chance: random.Random) -> bytes:
    return flipped(content[:200], chance) + content[200:]


def cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def cut_at_a_page(content: bytes, chance: random.Random) -> bytes:
    return content[: 4096 * chance.randrange(len(content) // 4096)]


def overwritten(content: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(content))
    return content[:start] + chance.randbytes(chance.randrange(1, 5000)) + content[start:][5000:]


def pages_exchanged(content: bytes, chance: random.Random) -> bytes:
    one, other = chance.sample(range(len(content) // 4096), 2)
    pages = [content[start : start + 4096] for start in range(0, len(content), 4096)]
    pages[one], pages[other] = pages[other], pages[one]
    return b"".join(pages)


DAMAGES = (flipped, flipped, flipped, in_the_head, cut, cut_at_a_page, overwritten, pages_exchanged)


def damaged_at_random(folder: Path, sound: dict[str, bytes], seed: int) -> None:
    """Puts the sound files into a folder, one of them damaged."""
    chance = random.Random(seed)
    folder.mkdir()
    for name, content in sound.items():
        (folder / name).write_bytes(content)
    damage = chance.choice(DAMAGES)
    name = chance.choice(["outputs.sqlite", "outputs.sqlite", "outputs.sqlite-wal", "outputs.sqlite-shm"])
    (folder / name).write_bytes(damage(sound[name], chance))


@pytest.mark.parametrize("seeds", [range(100), pytest.param(range(100, 2100), marks=pytest.mark.slow)])
def test_random_damages_change_no_answer(tmp_path, sound, seeds):
    for seed in seeds:
        folder = tmp_path / str(seed)
        damaged_at_random(folder, sound, seed)
        asked_as_a_run_asks(folder)
        assert whole_again(folder), seed
        assert sum(held.outputs for held in collections(folder)) == len(TRUTH)


def test_a_single_altered_value_is_made_again_and_said_once(tmp_path, sound, caplog):
    for name, content in sound.items():
        (tmp_path / name).write_bytes(content)
    OutputCache(tmp_path).close()  # everything is in the main file now
    path = tmp_path / "outputs.sqlite"
    content = path.read_bytes()
    assert b"answer 7 answer 7" in content
    path.write_bytes(content.replace(b"answer 7 answer 7", b"answer 8 answer 7"))
    caplog.clear()
    assert asked_as_a_run_asks(tmp_path) == len(TRUTH) - 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert asked_as_a_run_asks(tmp_path) == len(TRUTH)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE outputs SET value = CAST(value AS BLOB) || 'x'",
        "UPDATE outputs SET value = 5",
        "UPDATE outputs SET value = x'ff00'",
        "UPDATE outputs SET checksum = 'text'",
        "UPDATE outputs SET checksum = 1",
        "UPDATE outputs SET model = x'80'",
        "UPDATE outputs SET model = 7, task = 8, kind = 9",
        "UPDATE outputs SET made = 'never'",
        "UPDATE outputs SET made = 1e300",
        "UPDATE outputs SET key = CAST(key AS TEXT)",
        "UPDATE outputs SET key = randomblob(32)",
        "ALTER TABLE outputs RENAME COLUMN value TO said",
        "ALTER TABLE outputs ADD COLUMN more",
        "DROP TABLE outputs",
        "CREATE TABLE other (x)",
        "CREATE TRIGGER t AFTER INSERT ON outputs BEGIN DELETE FROM outputs; END",
        "DROP TABLE outputs; CREATE TABLE outputs (key BLOB PRIMARY KEY, model TEXT NOT NULL, task TEXT NOT NULL,"
        " kind TEXT NOT NULL, value TEXT NOT NULL, made REAL NOT NULL) WITHOUT ROWID",
        "DROP TABLE outputs; CREATE VIEW outputs AS SELECT 1 AS key",
    ],
)
def test_cells_of_other_types_and_other_tables_are_damage(tmp_path, sound, statement):
    for name, content in sound.items():
        (tmp_path / name).write_bytes(content)
    connection = sqlite3.connect(tmp_path / "outputs.sqlite")
    connection.executescript(statement)
    connection.close()
    assert asked_as_a_run_asks(tmp_path) == 0
    assert whole_again(tmp_path)


def test_a_damaged_row_is_listed_as_such_and_goes_with_the_next_clearing(tmp_path):
    cache = OutputCache(tmp_path)
    cache.put("sim", "agnews", "labels", {key_of(1): [1.0], key_of(2): [2.0]})
    cache.put("sim", "samsum", "texts", {key_of(3): "a secret about Amanda"})
    cache.close()
    with sqlite3.connect(tmp_path / "outputs.sqlite") as file:
        file.execute("UPDATE outputs SET task = 'samson' WHERE kind = 'texts'")
    assert [(c.task, c.kind, c.outputs, c.newest is None) for c in collections(tmp_path)] == [
        ("?", "damaged", 1, True),
        ("agnews", "labels", 2, False),
    ]
    assert clear(tmp_path, tasks=["trec"]) == 1
    assert b"Amanda" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert [c.outputs for c in collections(tmp_path)] == [2]
    assert OutputCache(tmp_path).get([key_of(1)]) == {key_of(1): [1.0]}


def _on_a_full_disk(folder: Path, limit: int) -> None:
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    cache = OutputCache(folder)
    keys = list(TRUTH)
    for start in range(0, len(keys), 10):
        part = {key: TRUTH[key] for key in keys[start : start + 10]}
        there = cache.get(part)
        assert same(there)
        cache.put("sim", "agnews", "texts", {key: value for key, value in part.items() if key not in there})
        assert same(cache.get(part)) and len(cache.get(part)) == len(part)
    assert len(cache.get(keys)) == len(keys) and same(cache.get(keys))
    cache.close()


@pytest.mark.parametrize("limit", [0, 100, 5000, 20000, 50000])
def test_a_disk_that_takes_no_more_bytes_costs_only_the_keeping(tmp_path, limit):
    process = multiprocessing.get_context("fork").Process(target=_on_a_full_disk, args=(tmp_path, limit))
    process.start()
    process.join()
    assert process.exitcode == 0
    asked_as_a_run_asks(tmp_path)  # space again: everything is kept again
    assert asked_as_a_run_asks(tmp_path) == len(TRUTH)


def test_a_full_file_is_said_once_and_what_it_holds_is_still_read(tmp_path, caplog):
    cache = OutputCache(tmp_path)
    first = dict(list(TRUTH.items())[:20])
    cache.put("sim", "agnews", "texts", first)
    connection = cache._file._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages}")  # SQLite's own "database or disk is full"
    cache.put("sim", "agnews", "texts", TRUTH)
    cache.put("sim", "agnews", "texts", {key_of("z"): "z" * 9000})
    assert "is full" in caplog.text and len(caplog.records) == 1
    assert same(cache.get(TRUTH)) and len(cache.get(TRUTH)) == len(TRUTH)
    cache.close()
    assert set(OutputCache(tmp_path).get(TRUTH)) == set(first)


def failing_open(number: int) -> Callable[..., int]:
    def fail(path: object, *rest: object) -> int:
        raise OSError(number, os.strerror(number), str(path))

    return fail


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EDQUOT])
def test_a_folder_that_takes_no_file_costs_only_the_keeping(tmp_path, monkeypatch, caplog, number):
    monkeypatch.setattr(cache_file.os, "open", failing_open(number))
    assert asked_as_a_run_asks(tmp_path / "outputs") == 0
    assert "without keeping" in caplog.text and len(caplog.records) == 1


def test_a_path_that_is_no_folder_costs_only_the_keeping_and_listing_it_says_why(tmp_path, caplog):
    (tmp_path / "outputs").write_text("a file")
    assert asked_as_a_run_asks(tmp_path / "outputs") == 0
    assert "DPICL_CACHE" in caplog.text
    with pytest.raises(ResultError, match="DPICL_CACHE"):
        collections(tmp_path / "outputs")
    (tmp_path / "other" / "outputs.sqlite").mkdir(parents=True)
    assert asked_as_a_run_asks(tmp_path / "other") == 0


SUITE = """\
name: damage
version: 1
source: synthetic
model: sim
seeds: [0]
epsilons: [8]
delta: 1e-5
shots: 2
tasks: [agnews]
test_records: 6
train_records: 60
mechanisms:
  - {name: voting, options: {slots: 4, examples_per_slot: 2, sampling_seed: 0}}
"""


@pytest.fixture
def run(dpicl, tmp_path, own_cache, monkeypatch):
    """run('name') -> what a run says without its times, in a results folder of its own and one common cache."""
    suite = tmp_path / "damage.yaml"
    suite.write_text(SUITE)
    monkeypatch.setenv("DPICL_CACHE", str(tmp_path / "cache"))

    def start(name: str) -> dict[str, object]:
        answer = dpicl("run", suite, "--results", tmp_path / name, "--json")
        assert answer.code == 0, answer.err
        ((result,), damaged) = Store(tmp_path / name, "damage").load_all()
        assert damaged == []
        return result.model_dump(exclude=MAY_DIFFER)

    return start


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 153), marks=pytest.mark.slow)])
def test_runs_on_damaged_caches_give_the_results_of_a_sound_one(run, tmp_path, seeds):
    """Damages the cache between runs of one suite; a run that answers from what is there is checked for it, too."""
    outputs = tmp_path / "cache" / "outputs"
    first = run("first")
    gc.collect()  # closes its cache, which is one file then
    kept = {path.name: path.read_bytes() for path in outputs.iterdir()}
    assert len(kept["outputs.sqlite"]) > 2 * 4096
    for seed in seeds:
        chance = random.Random(seed)
        for path in outputs.iterdir():
            path.unlink()
        for name, content in kept.items():
            (outputs / name).write_bytes(content)
        content = kept["outputs.sqlite"]
        (outputs / "outputs.sqlite").write_bytes(chance.choice(DAMAGES)(content, chance))
        assert run(f"run {seed}") == first, seed
