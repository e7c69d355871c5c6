"""Result files and the results folder."""

import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from dpicl.attacks.results import attack_from_text
from dpicl.core.errors import PluginError
from dpicl.results.schema import either_from_text, from_text, lines, to_text
from dpicl.results.store import Store
from tests.leaderboards.factory import make_result


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "results", "quick")
    store.prepare()
    return store


def write_result(store: Store) -> Path:
    result = make_result()
    assert store.write(result)
    return store.path(result.cell)


def test_a_result_read_back_is_equal_also_with_infinity():
    for result in (
        make_result(),
        make_result("real_demonstrations", 0.8),
        make_result("zero_shot"),
    ):
        text = to_text(result)
        json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        assert from_text(text) == result


def test_a_result_that_contradicts_itself_is_refused():
    exposed, edited = (
        json.loads(to_text(one))
        for one in (make_result("real_demonstrations"), make_result(epsilon=8.0))
    )
    exposed["released"] = [{"text": "private", "label": "World", "tokens": 1}]
    edited["cell"]["epsilon"] = 1.0
    for data, words in ((exposed, "without privacy"), (edited, "cell_id")):
        with pytest.raises(ValueError, match=words):
            from_text(json.dumps(data))


def test_paths_follow_suite_model_row_task_and_id(store):
    result = make_result(model="hf:org/model", label="tang_small")
    assert store.write(result)
    path = store.path(result.cell)
    parts = path.relative_to(store.results).parts
    assert parts[0] == "quick"
    assert parts[1].startswith("hf_org_model-")
    assert parts[2:] == ("tang_small", "agnews", f"{result.cell_id}.json")
    assert store.read(result.cell) == result
    assert store.load_all() == ([result], [])


def test_a_result_under_a_wrong_name_is_foreign(store):
    path = write_result(store)
    path.rename(path.with_name("0123456789abcdef.json"))
    results, damaged = store.load_all()
    assert not results
    assert "does not fit its content" in damaged[0].reason


def test_half_files_of_a_killed_run_are_removed(store):
    dead, alive = make_result(seed=1), make_result(seed=2)
    for result in (dead, alive):
        path = store.path(result.cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_name(f".{path.name}.tmp").write_text("{")
    with store.lock(alive.cell_id) as mine:
        assert mine
        store.prepare()
    left = [path.name for path in store.folder.rglob("*.tmp")]
    assert left == [f".{alive.cell_id}.json.tmp"]


def _count(folder: Path, rounds: int) -> None:
    store = Store(folder, "quick")
    cell = make_result().cell
    counter = folder / "counter"
    for _ in range(rounds):
        with store.lock(cell.id, wait=True):
            counter.write_text(str(int(counter.read_text()) + 1))


def test_a_result_that_is_there_stays(store):
    path = write_result(store)
    before = path.read_bytes()
    assert not store.write(
        make_result().model_copy(update={"created": "2030-01-01T00:00:00+00:00"})
    )
    assert path.read_bytes() == before


def test_a_lock_excludes_other_processes(store):
    (store.results / "counter").write_text("0")
    context = multiprocessing.get_context("fork")
    others = [
        context.Process(
            target=_count,
            args=(store.results, 200),
        )
        for _ in range(4)
    ]
    for process in others:
        process.start()
    for process in others:
        process.join()
    assert (store.results / "counter").read_text() == "800"


SCORE = {"value": 0.5, "low": 0.4, "high": 0.6}
#: What no run writes, in the JSON of a result.
INCONSISTENT = {
    "outcomes shorter than ids": lambda d: d["documents"]["acc_calibrated"]["outcomes"].pop(),
    "a document twice": lambda d: d["documents"]["acc_calibrated"]["ids"].__setitem__(
        0, "test-0001"
    ),
    "main metric without documents": lambda d: d["documents"].clear(),
    "documents of another metric": lambda d: d["scores"].update(acc=SCORE),
    "NaN as a text": lambda d: d["scores"]["acc_calibrated"].update(value="NaN"),
    "infinity as a score": lambda d: d["scores"]["acc_calibrated"].update(high="Infinity"),
    "true for a number": lambda d: d["scores"]["acc_calibrated"].update(high=True),
    "an outcome above 1": lambda d: d["documents"]["acc_calibrated"]["outcomes"].__setitem__(
        0, 2.0
    ),
    "a score that no outcome explains": lambda d: d["scores"]["acc_calibrated"].update(value=0.7),
    "an interval beside its score": lambda d: d["scores"]["acc_calibrated"].update(high=0.5),
    "an aggregate above 1": lambda d: d["aggregates"].update(distance=1.5),
    "a row of the ledger without a note": lambda d: d["privacy"]["ledger"][0].pop("note"),
    "a row of the ledger with more keys": lambda d: d["privacy"]["ledger"][0].update(price=0),
    "a row of the ledger that is none": lambda d: d["privacy"].update(ledger=[None]),
    "an event of an unknown kind": lambda d: d["privacy"].update(event={"event": "magic"}),
    "an event with a rate above 1": lambda d: d["privacy"]["ledger"][0]["event"].update(rate=2.0),
    "a negative epsilon": lambda d: d["privacy"].update(epsilon_claimed=-1.0),
    "another target": lambda d: d["privacy"].update(epsilon_target=2.0),
    "another way of accounting": lambda d: [
        d[part].update(mode="paper") for part in ("cell", "privacy")
    ],
    "more texts than counted": lambda d: d.update(released_count=7),
    "two answers for a record": lambda d: d.update(
        released=[],
        released_count=2,
        answers=[
            {"id": "a", "text": "x"},
            {"id": "a", "text": "y"},
        ],
    ),
    "a time without a zone": lambda d: d.update(created="2026-01-02T03:04:05"),
    "half of a surrogate pair": lambda d: d["released"][0].update(text="\ud800"),
    "2^53": lambda d: d["manifest"]["data"].update(public_records=2**53),
    "an infinite cost": lambda d: d["cost"].update(peak_memory_mb="Infinity"),
}


RELEASED, CLAIMED = '"released": [', '"epsilon_claimed": null'
ACCOUNTANTS = '"accountants": {'
#: What no run writes, in its text, and the first word of the reason.
OTHER_FILES = {
    "cut": (lambda text: text[: len(text) // 2], "damaged"),
    "another document": (lambda text: '{"hello": 1}', "foreign"),
    "an older schema": (
        lambda text: text.replace('"schema_version": 1', '"schema_version": 0'),
        "older",
    ),
    "an odd schema": (
        lambda text: text.replace('"schema_version": 1', '"schema_version": "x"'),
        "foreign",
    ),
    "another key": (lambda text: text.replace('"scores"', '"marks"'), "damaged"),
    # readers differ in which of the two they take
    "a key twice": (lambda text: text.replace(RELEASED, f"{RELEASED}], {RELEASED}", 1), "damaged"),
    "a key twice, with a space": (
        lambda text: text.replace(RELEASED, f'"released" : [], {RELEASED}', 1),
        "damaged",
    ),
    "NaN": (lambda text: '{"schema_version": NaN}', "damaged"),
    "too large a number": (
        lambda text: text.replace(CLAIMED, CLAIMED[:-4] + "1e999"),
        "damaged",
    ),
    "infinity as a number": (
        lambda text: text.replace(CLAIMED, CLAIMED[:-4] + "Infinity"),
        "damaged",
    ),
    "nested deeply": (
        lambda text: text.replace(ACCOUNTANTS, f'{ACCOUNTANTS}"a": {"[" * 60}{"]" * 60},'),
        "damaged",
    ),
}


@pytest.mark.parametrize("name", [*INCONSISTENT, *OTHER_FILES])
def test_a_file_that_no_run_writes_is_kept_and_set_aside(store, name):
    result = make_result()
    store.write(result)
    path = store.path(result.cell)
    change, reason = OTHER_FILES.get(name, (None, "damaged"))
    data = json.loads(path.read_text())
    if change is None:
        INCONSISTENT[name](data)
    content = lines(data) if change is None else change(path.read_text())
    path.write_text(content)
    assert store.read(result.cell) is None
    results, damaged = store.load_all()
    assert results == [] and damaged[0].reason.startswith(reason)
    assert store.set_aside(damaged) == [path.parent / "quarantine" / path.name]
    assert (path.parent / "quarantine" / path.name).read_text() == content
    assert store.load_all() == ([], [])


def test_what_is_no_plain_file_is_damaged(store):
    folder = store.folder / "sim"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir()
    (folder / "latin.json").write_bytes("é".encode("latin-1"))
    reasons = {damaged.path.name: damaged.reason for damaged in store.load_all()[1]}
    assert reasons == {
        "pipe.json": "damaged: not a regular file",
        "folder.json": "damaged: not a regular file",
        "latin.json": "damaged: it is not UTF-8",
    }


def test_what_nobody_could_read_again_is_not_written(store):
    result = make_result()
    odd = result.model_copy(
        update={"released": [result.released[0].model_copy(update={"text": "\ud800"})]}
    )
    with pytest.raises(PluginError, match="cannot be stored"):
        store.write(odd)
    assert store.load_all() == ([], [])


COMMITTED = sorted((Path(__file__).parents[3] / "results").rglob("*.json"))
#: The last file of each folder: of each row and task.
LAST = list({path.parent: path for path in COMMITTED}.values())


@pytest.mark.parametrize(
    "files",
    [
        LAST,
        pytest.param(COMMITTED, marks=pytest.mark.slow),
    ],
    ids=["last", "all"],
)
def test_every_result_of_record_loads_and_keeps_its_keys(files):
    assert len(files) > 200
    for path in files:
        text = path.read_text()
        written = to_text((attack_from_text if "attacks" in path.parts else either_from_text)(text))
        assert json.loads(written) == fill(json.loads(text), json.loads(written))


def fill(before: Any, after: Any) -> Any:
    """``before`` with the keys that only ``after`` has: fields that are younger than the file."""
    if isinstance(before, dict) and isinstance(after, dict):
        return {
            **after,
            **{key: fill(value, after.get(key)) for key, value in before.items()},
        }
    return before


def test_the_knob_is_the_largest_of_its_labels():
    whole = json.loads(to_text(make_result()))
    by_label = {"a": 3.0, "b": 2.0}
    whole["privacy"]["knob"] = {"name": "sigma", "value": 3.0, "by_label": by_label}
    assert from_text(json.dumps(whole)).privacy.knob.value == 3.0
    whole["privacy"]["knob"]["by_label"]["b"] = 4.0
    with pytest.raises(ValueError, match="not the largest"):
        from_text(json.dumps(whole))
