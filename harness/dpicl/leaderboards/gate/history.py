"""Compares a submission with its earlier copy: scores change only with a new version."""

from __future__ import annotations

from collections.abc import Iterator

from dpicl.leaderboards.gate.card import CARD
from dpicl.leaderboards.gate.case import Case, NotChecked, Outcome
from dpicl.leaderboards.gate.contents import Contents
from dpicl.results.schema import Result

#: A score may move by this much without a new version.
TOLERANCE = 1e-3
#: Keys of the card that maintainers write.
_MAINTAINED = ("footnote", "unreliable", "reproduced")


def history_check(case: Case) -> Outcome:
    """Every earlier score against the score of the same cell now, and what only maintainers write."""
    before, card = case.before, case.card
    if before is None:
        raise NotChecked(
            "there is nothing to compare with; give a folder with an earlier copy by --base DIR"
        )
    changes = list(_changes(case.contents, before))
    if changes and card is None:
        raise NotChecked(
            "scores moved, and no card says whether this is a new version; fix the card first"
        )
    now = card.version if card else 0
    then = before.card.version if before.card else 0
    problems, notes = [], []
    if now > then > 0:
        notes = [f"{change}, with a new version of the submission." for change in changes]
    else:
        advice = f"put it back, or raise `version` in {CARD} and say why in README.md."
        problems = [f"{change}; {advice}" for change in changes]
    if 0 < now < then:
        problems.append(f"{CARD} goes back from version {then} to {now}; versions only grow.")
    changed = [
        key for key in _MAINTAINED if card and getattr(card, key) != getattr(before.card, key, "")
    ]
    if card and not card.reproduced and "reproduced" in changed:
        changed.remove("reproduced")  # it is about files that are no longer here
    if changed and not case.maintainer:
        problems.append(
            f"Only maintainers write {', '.join(changed)} in {CARD}; put it back as it was, or give --maintainer if you"
            " are one."
        )
    good = f"no score moved by more than {TOLERANCE:g}" if before.content else "new"
    return Outcome(problems, good, notes)


def _changes(now: Contents, before: Contents) -> Iterator[str]:
    """What happened to the results that were there before, as the beginning of a sentence."""
    for name, earlier in before.results.items():
        is_unreadable = name in now.content and name not in now.results  # as `schema` says
        change = "" if is_unreadable else _change(earlier, now.results.get(name))
        if change:
            yield f"{name} has {change}"


def _change(earlier: Result, now: Result | None) -> str:
    """What happened to a result, or ""."""
    if now is None:
        return "disappeared"
    metric = earlier.main_metric
    if metric not in now.scores:
        return f"no score {metric} any more"
    difference = now.scores[metric].value - earlier.scores[metric].value
    return f"moved its score by {difference:+.4f}" if abs(difference) > TOLERANCE else ""
