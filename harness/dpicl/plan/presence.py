"""Finds which cells of a suite are done: a result counts where its cell, and what went into it, are those of a run now.

The id of a cell says what is done, and not with which records, model files or version of the code. So a result may be
*stale*: of this very cell, from what is not here any more. It is never counted and never overwritten. And of a result
whose release a new cell shares, which was made from the same records, settings and files, the release is only scored.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from dpicl.core.cell import Cell, Options
from dpicl.core.errors import DpiclError, PluginError
from dpicl.core.grouping import group_by
from dpicl.core.messages import count
from dpicl.core.plugins import Registered
from dpicl.data.config import load_config
from dpicl.data.sources import check_there
from dpicl.data.task import Task
from dpicl.mechanism.options import build
from dpicl.mechanism.outputs import name_failure, skip_reason
from dpicl.plan.staleness import Comparison
from dpicl.results import manifest
from dpicl.results.fingerprints import Fingerprints, NotRead
from dpicl.results.schema import Result


@dataclass(frozen=True)
class Stale:
    """A cell whose result was made from something else than a run would use now. reason: in a few words."""

    cell: Cell
    reason: str


@dataclass(frozen=True)
class Presence:
    """The cells of a selection, each in one of the three, in their order. unknown: what of the results that are there
    could not be compared with what is here now, in one line; "" where all could."""

    there: list[Cell]
    stale: list[Stale]
    missing: list[Cell]
    unknown: str = ""


def find_presence(
    cells: Sequence[Cell],
    results: Collection[Result],
    records: Fingerprints,
    mechanisms: Mapping[str, Registered],
    loaded: Mapping[str, str] = MappingProxyType({}),
) -> Presence:
    """mechanisms: the registry. loaded: the pins of models that were loaded to know them, by name.

    Raises DataError where the source of a cell is missing, whether it has a result or not.
    """
    check_sources(cells)
    known = {(result.cell_id, result.cell.label): result for result in results}
    comparison = Comparison(records, mechanisms, results, loaded)
    presence = Presence([], [], [])
    for cell in cells:
        result = known.get((cell.id, cell.label))
        if result is None:
            presence.missing.append(cell)
        elif reason := comparison.find_difference(result):
            presence.stale.append(Stale(cell, reason))
        else:
            presence.there.append(cell)
    return replace(presence, unknown=comparison.describe_unknown())


def find_skipped(
    cells: Iterable[Cell],
    mechanisms: Mapping[str, Registered],
) -> list[tuple[Cell, str]]:
    """(a cell, why its mechanism does not do its task), of those cells; asked without records.

    A cell whose mechanism fails when it is asked is left in: it ends with that error, and the others go on.
    """
    reasons: dict[tuple[str, str, str], str] = {}
    skipped = []
    for cell in cells:
        key = (cell.mechanism, repr(cell.options), cell.task)
        if key not in reasons:
            reasons[key] = explain_skip(mechanisms[cell.mechanism], cell.options, cell.task)
        if reason := reasons[key]:
            skipped.append((cell, reason))
    return skipped


def explain_skip(registered: Registered, options: Options, task: str) -> str:
    """Why a mechanism with these options does not do a task; '' where it does, and where it fails when it is asked."""
    mechanism, public = build(registered.cls, options), Task.read_public(task)
    try:
        with name_failure(mechanism):
            return skip_reason(mechanism, public) or ""
    except PluginError:
        return ""


def find_releases(
    cells: Iterable[Cell],
    results: Collection[Result],
    records: Fingerprints,
    mechanisms: Mapping[str, Registered],
    loaded: Mapping[str, str],
) -> dict[str, Result]:
    """Id of a cell -> the newest result of its row and task whose release it can score.

    A release depends on no test record, so a cell may have others than the result; the worker that scores it compares
    the records that both have in common. A release of a changed checkout can be scored from a changed checkout only: in
    others it is made again, from code that a commit names. loaded: as `find_presence`.
    """
    _, is_changed = manifest.commit()
    by_release = {
        _release_key(result.cell): result
        for result in sorted(results, key=lambda result: result.created)
        if result.can_score_again and (is_changed or not result.manifest.dirty)
    }
    comparison = Comparison(records, mechanisms, results, loaded)
    releases = {}
    for cell in cells:
        result = by_release.get(_release_key(cell))
        if result is not None and _is_current(result, comparison):
            releases[cell.id] = result
    return releases


def _release_key(cell: Cell) -> tuple[str, str]:
    return cell.label, cell.release_id


def _is_current(result: Result, comparison: Comparison) -> bool:
    """Whether a release is what would be made now, as far as files say."""
    try:
        return not comparison.find_difference(result)
    except DpiclError:  # its records are not here: it is made again
        return False


def describe_completeness(
    suite: str, cells: Sequence[Cell], results: Iterable[Result], left_out: Iterable[Cell]
) -> str | None:
    """How many of the cells have a result, by epsilon, as a sentence; None where all have one.

    left_out: cells that their mechanisms skip. Records may be of any source.
    """
    skipped = set(map(which_of, left_out))
    there = {which_of(result.cell) for result in results}
    expected = {which_of(cell): cell.epsilon for cell in cells}
    expected = {which: epsilon for which, epsilon in expected.items() if which not in skipped}
    done = [which for which in expected if which in there]
    if len(done) == len(expected):
        return None
    all_of, done_of = Counter(expected.values()), Counter(expected[which] for which in done)
    split = "; ".join(
        f"ε {e:g}: {done_of[e]:,} of {all_of[e]:,}" for e in sorted(all_of) if 0 < e < math.inf
    )
    by_epsilon = f" ({split})" if split else ""
    return (
        f"Incomplete: {len(done):,} of {count(len(expected), 'cell')} of {suite} done{by_epsilon}."
    )


def which_of(cell: Cell) -> Hashable:
    return cell.model, cell.task, cell.label, cell.epsilon, cell.seed


def check_sources(cells: Iterable[Cell]) -> None:
    """Raises DataError where the records of a cell are not here."""
    for task, source in dict.fromkeys((cell.task, cell.source) for cell in cells):
        check_there(load_config(task).source, source)


def describe_stale(stale: Sequence[Stale]) -> str:
    """'agnews: the test records changed; trec: ...', each task and reason once."""
    return "; ".join(dict.fromkeys(f"{each.cell.task}: {each.reason}" for each in stale))


def select_current(
    results: Sequence[Result],
    records: Fingerprints,
) -> tuple[list[Result], list[str]]:
    """(the results that may stand on one board, notes): of a task that has results from the records at hand, those
    alone. A task whose records are not here keeps what it has: then the results say which records they are from.
    """
    by_task = group_by(results, "cell.task", "cell.source")
    current, notes = [], []
    stale: dict[str, list[str]] = defaultdict(list)
    for (task, _), group in by_task.items():
        others: dict[int, str] = {}
        try:
            check_sources(result.cell for result in group)
        except DpiclError:  # not here
            current += group
            continue
        try:
            differences = {id(result): records.difference(result) for result in group}
            others = {place: reason for place, reason in differences.items() if reason}
        except NotRead:
            pass
        except DpiclError as error:
            notes.append(
                f"{task}: cannot tell whether these results were computed on the present data. {error}"
            )
        difference = ", ".join(dict.fromkeys(others.values()))
        if len(others) == len(group):
            current += group
            if {str(result.cell.task_version) for result in group} == {
                str(load_config(task).metadata.version)
            }:
                # of an earlier version of the task other data is no news
                stale[difference].append(task)
            continue
        current += [result for result in group if id(result) not in others]
        if others:
            lost = count(len(others), "result")
            notes.append(
                f"{task}: left out {lost} computed on different data (fingerprint mismatch: {difference})."
            )
    notes += [
        f"{', '.join(tasks)}: results computed on different data (fingerprint mismatch: {difference}); `dpicl run"
        " --rerun-stale` makes new ones."
        for difference, tasks in stale.items()
    ]
    return current, notes
