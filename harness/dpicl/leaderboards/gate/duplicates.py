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
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import combinations

import numpy as np

from dpicl.core.grouping import group_by
from dpicl.leaderboards.gate.case import Case, NotChecked, Outcome
from dpicl.leaderboards.model.rows import outcomes_of, title_of
from dpicl.results.schema import Result

#: Share of a row's cells, above which it is a copy, and the fewest cells that say so.
_SHARE, _FEWEST = 0.5, 2
#: Shares of equal texts and of equal answers, above which two releases are one.
_TEXTS, _ANSWERS = 0.75, 0.98
#: How much farther than its source the next cell is from a copy.
_NEXT = 4.0
#: Conditions that cells of one row share.
_ROW = ("cell.label", "cell.epsilon", "cell.task", "cell.model")
_EXPLAIN = "send a method of its own, or explain it to the maintainers."
_OWN_NOISE = "each ε has noise of its own, so run the cells again."

#: Letters of Cyrillic and Greek, and the Latin ones that look alike.
_LOOK_ALIKES = str.maketrans(
    "АВЕЗКМНОРСТУХаеорсухіјѕԁԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧοαν", "ABE3KMHOPCTYXaeopcyxijsdqwABEZHIKMNOPTYXoav"
)

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
    rivals = {
        "the results of record": [
            result
            for result in case.reference
            if result.cell.plugin is None or result.cell.plugin != plugin
        ]
    }
    for other in case.others:
        if other.name != case.contents.name:
            rivals[other.name] = list(other.results.values())
    problems = []
    cells = {result.cell_id for result in results}
    for name, theirs in rivals.items():
        common = cells & {result.cell_id for result in theirs}
        if common:
            problems.append(
                f"{len(common)} of its cells are those of {name} already; send only what is new."
            )
        else:
            copies = list_copies(results, theirs)
            problems += [f"{copy} in {name}; {_EXPLAIN}" for copy in copies]
    problems += [f"{copy} in this submission; {_OWN_NOISE}" for copy in list_repeated(results)]
    good = f"none of its cells or rows is in {len(rivals)} other sources, or there twice"
    return Outcome(problems, good)


def list_copies(results: Iterable[Result], theirs: Iterable[Result]) -> list[str]:
    """A sentence's beginning for each row of ``results`` that copies cells of ``theirs``."""
    problems = []
    counted = {
        place: [(result, _count_texts(result)) for result in of_task]
        for place, of_task in group_by(theirs, "cell.task", "cell.model").items()
    }
    for (label, epsilon, task, model), cells in group_by(results, *_ROW).items():
        sources = _find_sources(cells, counted.get((task, model), []))
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
    """The sources of the cells that are copies; by outcomes each source counts once, but for those of which a cell has
    all outcomes but one."""
    results = [other for other, _ in others]
    by_outcomes: dict[str, Result] = {}
    by_texts = []
    for cell in cells:
        counts = _count_texts(cell)
        equal = [other for other, texts in others if _released_the_same(cell, counts, other, texts)]
        nearest, closest = (None, 0.0) if equal else _find_nearest(cell, results)
        by_texts += equal[:1]
        if nearest is not None:
            name = f"{nearest.cell_id} {cell.cell_id}" if closest <= 1 else nearest.cell_id
            by_outcomes[name] = nearest
    return [*by_texts, *by_outcomes.values()]


def _released_the_same(one: Result, texts: TextCounts, other: Result, others: TextCounts) -> bool:
    """Whether most of both releases is equal; letters' case, blanks and punctuation aside."""
    if one.answers and not one.prepared:
        answers = {answer.id: _words_of(answer.text) for answer in other.answers}
        equal = sum(answers.get(answer.id) == _words_of(answer.text) for answer in one.answers)
        return equal > _ANSWERS * len(one.answers)
    return (texts & others).total() > _TEXTS * max(texts.total(), others.total())


def _count_texts(result: Result) -> TextCounts:
    pairs = [(text.label, text.text) for text in result.released]
    if result.instruction is not None:
        pairs.append(("", result.instruction))
    return Counter((label, _words_of(text)) for label, text in pairs)


@cache
def _words_of(text: str) -> str:
    """The words of a text as a reader sees them: without letters' case, accents, widths and what is not shown, and
    with Latin letters in place of those of other scripts that look alike."""
    plain = unicodedata.normalize("NFKD", text.translate(_LOOK_ALIKES)).casefold()
    letters = (each for each in plain if unicodedata.category(each) not in ("Cf", "Mn"))
    return " ".join(re.findall(r"\w+", "".join(letters)))


def _find_nearest(cell: Result, others: Sequence[Result]) -> tuple[Result | None, float]:
    """The cell of which this one has the outcomes but for a few, where it is nearer than all others by far; and by how
    many they differ."""
    ids, outcomes = outcomes_of(cell)
    comparable = [other for other in others if outcomes_of(other)[0] == ids]
    if len(comparable) < 2:  # no next one to compare with
        return None, 0.0
    differences = np.array([outcomes_of(other)[1] for other in comparable]) - outcomes
    distances = np.abs(differences).sum(axis=1)
    nearest, following = np.argsort(distances, kind="stable")[:2]
    closest, gap = distances[nearest], distances[following] - distances[nearest]
    is_copy = gap > 0 and (closest <= distances[following] / _NEXT or closest <= 1 <= gap)
    return (comparable[nearest] if is_copy else None), float(closest)


def list_repeated(results: Iterable[Result]) -> list[str]:
    """A sentence's beginning for each row whose releases another row of the same method has, although its noise
    differs. A release that several cells share, as of a few candidates, shows nothing."""
    noisy = [
        result
        for result in results
        if result.texts and not result.answers and result.privacy.ledger
    ]
    problems = []
    for rows in group_by(noisy, "cell.label", "cell.task", "cell.model").values():
        releases = {
            epsilon: Counter(tuple(cell.texts) for cell in cells)
            for epsilon, cells in sorted(group_by(rows, "cell.epsilon").items())
        }
        for (epsilon, of_row), (other, of_other) in combinations(releases.items(), 2):
            repeated = sum(number == of_other[release] == 1 for release, number in of_row.items())
            if repeated >= _FEWEST and repeated > _SHARE * of_row.total():
                cell = rows[0].cell
                problems.append(
                    f"{title_of(cell.label, epsilon)} on {cell.task} released in {repeated} of {of_row.total()} cells"
                    f" what {title_of(cell.label, other)} released"
                )
    return problems
