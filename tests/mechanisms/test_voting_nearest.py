"""Voting by the likest records: what one record moves over a whole stream, whose length epsilon does not follow."""

import dataclasses
import math

import numpy as np
import pytest
from dp_accounting import dp_event as dp
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.accounting.accountants import epsilon
from dpicl.accounting.slack import LARGEST, slack
from dpicl.core.errors import PluginError
from dpicl.data.task import Record
from dpicl.mechanism.bases import AnswerContext, Query, Sizes
from dpicl.mechanisms.voting_nearest import VotingNearest
from dpicl.models.embeddings import embed_alone
from tests.examples import examples
from tests.mechanisms.answering import CLASSES, HashReader
from tests.samples import noisy_releases, private_set

WORDS = ("cake", "party", "noon", "@")
MECHANISM = VotingNearest(slots=3, examples_per_slot=2, threshold=0.6, uses=2, embedding="sim")
TEXTS = [f"{a} {b}" for a in WORDS for b in WORDS]
QUERIES = [Query(str(i), f"{WORDS[i % 3]} party") for i in range(7)]


def votes(mechanism, texts, knob=0.0):
    """(the clean votes of every query, the ledger)."""
    records = [Record(text, "") for text in texts]
    size = max(len(texts), 1)
    private, ledger, public = private_set(records, {None: size}, embed=embed_alone)
    context = AnswerContext(CLASSES, HashReader(), knob, public)
    sample_for = mechanism.scheme.sampler(private, mechanism.release(knob), len(QUERIES))
    with noisy_releases() as releases:
        for query in QUERIES:
            assert mechanism.answer(query, sample_for(query.text), context) in CLASSES.labels
    return [release.clean for release in releases], ledger


@given(
    texts=st.lists(st.sampled_from(TEXTS), max_size=8),
    record=st.sampled_from(TEXTS),
    uses=st.integers(1, 3),
    nearest=st.sampled_from([None, 2]),
)
@settings(max_examples=examples(60), deadline=None)
def test_one_record_moves_the_ballots_of_r_queries_at_most(texts, record, uses, nearest):
    mechanism = dataclasses.replace(MECHANISM, uses=uses, nearest=nearest)
    without = votes(mechanism, texts)[0]
    with_it = votes(mechanism, [*texts, record])[0]
    moves = [float(np.linalg.norm(b - a)) for a, b in zip(without, with_it, strict=True)]
    assert max(moves) <= math.sqrt(2) * (1 if nearest is None else 2) + 1e-9
    assert sum(move > 0 for move in moves) <= uses


def test_where_the_nearest_are_shown_noise_doubles(
    monkeypatch,
):
    nearest = dataclasses.replace(MECHANISM, nearest=2)
    assert nearest._sum(3.0).bound == 2 * MECHANISM._sum(3.0).bound == 2 * math.sqrt(2)
    assert nearest.events(3.0, Sizes.from_queries(16, 9)) == MECHANISM.events(
        3.0, Sizes.from_queries(16, 9)
    )
    monkeypatch.setattr(VotingNearest, "_sum", VotingNearest.__mro__[1]._sum)
    with pytest.raises(PluginError, match="replaced=2"):
        votes(nearest, TEXTS)


def test_a_record_reaches_the_stated_bound():
    pairs = [
        (
            votes(MECHANISM, texts)[0],
            votes(MECHANISM, [*texts, record])[0],
        )
        for texts in ([], ["cake party"], ["party party"])
        for record in TEXTS
    ]
    moves = [
        float(np.linalg.norm(np.array(with_it) - np.array(without))) for without, with_it in pairs
    ]
    assert max(moves) == pytest.approx(math.sqrt(2 * MECHANISM.uses))


def test_the_cost_is_that_of_r_releases():
    _, ledger = votes(MECHANISM, TEXTS, knob=5.0)
    assert ledger.event() == dp.SelfComposedDpEvent(dp.GaussianDpEvent(5.0), 2)
    events = {q: MECHANISM.events(5.0, Sizes.from_queries(16, q)) for q in (1, 2, 7, 10_000)}
    assert events[2] == events[7] == events[10_000] != events[1]
    upper = epsilon(events[7], 1e-5).upper
    assert slack(events[7], 1e-5, upper) < LARGEST
