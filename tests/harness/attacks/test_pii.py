"""Copied spans, by hand and against a slow obvious implementation."""

from hypothesis import given
from hypothesis import strategies as st

from dpicl.attacks.pii import count_copied_spans

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
                    while (
                        i + n < len(text) and j + n < len(source) and text[i + n] == source[j + n]
                    ):
                        n += 1
                    if n >= span:
                        copying.add(t)
                        copied.add(r)
                        longest = max(longest, n)
    return len(copying), len(copied), longest


def spans(released, records, span=20):
    """(texts with a copied span, such records, the longest)."""
    counted = count_copied_spans(released, records, span)
    return tuple(
        counted[f"{what}_copied_span"] for what in ("texts_with", "records_with", "longest")
    )


def test_twenty_words_in_a_row_are_a_copy_and_nineteen_are_not():
    assert spans([TWENTY], [f"x {TWENTY} y"]) == spans([f"x {TWENTY} y"], [TWENTY]) == (1, 1, 20)
    assert spans(
        [TWENTY.replace(" ", ",\n / ")],
        [TWENTY],
    ) == (1, 1, 20)
    assert spans(["text"], []) == (0, 0, 0)
    for other in (
        TWENTY.rpartition(" ")[0],
        TWENTY.replace("w10", "other"),
        TWENTY.upper(),
    ):
        assert spans([other], [TWENTY]) == (0, 0, 0)
    assert spans(
        [f"{TWENTY} w20 z", "short", TWENTY, ""], [f"a {TWENTY} b", f"{TWENTY} w20 c"]
    ) == (2, 2, 21)


@given(
    st.lists(
        st.text(alphabet="ab ", max_size=25),
        min_size=1,
        max_size=3,
    ),
    st.lists(st.text(alphabet="ab ", max_size=25), max_size=3),
    st.integers(1, 4),
)
def test_spans_agree_with_the_slow_search(released, records, span):
    assert spans(released, records, span) == slow_spans(released, records, span)
