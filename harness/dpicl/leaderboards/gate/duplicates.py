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
#: How often a release has each (label, words of a text).
TextCounts = Counter[tuple[str, str]]


def duplicates_check(case: Case) -> Outcome:
    """Against the results of record (but for what the submitter's own runs left there), every other submission, and
    the submission's other rows."""
    if case.card is None or case.suite is None:
        raise NotChecked("the card does not say yet which file and which suite the results are of")
    if case.contents.size:
        raise NotChecked("its files are refused; fix the size first")
    results, plugin = list(case.results.values()), case.contents.plugin_hash
    of_record = [
        result
        for result in case.reference
        if result.cell.plugin is None or result.cell.plugin != plugin
    ]
    rivals = {"the results of record": of_record}
    for other in case.others:
        if other.name != case.contents.name:
            rivals[other.name] = list(other.results.values())
    problems = []
    cells = {result.cell_id for result in results}
    for name, theirs in rivals.items():
        if both := cells & {result.cell_id for result in theirs}:
            problems.append(
                f"{len(both)} of its cells are those of {name} already; send only what is new."
            )
        elif label := _find_equal_row(results, theirs):
            problems.append(
                f"All outcomes are those of {label} in {name}, record by record; send a method of its own, or explain"
                " it to the maintainers."
            )
        else:
            problems += [
                f"{problem} in {name}; {_EXPLAIN}" for problem in list_copies(results, theirs)
            ]
    problems += [
        f"{problem} in this submission; {_OWN_NOISE}" for problem in list_repeated(results)
    ]
    return Outcome(
        problems, f"none of its cells or rows is in {len(rivals)} other sources, or there twice"
    )


_EXPLAIN = "send a method of its own, or explain it to the maintainers."
_OWN_NOISE = "each ε has noise of its own, so run the cells again."


def list_copies(results: Iterable[Result], theirs: Iterable[Result]) -> list[str]:
    """A sentence's beginning for each row of ``results`` that copies cells of ``theirs``."""
    problems = []
    by_task: dict[tuple[str, str], list[tuple[Result, TextCounts]]] = defaultdict(list)
    for result in theirs:
        by_task[result.cell.task, result.cell.model].append((result, _count_texts(result)))
    for (label, epsilon, task, model), cells in _group_by_row(results).items():
        sources = _find_sources(cells, by_task[task, model])
        if len(sources) >= _FEWEST and len(sources) > _SHARE * len(cells):
            titles = {title_of(source.cell.label, source.cell.epsilon) for source in sources}
            problems.append(
                f"{title_of(label, epsilon)} on {task}: {len(sources)} of {len(cells)} cells have the texts or the"
                f" outcomes, but for a few, of cells of {' and '.join(sorted(titles))}"
            )
    return problems


def _find_sources(
    cells: Sequence[Result], others: Sequence[tuple[Result, TextCounts]]
) -> list[Result]:
    """The sources of the cells that are copies; by outcomes each source counts once."""
    results = [other for other, _ in others]
    by_outcomes: dict[str, Result] = {}
    by_texts = []
    for cell in cells:
        counts = _count_texts(cell)
        same_texts = next(
            (other for other, texts in others if _released_the_same(cell, counts, other, texts)),
            None,
        )
        if same_texts is not None:
            by_texts.append(same_texts)
        elif nearest := _find_nearest(cell, results):
            by_outcomes[nearest.cell_id] = nearest
    return [*by_texts, *by_outcomes.values()]


def _released_the_same(one: Result, texts: TextCounts, other: Result, others: TextCounts) -> bool:
    """Whether most of both releases is equal; letters' case, blanks and punctuation aside."""
    if one.answers and not one.prepared:
        answers = {answer.id: answer.text for answer in other.answers}
        equal = sum(answers.get(answer.id) == answer.text for answer in one.answers)
        return equal > _ANSWERS * len(one.answers)
    return (texts & others).total() > _TEXTS * max(texts.total(), others.total())


def _count_texts(result: Result) -> TextCounts:
    pairs = [(text.label, text.text) for text in result.released]
    if result.instruction is not None:
        pairs.append(("", result.instruction))
    return Counter((label, " ".join(re.findall(r"\w+", text.casefold()))) for label, text in pairs)


def _find_nearest(cell: Result, others: Sequence[Result]) -> Result | None:
    """The cell of which this one has the outcomes but for a few, where it is nearer than all others by far."""
    ids, outcomes = outcomes_of(cell)
    comparable = [other for other in others if outcomes_of(other)[0] == ids]
    if len(comparable) < 2:  # no next one to compare with
        return None
    distances = np.abs(np.array([outcomes_of(other)[1] for other in comparable]) - outcomes).sum(
        axis=1
    )
    nearest, following = np.argsort(distances, kind="stable")[:2]
    closest, gap = distances[nearest], distances[following] - distances[nearest]
    is_copy = gap > 0 and (closest <= distances[following] / _NEXT or closest <= 1 <= gap)
    return comparable[nearest] if is_copy else None


def list_repeated(results: Iterable[Result]) -> list[str]:
    """A sentence's beginning for each row whose releases another row of the same method has, although its noise
    differs. A release that several cells share, as of a few candidates, shows nothing."""
    with_texts = (result for result in results if result.texts and not result.answers)
    rows = _group_by_row(result for result in with_texts if result.privacy.ledger)
    releases = {key: Counter(tuple(cell.texts) for cell in cells) for key, cells in rows.items()}
    problems = []
    for (label, epsilon, task, model), of_row in releases.items():
        for (other, level, other_task, other_model), of_other in releases.items():
            if (other, other_task, other_model) != (label, task, model) or level <= epsilon:
                continue
            repeated = sum(number == of_other[release] == 1 for release, number in of_row.items())
            cells = of_row.total()
            if repeated >= _FEWEST and repeated > _SHARE * cells:
                problems.append(
                    f"{title_of(label, epsilon)} on {task} released in {repeated} of {cells} cells what"
                    f" {title_of(other, level)} released"
                )
    return problems


def _find_equal_row(results: Sequence[Result], theirs: Iterable[Result]) -> str:
    """The row of ``theirs`` that has the same outcomes in every cell of ``results``, or ""; also "" where outcomes are
    the same for all seeds, which those of methods without noise may be."""
    mine = {_outcomes(result) for result in results}
    by_label: dict[str, set[tuple[object, ...]]] = defaultdict(set)
    for result in theirs:
        if result.cell.mechanism not in BASELINES:
            by_label[result.cell.label].add(_outcomes(result))
    rows = _group_by_row(results).values()
    if all(len({_outcomes(cell)[-1] for cell in cells}) == 1 for cells in rows):
        return ""
    return next((label for label, outcomes in by_label.items() if mine <= outcomes), "")


def _outcomes(result: Result) -> tuple[object, ...]:
    """A cell but for its row, with the outcome of every test record, in whatever order they stand."""
    cell, documents = result.cell, result.documents[result.main_metric]
    key = (cell.suite, str(cell.suite_version), cell.model, cell.task, cell.epsilon, cell.seed)
    return *key, frozenset(zip(documents.ids, documents.outcomes, strict=True))


def _group_by_row(results: Iterable[Result]) -> Mapping[RowKey, list[Result]]:
    rows: dict[RowKey, list[Result]] = defaultdict(list)
    for result in results:
        cell = result.cell
        rows[cell.label, cell.epsilon, cell.task, cell.model].append(result)
    return rows
