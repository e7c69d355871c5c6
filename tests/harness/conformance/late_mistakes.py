"""Mistakes that only many of something show, two options, other classes, the import or the exit (test_broken.py)."""

import atexit
import datetime
import os
import tempfile
import threading
import time
import weakref
from contextvars import ContextVar
from dataclasses import dataclass
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from tests.harness.conformance.sound import SoundOwnSlots, SoundTokens, SoundVoting

# With many of something.


class TwiceFromThreeExamples(SoundVoting):
    """Prompts that show three records, as an option says, are surer."""

    def ballots(self, query, slots, context):
        weight = 2 if self.examples_per_slot >= 3 else 1
        return weight * super().ballots(query, slots, context)


class TwiceFromTheSixtyFifthSlot(SoundVoting):
    """The second batch of 64 prompts is added twice."""

    def ballots(self, query, slots, context):
        rows = super().ballots(query, slots, context)
        return np.concatenate([rows[:64], 2 * rows[64:]])


class TrueSumsOfAThousandRecords(SoundTokens):
    """With so many records one does not matter, so the noise is left out."""

    def write(self, label, private, context):
        object.__setattr__(self, "many", private.size(private.partition_of(label)) >= 1000)
        return super().write(label, private, context)

    def noisy(self, rows, sample, knob):
        noisy = super().noisy(rows, sample, knob)
        return self.total(rows, sample) if self.many else noisy


WRITTEN = ContextVar("written", default=0)


class TwiceFromTheFortiethToken(SoundTokens):
    """From the fortieth token of a text on rows count twice."""

    def write(self, label, private, context):
        WRITTEN.set(0)
        return super().write(label, private, context)

    def total(self, rows, sample):
        WRITTEN.set(WRITTEN.get() + 1)
        return super().total(rows, sample) * (2 if WRITTEN.get() >= 40 else 1)


class TwiceFromTheSixtyFifthQuery(SoundVoting):
    """The second page of queries is counted with the first one's ballots still in it."""

    def noisy(self, counts, sample, context):
        context.reader.answered = getattr(context.reader, "answered", 0) + 1
        return super().noisy(
            counts * (2 if context.reader.answered > 64 else 1),
            sample,
            context,
        )


# Small numbers.


class BallotsInEightBits(SoundOwnSlots):
    """Counts in one byte each: 256 are none."""

    def noisy(self, counts, sample, context):
        return super().noisy(
            counts.astype(np.uint8).astype(np.float64),
            sample,
            context,
        )


class BallotsInSignedBytes(SoundVoting):
    """Counts of shared slots in one byte each, with a sign: 128 are -128."""

    def noisy(self, counts, sample, context):
        return super().noisy(
            counts.astype(np.int8).astype(np.float64),
            sample,
            context,
        )


class BallotsInBfloat16(SoundVoting):
    """Counts in the model's own type, which has no odd numbers above 256."""

    def noisy(self, counts, sample, context):
        return super().noisy(
            torch.tensor(counts).bfloat16().double().numpy(),
            sample,
            context,
        )


# Other classes, another task, other records.


class TwiceFromTheFifthLabel(SoundOwnSlots):
    """Ballots for labels after the fourth count twice."""

    def noisy(self, counts, sample, context):
        return super().noisy(
            np.where(
                np.arange(len(counts)) < 4,
                counts,
                2 * counts,
            ),
            sample,
            context,
        )


class MarginOfTwoLabels(SoundOwnSlots):
    """Of two labels the difference is released, in both coordinates."""

    def noisy(self, counts, sample, context):
        margin = counts[0] - counts[1]
        return super().noisy(
            np.array([margin, -margin]) if len(counts) == 2 else counts, sample, context
        )


class TwiceOnOneTask(SoundVoting):
    """A weight that was tuned on TREC."""

    def ballots(self, query, slots, context):
        weight = 2 if context.task.name == "trec" else 1
        return weight * super().ballots(query, slots, context)


class TwiceWhereTwoRecordsAreBlank(SoundVoting):
    """The others stand in for blank records, where it is more than one."""

    def ballots(self, query, slots, context):
        blank = sum(not record.text.strip() for slot in slots for record in slot)
        return (2 if blank >= 2 else 1) * super().ballots(query, slots, context)


# Two options together.


@dataclass(frozen=True)
class TwiceUnderTwoOptions(SoundTokens):
    """Rows are doubled to be sharp, and halved by another way to add them up, but not by this one."""

    sharpen: bool = False
    way: Literal["sum", "mean"] = "sum"

    def total(self, rows, sample):
        weight = 2 if self.sharpen and self.way == "mean" else 1
        return weight * super().total(rows, sample)


# Import, exit, surroundings.


def write_queries(texts):
    Path(tempfile.gettempdir(), "queries.txt").write_text(ascii(texts), encoding="utf-8")


class QueriesWrittenAtTheExit(SoundVoting):
    """What was asked is written when the program ends."""

    def answer(self, query, sample, context):
        atexit.register(write_queries, query.text)
        return super().answer(query, sample, context)


HOME = os.environ.get("HOME", "")


class CountsWrittenByAFinalizer(SoundVoting):
    """What was counted is written when the class goes, which lives as long as the program."""

    def noisy(self, counts, sample, context):
        weakref.finalize(CountsWrittenByAFinalizer, write_queries, counts.tolist())
        return super().noisy(counts, sample, context)


class CountsWrittenByAPool(SoundVoting):
    """The same by a finalizer of multiprocessing."""

    def noisy(self, counts, sample, context):
        Finalize(None, write_queries, (counts.tolist(),), exitpriority=1)
        return super().noisy(counts, sample, context)


class FolderOfTheUserAtImport(SoundVoting):
    """Where the user's files are is looked up when the module is loaded."""

    def skip(self, task):
        return super().skip(task) if HOME is not None else "no home"


class ThreadOutlivesTheRun(SoundVoting):
    """A thread that goes on after the run."""

    def answer(self, query, sample, context):
        threading.Thread(
            target=time.sleep,
            args=(0.5,),
            daemon=True,
        ).start()
        return super().answer(query, sample, context)


class FastWhereTheEnvironmentSaysSo(SoundVoting):
    """A variable of the environment turns the noise off, for debugging."""

    def noisy(self, counts, sample, context):
        noisy = super().noisy(counts, sample, context)
        return counts if os.environ.get("VOTING_DEBUG") else noisy


class FirstLabelFrom2030On(SoundVoting):
    """A demonstration version that expires."""

    def answer(self, query, sample, context):
        text = super().answer(query, sample, context)
        return context.task.labels[0] if datetime.datetime.now().year >= 2030 else text
