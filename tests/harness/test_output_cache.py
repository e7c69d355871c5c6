"""The cache of model outputs: private, shared between processes, and gone when it is cleared."""

import multiprocessing
import resource
import signal
import sqlite3
import stat

import pytest

from dpicl.core.errors import ResultError
from dpicl.releasing.output_cache import OutputCache, clear, collections, key_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DPICL_CACHE", str(tmp_path))
    return tmp_path / "outputs"


def filled(folder):
    cache = OutputCache(folder)
    cache.put("sim", "agnews", "labels", {key_of("a"): [0.1, float("nan")], key_of("b"): [1.0]})
    cache.put("sim", "samsum", "texts", {key_of("c"): "a secret sentence about Amanda"})
    return cache


def test_folder_and_files_belong_to_their_owner_alone(folder):
    folder.mkdir(mode=0o755)  # made by somebody less careful
    filled(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = list(folder.iterdir())
    assert files
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_two_caches_on_one_folder_see_each_other_and_the_first_value_stays(folder):
    one, other = filled(folder), OutputCache(folder)
    other.put("sim", "samsum", "texts", {key_of("c"): "something else"})
    assert other.get([key_of("c"), key_of("nothing")]) == {key_of("c"): "a secret sentence about Amanda"}
    assert one.get([key_of("b")]) == {key_of("b"): [1.0]}


def test_without_a_folder_nothing_is_written(folder):
    cache = OutputCache(None)
    cache.put("sim", "agnews", "labels", {key_of("a"): [1.0]})
    assert cache.get([key_of("a")]) == {key_of("a"): [1.0]}
    assert not folder.exists()


def test_collections_counts_by_model_task_and_kind(folder):
    assert collections() == []
    filled(folder)
    assert [(c.model, c.task, c.kind, c.outputs) for c in collections()] == [
        ("sim", "agnews", "labels", 2),
        ("sim", "samsum", "texts", 1),
    ]


def test_cleared_text_is_gone_from_the_disk(folder):
    filled(folder).close()
    content = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"Amanda" in content
    assert clear(tasks=["samsum"]) == 1
    assert b"Amanda" not in b"".join(path.read_bytes() for path in folder.iterdir())
    assert [c.task for c in collections()] == ["agnews"]
    assert clear(models=["other"]) == 0
    assert clear() == 2
    assert collections() == []


def test_the_prompt_itself_is_not_stored(folder):
    cache = OutputCache(folder)
    cache.put("sim", "agnews", "labels", {key_of("a private prompt"): [1.0]})
    cache.close()
    assert b"a private prompt" not in b"".join(path.read_bytes() for path in folder.iterdir())


def test_a_run_goes_on_beside_a_damaged_file_and_says_how_to_remove_it(folder, caplog):
    folder.mkdir()
    (folder / "outputs.sqlite").write_bytes(b"this is no database, whatever its name says" * 100)
    cache = OutputCache(folder)
    assert "dpicl cache --clear" in caplog.text
    cache.put("sim", "agnews", "labels", {key_of("a"): [1.0]})
    assert cache.get([key_of("a")]) == {key_of("a"): [1.0]}
    clear(folder)
    filled(folder).close()
    assert sum(one.outputs for one in collections(folder)) == 3


VALUES = {key_of("text", i): f"answer {i} " * (1 + i % 40) for i in range(120)}


def asked_again(folder):
    """Asks for every value as a run does, keeps what was missing; returns how many were there."""
    cache = OutputCache(folder)
    found = cache.get(VALUES)
    assert found.items() <= VALUES.items()
    cache.put("sim", "agnews", "texts", {key: value for key, value in VALUES.items() if key not in found})
    assert cache.get(VALUES) == VALUES
    cache.close()
    return len(found)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE outputs SET value = CAST(value AS BLOB) || 'x'",
        "UPDATE outputs SET value = 5",
        "UPDATE outputs SET checksum = 1",
        "UPDATE outputs SET model = 7, task = 8, kind = 9",
        "UPDATE outputs SET key = randomblob(32)",
        "ALTER TABLE outputs ADD COLUMN more",
        "DROP TABLE outputs; CREATE VIEW outputs AS SELECT 1 AS key",
        "CREATE TRIGGER t AFTER INSERT ON outputs BEGIN DELETE FROM outputs; END",
    ],
)
def test_cells_of_other_types_and_other_tables_are_damage(folder, statement):
    assert asked_again(folder) == 0
    connection = sqlite3.connect(folder / "outputs.sqlite")
    connection.executescript(statement)
    connection.close()
    assert asked_again(folder) == 0
    clear(folder)
    assert (asked_again(folder), asked_again(folder)) == (0, len(VALUES))


def _on_a_full_disk(folder, limit):
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    asked_again(folder)


@pytest.mark.parametrize("limit", [0, 5000, 20000, 50000])
def test_a_disk_that_takes_no_more_bytes_costs_only_the_keeping(folder, limit):
    process = multiprocessing.get_context("fork").Process(target=_on_a_full_disk, args=(folder, limit))
    process.start()
    process.join()
    assert process.exitcode == 0
    asked_again(folder)  # space again: everything is kept again
    assert asked_again(folder) == len(VALUES)


def test_a_path_that_is_no_folder_costs_only_the_keeping_and_listing_it_says_why(tmp_path, caplog):
    (tmp_path / "outputs").write_text("a file")
    assert asked_again(tmp_path / "outputs") == 0
    assert "DPICL_CACHE" in caplog.text
    with pytest.raises(ResultError, match="DPICL_CACHE"):
        collections(tmp_path / "outputs")
