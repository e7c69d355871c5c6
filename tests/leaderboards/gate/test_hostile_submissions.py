"""One submission, whatever is in it, stops neither the gate nor anybody's board, and nothing of it reaches a terminal
raw."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpicl.core.printable import make_visible
from dpicl.leaderboards.gate.case import Finding
from dpicl.leaderboards.gate.contents import LARGEST_FILE, MOST_FILES, read_contents
from tests.leaderboards.gate.conftest import World, move_cell

CONTROL = "\x1b[2J\x07"


def card(text: str) -> Callable[[Path], None]:
    """One more line in the card."""

    def write(folder: Path) -> None:
        path = folder / "submission.yaml"
        path.write_text(f"{path.read_text()}{text}\n")

    return write


def result(change: Callable[[dict], None]) -> Callable[[Path], None]:
    """The JSON of one result changed."""

    def write(folder: Path) -> None:
        path = sorted(folder.glob("results/*/*/*/*/*.json"))[0]
        data = json.loads(path.read_text())
        change(data)
        path.write_text(json.dumps(data))

    return write


def raw(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def first_result(content: bytes) -> Callable[[Path], object]:
    return lambda folder: sorted(folder.glob("results/*/*/*/*/*.json"))[0].write_bytes(content)


def add_many_files(folder: Path) -> None:
    place = folder / "results" / "tiny" / "sim" / "vote" / "agnews"
    for number in range(MOST_FILES + 1):
        (place / f"{number:016x}.json").write_text("{}")


def many_folders(folder: Path) -> None:
    for number in range(5 * MOST_FILES):
        (folder / "results" / f"{number}").mkdir()


def make_deep_folders(folder: Path) -> None:
    for _ in range(60):
        folder = folder / "results"
        folder.mkdir(exist_ok=True)


def add_moved_result(folder: Path) -> None:
    """A damaged result that lies where its content then says, under the id that it then has."""
    path = sorted(folder.glob("results/*/*/*/*/*.json"))[0]
    move_cell(path, label=f"a{CONTROL}/../b", epsilon=5e-324, options={CONTROL: ["<script>"]})


HOSTILE: dict[str, Callable[[Path], object]] = {
    "a surrogate in the card": card('contact: "a\\ud800b"'),
    "half a character in the card": raw("submission.yaml", b"team: \xed\xa0\x80\n"),
    "a character beyond 32 bits in the card": card('contact: "\\UFFFFFFFF"'),
    "a control character in the card": card('contact: "a\\x1b[2Jb"'),
    "an enormous number in the card": card("contact: 0x" + "f" * 9000),
    "a deep card": card("reported: " + "[" * 5000),
    "an alias bomb in the card": card("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]"),
    "an enormous card": raw("submission.yaml", b"x" * (LARGEST_FILE + 1)),
    "a README of other bytes": raw("README.md", bytes(range(256))),
    "a surrogate in a result": result(lambda data: data["manifest"].update(python="\ud800")),
    "a control character as a key of a result": result(lambda data: data.update({CONTROL: 1})),
    "control characters in a name of a task": result(
        lambda data: data["cell"].update(task=f"../{CONTROL}\0")
    ),
    "a deep result": first_result(b"[" * 100_000),
    "deep options": first_result(b'{"schema_version": 1, "cell": ' + b'{"a":' * 30_000),
    "a version of any length": first_result(b'{"schema_version": 1' + b"0" * 60_000 + b"}"),
    "a damaged result where it says that it belongs": add_moved_result,
    "10 MB": raw("README.md", b"x" * 10_000_000),
    "more files than may be": add_many_files,
    "more folders than may be": many_folders,
    "folders in folders": make_deep_folders,
    "a name of other bytes": lambda folder: (folder / "\udcff.py").write_text("x"),
    "a name with control characters": lambda folder: (folder / f"{CONTROL}.py").write_text("x"),
    "a device's name": lambda folder: (folder / "nul.py").write_text("x"),
    "names that differ in case": lambda folder: (folder / "Vote.py").write_text("x"),
}


@pytest.fixture
def both(world: World) -> World:
    """The submission, and beside it a sound one of another team."""
    copy_submission(world, world.root / "team_b" / "vote")
    return world


def copy_submission(world: World, folder: Path) -> Path:
    """The submission under another team's and method's name."""
    shutil.copytree(world.folder, folder)
    card = (world.folder / "submission.yaml").read_text()
    card = card.replace("team: team_a", f"team: {folder.parent.name}").replace(
        "method: vote", f"method: {folder.name}"
    )
    (folder / "submission.yaml").write_bytes(card.encode("utf-8", "surrogateescape"))
    return folder


def is_clean(text: str) -> bool:
    """Whether nothing in a text moves a cursor, and every system can write it."""
    return all(make_visible(line, len(line)) == line for line in text.split("\n"))


def refusals(world: World, dpicl: Any) -> dict[str, set[str]]:
    """What `dpicl submit --all` finds wrong with each submission, but that they are copies of each other."""
    words = f"submit {world.root} --all --suite {world.suite} --results {world.results}"
    text, answer = dpicl(words), dpicl(words, "--json")
    assert text.code == answer.code == 1 and "as a fault" not in answer.out
    assert (
        is_clean(text.out)
        and is_clean(text.err)
        and is_clean(json.dumps(answer.json, ensure_ascii=False))
    )
    checks = {one["submission"]: one["checks"] for one in answer.json["submissions"]}
    failed = {
        name: {one["check"] for one in findings if one["status"] == "failed"}
        for name, findings in checks.items()
    }
    assert len(checks["team_b/vote"]) > 5
    return {name: findings - {"duplicates"} for name, findings in failed.items()}


def test_each_is_refused_and_the_others_are_examined(both: World, dpicl):
    names = {f"hostile/m{number}": name for number, name in enumerate(HOSTILE)}
    for folder, name in names.items():
        HOSTILE[name](copy_submission(both, both.root / folder))
    failed_checks = refusals(both, dpicl)
    assert failed_checks["team_b/vote"] == set()
    board = dpicl(f"board {both.suite} --results {both.results} --submissions {both.root}")
    assert board.code == 0 and "team_b/vote" in board.out and is_clean(board.err)
    for folder, name in names.items():
        if name != "a README of other bytes":
            assert failed_checks[folder], name
            assert f"{folder} is left out: " in board.err and f"{folder} " not in board.out, name


def test_a_folder_may_be_called_anything_and_is_refused_by_name(both: World, dpicl):
    names = [f"te{CONTROL}am", "\udcff", "con", "a b", "A", "<script>", "te\u202eam"]
    for name in names:
        copy_submission(both, both.root / name / "vote")
    failed_checks = refusals(both, dpicl)
    assert len(failed_checks) == 2 + len(names)
    assert all(
        "card" in checks for name, checks in failed_checks.items() if not name.startswith("team_")
    )
    board = dpicl(f"board {both.suite} --results {both.results} --submissions {both.root}")
    assert (
        board.code == 0
        and board.err.count("/vote is left out") == len(names)
        and is_clean(board.err)
    )


def test_a_fault_of_the_gate_itself_refuses_one_submission(
    both: World, dpicl, monkeypatch: pytest.MonkeyPatch
):
    from dpicl.leaderboards.gate import contents, examination

    run_checks = examination.run_checks

    def fail_deeply(case):
        if case.contents.name == "team_a/vote":
            raise RecursionError
        return run_checks(case)

    monkeypatch.setattr(examination, "run_checks", fail_deeply)
    answer = dpicl(
        f"submit {both.root} --all --suite {both.suite} --results {both.results}", "--json"
    )
    first, second = answer.json["submissions"]
    assert [one["check"] for one in first["checks"]] == ["gate"] and "as a fault" in first[
        "checks"
    ][0]["why"]
    assert len(second["checks"]) > 5 and answer.code == 1

    def fail_on_memory(folder):
        raise MemoryError

    monkeypatch.setattr(contents, "survey", fail_on_memory)
    assert "(MemoryError at" in read_contents(both.folder).size[0]


def test_a_finding_says_nothing_raw():
    finding = Finding("size", "failed", f"{CONTROL}\ud800 is\nodd", ("\u202e",))
    assert (
        is_clean(finding.why)
        and finding.others == ("⟨U+202E⟩",)
        and "⟨U+D800⟩ is odd" in finding.why
    )


@pytest.mark.parametrize(
    "stem", ["typing", "__future__", "torch", "dpicl", "sitecustomize", "conftest", "beside"]
)
def test_a_mechanism_with_the_name_of_another_module_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, stem: str
):
    """`python -m` in its folder would run it in that module's place. The folder's own files are none."""
    elsewhere = world.root.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "beside.py").write_text("raise SystemExit\n")
    monkeypatch.chdir(world.folder)
    monkeypatch.setattr(sys, "path", ["", str(world.folder), str(elsewhere), *sys.path])
    assert world.status("size")[0] == "ok"
    (world.folder / "vote.py").rename(world.folder / f"{stem}.py")
    world.card("mechanism: vote.py", f"mechanism: {stem}.py")
    status, why = world.status("size")
    assert status == "failed" and why.startswith(f"{stem}.py is called like a module")


def test_python_dash_m_runs_nothing_of_the_working_folder(tmp_path: Path):
    """As far as it can be helped: Python itself imports contextlib and a few more before any line of ours."""
    for name in ("__future__", "typing", "pathlib", "logging", "yaml", "numpy"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w').close()\n")
    done = subprocess.run(
        [sys.executable, "-m", "dpicl", "--version"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (
        done.returncode == 0
        and done.stdout.startswith("dpicl ")
        and not (tmp_path / "ran").exists()
    )


def test_a_rerun_that_may_not_be_made_stops_only_its_own(both: World, dpicl):
    words = f"--suite {both.suite} --results {both.results} --rerun 1"
    alone = dpicl(f"submit {both.folder} {words}")
    assert alone.code == 2 and "cannot be run again" in alone.err
    answer = dpicl(f"submit {both.root} --all {words} --json")
    for submission in answer.json["submissions"]:
        assert [one["status"] for one in submission["checks"] if one["check"] == "rerun"] == [
            "not checked"
        ]
