"""Checks that no row of a submission is a copy: of the results of record, of another submission, of a row of its own.

A cell is compared with every cell of its task and model, whatever their seeds and ε. It is a copy of one

* that released the same: more than 3/4 of its texts (of 4: all), or 98% of its answers;
* or whose outcomes are the nearest to its own by far: a quarter as far as those of the next cell, or all but one the
  same and the next cell one farther.
  Noise moves outcomes, so the nearest cell of an honest run is little nearer than the next. Outcomes that many cells
  share (a model that always says one label, a method without noise) have a next cell just as near, and show nothing.

A row is a copy where more than half of its cells are. Of the committed rows of two mechanisms at most a third of the
cells are copies by this (answers: 97% agree at most), which `tests/leaderboards/gate/test_duplicates.py` holds.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from dpicl.leaderboards.gate.case import Case, NotChecked, Outcome
from dpicl.leaderboards.model.comparability import BASELINES
from dpicl.leaderboards.model.rows import outcomes_of, title_of
from dpicl.results.schema import Result

#: Share of a row's cells, above which it is a copy, and the fewest cells that say so.
_SHARE, _FEWEST = 0.5, 2
#: Shares of equal texts and of equal answers, above which two releases are one.
_TEXTS, _ANSWERS = 0.75, 0.98
#: How much farther than its source the next cell is from a copy.
_NEXT = 4.0

#: (label, ε, task, model).
RowKey = tuple[str, float, str, str]


def duplicates_check(case: Case) -> Outcome:
    """Against the results of record (but for what the submitter's own runs left there), every other submission, and
    the submission's other rows."""
    if case.card is None or case.suite is None:
        raise NotChecked("the card does not say yet which file and which suite the results are of")
    if case.contents.size:
        raise NotChecked("its files are refused; fix the size first")
    results, plugin = list(case.results.values()), case.contents.plugin_hash
    of_record = [one for one in case.reference if one.cell.plugin is None or one.cell.plugin != plugin]
    others = {one.name: list(one.results.values()) for one in case.others if one.name != case.contents.name}
    rivals = {"the results of record": of_record, **others}
    problems = []
    for name, theirs in rivals.items():
        if both := {one.cell_id for one in results} & {one.cell_id for one in theirs}:
            problems.append(f"{len(both)} of its cells are those of {name} already; send only what is new.")
        elif label := _find_equal_row(results, theirs):
            problems.append(
                f"All outcomes are those of {label} in {name}, record by record; send a method of its own, or explain"
                " it to the maintainers."
            )
        else:
            problems += [f"{problem} in {name}; {_EXPLAIN}" for problem in list_copies(results, theirs)]
    problems += [f"{problem} in this submission; {_OWN_NOISE}" for problem in list_repeated(results)]
    return Outcome(problems, f"none of its cells or rows is in {len(rivals)} other sources, or there twice")


_EXPLAIN = "send a method of its own, or explain it to the maintainers."
_OWN_NOISE = "each ε has noise of its own, so run the cells again."


def list_copies(results: Iterable[Result], theirs: Iterable[Result]) -> list[str]:
    """A sentence's beginning for each row of ``results`` that copies cells of ``theirs``."""
    found = []
    of_task = _group_by_task(theirs)
    for (label, epsilon, task, model), cells in _group_by_row(results).items():
        copied = _find_copied(cells, of_task[task, model])
        if len(copied) >= _FEWEST and len(copied) > _SHARE * len(cells):
            sources = Counter(title_of(one.cell.label, one.cell.epsilon) for one in copied)
            found.append(
                f"{title_of(label, epsilon)} on {task}: {len(copied)} of {len(cells)} cells have the texts or the"
                f" outcomes, but for a few, of cells of {' and '.join(sorted(sources))}"
            )
    return found


def _find_copied(cells: Sequence[Result], others: Sequence[Result]) -> list[Result]:
    """The sources of the cells that are copies; by outcomes each source counts once."""
    sources: dict[str, Result] = {}
    by_texts = []
    for cell in cells:
        if source := next((one for one in others if _released_the_same(cell, one)), None):
            by_texts.append(source)
        elif source := _find_nearest(cell, others):
            sources[source.cell_id] = source
    return [*by_texts, *sources.values()]


def _released_the_same(one: Result, other: Result) -> bool:
    """Whether most of both releases is equal; letters' case, blanks and punctuation aside."""
    if one.answers and not one.prepared:
        answers = {each.id: each.text for each in other.answers}
        equal = sum(answers.get(each.id) == each.text for each in one.answers)
        return equal > _ANSWERS * len(one.answers)
    texts, others = _count_texts(one), _count_texts(other)
    return (texts & others).total() > _TEXTS * max(texts.total(), others.total())


def _count_texts(result: Result) -> Counter[tuple[str, str]]:
    pairs = [(each.label, each.text) for each in result.released]
    if result.instruction is not None:
        pairs.append(("", result.instruction))
    return Counter((label, " ".join(re.findall(r"\w+", text.casefold()))) for label, text in pairs)


def _find_nearest(cell: Result, others: Sequence[Result]) -> Result | None:
    """The cell of which this one has the outcomes but for a few, where it is nearer than all others by far."""
    ids, outcomes = outcomes_of(cell)
    pairs = [(one, theirs) for one in others for their_ids, theirs in [outcomes_of(one)] if their_ids == ids]
    if len(pairs) < 2:  # no next one to compare with
        return None
    distances = np.abs(np.array([theirs for _, theirs in pairs]) - outcomes).sum(axis=1)
    nearest, following = np.argsort(distances, kind="stable")[:2]
    closest, gap = distances[nearest], distances[following] - distances[nearest]
    is_copy = gap > 0 and (closest <= distances[following] / _NEXT or closest <= 1 <= gap)
    return pairs[nearest][0] if is_copy else None


def list_repeated(results: Iterable[Result]) -> list[str]:
    """A sentence's beginning for each row whose releases another row of the same method has, although its noise
    differs. A release that several cells share, as of a few candidates, shows nothing."""
    rows = _group_by_row(one for one in results if one.privacy.ledger and one.texts and not one.answers)
    releases = {key: [tuple(cell.texts) for cell in cells] for key, cells in rows.items()}
    found = []
    for (label, epsilon, task, model), own in releases.items():
        for (other, level, where, which), theirs in releases.items():
            if (other, where, which) != (label, task, model) or level <= epsilon:
                continue
            counts, here = Counter(theirs), Counter(own)
            repeated = sum(counts[release] == here[release] == 1 for release in own)
            if repeated >= _FEWEST and repeated > _SHARE * len(own):
                found.append(
                    f"{title_of(label, epsilon)} on {task} released in {repeated} of {len(own)} cells what"
                    f" {title_of(other, level)} released"
                )
    return found


def _find_equal_row(results: Sequence[Result], theirs: Iterable[Result]) -> str:
    """The row of ``theirs`` that has the same outcomes in every cell of ``results``, or ""; also "" where outcomes are
    the same for all seeds, which those of methods without noise may be."""
    mine = {_outcomes(result) for result in results}
    by_label: dict[str, set[tuple[object, ...]]] = defaultdict(set)
    for result in theirs:
        if result.cell.mechanism not in BASELINES:
            by_label[result.cell.label].add(_outcomes(result))
    rows = _group_by_row(results).values()
    varies = any(len({_outcomes(cell)[-1] for cell in cells}) > 1 for cells in rows)
    return next((label for label, own in by_label.items() if varies and mine <= own), "")


def _outcomes(result: Result) -> tuple[object, ...]:
    """A cell but for its row, with the outcome of every test record, in whatever order they stand."""
    cell, documents = result.cell, result.documents[result.main_metric]
    key = (cell.suite, str(cell.suite_version), cell.model, cell.task, cell.epsilon, cell.seed)
    return *key, frozenset(zip(documents.ids, documents.outcomes, strict=True))


def _group_by_row(results: Iterable[Result]) -> Mapping[RowKey, list[Result]]:
    found: dict[RowKey, list[Result]] = defaultdict(list)
    for result in results:
        cell = result.cell
        found[cell.label, cell.epsilon, cell.task, cell.model].append(result)
    return found


def _group_by_task(results: Iterable[Result]) -> Mapping[tuple[str, str], list[Result]]:
    found: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        found[result.cell.task, result.cell.model].append(result)
    return found
