"""Changes since an earlier copy: scores move only with a new version of the submission, retired results never."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from dpicl.core.errors import DpiclError
from dpicl.leaderboards.gate.card import CARD, REPRODUCED, keys_of
from dpicl.leaderboards.gate.case import Case
from dpicl.leaderboards.gate.findings import Finding, NotChecked, Outcome
from dpicl.leaderboards.model.comparability import is_retired
from dpicl.results.schema import Result, from_text

#: A score may move by this much without a new version.
TOLERANCE = 1e-3
#: Keys of the card that maintainers write.
_MAINTAINED = ("footnote", "unreliable")
_NO_BASE = "there is nothing to compare with; give a folder with an earlier copy by --base DIR"


def history_check(case: Case) -> Outcome:
    """Every earlier score against the score of the same cell now, and what only maintainers write."""
    before, card = case.before, case.card
    if before is None:
        raise NotChecked(_NO_BASE)
    keys = keys_of(before.get(CARD, b""))
    then = keys.get("version") if isinstance(keys.get("version"), int) and 0 < keys["version"] < 2**53 else None
    is_newer = card is not None and then is not None and card.version > then
    problems, notes = [], []
    for name, earlier, now in _pairs(case):
        retired = any(one is not None and is_retired(one, case.request.suites.values()) for one in (earlier, now))
        change = _change(earlier, now, retired)
        if change and retired:
            problems.append(f"{name} is of a retired version of the suite and has {change}; put it back as it was.")
        elif change and is_newer:
            notes.append(f"{name} has {change}, with a new version of the submission.")
        elif change:
            problems.append(f"{name} has {change}; put it back, or raise `version` in {CARD} and say why in README.md.")
    if card is not None and then is not None and card.version < then:
        problems.append(f"{CARD} goes back from version {then} to {card.version}; versions only grow.")
    changed = [REPRODUCED] if case.contents.content.get(REPRODUCED) != before.get(REPRODUCED) else []
    changed += [f"`{key}` in {CARD}" for key in _MAINTAINED if card and getattr(card, key) != keys.get(key, "")]
    if changed and not case.request.maintainer:
        problems.append(
            f"Only maintainers write {', '.join(changed)}; put it back as it was, or give --maintainer if you are one."
        )
    return Outcome(problems, f"no score moved by more than {TOLERANCE:g}" if before else "new", notes)


def _change(earlier: Result | None, now: Result | None, retired: bool) -> str:
    """What happened to a result, or "". A retired one may not change at all."""
    if earlier is None:
        return "been added" if retired else ""
    if now is None:
        return "disappeared"
    if retired or earlier is now:
        return "" if earlier is now else "changed"
    metric = earlier.main_metric
    if metric not in now.scores:
        return f"no score {metric} any more"
    difference = now.scores[metric].value - earlier.scores[metric].value
    return f"moved its score by {difference:+.4f}" if abs(difference) > TOLERANCE else ""


def _pairs(case: Case) -> Iterator[tuple[str, Result | None, Result | None]]:
    """(file, result in the earlier copy, result now); one object twice where the file is the same to the byte. A file
    that was no result before counts as none, and nothing is new in a new submission."""
    before = case.before or {}
    names = [name for name in before if name.startswith("results/")]
    for name in (*names, *(name for name in case.results if before and name not in before)):
        now = case.results.get(name)
        same = now is not None and case.contents.content[name] == before.get(name)
        earlier = now if same else _parsed(before[name]) if name in before else None
        if earlier is not None or name not in before:
            yield name, earlier, now


def _parsed(content: bytes) -> Result | None:
    try:
        return from_text(content.decode())
    except (ValueError, RecursionError, DpiclError):
        return None


def scores_before(case: Case) -> dict[str, float]:
    """Cell id -> its main score in the earlier copy."""
    return {then.cell_id: then.scores[then.main_metric].value for _, then, _ in _pairs(case) if then is not None}


def removed_check(base: Path | None, folders: Iterable[Path]) -> Finding:
    """Submissions that the earlier copy of all of them has, and that are gone."""
    if base is None:
        return Finding("removed", "not checked", _NO_BASE)
    there = {(folder.parent.name, folder.name) for folder in folders}
    known = sorted((card.parent.parent.name, card.parent.name) for card in base.glob(f"*/*/{CARD}"))
    problems = [
        f"{team}/{method} was there and is gone; put it back, and mark it `unreliable` where it should not count."
        for team, method in known
        if (team, method) not in there
    ]
    return Outcome(problems, f"all {len(known)} earlier submissions are still there").finding("removed")
