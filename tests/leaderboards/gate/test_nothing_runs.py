"""Nothing that is sent configures or starts a program: folders that could are refused before any program starts."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from dpicl.leaderboards.gate.examination import load_submissions, read_contents
from dpicl.leaderboards.gate.folder import repository_mark
from tests.attacks_on_git import MISSING, arm, new_repository, plain_git
from tests.leaderboards.gate.conftest import World


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that only a program of an attack writes."""
    return tmp_path / "marker"


def embed(folder: Path, marker: Path, kind: str = "a fetch by a program") -> None:
    """Makes a folder an embedded bare repository with settings that run a program: plain files that a pull request
    can bring."""
    spare = folder.with_name(f"{folder.name}-spare")
    shutil.copytree(new_repository(spare), folder, dirs_exist_ok=True)
    arm(spare / ".git", kind, marker)
    settings = (spare / ".git" / "config").read_text()
    (folder / "config").write_text(f"{settings}[core]\n bare = false\n worktree = .\n")
    (folder / "HEAD").write_text(f"{MISSING}\n")
    shutil.rmtree(spare)
    shutil.rmtree(folder / "hooks", ignore_errors=True)
    marker.unlink(missing_ok=True)


def dot_git(world: World, marker: Path) -> Path:
    arm(new_repository(world.folder), "a fetch by a program", marker)
    (world.folder / ".git" / "HEAD").write_text(f"{MISSING}\n")
    (world.folder / "file.txt").unlink()
    return world.folder


def hidden(world: World, marker: Path, place: str = "results/x") -> Path:
    """An embedded repository in a folder that looks like results."""
    (world.folder / place).mkdir()
    embed(world.folder / place, marker)
    return world.folder / place


def dot_git_file(world: World, marker: Path) -> Path:
    """`.git` as a file that names a repository elsewhere in the submission."""
    hidden(world, marker)
    (world.folder / ".git").write_text("gitdir: results/x\n")
    return world.folder


def dot_git_link(world: World, marker: Path) -> Path:
    hidden(world, marker)
    (world.folder / ".git").symlink_to("results/x")
    return world.folder


def bare(world: World, marker: Path) -> Path:
    embed(world.folder, marker)
    return world.folder


def bare_by_links(world: World, marker: Path) -> Path:
    """Objects, refs and settings are links into a folder that looks like results."""
    place = hidden(world, marker, "results/tiny/x")
    (place / "HEAD").rename(world.folder / "HEAD")  # git takes no link for this one
    for name in ("objects", "refs", "config"):
        (world.folder / name).symlink_to(place / name)
    return world.folder


def bare_with_the_rest_elsewhere(world: World, marker: Path) -> Path:
    """HEAD and `commondir`, which says where objects and refs are."""
    shutil.copyfile(hidden(world, marker) / "HEAD", world.folder / "HEAD")
    (world.folder / "commondir").write_text("results/x\n")
    return world.folder


def bare_among_the_results(world: World, marker: Path) -> Path:
    embed(world.files[0].parent, marker)
    return world.files[0].parent


def bare_team(world: World, marker: Path) -> Path:
    """The folder of the team is the repository."""
    embed(world.folder.parent, marker)
    return world.folder


def link_to_the_folder(world: World, marker: Path) -> Path:
    embed(world.folder, marker)
    target = world.root.parent / "elsewhere"
    world.folder.rename(target)
    world.folder.symlink_to(target, target_is_directory=True)
    return world.folder


FOLDERS = (dot_git, dot_git_file, dot_git_link, bare, bare_by_links, bare_with_the_rest_elsewhere)
MORE = (bare_among_the_results, bare_team, link_to_the_folder)


@pytest.mark.parametrize("make", FOLDERS + MORE, ids=lambda make: make.__name__)
@pytest.mark.parametrize("flags", [(), ("--run-code", "--rerun", "1")], ids=["plain", "run-code"])
def test_a_folder_that_git_would_take_for_a_repository_is_refused_before_anything_starts(
    world: World, marker: Path, dpicl, started, make, flags
):
    place = make(world, marker)
    started.clear()
    answer = dpicl("submit", world.folder, "--suite", world.suite, "--results", world.results, *flags)
    assert answer.code == 1 and "team_a/vote is refused: size" in answer.out and "Traceback" not in answer.err
    assert "git repository" in answer.out or "is a link" in answer.out
    assert started == [] and not marker.exists()
    plain_git(place, "cat-file", "commit", "HEAD")  # what any git command in that folder does
    assert marker.exists()


def test_dot_git_in_any_case_is_refused(world: World, marker: Path, dpicl, started):
    dot_git(world, marker)
    (world.folder / ".git").rename(world.folder / ".GIT")
    started.clear()
    answer = dpicl("submit", world.folder, "--suite", world.suite, "--results", world.results)
    assert answer.code == 1 and ".GIT" in answer.out and started == []


@pytest.mark.parametrize("kind", ["a file-system monitor", "a fetch by a program", "an included file", "a hook"])
def test_among_all_of_them_it_is_refused_and_the_others_are_examined(
    committed: World, marker: Path, dpicl, started, kind
):
    evil = committed.root / "evil" / "vote"
    shutil.copytree(committed.folder, evil)
    settings = new_repository(evil)
    words = arm(settings, kind, marker)
    marker.unlink(missing_ok=True)
    started.clear()
    answer = dpicl("submit", committed.root, "--all", "--suite", committed.suite, "--results", committed.results)
    assert answer.code == 1 and "evil/vote is refused: size" in answer.out
    assert "team_a/vote passes" in answer.out and "no score moved" in answer.out
    assert not marker.exists()
    assert started and all(event == "subprocess.Popen" and "--git-dir=" in words for event, words in started)
    assert not any("evil" in words for _, words in started)
    plain_git(evil, *words)
    assert marker.exists()


def test_git_does_not_look_into_a_root_that_is_a_repository(committed: World, marker: Path, dpicl, started):
    embed(committed.root, marker)
    started.clear()
    answer = dpicl("submit", committed.root, "--all", "--suite", committed.suite, "--results", committed.results)
    assert answer.code == 1 and "git repository itself (HEAD, objects, refs)" in answer.out
    assert all(f"--git-dir={committed.root.parent}/.git" in words for _, words in started) and not marker.exists()


def test_the_board_starts_nothing_and_leaves_it_out_with_a_note(world: World, marker: Path, started):
    shutil.copytree(world.folder, world.root / "evil" / "vote")
    embed(world.root / "evil" / "vote", marker)
    started.clear()
    _, problems = load_submissions(world.root)
    assert any("evil/vote is left out: It is a git repository (HEAD, objects, refs)" in one for one in problems)
    assert started == [] and not marker.exists()


def test_a_repository_above_what_was_sent_is_no_base(world: World, marker: Path, dpicl, started):
    """A tree of submissions with `.git` at its top: git is not asked there, only on the project's own checkout."""
    top = world.root.parent
    words = arm(new_repository(top), "a file-system monitor", marker)
    marker.unlink(missing_ok=True)
    started.clear()
    answer = dpicl("submit", world.folder, "--suite", world.suite, "--results", world.results, "--json")
    (found,) = [one for one in answer.json["submissions"][0]["checks"] if one["check"] == "history"]
    assert found["status"] == "not checked" and "--base DIR" in found["why"]
    assert started == [] and not marker.exists()
    plain_git(top, *words)
    assert marker.exists()


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
CONFIGURING = """.gitattributes .gitmodules .gitconfig .Git .git\u200c GIT~1 sitecustomize.py conftest.py wandb
setup.cfg pyproject.toml __pycache__ results/.gitattributes results/tiny/.git .envrc"""


@pytest.mark.parametrize("name", ["submission.yaml", "README.md", "reproduced.json", "vote.py", "results", "a_result"])
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
    assert status == "failed" and "remove" in " ".join([why, *read_contents(world.folder).size])


def test_a_folder_of_locks_hides_nothing(world: World):
    locks = world.folder / "results" / "tiny" / ".locks"
    assert world.status("size")[0] == "ok"
    (locks / ".gitignore").unlink()
    (locks / ".gitignore").symlink_to("/etc/passwd")
    assert world.status("size")[0] == "failed"
    shutil.rmtree(locks)
    (world.folder / ".locks").mkdir()
    assert world.status("size")[0] == "failed"


def test_the_marks_of_a_repository_are_seen_in_any_spelling(tmp_path: Path):
    for number, names in enumerate((["head", "Objects", "REFS"], ["HEAD.", "objects", "refs "], [".GIT "], ["Git~1"])):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name in names:
            (folder / name).write_text("")
        assert repository_mark(folder), names
    assert not repository_mark(tmp_path)


@pytest.mark.parametrize("name", ["json", "torch", "dpicl", "harness", "usercustomize"])
def test_a_mechanism_with_the_name_of_a_module_never_takes_its_place(world: World, name: str, dpicl, started):
    """`--run-code` runs the file as a plug-in, after its announcement, and never because of its name."""
    from dpicl.leaderboards.gate.code import run_apart, workplace

    with workplace() as folder:
        (folder / f"{name}.py").write_text("raise SystemExit('taken')\n")
        assert run_apart(["-c", "import json, dpicl, dpicl.leaderboards; print('ours')"], folder, 60) == "ours\n"
        assert "usage: dpicl" in run_apart(["-m", "dpicl", "--help"], folder, 60)


def test_a_name_in_a_result_is_no_path_and_no_flag_for_a_program(world: World, marker: Path, started):
    """The mechanism's name is a stranger's word: `dpicl check` never gets it unless the package knows it."""
    import dataclasses

    from dpicl.leaderboards.gate.code import conformance_check

    program = marker.with_suffix(".py")
    program.write_text(f"open({str(marker)!r}, 'w').close()\n")
    contents = read_contents(world.folder)
    for word in (str(program), f"--plugin={program}", "../x.py"):
        results = {
            name: one.model_copy(update={"cell": one.cell.model_copy(update={"mechanism": word, "plugin": None})})
            for name, one in contents.results.items()
        }
        found = conformance_check(dataclasses.replace(contents, plugin=None, results=results), run_code=True)
        assert found.status == "failed" and "There is no mechanism" in found.why
    assert started == [] and not marker.exists()
