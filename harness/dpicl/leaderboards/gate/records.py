"""Searches the texts of a submission for private records: whole, and by runs of eight words.

Two rules, for every text of the folder (released texts, answers, options, card, README, mechanism):

1. *Whole*: a text, or a line of it, that is a private record of at least four words, after case, punctuation and spaces
   are taken away.
2. *Overlap*: eight words in a row that a private record has. Eight is the length that data-set audits use for copies;
   shorter runs are common English.

Public words are no copies: those of the task's public part, its prompts, a test record (an answer may repeat its
question), or a text that our own results released at epsilon 0, which the model writes without any record. Runs of
eight words that three records or more have are boilerplate ("said in a statement ..."): they identify no record and
are only counted. The search misses a paraphrase, seven words, an encoding.

Reports give places and counts, never the words.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dpicl.core.errors import DpiclError
from dpicl.core.messages import names_text
from dpicl.core.scripts import fold_text
from dpicl.data.config import load_config
from dpicl.data.sources import resolve
from dpicl.data.splits import normalise
from dpicl.data.task import Task
from dpicl.leaderboards.gate.card import CARD
from dpicl.leaderboards.gate.case import Case, NotChecked, Outcome

#: Words of a run that counts as copied; fewest words of a whole record; records that make a run boilerplate.
RUN, WHOLE, BOILERPLATE = 8, 4, 3
_WORD = re.compile(r"\w+")
#: Harness's record seed: see dpicl.results.fingerprints.
_SEED = 0


def records_check(case: Case) -> Outcome:
    """Searches the records of every task and source that the submission used, and of $DPICL_DATA where it has them."""
    problems, notes, searched, absent = [], [], [], []
    for task, source, train in sorted(_list_needed(case), key=str):
        try:
            loaded = Task.load(task, source, limit_train=train, seed=_SEED)
        except DpiclError as error:
            absent.append(f"{task} ({source}): {str(error).rstrip('.')}")
            continue
        searched.append(f"{task} ({source}, {loaded.size:,} records)")
        copies, common = _search(case, loaded)
        for place, count in sorted(copies.items()):
            problems.append(
                f"{place} holds words of {count} private record{'s' if count > 1 else ''} of {task} ({source}): a whole"
                f" record, or {RUN} words in a row; remove the text, and find out how it got out."
            )
        if common:
            notes.append(
                f"{common} runs of {RUN} words are in {BOILERPLATE} or more records of {task} ({source})."
            )
    if absent and not problems:
        raise NotChecked(f"no records here for {names_text(absent)}", searched)
    return Outcome(problems, f"no copy of {names_text(searched)}", [*notes, *absent])


def _list_needed(case: Case) -> set[tuple[str, str, int | None]]:
    """(task, source, number of training records; None: all) of every data set to search."""
    needed: set[tuple[str, str, int | None]] = set()
    for result in case.results.values():
        cell = result.cell
        needed.add((cell.task, cell.source, None if cell.source == "local" else cell.train_records))
        if resolve("auto", load_config(cell.task).source) == "local":
            needed.add((cell.task, "local", None))
    return needed


def _search(case: Case, task: Task) -> tuple[Counter[str], int]:
    """(place -> how many private records it has words of, number of boilerplate runs)."""
    places: dict[str, set[str]] = defaultdict(
        set
    )  # a run of eight words, or a whole line -> where it stands
    for place, text in _texts(case, task.name):
        for words in _runs(text):
            places[words].add(place)
        for line in {text, *text.splitlines()}:
            for words in _list_keys(line):
                places[words].add(place)
    for text in _list_public(case, task):
        for words in (*_runs(text), *_list_keys(text)):
            places.pop(words, None)
    holders: dict[str, set[int]] = defaultdict(set)
    wholes: set[str] = set()
    for number, record in enumerate(task.train):
        for part in (record.text,) if task.labels else (record.text, record.label):
            whole = {*_list_keys(part)} & places.keys()
            wholes |= whole
            for words in whole | ({*_runs(part)} & places.keys()):
                holders[words].add(number)
    common = {words for words, numbers in holders.items() if len(numbers) >= BOILERPLATE} - wholes
    copies: dict[int, set[str]] = defaultdict(set)
    for words in holders.keys() - common:
        for number in holders[words]:
            copies[number] |= places[words]
    return Counter(place for of_record in copies.values() for place in of_record), len(common)


def _list_public(case: Case, task: Task) -> Iterator[str]:
    for record in (*task.test, *task.public):
        yield from (record.text, record.label)
    yield from _strings(task.config.metadata.prompts.model_dump(exclude_unset=True))
    yield from (task.config.description, task.config.doc_to_text)
    for result in case.reference:
        if result.cell.task == task.name and result.privacy.epsilon_proved == 0:
            yield from result.texts


def _texts(case: Case, task: str) -> Iterator[tuple[str, str]]:
    """(place, text) of everything that a reader of the submission sees; of results those of this task."""
    contents = case.contents
    for name in contents.content:
        result = contents.results.get(name)
        if result is None and not name.startswith("results/"):
            yield name, contents.content[name].decode("utf-8", "replace")
        elif result is not None and result.cell.task == task:
            data = json.loads(contents.content[name])
            for key in ("released", "answers"):
                for number, released in enumerate(data.pop(key, ())):
                    for text in _strings(released):
                        yield f"{name}, {key}[{number}]", text
            for text in _strings(data):
                yield name, text
    if contents.card is not None:  # as YAML reads it: escapes hide nothing
        for text in _strings(contents.card.model_dump()):
            yield CARD, text


def _strings(value: Any) -> Iterator[str]:
    """Every text of a value, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _strings(item)
    elif isinstance(value, Iterable):
        for item in value:
            yield from _strings(item)


def _runs(text: str) -> Iterator[str]:
    words = _WORD.findall(fold_text(text))
    return (" ".join(words[i : i + RUN]) for i in range(len(words) - RUN + 1))


def _list_keys(text: str) -> Iterator[str]:
    """What is the same for texts that are one record; nothing for a few words."""
    if len(_WORD.findall(text)) >= WHOLE:
        yield f"= {normalise(text)}"  # no run of words begins so
