"""The gate reads data files: nothing that is sent configures or starts a program."""

from __future__ import annotations

import dataclasses
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dpicl.core import git
from dpicl.leaderboards.gate.code import conformance_check
from dpicl.leaderboards.gate.contents import read_contents
from dpicl.leaderboards.gate.examination import load_submissions
from tests.leaderboards.gate.conftest import World


def run_git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", folder, *words], check=True)


def dot_git(folder: Path) -> None:
    run_git(folder, "init", "-q")


def add_bare_repository(folder: Path) -> None:
    """HEAD, objects and refs among the files."""
    run_git(folder, "init", "-q", "--bare")


def add_bare_repository_to_results(folder: Path) -> None:
    (folder / "results" / "x").mkdir()
    run_git(folder / "results" / "x", "init", "-q", "--bare")


@pytest.mark.parametrize(
    "make",
    [dot_git, add_bare_repository, add_bare_repository_to_results],
    ids=lambda make: make.__name__,
)
@pytest.mark.parametrize("flags", [(), ("--run-code", "--rerun", "1")], ids=["plain", "run-code"])
def test_a_repository_is_no_submission_and_nothing_starts(
    world: World, dpicl, started, make, flags
):
    make(world.folder)
    started.clear()
    answer = dpicl(f"submit {world.folder} --suite {world.suite} --results {world.results}", *flags)
    assert (
        answer.code == 1
        and "team_a/vote is refused: size" in answer.out
        and "Traceback" not in answer.err
    )
    assert [
        event for event, _ in started if event != "os.fork"
    ] == []  # --run-code forks before it looks


def test_data_files_are_read_without_any_program(world: World, dpicl, started):
    shutil.copytree(world.folder, world.root.parent / "before" / "team_a" / "vote")
    flags = f"--suite {world.suite} --results {world.results} --base {world.root.parent}/before"
    started.clear()
    assert dpicl(f"submit {world.root} --all {flags}").code == 0
    assert load_submissions(world.root)[1] != []  # the suite is unknown to the board
    place = f"'git', '--git-dir={git.CHECKOUT / '.git'}'"  # looks commits up in this repository
    assert [
        words for event, words in started if event == "subprocess.Popen" and place not in words
    ] == []
    assert {event for event, _ in started} <= {"subprocess.Popen", "os.posix_spawn"}


def test_a_link_to_a_folder_is_no_submission(world: World):
    world.folder.rename(world.root.parent / "elsewhere")
    world.folder.symlink_to(world.root.parent / "elsewhere", target_is_directory=True)
    status, why = world.status("size")
    assert status == "failed" and "is a link" in why


def a_socket(path: Path) -> None:
    folder = os.getcwd()
    os.chdir(path.parent)  # an address has 108 bytes at most
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path.name)
    os.chdir(folder)


#: Files that are none: reading one would wait, or read something else.
SPECIAL: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "socket": a_socket,
    "link to a folder": lambda path: path.symlink_to("/"),
    "link to a file": lambda path: path.symlink_to("/etc/passwd"),
    "link to nothing": lambda path: path.symlink_to("nothing"),
    "link to itself": lambda path: path.symlink_to(path.name),
}
CONFIGURING = """.gitattributes .gitmodules .gitconfig .Git GIT~1 sitecustomize.py conftest.py wandb
setup.cfg pyproject.toml __pycache__ results/.gitattributes results/tiny/.git .envrc
results/con.json results/a:b.json results/é.json"""


@pytest.mark.parametrize("name", ["submission.yaml", "README.md", "vote.py", "results", "a_result"])
@pytest.mark.parametrize("kind", SPECIAL)
def test_nothing_but_plain_files_is_opened(world: World, kind: str, name: str):
    path = world.files[0] if name == "a_result" else world.folder / name
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    SPECIAL[kind](path)
    contents = read_contents(world.folder)
    place = path.relative_to(world.folder).as_posix()
    assert any(place in problem for problem in contents.size) and place not in contents.content


@pytest.mark.parametrize("name", CONFIGURING.split())
def test_what_configures_a_program_is_refused(world: World, name: str):
    path = world.folder / name
    if "." in path.name[1:] or path.name.startswith("."):
        path.write_text("x")
    else:
        path.mkdir()
    status, why = world.status("size")
    assert status == "failed" and name in why


def test_a_folder_of_locks_hides_nothing(world: World):
    locks = world.folder / "results" / "tiny" / ".locks"
    (locks / "0123456789abcdef.lock").write_text("")  # the run was killed
    assert world.status("size")[0] == "ok"
    (locks / "more.lock").write_text("something")
    assert world.status("size")[0] == "failed"
    (locks / "more.lock").unlink()
    (locks / ".gitignore").unlink()
    (locks / ".gitignore").symlink_to("/etc/passwd")
    assert world.status("size")[0] == "failed"
    shutil.rmtree(locks)
    (world.folder / ".locks").mkdir()
    assert world.status("size")[0] == "failed"


def test_a_name_in_a_result_is_no_path_and_no_flag(world: World, started):
    """The mechanism's name is a stranger's word: nothing is loaded by it that the package does not know."""
    program = world.root.parent / "program.py"
    program.write_text(f"open({str(world.root.parent / 'ran')!r}, 'w').close()\n")
    case = world.case(run_code=True)
    contents = case.contents
    card = contents.card and contents.card.model_copy(update={"mechanism": ""})
    for word in (str(program), f"--plugin={program}", "../x.py"):
        results = {
            name: one.model_copy(
                update={"cell": one.cell.model_copy(update={"mechanism": word, "plugin": None})}
            )
            for name, one in contents.results.items()
        }
        false = dataclasses.replace(
            case, contents=dataclasses.replace(contents, card=card, results=results)
        )
        assert "There is no mechanism" in conformance_check(false).problems[0]
    assert started == [] and not (world.root.parent / "ran").exists()
