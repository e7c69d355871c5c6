"""Does a submission hold private records? Its texts are searched for them: whole, and by runs of eight words.

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
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpicl.core.errors import DpiclError
from dpicl.data.config import load_config, source_spec
from dpicl.data.sources import resolve
from dpicl.data.splits import folded, normalised
from dpicl.data.task import Task
from dpicl.leaderboards.gate.card import CARD
from dpicl.leaderboards.gate.contents import Contents
from dpicl.leaderboards.gate.findings import Finding, verdict
from dpicl.leaderboards.model.text import names_text
from dpicl.results.schema import Result

#: Words of a run that counts as copied; fewest words of a whole record; records that make a run boilerplate.
RUN, WHOLE, BOILERPLATE = 8, 4, 3
_WORD = re.compile(r"\w+")
#: Fields that other checks pin: a hash, a time, and the ids of the reference's test records.
_PINNED = {("cell_id",), ("created",)}
#: Harness's record seed: see dpicl.results.fingerprints.
_SEED = 0


@dataclass
class _Search:
    """Runs of eight words and whole lines of the submission, with the places that have them."""

    runs: dict[str, set[str]] = field(default_factory=dict)
    wholes: dict[str, set[str]] = field(default_factory=dict)

    def add(self, place: str, text: str) -> None:
        for run in _runs(text):
            self.runs.setdefault(run, set()).add(place)
        for line in {text, *text.splitlines()}:
            if len(_WORD.findall(line)) >= WHOLE:
                self.wholes.setdefault(normalised(line), set()).add(place)

    def forget(self, text: str) -> None:
        """Takes public words out."""
        for run in _runs(text):
            self.runs.pop(run, None)
        self.wholes.pop(normalised(text), None)


def records_check(contents: Contents, reference: Sequence[Result]) -> Finding:
    """Searches the records of every task and source that the submission used, and of $DPICL_DATA where it has them."""
    problems, notes, searched, absent = [], [], [], []
    for task, source, train in sorted(_needed(contents), key=str):
        try:
            loaded = Task.load(task, source, limit_train=train, seed=_SEED)
        except DpiclError as error:
            absent.append(f"{task} ({source}): {str(error).rstrip('.')}")
            continue
        searched.append(f"{task} ({source}, {loaded.size:,} records)")
        copies, common = _search(contents, loaded, reference)
        for place, count in sorted(copies.items()):
            problems.append(
                f"{place} holds words of {count} private record{'s' if count > 1 else ''} of {task} ({source}): a whole"
                f" record, or {RUN} words in a row; remove the text, and find out how it got out."
            )
        if common:
            notes.append(f"{common} runs of {RUN} words are in {BOILERPLATE} or more records of {task} ({source}).")
    if absent and not problems:
        return Finding("private records", "not checked", f"no records here for {names_text(absent)}", tuple(searched))
    return verdict("private records", problems, f"no copy of {names_text(searched)}", [*notes, *absent])


def _needed(contents: Contents) -> set[tuple[str, str, int | None]]:
    """(task, source, number of training records; None: all) of every data set to search."""
    needed: set[tuple[str, str, int | None]] = set()
    for cell in (result.cell for result in contents.results.values()):
        needed.add((cell.task, cell.source, None if cell.source == "local" else cell.train_records))
        if resolve("auto", source_spec(load_config(cell.task))) == "local":
            needed.add((cell.task, "local", None))
    return needed


def _search(contents: Contents, task: Task, reference: Sequence[Result]) -> tuple[Counter[str], int]:
    """(place -> how many private records it has words of, number of boilerplate runs)."""
    search = _Search()
    for place, text in texts_of(contents, task.name):
        search.add(place, text)
    for text in _public(task, reference):
        search.forget(text)
    holders: dict[str, list[int]] = {}
    found: dict[int, set[str]] = {}
    for number, record in enumerate(task.train):
        parts = (record.text,) if task.labels else (record.text, record.label)
        for part in parts:
            for run in set(_runs(part)) & search.runs.keys():
                holders.setdefault(run, []).append(number)
            if len(_WORD.findall(part)) >= WHOLE and (key := normalised(part)) in search.wholes:
                found.setdefault(number, set()).update(search.wholes[key])
    common = {run for run, numbers in holders.items() if len(numbers) >= BOILERPLATE}
    for run, numbers in holders.items():
        for number in () if run in common else numbers:
            found.setdefault(number, set()).update(search.runs[run])
    return Counter(place for places in found.values() for place in places), len(common)


def _public(task: Task, reference: Sequence[Result]) -> Iterator[str]:
    for record in (*task.test, *task.public):
        yield from (record.text, record.label)
    yield from _strings(task.config["metadata"].get("prompts", {}))
    yield from _strings([task.config.get("description", ""), task.config.get("doc_to_text", "")])
    for result in reference:
        if result.cell.task == task.name and result.privacy.epsilon_proved == 0:
            yield from result.texts


def texts_of(contents: Contents, task: str) -> Iterator[tuple[str, str]]:
    """(place, text) of everything that a reader of the submission sees; of results those of this task."""
    for name in contents.files:
        result = contents.results.get(name)
        if result is None and not name.startswith("results/"):
            yield name, contents.content[name].decode("utf-8", "replace")
        elif result is not None and result.cell.task == task:
            data = json.loads(contents.content[name])
            for key in ("released", "answers"):
                for i, one in enumerate(data.pop(key, ())):
                    for text in _strings(one):
                        yield f"{name}, {key}[{i}]", text
            for text in _strings(data):
                yield name, text
    if contents.card is not None:  # as YAML reads it: escapes hide nothing
        for text in _strings(contents.card.model_dump()):
            yield CARD, text


def _strings(value: Any, place: tuple[str, ...] = ()) -> Iterator[str]:
    """Every text of a value, keys too, except what `_PINNED` names."""
    if place in _PINNED or (len(place) == 3 and place[0] == "documents" and place[2] == "ids"):
        return
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _strings(item, (*place, str(key)))
    elif isinstance(value, Iterable):
        for item in value:
            yield from _strings(item, (*place, ""))


def _runs(text: str) -> Iterator[str]:
    words = _WORD.findall(folded(text))
    return (" ".join(words[i : i + RUN]) for i in range(len(words) - RUN + 1))
