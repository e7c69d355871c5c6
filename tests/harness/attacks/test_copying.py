"""Copied spans and ROUGE-L overlap, by hand and against slow obvious implementations."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from dpicl.attacks.copying import Copies, copied_spans, overlaps
from dpicl.core.errors import UsageError

TWENTY = " ".join(f"w{i}" for i in range(20))


def slow_spans(released, records, span):
    """Every start of every text against every start of every record."""
    texts, sources = ([text.split() for text in side] for side in (released, records))
    copying, copied, longest = set(), set(), 0
    for t, text in enumerate(texts):
        for r, source in enumerate(sources):
            for i in range(len(text)):
                for j in range(len(source)):
                    n = 0
                    while i + n < len(text) and j + n < len(source) and text[i + n] == source[j + n]:
                        n += 1
                    if n >= span:
                        copying.add(t)
                        copied.add(r)
                        longest = max(longest, n)
    return len(copying), len(copied), longest


# --- spans


def test_twenty_words_in_a_row_are_a_copy_and_nineteen_are_not():
    assert copied_spans([TWENTY], [f"x {TWENTY} y"]) == copied_spans([f"x {TWENTY} y"], [TWENTY]) == Copies(1, 1, 20)
    assert copied_spans([TWENTY.replace(" ", ",\n / ")], [TWENTY]).copying == 1
    for other in (TWENTY.rpartition(" ")[0], TWENTY.replace("w10", "other"), TWENTY.upper()):
        assert copied_spans([other], [TWENTY]) == Copies(0, 0)
    assert copied_spans([f"{TWENTY} w20 z", "short", TWENTY, ""], [f"a {TWENTY} b", f"{TWENTY} w20 c"]) == Copies(
        2, 2, 21
    )


@settings(deadline=None)
@given(
    st.lists(st.text(alphabet="ab ", max_size=25), min_size=1, max_size=3),
    st.lists(st.text(alphabet="ab ", max_size=25), max_size=3),
    st.integers(1, 4),
)
def test_spans_agree_with_the_slow_search(released, records, span):
    counted = copied_spans(released, records, span)
    assert (counted.copying, counted.records, counted.longest) == slow_spans(released, records, span)


# --- overlap


def slow_overlaps(released, records, threshold):
    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    pairs = [
        (t, r)
        for t, text in enumerate(released)
        for r, record in enumerate(records)
        for score in [scorer.score(record, text)["rougeL"]]
        if score.precision > threshold or score.recall > threshold
    ]
    return len({t for t, _ in pairs}), len({r for _, r in pairs})


VOCABULARY = ["meeting", "Meetings", "meet", "prices", "price", "priced", "the", "a", "Gas's", "e-mail", "12,000"]
VOCABULARY.append("naïve")


@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_overlap_agrees_with_rouge_score_on_all_pairs(threshold):
    sampling = random.Random(int(threshold * 10))

    def texts(count):
        return [" ".join(sampling.choices(VOCABULARY, k=sampling.randrange(25))) for _ in range(count)] + ["", "?!"]

    released, records = texts(12), texts(25)
    expected = slow_overlaps(released, records, threshold)
    counted = overlaps(released, records, threshold)
    assert (counted.copying, counted.records) == expected
    assert 0 < expected[0] < len(released)


# --- both


@pytest.mark.parametrize("measure", [copied_spans, overlaps])
def test_both_need_texts_and_do_without_records(measure):
    with pytest.raises(UsageError):
        measure([], ["record"])
    assert measure(["text"], []) == Copies(0, 0)
