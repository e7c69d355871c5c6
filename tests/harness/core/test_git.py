"""git runs on the project's own checkout, whatever the environment and the working folder are."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpicl.core import git
from dpicl.results import manifest

ROOT = Path(__file__).parents[3]


def plain_git(folder: Path, *words: str) -> str:
    names = ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        [
            "git",
            "-C",
            str(folder),
            *names,
            *words,
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def new_repository(folder: Path) -> Path:
    """One with a file in a commit."""
    folder.mkdir()
    plain_git(folder, "init", "-q", "-b", "main")
    (folder / "file.txt").write_text("first\n")
    plain_git(folder, "add", "-A")
    plain_git(folder, "commit", "-q", "-m", str(folder))
    return folder


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository that stands for the project's."""
    monkeypatch.setattr(git, "CHECKOUT", new_repository(tmp_path / "checkout"))
    manifest.commit.cache_clear()
    yield tmp_path / "checkout"
    manifest.commit.cache_clear()


def test_another_repository_is_not_taken(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    other = new_repository(tmp_path / "other")
    (other / "file.txt").write_text("changed\n")
    head = plain_git(checkout, "rev-parse", "HEAD")
    monkeypatch.chdir(other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    assert manifest.commit() == (head, False)


def test_without_git_or_an_answer_of_it_no_commit_is_known(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
):
    (checkout / ".git" / "HEAD").write_text("nothing")
    assert manifest.commit() == (None, None)
    manifest.commit.cache_clear()
    (checkout / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    monkeypatch.setenv("PATH", "relative")
    assert manifest.commit() == (None, None)


def test_an_installed_package_has_no_commit(checkout: Path, monkeypatch: pytest.MonkeyPatch):
    (checkout / "site-packages").mkdir()
    monkeypatch.setattr(git, "CHECKOUT", checkout / "site-packages")
    assert not git.has_repository() and manifest.commit() == (None, None)


def test_only_one_module_starts_programs():
    starts = re.compile(
        r"^\s*(?:from (?:subprocess|pty|asyncio\.subprocess|git|pygit2)\b|import .*\b(?:subprocess|pty|git|pygit2)\b)",
        re.MULTILINE,
    )
    paths = [
        path
        for folder in ("harness", "leaderboards", "mechanisms", "tasks")
        for path in (ROOT / folder).rglob("*.py")
    ]
    starters = [path for path in paths if starts.search(path.read_text(encoding="utf-8"))]
    assert starters == [ROOT / "harness/dpicl/core/git.py"]
