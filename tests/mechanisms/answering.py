"""A reader whose answers are a hash of the whole slot, some of them broken, and a driver that answers queries."""

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpicl.data.task import Record
from dpicl.mechanism.bases import AnswerContext, Query
from dpicl.mechanisms.esa import ESA
from dpicl.mechanisms.ksa import KSA
from dpicl.mechanisms.product_of_experts import ProductOfExperts
from dpicl.mechanisms.sga import SGA
from dpicl.mechanisms.sga_histogram import SGAHistogram
from dpicl.mechanisms.voting import Voting
from tests.samples import contents, private_set

DIMENSION = 8
WORDS = ("anna", "brings", "cake", "tomorrow", "the", "party", "at", "noon")
#: A word that no public text holds: it stands for what only records know.
SECRET = "xsecretx"

QUERIES = (
    Query("q1", "Anna brings the cake tomorrow at noon"),
    Query("q2", "the party is at noon"),
    Query("q3", "cake cake Anna"),
)


def number(*parts: object) -> int:
    return int.from_bytes(
        hashlib.sha256(repr(parts).encode()).digest()[:8],
        "big",
    )


def generator(*parts: object) -> np.random.Generator:
    return np.random.default_rng(number(*parts))


class TinyTask:
    """What a mechanism needs of a task."""

    partitioned = False
    labels: tuple[str, ...] = ()

    def __init__(self, kind="generation", name="samsum", public=12):
        self.kind, self.name = kind, name
        if kind != "generation":
            self.labels = ("Anna", "noon", "Bob")
        self.has_public_part = public > 0
        self.public = tuple(Record(f"public {i}", f"answer {i}") for i in range(public))

    @property
    def chooses(self):
        return self.kind == "classification"

    def public_records(self, kind):
        return (
            self.public
            if kind == "in"
            else tuple(
                Record(
                    r.text.upper(),
                    r.label.upper(),
                )
                for r in self.public
            )
        )

    def icl_prefix(self, examples):
        return "Do it.\n" + "".join(f"{e.text}={e.label}\n" for e in examples)

    def query(self, text):
        return f"Dialogue: {text}\nThe summary is:"


class HashReader:
    """Answers of slots that hold records mix public words with the secret one.

    A slot with '@' in a record has a row of NaN and an empty text, as the real reader gives for a model that fails; one
    with '#' writes something wild. Public answers never hold the secret word.
    """

    def __init__(self, phrases: Sequence[str] = (), fixed: str | None = None) -> None:
        self.phrases = phrases
        self.fixed = fixed
        self.asked = list[Any]()

    def label_scores(self, query, slots, *, calibrated):
        rows = [
            generator("scores", query.id, self._key(slot), calibrated).normal(size=3)
            for slot in slots
        ]
        bad = [self._has_letter(slot, "@") for slot in slots]
        self.asked += [("labels", query.id, slot, calibrated) for slot in contents(slots)]
        return np.where(
            np.array(bad)[:, None],
            np.nan,
            np.array(rows),
        )

    def texts(self, query, slots):
        self.asked += [("texts", query.id, slot, None) for slot in contents(slots)]
        return [self._text(query, slot) for slot in slots]

    public_texts = texts

    def candidates(self, query, count, temperature):
        return [self._say("candidate", query.id, i, temperature) for i in range(count)]

    def embed(self, texts, name):
        rows = np.array([generator("embed", name, text).normal(size=DIMENSION) for text in texts])
        rows = rows.reshape(len(texts), DIMENSION)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        rows[[not text for text in texts]] = 0
        return rows

    def _text(self, query, slot):
        if self.fixed is not None:
            return self.fixed
        if self._has_letter(slot, "@"):
            return ""
        if self._has_letter(slot, "#"):
            return "{{x}}\x00 %s \udc80\n\n]\n" * 50
        draw = number("phrase", query.id, self._key(slot))
        if self.phrases:
            return self.phrases[draw % len(self.phrases)]
        secret = (
            SECRET if any(not record.text.lower().startswith("public") for record in slot) else ""
        )
        return f"{self._say('text', query.id, self._key(slot))} {secret}".strip()

    @staticmethod
    def _say(*parts):
        return " ".join(generator(*parts).choice(WORDS, size=3))

    @staticmethod
    def _key(slot):
        return [record.text for record in slot]

    @staticmethod
    def _has_letter(slot, letter):
        return any(letter in record.text for record in slot)


def setting(
    mechanism, texts, *, knob=1.0, seed=0, noise=None, reader=None, task=None, size=None, budget=3
):
    """Records with the given texts, assigned to slots for ``budget`` queries and paid for: (the sample of a text,
    context, ledger)."""
    records = [Record(text, "") for text in texts]
    private, ledger, public = private_set(
        records,
        {None: size or len(texts)},
        seed,
        noise,
    )
    context = AnswerContext(task or TinyTask(), reader or HashReader(), knob, public)
    return mechanism.scheme.sampler(private, mechanism.release(knob), budget), context, ledger


def run_answers(mechanism, texts, *, queries=QUERIES, **options):
    """([answer of each query], ledger, reader)."""
    sample_for, context, ledger = setting(mechanism, texts, budget=len(queries), **options)
    return (
        [mechanism.answer(query, sample_for(query.text), context) for query in queries],
        ledger,
        context.reader,
    )


def slots_of(mechanism, texts, **options):
    """The slots that `run_answers` samples for each query."""
    sample_for = setting(mechanism, texts, budget=len(QUERIES), **options)[0]
    return [contents(sample_for(query.text).slots) for query in QUERIES]


RECORDS = [f"record number {i}" for i in range(12)]
SHARED = {"slots": 4, "examples_per_slot": 2}
CLASSES, EXTRACTION = TinyTask("classification", "agnews"), TinyTask("extraction", "mit_d")
#: name -> mechanism, task, the phrases that slots write
ALL = {
    "voting": (Voting(**SHARED), CLASSES, ()),
    "voting_raw": (Voting(**SHARED, calibrate=False), CLASSES, ()),
    "voting_spans": (
        Voting(**SHARED),
        EXTRACTION,
        ("the cake", "Anna", "noon\nmore", SECRET, "", "ANNA"),
    ),
    "voting_keywords": (
        Voting(**SHARED, candidates="keywords"),
        EXTRACTION,
        ("Anna", "Bob", SECRET),
    ),
    "product_of_experts": (ProductOfExperts(**SHARED), CLASSES, ()),
    "esa": (ESA(**SHARED, candidates=6), TinyTask(), ()),
    "ksa": (KSA(**SHARED, words=3), TinyTask(), ()),
    "sga": (SGA(**SHARED, public_slots=6), TinyTask(), ()),
    "sga_out": (
        SGA(**SHARED, public_slots=6, public="out", dimensions=3, levels=3),
        TinyTask(public=3),
        (),
    ),
    "sga_histogram": (SGAHistogram(**SHARED, public_slots=6), TinyTask(), ()),
}


def run_one(name, texts=RECORDS, way="per_query", examples_per_slot=2, **options):
    mechanism, task, phrases = ALL[name]
    mechanism = dataclasses.replace(mechanism, partition=way, examples_per_slot=examples_per_slot)
    options = {"task": task, "reader": HashReader(phrases), "size": 12, **options}
    return run_answers(mechanism, texts, **options)


def released_candidates(mechanism, query, task):
    """The public answers that a mechanism chooses from."""

    class Context:
        reader = HashReader()

    Context.task = task
    return mechanism.candidates(query, Context)
