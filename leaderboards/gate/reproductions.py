"""Does reproduced.json fit the results beside it? And has anybody but a maintainer written what maintainers write?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dpicl.harness.run.results import Result
from dpicl.leaderboards.gate.card import CARD, REPRODUCED
from dpicl.leaderboards.gate.contents import Contents
from dpicl.leaderboards.gate.findings import Finding, verdict
from dpicl.leaderboards.gate.history import Base, card_before, hash_of
from dpicl.leaderboards.gate.rerun import allowed_difference
from dpicl.leaderboards.model.submissions import Reproduction

#: Keys of the card that maintainers write.
OURS = ("footnote", "unreliable")
_SAME = 1e-9
_CLOCK = timedelta(days=1)


def reproduced_check(contents: Contents, now: datetime | None = None) -> Finding:
    """Every recorded re-run against the result of its cell."""
    now = now or datetime.now(UTC)
    results = {result.cell_id: result for result in contents.results.values()}
    problems = [
        f"{REPRODUCED}, cells[{i}]: {problem}; remove it and record again with `dpicl submit --rerun N --record`."
        for i, one in enumerate(contents.reproduced)
        if (problem := _misfit(one, results.get(one.cell_id), now))
    ]
    return verdict("reproduced", problems, f"{len(contents.reproduced)} recorded re-runs are of these results")


def _misfit(one: Reproduction, result: Result | None, now: datetime) -> str:
    if result is None:
        return "it is of a cell that is not here"
    cell, score = result.cell, result.scores[result.main_metric].value
    if (one.task, one.epsilon, one.seed) != (cell.task, cell.epsilon, cell.seed) or abs(one.reported - score) > _SAME:
        return "its task, epsilon, seed or reported score is not that of the result"
    if abs(one.reproduced - score) > (_SAME if one.identical else allowed_difference(result)):
        return f"{one.reproduced:.3f} does not reproduce {score:.3f}"
    if one.commit is None:
        return "it names no commit"
    try:
        created = datetime.fromisoformat(one.created)
    except ValueError:
        return "`created` is no time"
    return "it has no time zone or is from the future" if created.tzinfo is None or created > now + _CLOCK else ""


def maintainers_problem(contents: Contents, base: Base) -> str:
    """What only maintainers write and what is new or different since the base, or ""."""
    before = base.files(contents.folder)
    now = hash_of(base, contents.content[REPRODUCED]) if REPRODUCED in contents.content else None
    changed = [REPRODUCED] if now != before.get(REPRODUCED) else []
    then = card_before(contents, base)
    for key in OURS if contents.card is not None else ():
        if getattr(contents.card, key) != then.get(key, ""):
            changed.append(f"`{key}` in {CARD}")
    if not changed:
        return ""
    verb = "has" if len(changed) == 1 else "have"
    said = f"{', '.join(changed)} {verb} changed since {base.name}, and only maintainers write that"
    return f"{said}; put it back, or give --maintainer if you are one."
