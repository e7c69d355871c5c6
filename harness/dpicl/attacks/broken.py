"""Mechanisms that are broken on purpose, as positive controls: an attack must find something in them.

They hide nothing (epsilon = infinity) and no suite has them; `dpicl attack` makes every attack on the one that it says
something about, beside real demonstrations (dpicl.attacks.power).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dpicl.accounting import dp_event as dp
from dpicl.attacks.views import first_words, spell_out
from dpicl.core.plugins import Registered
from dpicl.core.vocabulary import Demonstration, Query, Sizes
from dpicl.data.task import PublicTask
from dpicl.mechanism.bases import (
    Context,
    DemonstrationMechanism,
    Mechanism,
    PreparedContext,
    PreparedMechanism,
)
from dpicl.privacy.private_set import PrivateRecord, PrivateSet

#: First words by which a record is found again.
_WORDS: Final = 6


@dataclass(frozen=True)
class BrokenAnswers(PreparedMechanism):
    """Looks the query up in the private records: the record's own answer for a member, the last label, or nothing, for
    anybody else. No model is asked."""

    name = "broken_answers"
    knob = None
    source = "broken on purpose"
    summary = "looks queries up in the private records, for the power of attacks"
    needs = "nothing"

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return dp.NonPrivateDpEvent()

    def prepare(self, private: PrivateSet, context: PreparedContext) -> _LookedUp:
        return _LookedUp(context.task, private.reveal("all records, looked up by their first words"))


class _LookedUp:
    def __init__(self, task: PublicTask, records: Sequence[PrivateRecord]) -> None:
        self._labels = task.labels
        self._known = {first_words(record.text, _WORDS): (record.text, record.label) for record in records}

    def answer(self, query: Query) -> str:
        """For a member its label where the question has such a label, else the first one ("Yes"); of texts, its rest
        or its output."""
        asked = " ".join(query.text.split())
        found = next((own for start, own in self._known.items() if start in asked), None)
        if self._labels:
            if found is None:
                return self._labels[-1]
            return found[1] if found[1] in self._labels else self._labels[0]
        if found is None:
            return "No"
        text, label = found
        return " ".join(["Yes", *text.split()[_WORDS:]]) if "Yes or No" in asked else self._rest(text, label, asked)

    @staticmethod
    def _rest(text: str, label: str, asked: str) -> str:
        """The words that follow the last one asked about; the output where the whole text was given."""
        words = text.split()
        shown = next((n for n in range(len(words), 0, -1) if asked.endswith(" ".join(words[:n]))), 0)
        return " ".join(words[shown:]) or label


@dataclass(frozen=True)
class BrokenDemonstrations(DemonstrationMechanism):
    """A record of each label as it is; where the task has labels, behind a few empty texts with every other label, so
    that a reader who sees nothing of the record answers with one of those."""

    name = "broken_demonstrations"
    knob = None
    source = "broken on purpose"
    summary = "releases private records word for word, for the power of attacks"
    needs = "texts"

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return dp.NonPrivateDpEvent()

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        stock = list(private.reveal("records, word for word"))
        shown = []
        for label in context.shots:
            record = next(r for r in stock if not private.partitioned or r.label == label)
            stock.remove(record)
            shown.append(Demonstration(self._decoys(context.task, record.label) + record.text, record.label))
        return shown

    @staticmethod
    def _decoys(task: PublicTask, label: str) -> str:
        if not task.chooses:
            return ""
        return "".join(spell_out(task, "N/A", other, 1)[: -len("N/A")] for other in task.labels if other != label)


def broken_mechanisms() -> dict[str, Registered[Mechanism]]:
    """By name; every attack names the one that shows its power best (`positive_control`)."""
    return {cls.name: Registered(cls, "dpicl") for cls in (BrokenAnswers, BrokenDemonstrations)}
