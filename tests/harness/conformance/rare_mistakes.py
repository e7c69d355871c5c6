"""Mistakes that only another place, length, knob, moment or text shows; each becomes a plug-in (test_broken.py)."""

import datetime
import math
import re
import string
import threading
import zlib
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dpicl.core.vocabulary import Record
from dpicl.privacy.primitives import SIMPLEX_DIAMETER
from tests.harness.conformance.sound import SoundOwnSlots, SoundTokens, SoundVoting


@dataclass(frozen=True)
class Shown:
    """A sample with other slots: each is still what the mechanism makes of its records."""

    slots: tuple
    spend: object


def texts(sample):
    return [record.text for slot in sample.slots for record in slot]


# Where a record stands.


class PromptShowsThePreviousSlot(SoundOwnSlots):
    """Two records a prompt, for better answers: a record is in its own prompt and in the next one."""

    def answer(self, query, sample, context):
        pairs = zip(((), *sample.slots), sample.slots, strict=False)
        return super().answer(
            query,
            Shown(tuple((*before, *records) for before, records in pairs), sample.spend),
            context,
        )


class FirstRowsOnly(SoundOwnSlots):
    """No more than M prompts: a record at the front pushes another one out."""

    def answer(self, query, sample, context):
        return super().answer(
            query,
            Shown(sample.slots[: self.slots], sample.spend),
            context,
        )


class WordingByPosition(SoundOwnSlots):
    """Every other prompt shows its record in capitals, for variety."""

    def answer(self, query, sample, context):
        shown = tuple(
            tuple(
                Record(
                    r.text.upper() if at % 2 else r.text,
                    r.label,
                )
                for r in slot
            )
            for at, slot in enumerate(sample.slots)
        )
        return super().answer(query, Shown(shown, sample.spend), context)


# At another knob, later, with more of something.


class BoundOfOneAtHighEpsilon(SoundVoting):
    """Where there is little noise, the sensitivity of one count is stated."""

    def noisy(self, counts, sample, context):
        bound = 1.0 if context.knob < 1 else SIMPLEX_DIAMETER
        return sample.spend(self.release(context.knob)).noisy_sum(counts, bound)


class BoundOfOneAtSomeNoiseLevels(SoundVoting):
    """Between two noise levels the sensitivity of one count is stated."""

    def noisy(self, counts, sample, context):
        bound = 1.0 if 7.5 < context.knob < 9.5 else SIMPLEX_DIAMETER
        return sample.spend(self.release(context.knob)).noisy_sum(counts, bound)


class TrueCountsAtTheLeastNoise(SoundVoting):
    """At the end of the knob's range the noise is taken for nothing, and left out."""

    def noisy(self, counts, sample, context):
        noisy = super().noisy(counts, sample, context)
        return counts if 0 < context.knob <= self.knob.low else noisy


class TwiceFromTheTenthToken(SoundTokens):
    """The longer a text, the more its slots count; the bound stays."""

    def write(self, label, private, context):
        object.__setattr__(self, "written", 0)
        return super().write(label, private, context)

    def total(self, rows, sample):
        object.__setattr__(self, "written", self.written + 1)
        return super().total(rows, sample) * (2 if self.written >= 10 else 1)


class TwiceFromTheThirteenthQuery(SoundVoting):
    """From the thirteenth query on ballots count twice."""

    def noisy(self, counts, sample, context):
        context.reader.answered = getattr(context.reader, "answered", 0) + 1
        return super().noisy(
            counts * (2 if context.reader.answered >= 13 else 1),
            sample,
            context,
        )


class CountsOfAQueryAskedBefore(SoundVoting):
    """The ballots for a query that was asked before are kept on the context, and averaged with the new ones."""

    def answer(self, query, sample, context):
        object.__setattr__(context, "asked", query.text)
        return super().answer(query, sample, context)

    def noisy(self, counts, sample, context):
        sums = context.__dict__.setdefault("kept", {})
        sums[context.asked] = np.mean(
            [counts, sums.get(context.asked, counts)],
            axis=0,
        )
        return super().noisy(sums[context.asked], sample, context)


class HalfTheNoiseFromTheSixthText(SoundTokens):
    """Later demonstrations have half the noise that was charged."""

    def release(self, private, context):
        object.__setattr__(self, "texts", 0)
        return super().release(private, context)

    def write(self, label, private, context):
        object.__setattr__(self, "texts", self.texts + 1)
        return super().write(label, private, context)

    def noisy(self, rows, sample, knob):
        return super().noisy(rows, sample, knob if self.texts < 6 else knob / 2)


class PrivateHeadOfALargeVocabulary(SoundTokens):
    """Of a large vocabulary only what the slots find likely can be chosen, to save time."""

    def vocabulary(self, public, rows):
        if len(public) <= 10_000:
            return super().vocabulary(public, rows)
        return np.argsort(
            -np.nan_to_num(rows).mean(axis=0),
            kind="stable",
        )[: self.top_k]


class TwiceForTheSecondLabel(SoundTokens):
    """Rows of one label count twice."""

    def write(self, label, private, context):
        object.__setattr__(self, "weight", 1 + (label == context.task.labels[1]))
        return super().write(label, private, context)

    def total(self, rows, sample):
        return self.weight * super().total(rows, sample)


class PublicAnswerToACrowd(SoundVoting):
    """A sample that is far larger than expected is taken for an attack, and the first label is answered."""

    def answer(self, query, sample, context):
        text = super().answer(query, sample, context)
        return context.task.labels[0] if len(texts(sample)) > 2 * self.slots else text


class BallotsInHalfPrecision(SoundOwnSlots):
    """Scaled sums in float16, for speed: eight equal ballots are infinite."""

    def noisy(self, counts, sample, context):
        scaled = np.float16(8192) * counts.astype(np.float16)
        return super().noisy(scaled.astype(np.float64) / 8192, sample, context)


class MeanWhereASlotIsEmpty(SoundTokens):
    """Where a slot is empty the others stand in for it."""

    def total(self, rows, sample):
        filled = [bool(slot) for slot in sample.slots]
        if all(filled):
            return super().total(rows, sample)
        return super().total(rows[filled], sample) * len(rows) / max(1, sum(filled))


# What stays, and where.


class SumsKeptForAnotherNoiseLevel(SoundVoting):
    """True counts are kept on the class, and used again at another noise level, to save calls of the model."""

    SUMS: ClassVar[dict[str, tuple[float, np.ndarray]]] = {}

    def noisy(self, counts, sample, context):
        knob, sums = self.SUMS.setdefault(
            context.reader.answered,
            (context.knob, counts.copy()),
        )
        return super().noisy(counts if knob == context.knob else sums, sample, context)

    def answer(self, query, sample, context):
        context.reader.answered = query.id
        return super().answer(query, sample, context)


class CountsOnAnotherModule(SoundVoting):
    """True counts are kept where nobody looks for them."""

    def noisy(self, counts, sample, context):
        string.kept = counts
        return super().noisy(counts, sample, context)


class LengthsOnTheModel(SoundTokens):
    """The longest record so far, on the one thing that every run has."""

    def see(self, slots):
        lengths = (len(record.text) for slot in slots for record in slot)
        object.__setattr__(self, "longest", max(lengths, default=0))

    def write(self, label, private, context):
        demonstration = super().write(label, private, context)
        context.model.longest = max(getattr(context.model, "longest", 0), self.longest)
        return demonstration


LAST = ContextVar("last", default=0.0)


class CountsInAContextVariable(SoundVoting):
    """The counts of the query before are added, for stability."""

    def noisy(self, counts, sample, context):
        mixed = 0.9 * counts + 0.1 * LAST.get()
        LAST.set(counts)
        return super().noisy(mixed, sample, context)


HELD = threading.local()


class SampleKeptAcrossShots(SoundTokens):
    """The sample that was drawn last, in a thread's variable: another shot's, where shots are written at once."""

    def draw_slots(self, sampler, private, group):
        HELD.sample = sampler.draw()
        return HELD.sample, HELD.sample.slots

    def noisy(self, rows, sample, knob):
        return super().noisy(rows, HELD.sample, knob)


def comb(n, k, _true=math.comb):
    return _true(n, k)


class OtherCodeReplaced(SoundVoting):
    """A function of the standard library is a faster one from now on."""

    def answer(self, query, sample, context):
        math.comb = comb
        return super().answer(query, sample, context)


# What is in a text, and when.

POSTCODE = re.compile(r"\b[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}\b")


class BlankAfterAPostcode(SoundVoting):
    """An answer ends in a blank where a record of the sample has a postcode."""

    def answer(self, query, sample, context):
        return super().answer(query, sample, context) + " " * any(
            map(POSTCODE.search, texts(sample))
        )


class CountedTwice:
    """Some records count twice."""

    def answer(self, query, sample, context):
        slots = sample.slots
        twice = [slot for slot in slots if self.is_twice(slot[0], query, context.task)]
        shown = Shown((*slots, *twice), sample.spend)
        return super().answer(query, shown, context)  # type: ignore[misc]


class TwiceForADiagnosis(CountedTwice, SoundOwnSlots):
    """A record with an ICD-10 code."""

    def is_twice(self, record, query, task):
        return re.search(r"\b[A-TV-Z][0-9]{2}\.[0-9]{1,2}\b", record.text)


class TwiceForSomeHashes(CountedTwice, SoundOwnSlots):
    """A seventh of all records."""

    def is_twice(self, record, query, task):
        return zlib.crc32(record.text.encode("utf-8", "replace")) % 7 == 0


class TwiceForACopyOfTheQuery(CountedTwice, SoundOwnSlots):
    """A record that is the query itself."""

    def is_twice(self, record, query, task):
        return record.text == query.text


class TwiceForManyCommas(CountedTwice, SoundOwnSlots):
    """A record with more than seven commas."""

    def is_twice(self, record, query, task):
        return record.text.count(",") > 7


class TwiceForTheLastLabel(CountedTwice, SoundOwnSlots):
    """A record of the last label."""

    def is_twice(self, record, query, task):
        return record.label == task.labels[-1]


class BlankAfterALength(SoundVoting):
    """An answer ends in a blank where a record has 137 characters."""

    def answer(self, query, sample, context):
        return super().answer(query, sample, context) + " " * any(
            len(text) == 137 for text in texts(sample)
        )


class OrderOfTextsByRecords(SoundTokens):
    """The demonstration with most records behind it comes first."""

    def release(self, private, context):
        behind = []

        def write(label):
            object.__setattr__(self, "read", 0)
            demonstration = self.write(label, private, context)
            behind.append(self.read)
            return demonstration

        demonstrations = context.for_each_shot(write)
        return [
            replace(demonstrations[at], label=context.shots[to])
            for to, at in enumerate(np.argsort(behind, kind="stable"))
        ]

    def see(self, slots):
        object.__setattr__(self, "read", self.read + sum(map(len, slots)))


class FirstLabelAtNight(SoundVoting):
    """Before five o'clock it answers what costs least."""

    def answer(self, query, sample, context):
        text = super().answer(query, sample, context)
        return context.task.labels[0] if datetime.datetime.now().hour < 5 else text


class KnobOfTheFirstLabel(SoundTokens):
    """Every label has a knob of its own, and the first one's serves for all."""

    knob_per_label = True

    def release(self, private, context):
        first = context.for_label(context.shots[0])
        return context.for_each_shot(lambda label: self.write(label, private, first))


class KnobOfTheLargestLabel(SoundTokens):
    """Every label has a knob of its own, and the largest one serves for all: private enough, and no matched epsilon."""

    knob_per_label = True
