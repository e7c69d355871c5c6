"""Results folders that come from elsewhere: no row vanishes in silence, nothing is written outside, and what a newer
version wrote is left alone."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from dpicl.attacks.results import Attempt
from dpicl.attacks.store import find_stored, write
from dpicl.core.errors import DataError, ResultError, UsageError
from dpicl.own import budget
from dpicl.own.private_ledger import read_all
from dpicl.own.state import read_state
from dpicl.results.schema import from_text
from dpicl.results.store import Store
from tests.harness.helpers import refuse
from tests.harness.own.test_budget import ONE, records
from tests.leaderboards.attack_factory import make_attack
from tests.leaderboards.factory import ends, make_result, shipped_options, write_shipped


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Results of the suite quick: the reference baselines and tang."""
    folder = tmp_path / "results"
    write_shipped(
        folder,
        [
            *ends(),
            make_result("tang", 0.6, options=shipped_options("tang")),
        ],
    )
    return folder


def list_tree(folder: Path) -> dict[str, Any]:
    """Everything below a folder: content of files, address of links."""
    return {
        str(path): os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes()
        for path in folder.rglob("*")
    }


def verbs_on(results: Path) -> dict[str, list[object]]:
    """A command of every verb that reads results."""
    there = ["--results", results]
    return {
        "board": ["board", "quick", *there],
        "board all": ["board", "all", *there],
        "plan": ["plan", "quick", "--source", "synthetic", *there],
        "run": ["run", "quick", "--source", "synthetic", *there],
        "compare rows": ["compare", "tang", "zero_shot", "--suite", "quick", *there],
        "compare": ["compare", results, results],
        "publish": ["publish", "wandb", results, "--dry-run"],
        "plot": ["plot", "quick", "--out", results.parent / "figure.svg", *there],
    }


VERBS = sorted(verbs_on(Path()))


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_moves_the_result_of_a_newer_version(dpicl, results, verb):
    (path,) = results.glob("quick/*/tang/*/*.json")
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 99'))
    before = list_tree(results)
    refuse(dpicl(*verbs_on(results)[verb]), "newer version of dpicl", "99", "upgrade dpicl")
    assert list_tree(results) == before


def test_a_budget_of_a_newer_version_is_not_called_damaged(fresh_cache):
    budget.charge(records(0, 3), ONE, budget.ChargeTo("tickets"))
    (path,) = (fresh_cache / "private").glob("budget-*.jsonl")
    path.write_text(
        path.read_text().replace('"schema_version": 1', '"schema_version": 2', 1) + '{"new": 1}\n'
    )
    with pytest.raises(ResultError, match="newer version of dpicl") as refused:
        budget.charge(records(0, 3), ONE, budget.ChargeTo("tickets"))
    assert "move it away" not in str(refused.value)


@pytest.mark.parametrize("version", [2.5, 10**300])
def test_any_larger_number_is_a_newer_version(version):
    with pytest.raises(ValueError, match=r"newer|2\^53"):
        from_text(json.dumps({"schema_version": version}))


NEWER = ['"99"', '"2.0"', '"v2"', "2", "2.0"]


@pytest.mark.parametrize("version", NEWER)
def test_a_newer_version_stops_however_it_is_written(version):
    with pytest.raises(ValueError, match="newer version"):
        from_text(f'{{"schema_version": {version}}}')


@pytest.mark.parametrize(
    "rest", ['"n": NaN', '"n": 9007199254740993', '"n": ' + "[" * 90 + "]" * 90]
)
def test_a_newer_file_that_this_version_cannot_parse_stops(rest):
    with pytest.raises(ValueError, match="newer version"):
        from_text(f'{{"schema_version": 7, {rest}}}')


@pytest.mark.parametrize("version", ["true", "1.0", "null", "[1]", '"1"'])
def test_a_version_is_a_whole_number(results, version):
    (path,) = results.glob("quick/*/tang/*/*.json")
    path.write_text(path.read_text().replace('"schema_version": 1', f'"schema_version": {version}'))
    _, damaged = Store(results, "quick").load_all()
    assert [each.path for each in damaged] == [path]


@pytest.mark.parametrize("name", ["a.JSON", "a.json ", "a.json.gz"])
def test_a_result_of_another_name_is_named(results, name):
    (path,) = results.glob("quick/*/tang/*/*.json")
    path = path.rename(path.with_name(name))
    damaged = Store(results, "quick").load_all()[1]
    assert [(each.path, each.unread) for each in damaged] == [(path, True)]


@pytest.mark.parametrize("label", ["quarantine", "set_aside", "row.json"])
def test_no_name_of_a_row_hides_it(tmp_path, label):
    store = Store(tmp_path, "quick")
    store.prepare()
    result = make_result(label=label)
    assert store.write(result) and store.load_all() == ([result], [])


def link_folder(folder: Path, elsewhere: Path) -> str:
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    return "symbolic link"


def link_in_a_circle(folder: Path, elsewhere: Path) -> str:
    (folder / "again").symlink_to("again")
    return "symbolic link"


def deny_reading(folder: Path, elsewhere: Path) -> str:
    """What a folder without rights is to everybody but root."""
    scandir = os.scandir

    def scan(place: Any = ".") -> Any:
        if str(place) == str(folder):
            raise PermissionError(13, "Permission denied", str(folder))
        return scandir(place)

    os.scandir = scan  # type: ignore[assignment]
    return "Permission denied"


@pytest.fixture(autouse=True)
def _scandir_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "scandir", os.scandir)


@pytest.mark.parametrize(
    ("hide", "level", "verb"),
    [
        (link_folder, "quick", "publish"),
        (link_folder, "quick/*/tang/*", "plan"),
        (link_in_a_circle, "quick", "publish"),
        (link_in_a_circle, "quick/*/tang", "board"),
        (deny_reading, "quick", "board"),
        (deny_reading, "quick/*/tang", "plan"),
        (deny_reading, "quick/*/tang/*", "publish"),
    ],
)
def test_a_row_that_cannot_be_read_is_named_by_every_reader(
    dpicl, results, tmp_path, hide, level, verb
):
    (folder,) = results.glob(level)
    reason = hide(folder, tmp_path / "elsewhere")
    answer = dpicl(*verbs_on(results)[verb])
    assert "could not be read, so results may be missing" in answer.err and reason in answer.err
    assert str(folder) in answer.err
    nothing_left = level == "quick" and hide is not link_in_a_circle
    assert answer.code == (2 if nothing_left and verb != "plan" else 0)


def test_a_board_that_lacks_a_row_says_so_without_a_path(dpicl, results, tmp_path):
    (folder,) = results.glob("quick/*/tang")
    link_folder(folder, tmp_path / "elsewhere")
    board = dpicl(*verbs_on(results)["board"], "--json").json
    assert any("could not be read" in note for note in board["notes"])
    assert not any(str(tmp_path) in note for note in board["notes"])
    site = tmp_path / "site"
    dpicl(f"board all --results {results} --html {site}").succeed()
    assert "1 of the files and folders could not be read" in (
        site / "quick" / "index.html"
    ).read_text("utf-8")


@pytest.mark.parametrize(
    ("hide", "verb"),
    [(link_folder, "run"), (link_in_a_circle, "run"), (deny_reading, "compare")],
)
def test_runs_and_comparisons_stop_at_a_row_that_cannot_be_read(
    dpicl, results, tmp_path, hide, verb
):
    (folder,) = results.glob("quick/*/tang")
    reason = hide(folder, tmp_path / "elsewhere")
    before = list_tree(tmp_path / "elsewhere")
    refuse(dpicl(*verbs_on(results)[verb]), str(folder), reason)
    assert list_tree(tmp_path / "elsewhere") == before and not list(results.rglob("quarantine"))


def test_a_results_folder_may_be_a_link_itself(dpicl, results, tmp_path):
    (tmp_path / "link").symlink_to(results)
    for verb in ("board", "compare"):
        answer = dpicl(*verbs_on(tmp_path / "link")[verb])
        assert answer.code == 0 and "link" not in answer.err.replace(str(tmp_path), "")


def test_a_file_in_a_circle_is_one_bad_file(results):
    (path,) = results.glob("quick/*/tang/*/*.json")
    loop = path.with_name("0123456789abcdef.json")
    loop.symlink_to(loop.name)
    store = Store(results, "quick")
    sound, damaged = store.load_all()
    assert len(sound) == 3 and [one.path for one in damaged] == [loop]
    store.set_aside(damaged)
    assert os.readlink(loop.parent / "quarantine" / loop.name) == loop.name
    assert store.load_all()[1] == []


def test_a_file_that_cannot_be_read_is_named_and_never_moved(dpicl, results, monkeypatch):
    (path,) = results.glob("quick/*/tang/*/*.json")
    open_file = os.open

    def deny(place: Any, *more: Any, **how: Any) -> int:
        if str(place) == str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return open_file(place, *more, **how)

    monkeypatch.setattr(os, "open", deny)
    board = dpicl(*verbs_on(results)["board"])
    assert board.code == 0 and str(path) in board.err and "Permission denied" in board.err
    refuse(dpicl(*verbs_on(results)["run"]), str(path), "Permission denied")
    assert path.is_file()


def plant_quarantine(suite: Path, victim: Path) -> None:
    (row,) = suite.glob("*/tang/*")
    (row / "bad.json").write_text("{")
    (row / "quarantine").symlink_to(victim)


def plant_locks(suite: Path, victim: Path) -> None:
    (suite / ".locks").symlink_to(victim)


def plant_ignore(suite: Path, victim: Path) -> None:
    (suite / ".locks").mkdir()
    (suite / ".locks" / ".gitignore").symlink_to(victim / "file")


def plant_lock(suite: Path, victim: Path) -> None:
    (suite / ".locks").mkdir()
    (suite / ".locks" / "0123456789abcdef.lock").symlink_to(victim / "file")


def plant_pipe(suite: Path, victim: Path) -> None:
    (suite / ".locks").mkdir()
    os.mkfifo(suite / ".locks" / "0123456789abcdef.lock")


def plant_row(suite: Path, victim: Path) -> None:
    (suite / "sim" / "tang").mkdir(parents=True)
    (suite / "sim" / "tang" / "agnews").symlink_to(victim)


PLANTED = [plant_quarantine, plant_locks, plant_ignore, plant_lock, plant_pipe, plant_row]


@pytest.mark.parametrize("plant", PLANTED)
def test_a_run_writes_nothing_outside_its_results(dpicl, results, tmp_path, plant):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("kept")
    plant(results / "quick", victim)
    refuse(
        dpicl(*verbs_on(results)["run"]),
        "not a regular file" if plant is plant_pipe else "symbolic link",
    )
    assert list_tree(victim) == {str(victim / "file"): b"kept"}


def test_a_result_is_not_written_through_a_later_link(tmp_path):
    store, result = Store(tmp_path / "results", "quick"), make_result()
    store.prepare()
    (tmp_path / "victim").mkdir()
    (store.folder / "embedded").symlink_to(tmp_path / "victim")
    with pytest.raises(ResultError, match="symbolic link"):
        store.write(result)
    (tmp_path / "results" / "attacks").symlink_to(tmp_path / "victim")
    with pytest.raises(ResultError, match="symbolic link"):
        write(tmp_path / "results", make_attack())
    assert list_tree(tmp_path / "victim") == {}


def test_an_attack_is_neither_read_nor_written_through_a_link(results, tmp_path):
    attack = make_attack()
    write(tmp_path / "elsewhere", attack)
    (results / "attacks").symlink_to(tmp_path / "elsewhere" / "attacks")
    attempt = Attempt(attack.attack, attack.access, attack.settings, attack.subject)
    with pytest.raises(ResultError, match="symbolic link"):
        find_stored(results, attempt, pytest.fail)


def test_a_card_is_not_begun_through_a_link(dpicl, tmp_path):
    (tmp_path / "victim").mkdir()
    (tmp_path / "submissions").mkdir()
    (tmp_path / "submissions" / "team").symlink_to(tmp_path / "victim")
    refuse(dpicl(f"submit {tmp_path}/submissions --new team/method"), "symbolic link")
    assert list_tree(tmp_path / "victim") == {}


def test_submissions_that_cannot_be_listed_are_named(dpicl, results, tmp_path, monkeypatch):
    (tmp_path / "submissions" / "team" / "method").mkdir(parents=True)
    listdir = os.listdir

    def deny(place: Any = ".") -> list[str]:
        if str(place).endswith("/team"):
            raise PermissionError(13, "Permission denied", str(place))
        return listdir(place)

    monkeypatch.setattr(os, "listdir", deny)
    answer = dpicl(f"board quick --results {results} --submissions {tmp_path}/submissions")
    assert answer.code == 0 and "team cannot be read, so submissions are missing" in answer.err


def test_a_planted_unfinished_file_stays_and_stops_nothing(tmp_path):
    store, result = Store(tmp_path, "quick"), make_result()
    folder = store.path(result.cell).parent
    folder.mkdir(parents=True)
    (folder / f".{result.cell_id}.json.tmp").mkdir()
    os.mkfifo(folder / f".{result.cell_id}.json.0123456789abcdef.tmp")
    (folder / ".notes.json.tmp").write_text("somebody's")
    store.prepare()
    assert store.write(result) and (folder / ".notes.json.tmp").exists()


def test_a_site_writes_nothing_outside_its_folder(dpicl, results, tmp_path):
    site, victim = tmp_path / "site", tmp_path / "victim"
    command = f"board quick --no-submissions --results {results} --html {site}"
    dpicl(command).succeed()
    victim.mkdir()
    (site / "quick").rename(tmp_path / "before")
    (site / "quick").symlink_to(victim)
    home = (site / "index.html").read_bytes()
    refuse(dpicl(command), "symbolic link", "choose another folder")
    assert list_tree(victim) == {} and (site / "index.html").read_bytes() == home


def test_a_private_folder_that_cannot_be_listed_is_not_empty(fresh_cache, monkeypatch):
    budget.charge(records(0, 3), ONE, budget.ChargeTo("tickets"))

    def deny(place: Any = ".") -> list[str]:
        raise PermissionError(13, "Permission denied", str(place))

    monkeypatch.setattr(os, "listdir", deny)
    monkeypatch.setattr(os, "scandir", deny)
    with pytest.raises((ResultError, UsageError), match="Permission denied"):
        read_all()


def test_an_attack_of_a_newer_version_stops_what_reads_attacks(dpicl, tmp_path):
    path = write(tmp_path, make_attack())
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 2'))
    before = list_tree(tmp_path)
    refuse(dpicl(f"board attacks --results {tmp_path}"), "newer version of dpicl", "upgrade dpicl")
    assert list_tree(tmp_path) == before


def test_a_state_of_a_newer_version_is_not_called_something_else(tmp_path):
    (tmp_path / "state.json").write_text('{"schema_version": 2}')
    with pytest.raises(DataError, match="newer version of dpicl"):
        read_state(tmp_path / "state.json")
