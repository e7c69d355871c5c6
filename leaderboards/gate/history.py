"""Changes since an earlier state: scores move only with a new version of the submission, retired results never.

The base is a commit of the project's own repository (by default where this branch left origin/main, else HEAD) or a
folder with an earlier copy. A submitted repository is none: git never runs in a submitted folder.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dpicl.harness.core import git
from dpicl.harness.core.errors import DpiclError, UsageError
from dpicl.harness.run.results import Result, from_text
from dpicl.harness.run.suite import Suite
from dpicl.leaderboards.gate.card import CARD, REPRODUCED, keys_of
from dpicl.leaderboards.gate.contents import Contents
from dpicl.leaderboards.gate.findings import Finding, not_checked, verdict
from dpicl.leaderboards.gate.folder import read_plain
from dpicl.leaderboards.model.comparability import is_retired

#: A score may move by this much without a new version.
TOLERANCE = 1e-3
#: Keys of the card that maintainers write.
OURS = ("footnote", "unreliable")
_RESULTS = "results/"
_LARGEST = 50_000_000  # bytes of a result of record
_NO_BASE = "there is no commit of the project's repository that could have it; give an earlier copy with --base DIR"
_PLAIN_FILES = ("100644", "100755")  # modes in a tree: no links, no submodules


def hash_of(content: bytes) -> str:
    """As git hashes a file."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


class FolderBase:
    """An earlier copy of a submission, or of a root with <team>/<method> below it. name: for sentences."""

    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        self._folder = folder

    def _of(self, folder: Path) -> Path:
        return self._folder if (self._folder / CARD).is_file() else self._folder / folder.parent.name / folder.name

    def files(self, folder: Path) -> dict[str, str]:
        """Path below the folder -> `hash_of` its content."""
        root = self._of(folder)
        paths = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
        return {path.relative_to(root).as_posix(): hash_of(path.read_bytes()) for path in paths}

    def read(self, folder: Path, name: str) -> bytes:
        """The content of one of the files."""
        return (self._of(folder) / name).read_bytes()


class GitBase:
    """A commit of the project's repository, used as `FolderBase` is."""

    def __init__(self, revision: str) -> None:
        """Raises UsageError where there is no such commit, GitError where git does not list its files."""
        try:
            found = git.git("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
        except git.GitError:
            raise UsageError(
                f"There is no commit or folder '{revision}'; give --base a commit of this repository or a folder."
            ) from None
        commit = found.decode("ascii").strip()
        self.name = f"commit {commit[:10]}"
        self._root = git.CHECKOUT.resolve()
        self._blobs: dict[str, str] = {}
        for entry in filter(None, git.git("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")):
            about, _, path = entry.partition(b"\t")
            mode, _, digest = about.decode("ascii").split()
            if mode in _PLAIN_FILES:
                self._blobs[path.decode("utf-8", "surrogateescape")] = digest

    def _place(self, folder: Path) -> str:
        return folder.resolve().relative_to(self._root).as_posix()

    def files(self, folder: Path) -> dict[str, str]:
        start = f"{self._place(folder)}/"
        return {path.removeprefix(start): digest for path, digest in self._blobs.items() if path.startswith(start)}

    def read(self, folder: Path, name: str) -> bytes:
        return git.git("cat-file", "blob", self._blobs[f"{self._place(folder)}/{name}"])


Base = FolderBase | GitBase


def find_base(folder: Path, wanted: str | None) -> Base | None:
    """The wanted base, or the default one; None where the folder is not in the project's repository.

    Raises UsageError for one that does not exist, and GitError where git does not work.
    """
    if wanted is not None and Path(wanted).is_dir():
        return FolderBase(Path(wanted))
    if not git.has_repository() or not folder.resolve().is_relative_to(git.CHECKOUT.resolve()):
        if wanted is not None:
            raise UsageError(
                f"{folder} is not in the project's git repository and '{wanted}' is no folder; give --base a folder."
            )
        return None
    if wanted is not None:
        return GitBase(wanted)
    for words in (("merge-base", "HEAD", "origin/main"), ("rev-parse", "HEAD")):
        try:
            commit = git.git(*words).decode("ascii").strip()
        except git.GitError:
            continue  # there is no origin/main, or no commit yet
        return GitBase(commit)
    return None


def frozen(contents: Contents, base: Base | None) -> bool:
    """Whether the card and every result were there before, to the byte, and none is missing."""
    if base is None or contents.size or contents.schema:
        return False
    before = base.files(contents.folder)
    names = {CARD, *contents.results}
    then = {name for name in before if name == CARD or name.startswith(_RESULTS)}
    return names == then and all(hash_of(contents.content[name]) == before[name] for name in names)


def history_check(contents: Contents, base: Base | None, suites: Mapping[str, Suite]) -> Finding:
    """Every score of the base against the score of the same cell now."""
    if base is None:
        return not_checked("history", _NO_BASE)
    moved, retired = changes(contents, base, suites)
    if not base.files(contents.folder):
        return verdict("history", [], f"new since {base.name}")
    problems = [
        f"{name} is of a retired version of the suite and has {what}; put it back as it was in {base.name}."
        for name, what in retired.items()
    ]
    notes = []
    version, now = card_before(contents, base).get("version"), contents.card.version if contents.card else None
    version = version if isinstance(version, int) and 0 < version < 2**53 else None
    for name, what in moved.items():
        if now is not None and version is not None and now > version:
            notes.append(f"{name} has {what}, with a new version of the submission.")
        else:
            fix = f"put it back, or raise `version` in {CARD} and say why in README.md"
            problems.append(f"{name} has {what} since {base.name}; {fix}.")
    if now is not None and version is not None and now < version:
        problems.append(f"{CARD} goes back from version {version} to {now}; versions only grow.")
    return verdict("history", problems, f"no score moved by more than {TOLERANCE:g} since {base.name}", notes)


def changes(contents: Contents, base: Base, suites: Mapping[str, Suite]) -> tuple[dict[str, str], dict[str, str]]:
    """(file -> what happened to its score, file of a retired version -> what happened to it); no file is in both."""
    moved, retired = {}, {}
    before = base.files(contents.folder)
    for name, then in _results_before(contents, base):
        now = contents.results.get(name)
        if then is now:
            continue
        if is_retired(then, suites.values()):
            retired[name] = "disappeared" if now is None else "changed"
        elif now is None:
            moved[name] = "disappeared"
        elif then.main_metric not in now.scores:
            moved[name] = f"no score {then.main_metric} any more"
        elif abs(difference := now.scores[then.main_metric].value - then.scores[then.main_metric].value) > TOLERANCE:
            moved[name] = f"moved its score by {difference:+.4f}"
    for name, result in contents.results.items():
        if before and name not in before and is_retired(result, suites.values()):
            retired[name] = "been added"
    return moved, retired


def retired_records_check(results: Path, base: Base | None, suites: Mapping[str, Suite]) -> Finding:
    """Our own results of record of retired versions: nothing changed, disappeared or was added."""
    if base is None:
        return not_checked("retired results", _NO_BASE)
    problems = []
    for name in sorted(suites):
        folder = results / name
        before = base.files(folder)
        there = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*.json"))}
        for file in sorted({*before, *there}):
            if not file.endswith(".json") or re.search(r"(^|/)(\.|(quarantine|set_aside)/)", file):
                continue
            content = read_plain(there[file], _LARGEST) if file in there else None  # links come with pull requests too
            if content is not None and before.get(file) == hash_of(content):
                continue
            states = (base.read(folder, file) if file in before else None, content)
            parsed = [_parsed(state) for state in states if state is not None]
            if any(one is not None and is_retired(one, suites.values()) for one in parsed):
                what = "disappeared" if content is None else "changed" if file in before else "been added"
                said = f"{folder / file} is of a retired version of the suite and has {what}"
                problems.append(f"{said}; put it back as it was in {base.name}.")
    return verdict("retired results", problems, f"no result of a retired version changed since {base.name}")


def removed_check(root: Path, folders: Iterable[Path], base: Base | None) -> Finding:
    """Submissions that were below the root and are not any more."""
    if base is None:
        return not_checked("removed", _NO_BASE)
    before = {
        name.removesuffix(f"/{CARD}") for name in base.files(root) if name.count("/") == 2 and name.endswith(CARD)
    }
    there = {f"{folder.parent.name}/{folder.name}" for folder in folders}
    problems = [
        f"{name} was there in {base.name} and is gone; put it back, and mark it `unreliable` where it should not count."
        for name in sorted(before - there)
    ]
    return verdict("removed", problems, f"every submission of {base.name} is still there")


def scores_before(contents: Contents, base: Base | None) -> dict[str, float]:
    """Cell id -> its main score in the base."""
    if base is None:
        return {}
    return {then.cell_id: then.scores[then.main_metric].value for _, then in _results_before(contents, base)}


def _results_before(contents: Contents, base: Base) -> Iterator[tuple[str, Result]]:
    """(file, result in the base); the same object as in the contents where the file is the same to the byte."""
    for name, digest in base.files(contents.folder).items():
        if name.startswith(_RESULTS) and name.endswith(".json"):
            now = contents.results.get(name)
            same = now is not None and hash_of(contents.content[name]) == digest
            then = now if same else _parsed(base.read(contents.folder, name))
            if then is not None:
                yield name, then


def card_before(contents: Contents, base: Base) -> Mapping[str, Any]:
    """The keys of the card in the base; {} where there was none."""
    return keys_of(base.read(contents.folder, CARD)) if CARD in base.files(contents.folder) else {}


def _parsed(content: bytes) -> Result | None:
    try:
        return from_text(content.decode())
    except (ValueError, RecursionError, DpiclError):
        return None


def maintainers_problem(contents: Contents, base: Base) -> str:
    """What somebody else changed since the base although only maintainers write it, or ""."""
    before = base.files(contents.folder)
    now = hash_of(contents.content[REPRODUCED]) if REPRODUCED in contents.content else None
    changed = [REPRODUCED] if now != before.get(REPRODUCED) else []
    then = card_before(contents, base)
    for key in OURS if contents.card is not None else ():
        if getattr(contents.card, key) != then.get(key, ""):
            changed.append(f"`{key}` in {CARD}")
    if not changed:
        return ""
    return (
        f"{', '.join(changed)} {'has' if len(changed) == 1 else 'have'} changed since {base.name}, and only maintainers"
        " write that; put it back, or give --maintainer if you are one."
    )
