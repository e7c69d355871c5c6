"""Compares a submission with its earlier copy: scores change only with a new version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from dpicl.leaderboards.gate.card import CARD
from dpicl.leaderboards.gate.case import Case, Finding, NotChecked, Outcome
from dpicl.leaderboards.gate.contents import Contents
from dpicl.results.schema import Result

#: A score may move by this much without a new version.
TOLERANCE = 1e-3
#: Keys of the card that maintainers write.
_MAINTAINED = ("footnote", "unreliable", "reproduced")
_NO_BASE = "there is nothing to compare with; give a folder with an earlier copy by --base DIR"


def history_check(case: Case) -> Outcome:
    """Every earlier score against the score of the same cell now, and what only maintainers write."""
    before, card = case.before, case.card
    if before is None:
        raise NotChecked(_NO_BASE)
    now = card.version if card else 0
    then = before.card.version if before.card else 0
    problems, notes = [], []
    changes = list(_changes(case.contents, before))
    if changes and card is None:
        raise NotChecked(
            "scores moved, and no card says whether this is a new version; fix the card first"
        )
    for name, change in changes:
        if now > then > 0:
            notes.append(f"{name} has {change}, with a new version of the submission.")
        else:
            problems.append(
                f"{name} has {change}; put it back, or raise `version` in {CARD} and say why in README.md."
            )
    if 0 < now < then:
        problems.append(f"{CARD} goes back from version {then} to {now}; versions only grow.")
    changed = [
        key for key in _MAINTAINED if card and getattr(card, key) != getattr(before.card, key, "")
    ]
    if card and not card.reproduced and "reproduced" in changed:
        changed.remove("reproduced")  # it is about files that are no longer here
    if changed and not case.maintainer:
        what = f"{', '.join(changed)} in {CARD}"
        problems.append(
            f"Only maintainers write {what}; put it back as it was, or give --maintainer if you are one."
        )
    return Outcome(
        problems, f"no score moved by more than {TOLERANCE:g}" if before.content else "new", notes
    )


def _changes(now: Contents, before: Contents) -> Iterator[tuple[str, str]]:
    """(file, what happened to it) of the results that were there before."""
    for name, earlier in before.results.items():
        if name in now.content and name not in now.results:
            continue  # it cannot be read, as the check `schema` says
        if change := _change(earlier, now.results.get(name)):
            yield name, change


def _change(earlier: Result, now: Result | None) -> str:
    """What happened to a result, or ""."""
    if now is None:
        return "disappeared"
    metric = earlier.main_metric
    if metric not in now.scores:
        return f"no score {metric} any more"
    difference = now.scores[metric].value - earlier.scores[metric].value
    return f"moved its score by {difference:+.4f}" if abs(difference) > TOLERANCE else ""


def removed_check(base: Path | None, folders: Iterable[Path]) -> Finding:
    """Submissions that the earlier copy of all of them has, and that are gone."""
    if base is None:
        return Finding("removed", "not checked", _NO_BASE)
    there = {(folder.parent.name, folder.name) for folder in folders}
    try:
        methods = [method for team in _subfolders(base) for method in _subfolders(team)]
        known = [
            (method.parent.name, method.name) for method in methods if (method / CARD).is_file()
        ]
    except OSError as error:
        problem = f"The earlier copy cannot be read ({type(error).__name__}); give one that can with --base."
        return Outcome([problem], "").make_finding("removed")
    problems = [
        f"{team}/{method} was there and is gone; put it back, and mark it `unreliable` where it should not count."
        for team, method in known
        if (team, method) not in there
    ]
    return Outcome(problems, f"all {len(known)} earlier submissions are still there").make_finding(
        "removed"
    )


def _subfolders(folder: Path) -> list[Path]:
    """Sorted. Raises OSError where the folder cannot be read, which a glob passes over."""
    return sorted(path for path in folder.iterdir() if path.is_dir())
