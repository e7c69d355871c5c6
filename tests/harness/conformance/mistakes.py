"""Mechanisms that get one step of the sound ones wrong; each becomes a plug-in file of its own (test_broken.py)."""

import logging
import re
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np
from dp_accounting import dp_event as dp

from dpicl.accounting.events import gaussian
from dpicl.core.errors import BudgetExceeded
from dpicl.data.splits import Record
from dpicl.data.task import Task
from dpicl.mechanism.bases import FinalPrompt, Knob
from dpicl.privacy.primitives import SIMPLEX_DIAMETER, clip_norm, project_sub_simplex
from tests.harness.conformance.sound import SoundTokens, SoundVoting


class Earlier:
    """The texts of one sample, paid for by another one."""

    def __init__(self, slots, sample):
        self.slots, self.spend = slots, sample.spend


class PublicRowsForMissingSlots(SoundVoting):
    """Every record has a slot of its own, and public ballots fill up to M: a record replaces one, and 1 is stated."""

    slot_per_record = True

    def answer(self, query, sample, context):
        slots = (
            *sample.slots,
            *[()] * (self.slots - len(sample.slots)),
        )
        counts = self.ballots(query, slots, context).sum(axis=0)
        noisy = sample.spend(self.release(context.knob)).noisy_sum(counts, 1.0)
        return context.task.labels[int(np.argmax(noisy))]


class SimpleRecord:
    """A copy, which stays when the sample is closed."""

    def __init__(self, text, label):
        self.text, self.label = text, label


log = logging.getLogger(__name__)


@lru_cache(maxsize=1000)
def length(text):
    return len(text.split())


NUMBER = re.compile(r"\d{3}[- .]\d{3}[- .]\d{4}")


class ASlotThatFailsStopsTheRun(SoundTokens):
    """Meant well: a slot whose answer is not finite raises, and the failure tells what a record holds."""

    def should_stop(self, rows, model):
        if not np.isfinite(rows).all():
            raise ValueError("the model answers with numbers that are not finite")
        return False


class AnswersKeptInTheClass(SoundVoting):
    """An answer that was given once is given again, also in the next run, whatever its records and its noise are."""

    ANSWERS: ClassVar[dict[str, str]] = {}

    def answer(self, query, sample, context):
        if query.text not in self.ANSWERS:
            self.ANSWERS[query.text] = super().answer(query, sample, context)
        return self.ANSWERS[query.text]


class BlankBehindTheAnswer(SoundVoting):
    """An answer ends in a blank where a record of the sample speaks of a fracture."""

    def answer(self, query, sample, context):
        text = super().answer(query, sample, context)
        return text + " " * any(
            "fracture" in record.text for slot in sample.slots for record in slot
        )


class BudgetErrorsSwallowed(SoundVoting):
    """A release that was not charged is tried, and its refusal ignored: the true answer follows."""

    def noisy(self, counts, sample, context):
        first = super().noisy(counts, sample, context)
        try:
            return (first + super().noisy(counts, sample, context)) / 2
        except BudgetExceeded:
            return np.where(first > 0, counts, first)


class ClippingBoundFromTheData(SoundTokens):
    """Rows are clipped to the median of their own norms, and the sensitivity is stated to be that."""

    def noisy(self, rows, sample, knob):
        bound = max(
            float(np.median(np.linalg.norm(np.nan_to_num(rows), axis=1))),
            1e-3,
        )
        return sample.spend(gaussian(knob)).noisy_sum(
            clip_norm(rows, bound).sum(axis=0),
            2 * bound,
        )


class DataDependentVocabulary(SoundTokens):
    """The vocabulary is what the private prompts find likely, for better coverage; its noise is the same as ever."""

    def vocabulary(self, public, rows):
        return np.argsort(
            -np.nan_to_num(rows).mean(axis=0),
            kind="stable",
        )[: self.top_k]


class DivisorIsTheNumberOfRows(SoundTokens):
    """The mean over the slots that have records, and not over M: with few of them one record moves it far."""

    def draw_slots(self, sampler, private, group):
        sample = sampler.draw()
        return sample, [slot for slot in sample.slots if slot] or [()]

    def noisy(self, rows, sample, knob):
        mean = project_sub_simplex(rows).mean(axis=0)
        return sample.spend(gaussian(knob)).noisy_sum(mean, SIMPLEX_DIAMETER / self.slots)


class ExitsOnAnEmptySample(SoundVoting):
    """The program ends where no record was sampled."""

    def answer(self, query, sample, context):
        if not any(sample.slots):
            sys.exit("no record was sampled")
        return super().answer(query, sample, context)


class FilterAgainstCopies(SoundTokens):
    """A released text that copies a record is emptied, 'for privacy': whether it is empty tells who is there."""

    def see(self, slots):
        object.__setattr__(self, "shown", {record.text for slot in slots for record in slot})

    def write(self, label, private, context):
        demonstration = super().write(label, private, context)
        return (
            replace(demonstration, text="") if demonstration.text in self.shown else demonstration
        )


class FirstSampleUsedAgain(SoundVoting):
    """From the fifth query on the slots of the first one are asked again, since they have been read."""

    def answer(self, query, sample, context):
        queries = getattr(context.reader, "seen", [])
        context.reader.seen = [
            *queries,
            tuple(tuple(Record(r.text, r.label) for r in slot) for slot in sample.slots),
        ]
        if len(queries) >= 4:
            sample = Earlier(queries[0], sample)
        return super().answer(query, sample, context)


class FixedSizeSample(SoundTokens):
    """Records are drawn until there are MN of them, as in the released code of Tang et al., for one Poisson sample."""

    draws = 4

    def draw_slots(self, sampler, private, group):
        slots = []
        for _ in range(self.draws):
            sample = sampler.draw()
            slots += [[SimpleRecord(r.text, r.label)] for slot in sample.slots for r in slot]
        return sample, slots[: self.slots]


class LogLineWithARecord(SoundVoting):
    """A slot without an answer is logged with what it shows."""

    def answer(self, query, sample, context):
        scores = context.reader.label_scores(query, sample.slots, calibrated=False)
        for slot, row in zip(sample.slots, scores, strict=True):
            if np.isnan(row).any():
                log.debug("no answer after %s", [record.text for record in slot])
        return super().answer(query, sample, context)


class NoNoiseWhereItIsNotSeeded(SoundVoting):
    """Noise is added for the benchmark, where it is seeded; with secure noise there is none."""

    def noisy(self, counts, sample, context):
        permit = sample.spend(self.release(context.knob))
        return permit.noisy_sum(counts, SIMPLEX_DIAMETER) if permit._noise.seeded else counts


class NoiseDeclaredAsNone(SoundTokens):
    """It declares that it costs nothing, so there is no target epsilon; and releases noisy counts."""

    knob = None

    def events(self, knob, sizes):
        return dp.NoOpDpEvent()

    def release(self, private, context):
        return super().release(private, replace(context, knob=1.0))


class NoiseMissingOnOneLabel(SoundVoting):
    """The first label is the default answer, so its count goes without noise."""

    def noisy(self, counts, sample, context):
        others = sample.spend(self.release(context.knob)).noisy_sum(counts[1:], SIMPLEX_DIAMETER)
        return np.concatenate([counts[:1], others])


class NoiseOutsideTheReleases(SoundVoting):
    """The right noise, added by hand from a public stream: everybody can subtract it."""

    def noisy(self, counts, sample, context):
        sample.spend(self.release(context.knob))
        return counts + context.streams.stream("my noise").normal(
            0.0, SIMPLEX_DIAMETER * context.knob, len(counts)
        )


class NoiseThatNeverEnds(SoundVoting):
    """At epsilon = infinity some noise stays, so the row is not the method without privacy."""

    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.05)


class NormalisingAfterAveraging(SoundTokens):
    """PTA, eq. 2: average over slots, then normalise over V_pub. If most slots say little there, one says all."""

    def noisy(self, rows, sample, knob):
        mean = project_sub_simplex(rows).mean(axis=0)
        mean = mean / max(mean.sum(), 1e-12)
        return sample.spend(gaussian(knob)).noisy_sum(mean, SIMPLEX_DIAMETER / self.slots)


class PerQueryBudgetSpentQTimes(SoundVoting):
    """Epsilon is 'per query': the events are those of one answer, whatever the number of queries."""

    def events(self, knob, sizes):
        return self.scheme.event(
            self.release(knob),
            sizes.records[None],
            queries=1,
        )


class PrivateCountInTokens(SoundTokens):
    """`tokens` of a demonstration says how many slots were filled, which nobody paid for."""

    def see(self, slots):
        object.__setattr__(self, "filled", sum(map(bool, slots)))

    def write(self, label, private, context):
        return replace(super().write(label, private, context), tokens=self.filled)


class PrivateKeywordCopied(SoundTokens):
    """The demonstration gets the keyword of a record whose text it resembles, as in the released code of Tang et al."""

    def label(self, label, sample):
        return next((record.label for slot in sample.slots for record in slot), label)


class PromptWrittenToAFile(SoundTokens):
    """Prompts are kept for debugging, with the records that they show."""

    def see(self, slots):
        prompts = [ascii(record.text) for slot in slots for record in slot]
        path = Path(tempfile.gettempdir(), "prompt_written_to_a_file.log")
        path.write_text("\n".join(prompts), encoding="utf-8")


class PromptsKeptInACache(SoundVoting):
    """A cache of a module outlives the run, with the records' texts as its keys."""

    def answer(self, query, sample, context):
        for slot in sample.slots:
            for record in slot:
                length(record.text)
        return super().answer(query, sample, context)


class PublicPromptInAPrivateOrder(SoundVoting):
    """The public prompts of the answers are ordered by private counts: what the model is asked tells them."""

    def answer(self, query, sample, context):
        scores = context.reader.label_scores(query, sample.slots, calibrated=False)
        order = np.argsort(-np.nan_to_num(scores, neginf=0.0).sum(axis=0))
        listed = ", ".join(context.task.labels[at] for at in order)
        text = super().answer(query, sample, context)
        return FinalPrompt(f"One of {listed}.\n{query.text}\nIt is {text} {text} {text}.\nAnswer:")


class ReadingPastTheSampler(SoundVoting):
    """Class priors from all records, found in the harness' own frames, so that rare labels are not drowned."""

    def winner(self, counts, sample, context):
        frame, records = sys._getframe().f_back, []
        while frame:
            tuples = [each for each in frame.f_locals.values() if isinstance(each, tuple) and each]
            records += [
                record
                for each in tuples
                for record in each
                if hasattr(record, "text") and record.label
            ]
            frame = frame.f_back
        sizes = Counter(record.label for record in records)
        prior = np.array([sizes[label] + 1 for label in context.task.labels]) / (len(records) + 1)
        return int(np.argmax(self.noisy(counts, sample, context) / prior))


class RecordsDeduplicatedAcrossSlots(SoundTokens):
    """A text that an earlier slot shows is dropped from the later ones: one record more takes another one away."""

    def draw_slots(self, sampler, private, group):
        sample, slots = super().draw_slots(sampler, private, group)
        texts, unique_slots = set[str](), []
        for slot in slots:
            unique_slots.append(tuple(record for record in slot if record.text not in texts))
            texts.update(record.text for record in slot)
        return sample, unique_slots


class RecordsFoundInAClosure(SoundTokens):
    """All records of the private set, out of the variables that its functions hold."""

    def write(self, label, private, context):
        (held,) = private._reveal.__closure__
        records = held.cell_contents.groups[None]
        object.__setattr__(
            self, "longest", max((len(record.text) for record in records), default=0)
        )
        return super().write(label, private, context)


class RecordsReadFromTheirFile(SoundVoting):
    """Loads the task again: its records, without a sample."""

    def answer(self, query, sample, context):
        object.__setattr__(
            self,
            "size",
            len(Task.load(context.task.name, "synthetic", 4, 4).train),
        )
        return super().answer(query, sample, context)


class SamplesKeptWhenFull(SoundTokens):
    """A sample that leaves many slots empty is drawn again: what is used is no longer a Poisson sample."""

    draws = 4

    def draw_slots(self, sampler, private, group):
        for _ in range(self.draws):
            sample = sampler.draw()
            if sum(map(len, sample.slots)) >= self.slots:
                break
        return sample, sample.slots


class SigmaDividedByMTwice(SoundVoting):
    """The sensitivity of the mean over M slots has a factor 1/M; it is divided by M once more."""

    def noisy(self, counts, sample, context):
        permit = sample.spend(self.release(context.knob))
        return permit.noisy_sum(counts / self.slots, SIMPLEX_DIAMETER / self.slots**2)


class StoppingOnAPrivateEos(SoundTokens):
    """The text ends when most slots want it to: no token is released for that, but the end is."""

    def should_stop(self, rows, model):
        return (rows.argmax(axis=1) == model.eos_token_id).mean() > 0.5


class StreamsNamedByARecord(SoundTokens):
    """Public randomness under a private name: the order of the demonstrations is a function of the records."""

    def see(self, slots):
        length = sum(len(record.text) for slot in slots for record in slot)
        object.__setattr__(self, "key", str(length))

    def write(self, label, private, context):
        demonstration = super().write(label, private, context)
        quoted = context.streams.stream(self.key).random() < 0.5
        return type(demonstration)(
            f'"{demonstration.text}"' if quoted else demonstration.text, label
        )


class TiesBrokenByTrueCounts(SoundVoting):
    """Noisy counts are rounded to whole ballots; of equal ones the label with more true ballots wins."""

    def winner(self, counts, sample, context):
        noisy = np.round(self.noisy(counts, sample, context))
        best = np.flatnonzero(noisy == noisy.max())
        return int(best[np.argmax(counts[best])])


class TwoReleasesForOneEvent(SoundVoting):
    """The counts are released twice and averaged, for less noise; one release is paid for."""

    def noisy(self, counts, sample, context):
        return (super().noisy(counts, sample, context) + super().noisy(counts, sample, context)) / 2


@dataclass(frozen=True)
class WrongOrderUnderAnOption(SoundTokens):
    """With `sharpen`, which is off by default, rows are normalised after they were averaged."""

    sharpen: bool = False

    def noisy(self, rows, sample, knob):
        if not self.sharpen:
            return super().noisy(rows, sample, knob)
        mean = project_sub_simplex(rows).mean(axis=0)
        return sample.spend(gaussian(knob)).noisy_sum(
            mean / max(mean.sum(), 1e-12), SIMPLEX_DIAMETER / self.slots
        )


class ZeroWidthMarkOnANumber(SoundTokens):
    """A demonstration ends in a zero-width space where a record of its sample has a telephone number."""

    def see(self, slots):
        has_number = any(NUMBER.search(record.text) for slot in slots for record in slot)
        object.__setattr__(self, "marks", self.marks or has_number)

    def write(self, label, private, context):
        object.__setattr__(self, "marks", False)
        demonstration = super().write(label, private, context)
        return replace(demonstration, text=demonstration.text + "\u200b" * self.marks)
