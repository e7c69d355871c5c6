"""Changes since an earlier copy: scores move only with a new version of the submission, retired results never."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from dpicl.core.errors import DpiclError
from dpicl.leaderboards.gate.card import CARD, REPRODUCED, keys_of
from dpicl.leaderboards.gate.contents import Contents
from dpicl.leaderboards.gate.findings import Finding, not_checked, verdict
from dpicl.leaderboards.gate.folder import survey
from dpicl.leaderboards.model.comparability import is_retired
from dpicl.plan.suite import Suite
from dpicl.results.schema import Result, from_text

#: A score may move by this much without a new version.
TOLERANCE = 1e-3
#: Keys of the card that maintainers write.
OURS = ("footnote", "unreliable")
_RESULTS = "results/"
_NO_BASE = "there is nothing to compare with; give a folder with an earlier copy by --base DIR"

#: Path below the submission -> content in the earlier copy; {}: it is new. None: no earlier copy was given.
Before = Mapping[str, bytes] | None


def files_before(base: Path | None, folder: Path) -> Before:
    """The earlier files of a submission. base: a copy of its folder, or of a root with <team>/<method> below it."""
    if base is None:
        return None
    own = base if (base / CARD).is_file() else base / folder.parent.name / folder.name
    return survey(own).files


def frozen(contents: Contents, before: Before) -> bool:
    """Whether the card and every result were there before, to the byte, and none is missing."""
    if not before or contents.size or contents.schema:
        return False
    names = {CARD, *contents.results}
    then = {name for name in before if name == CARD or name.startswith(_RESULTS)}
    return names == then and all(contents.content[name] == before[name] for name in names)


def history_check(contents: Contents, before: Before, suites: Mapping[str, Suite], maintainer: bool) -> Finding:
    """Every earlier score against the score of the same cell now, and what only maintainers write."""
    if before is None:
        return not_checked("history", _NO_BASE)
    problems = [
        f"{name} is of a retired version of the suite and has {what}; put it back as it was."
        for name, what in _retired_changes(contents, before, suites)
    ]
    notes = []
    version, now = keys_of(before.get(CARD, b"")).get("version"), contents.card.version if contents.card else None
    version = version if isinstance(version, int) and 0 < version < 2**53 else None
    for name, what in _moved(contents, before, suites):
        if now is not None and version is not None and now > version:
            notes.append(f"{name} has {what}, with a new version of the submission.")
        else:
            problems.append(f"{name} has {what}; put it back, or raise `version` in {CARD} and say why in README.md.")
    if now is not None and version is not None and now < version:
        problems.append(f"{CARD} goes back from version {version} to {now}; versions only grow.")
    if not maintainer and (changed := _maintainers_changes(contents, before)):
        problems.append(
            f"Only maintainers write {', '.join(changed)}; put it back as it was, or give --maintainer if you are one."
        )
    return verdict("history", problems, f"no score moved by more than {TOLERANCE:g}" if before else "new", notes)


def _moved(contents: Contents, before: Mapping[str, bytes], suites: Mapping[str, Suite]) -> Iterator[tuple[str, str]]:
    """(file of a version that is not retired, what happened to its score)."""
    for name, then in _results_before(contents, before):
        now = contents.results.get(name)
        if then is now or is_retired(then, suites.values()):
            continue
        if now is None:
            yield name, "disappeared"
        elif then.main_metric not in now.scores:
            yield name, f"no score {then.main_metric} any more"
        elif abs(difference := now.scores[then.main_metric].value - then.scores[then.main_metric].value) > TOLERANCE:
            yield name, f"moved its score by {difference:+.4f}"


def _retired_changes(
    contents: Contents, before: Mapping[str, bytes], suites: Mapping[str, Suite]
) -> Iterator[tuple[str, str]]:
    """(file of a retired version, what happened to it)."""
    for name, then in _results_before(contents, before):
        now = contents.results.get(name)
        if then is not now and is_retired(then, suites.values()):
            yield name, "disappeared" if now is None else "changed"
    for name, result in contents.results.items():
        if before and name not in before and is_retired(result, suites.values()):
            yield name, "been added"


def _maintainers_changes(contents: Contents, before: Mapping[str, bytes]) -> list[str]:
    changed = [REPRODUCED] if contents.content.get(REPRODUCED) != before.get(REPRODUCED) else []
    then = keys_of(before.get(CARD, b""))
    for key in OURS if contents.card is not None else ():
        if getattr(contents.card, key) != then.get(key, ""):
            changed.append(f"`{key}` in {CARD}")
    return changed


def removed_check(base: Path | None, folders: Iterable[Path]) -> Finding:
    """Submissions that the earlier copy of all of them has, and that are gone."""
    if base is None:
        return not_checked("removed", _NO_BASE)
    there = {(folder.parent.name, folder.name) for folder in folders}
    cards = sorted(base.glob(f"*/*/{CARD}"))
    problems = [
        f"{card.parent.parent.name}/{card.parent.name} was there and is gone; put it back, and mark it `unreliable`"
        " where it should not count."
        for card in cards
        if (card.parent.parent.name, card.parent.name) not in there
    ]
    return verdict("removed", problems, f"all {len(cards)} earlier submissions are still there")


def scores_before(contents: Contents, before: Before) -> dict[str, float]:
    """Cell id -> its main score in the earlier copy."""
    found = _results_before(contents, before or {})
    return {then.cell_id: then.scores[then.main_metric].value for _, then in found}


def _results_before(contents: Contents, before: Mapping[str, bytes]) -> Iterator[tuple[str, Result]]:
    """(file, earlier result); the same object as in the contents where the file is the same to the byte."""
    for name, content in before.items():
        if name.startswith(_RESULTS):
            then = contents.results.get(name) if contents.content.get(name) == content else _parsed(content)
            if then is not None:
                yield name, then


def _parsed(content: bytes) -> Result | None:
    try:
        return from_text(content.decode())
    except (ValueError, RecursionError, DpiclError):
        return None
