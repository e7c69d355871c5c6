"""Copied spans, by hand and against a slow obvious implementation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.attacks.copying import Copies, copied_spans
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


def test_twenty_words_in_a_row_are_a_copy_and_nineteen_are_not():
    assert copied_spans([TWENTY], [f"x {TWENTY} y"]) == copied_spans([f"x {TWENTY} y"], [TWENTY]) == Copies(1, 1, 20)
    assert copied_spans([TWENTY.replace(" ", ",\n / ")], [TWENTY]).copying == 1
    for other in (TWENTY.rpartition(" ")[0], TWENTY.replace("w10", "other"), TWENTY.upper()):
        assert copied_spans([other], [TWENTY]) == Copies(0, 0, 0)
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


def test_it_needs_texts_and_does_without_records():
    with pytest.raises(UsageError):
        copied_spans([], ["record"])
    assert copied_spans(["text"], []) == Copies(0, 0, 0)
