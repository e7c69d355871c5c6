"""git runs on the project's own checkout, and nothing that a sender, a machine or a user set up makes it run more."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from dpicl.core import git
from dpicl.run import manifest
from tests.attacks_on_git import ATTACKS, MISSING, arm, command_for, new_repository, plain_git

ROOT = Path(__file__).parents[2]
#: Modules that may start programs: git, and code that was sent, in a process of its own.
STARTERS = {"harness/dpicl/core/git.py", "harness/dpicl/leaderboards/gate/code.py"}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that stands for the project's."""
    new_repository(tmp_path / "checkout")
    monkeypatch.setattr(git, "CHECKOUT", tmp_path / "checkout")
    manifest.commit.cache_clear()
    yield tmp_path / "checkout"
    manifest.commit.cache_clear()


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    """A file that only a program of an attack writes."""
    return tmp_path / "marker"


def ours(*words: str) -> None:
    """Any git command by the project's one way; whether git then has an answer does not matter."""
    try:
        git.git(*words)
    except git.GitError:
        return


@pytest.mark.parametrize("kind", ATTACKS)
def test_not_even_the_settings_of_the_checkout_start_a_program(checkout: Path, marker: Path, kind: str):
    words = arm(checkout / ".git", kind, marker)
    ours(*words)
    manifest.commit()
    assert not marker.exists()
    plain_git(checkout, *words, given=b"protocol=https\nhost=example.org\n\n")
    assert marker.exists()  # so the attack is one


def test_the_settings_of_user_machine_and_environment_start_no_program(
    checkout: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    settings = tmp_path / "settings"
    settings.write_text(f"[core]\n fsmonitor = {command_for(marker)}\n")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".gitconfig").write_text(settings.read_text())
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    ways = (
        {"GIT_CONFIG_GLOBAL": str(settings)},
        {"GIT_CONFIG_SYSTEM": str(settings)},
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": command_for(marker)},
        {"GIT_CONFIG_PARAMETERS": f"'core.fsmonitor={command_for(marker)}'"},
        {},
    )
    for variables in ways:
        with monkeypatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            ours("status", "--porcelain")
            assert not marker.exists(), variables
            plain_git(checkout, "status", "--porcelain")
            assert marker.exists(), variables
            marker.unlink()


def test_another_repository_in_the_environment_or_the_working_folder_is_not_taken(
    checkout: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    other = tmp_path / "other"
    arm(new_repository(other), "a file-system monitor", marker)
    plain_git(other, "commit", "-q", "--amend", "-m", "another")
    marker.unlink(missing_ok=True)
    head = plain_git(checkout, "rev-parse", "HEAD").stdout.decode().strip()
    monkeypatch.chdir(other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    assert manifest.commit() == (head, True) and not marker.exists()
    assert plain_git(other, "rev-parse", "HEAD").stdout.decode().strip() != head


def test_a_git_in_the_working_folder_is_not_started(
    checkout: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "sent").mkdir()
    (tmp_path / "sent" / "git").write_bytes(Path(command_for(marker)).read_bytes())
    (tmp_path / "sent" / "git").chmod(0o755)
    monkeypatch.chdir(tmp_path / "sent")
    monkeypatch.setenv("PATH", os.pathsep.join([".", "", os.environ["PATH"]]))
    assert manifest.commit()[0] is not None and not marker.exists()
    plain_git(checkout, "status")
    assert marker.exists()


def test_attributes_that_a_pull_request_brings_run_nothing(checkout: Path, marker: Path):
    """They name a filter; only the owner's settings say what it runs, and there is none."""
    (checkout / ".gitattributes").write_text("*.txt filter=evil diff=evil merge=evil\n")
    (checkout / ".gitconfig").write_text(f'[filter "evil"]\n clean = {command_for(marker)}\n')
    (checkout / ".gitmodules").write_text(f'[submodule "x"]\n path = x\n url = .\n update = !{command_for(marker)}\n')
    plain_git(checkout, "add", "-A")
    plain_git(checkout, "commit", "-q", "-m", "a pull request")
    (checkout / "file.txt").write_text("third!\n")
    assert manifest.commit()[1] is True and not marker.exists()
    (checkout / ".git" / "config").open("a").write((checkout / ".gitconfig").read_text())
    plain_git(checkout, "status")
    assert marker.exists()  # with settings of the owner it would run


def test_a_submodule_is_not_looked_into(checkout: Path, marker: Path):
    arm(new_repository(checkout / "sub"), "a file-system monitor", marker)
    plain_git(checkout, "-c", "advice.addEmbeddedRepo=false", "add", "sub")
    plain_git(checkout, "commit", "-q", "-a", "-m", "a submodule")
    marker.unlink(missing_ok=True)
    assert manifest.commit()[1] is False and not marker.exists()
    plain_git(checkout, "status")
    assert marker.exists()


def test_what_is_missing_is_an_error_that_says_so(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(git.GitError, match="git cat-file"):
        git.git("cat-file", "commit", MISSING)
    with pytest.raises(git.GitError, match="did not end within"):
        git.git("cat-file", "--batch-all-objects", "--batch-check", seconds=0.0)
    monkeypatch.setenv("PATH", "relative")
    with pytest.raises(git.GitError, match="no git on PATH"):
        git.git("status")
    assert manifest.commit() == (None, None)


def test_a_work_tree_of_the_checkout_works_like_it(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert plain_git(checkout, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side")).returncode == 0
    assert (tmp_path / "side" / ".git").is_file()
    monkeypatch.setattr(git, "CHECKOUT", tmp_path / "side")
    head = plain_git(checkout, "rev-parse", "HEAD").stdout.decode().strip()
    assert manifest.commit() == (head, False)
    (tmp_path / "side" / "file.txt").write_text("changed\n")
    manifest.commit.cache_clear()
    assert manifest.commit() == (head, True)


def test_an_installed_package_has_no_commit_even_inside_somebodys_repository(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
):
    (checkout / "site-packages").mkdir()
    monkeypatch.setattr(git, "CHECKOUT", checkout / "site-packages")
    assert not git.has_repository() and manifest.commit() == (None, None)


def test_only_one_module_starts_git_and_only_one_starts_code_that_was_sent():
    found = set()
    for folder in ("harness", "leaderboards", "mechanisms", "tasks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            names = {
                name
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                if isinstance(node, ast.Import | ast.ImportFrom)
                for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
            }
            if names & {"subprocess", "pty", "asyncio.subprocess", "git", "pygit2"}:
                found.add(path.relative_to(ROOT).as_posix())
    assert found == STARTERS
