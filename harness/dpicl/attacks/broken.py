"""Mechanisms that are broken on purpose, as positive controls: an attack must find something in them.

They hide nothing (epsilon = infinity) and no suite has them; `dpicl attack` makes every attack on the one that it says
something about, beside real demonstrations (dpicl.attacks.power).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpicl.accounting import dp_event as dp
from dpicl.attacks.views import first_words, spell_out
from dpicl.core.plugins import Registered
from dpicl.core.vocabulary import Demonstration, Query, Record, Sizes
from dpicl.data.task import PublicTask
from dpicl.mechanism.bases import (
    Context,
    DemonstrationMechanism,
    Mechanism,
    PreparedContext,
    PreparedMechanism,
)
from dpicl.privacy.private_set import PrivateRecord, PrivateSet

#: How many first words identify a record.
_WORDS = 6


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
        return _LookedUp(
            context.task, private.reveal("all records, looked up by their first words")
        )


class _LookedUp:
    def __init__(self, task: PublicTask, records: Sequence[PrivateRecord]) -> None:
        self._labels = task.labels
        copies = [Record(record.text, record.label) for record in records]
        self._records = {first_words(record.text, _WORDS): record for record in copies}

    def answer(self, query: Query) -> str:
        """For a member its label where the question has such a label, else the first one ("Yes"); of texts, its rest
        or its output."""
        question = " ".join(query.text.split())
        record = next(
            (record for start, record in self._records.items() if start in question), None
        )
        if self._labels:
            if record is None:
                return self._labels[-1]
            return record.label if record.label in self._labels else self._labels[0]
        if record is None:
            return "No"
        if "Yes or No" in question:
            return " ".join(["Yes", *record.text.split()[_WORDS:]])
        return self._rest(record, question)

    @staticmethod
    def _rest(record: Record, question: str) -> str:
        """The words that follow the last one in the question; the output where the question holds the whole text."""
        words = record.text.split()
        shown = len(words)
        while shown and not question.endswith(" ".join(words[:shown])):
            shown -= 1
        return " ".join(words[shown:]) or record.label


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
            record = next(
                record for record in stock if not private.partitioned or record.label == label
            )
            stock.remove(record)
            text = self._decoys(context.task, record.label) + record.text
            shown.append(Demonstration(text, record.label))
        return shown

    @staticmethod
    def _decoys(task: PublicTask, label: str) -> str:
        if not task.chooses:
            return ""
        others = [other for other in task.labels if other != label]
        return "".join(spell_out(task, "N/A", other, 1).removesuffix("N/A") for other in others)


def broken_mechanisms() -> dict[str, Registered[Mechanism]]:
    """By name; every attack names the one that shows its power best (`positive_control`)."""
    return {cls.name: Registered(cls, "dpicl") for cls in (BrokenAnswers, BrokenDemonstrations)}
