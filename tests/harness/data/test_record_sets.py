"""How far one raw record moves the set that is loaded: every small file against every one with a record more."""

import unicodedata
from collections import Counter
from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.core.errors import DataError
from dpicl.data.config import load_config
from dpicl.data.splits import (
    Record,
    deduplicate,
    draw_records,
    draw_test_records,
    letters,
    normalise,
    split_public,
    subsample,
)
from dpicl.data.task import Task
from tests.harness.helpers import write

#: Two spellings of one key, whose lot under SEED is the smallest, and other keys; two classes.
TEXTS = ("a", "A!", "b", "d")
LABELS = ("x", "y")
SEED = 3
#: Two forms of one key, whose lots differ.
FORMS = ("\u00e9", "e\u0301", "b", "d")
TEST = [Record("c", "x")]


@cache
def load_set(train, limit, partitioned, public):
    """The private set of a raw file, by the same steps as `Task.load`; None where it is too small."""
    train, test, _ = deduplicate(list(train), TEST)
    if len(train) <= public:
        return None
    _, private = split_public("task", train, public, seed=SEED)
    return Counter(
        subsample(
            "task",
            partitioned,
            private,
            test,
            limit,
            None,
            seed=SEED,
        )[0]
    )


def measure_moves(limit, partitioned, public, length=4, agreeing=False, texts=TEXTS):
    """Symmetric difference of the loaded sets, by label, of all pairs of neighbouring files of up to that length.

    agreeing: only files in which records of one key have one label.
    """
    moves = set()
    universe = [Record(text, label) for text, label in product(texts, LABELS)]
    for size in range(length):
        for train in product(universe, repeat=size):
            before = load_set(train, limit, partitioned, public)
            for added, at in product(universe, range(size + 1)):
                longer = (*train[:at], added, *train[at:])
                keys = {(record.text[0].lower(), record.label) for record in longer}
                if agreeing and len(keys) > len({key for key, _ in keys}):
                    continue
                after = load_set(longer, limit, partitioned, public)
                if before is not None and after is not None:
                    moved = Counter(
                        record.label for record in ((before - after) + (after - before)).elements()
                    )
                    moves.add(tuple(moved[label] for label in LABELS))
    return moves


@pytest.mark.parametrize("public", [0, 1])
def test_with_a_limit_a_record_moves_two_of_each_class_at_most(
    public,
):
    """With a public part the one key that is repeated here is public, and then it moves nothing private twice."""
    moves = measure_moves(limit=1, partitioned=True, public=public)
    assert ((2, 2) in moves) == (public == 0)
    assert max(map(max, moves)) == 2


@pytest.mark.parametrize(
    ("limit", "partitioned", "agreeing"),
    [
        (None, True, False),
        (None, False, False),
        (1, False, False),
        (1, True, True),
    ],
)
def test_without_a_limit_or_classes_it_moves_two(limit, partitioned, agreeing):
    moves = measure_moves(limit, partitioned, public=0, length=3, agreeing=agreeing)
    assert max(map(sum, moves)) == 2


@pytest.mark.parametrize(
    ("limit", "partitioned", "public"),
    [
        (None, True, 1),
        (1, False, 1),
        (1, True, 0),
        (1, True, 1),
    ],
)
def test_texts_of_two_unicode_forms_move_no_more_than_others(limit, partitioned, public):
    moves = measure_moves(limit, partitioned, public, length=3, texts=FORMS)
    assert max(map(sum, moves)) <= (4 if limit and partitioned else 2)
    assert max(map(max, moves)) == 2


SAME = [
    ("Café — N° 5", "cafe\u0301 n\u00b05"),
    ("Straße", "STRASSE"),
    ("ﬁne ½", "fine 1⁄2"),
    ("ＡＢＣ", "abc"),
    ("zero\u200bwidth", "\ufeffzero width"),
    ("e\u200d\u0301", "É"),
    ("한글", unicodedata.normalize("NFD", "한글") + "\u3164"),
    ("♥\ufe0f ♥", "♥♥"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_readers_cannot_tell_apart_is_one_record(one, other):
    records, _, dropped = deduplicate(
        [
            Record(one, "x"),
            Record(other, "y"),
        ],
        TEST,
    )
    assert [record.text for record in records] == [one] and dropped["duplicates"] == 1


@given(st.text())
def test_the_key_of_a_record_is_that_of_all_its_unicode_forms(text):
    assert (
        len(
            {
                normalise(unicodedata.normalize(form, text))
                for form in ("NFC", "NFD", "NFKC", "NFKD")
            }
        )
        == 1
    )


def test_the_key_has_every_letter_and_digit_of_ascii() -> None:
    ascii_text = "".join(map(chr, range(128)))
    expected = "0123456789" + "abcdefghijklmnopqrstuvwxyz" * 2
    assert letters(ascii_text) == normalise(ascii_text) == expected
    assert letters(ascii_text + "é") == normalise(ascii_text + "é") == expected + "é"


def test_the_last_test_records_are_others():
    test = [Record(f"query {number}", "") for number in range(7)]

    def choose(limit, last):
        return subsample("task", False, [], test, None, limit, SEED, last)[1]

    assert not {*choose(3, False)} & {*choose(3, True)}
    assert len({*choose(3, False)} | {*choose(3, True)}) == 6
    for limit in (4, None):
        with pytest.raises(DataError, match="set task_test_records to 3 at most"):
            choose(limit, True)


def test_no_record_of_a_pool_is_scored_and_for_development():
    test = [Record(str(number), "xyz"[number % 3]) for number in range(61)]

    def pool(last, *classes):
        chosen = subsample(
            "task",
            True,
            [],
            test,
            None,
            5,
            SEED,
            last,
            True,
            classes,
        )[1]
        assert {record.label for record in chosen} == ({*classes} or {"x", "y", "z"})
        return {record.text for record in chosen}

    assert len(pool(False)) == 49 and len(pool(True)) == 12  # a fifth is for development
    assert not pool(False, "x", "y") & pool(True, "y", "z")
    assert pool(False, "x", "y") < pool(False)


@pytest.mark.parametrize(
    ("size", "seeds"),
    [(10, 4), (13, 3)],
)
def test_seeds_draw_disjoint_windows_of_a_pool(size, seeds):
    pool = [Record(str(number), "x") for number in range(43)]
    windows = [draw_test_records("task", pool, size, seed) for seed in range(2 * seeds)]
    for turn in (windows[:seeds], windows[seeds:]):
        assert len({record.text for window in turn for record in window}) == size * seeds
    assert {record.text for record in windows[0]} != {record.text for record in windows[seeds]}
    with pytest.raises(DataError, match="43 test records from which a seed is to draw 44"):
        draw_test_records("task", pool, 44, 0)


def test_development_records_of_a_generated_corpus_are_others():
    rows, others = (
        Task.load("ginc", "synthetic", development=development) for development in (False, True)
    )
    assert rows.fingerprint != others.fingerprint and len(rows.train) == len(others.train)
    known = {normalise(record.text) for record in rows.test}
    assert others.test and not known & {normalise(record.text) for record in others.test}
    assert set(rows.train) - set(others.train)


records = st.builds(
    Record,
    st.text("aAbc\u00e9", min_size=1, max_size=4),
    st.sampled_from(LABELS),
)


@given(
    st.lists(records, max_size=12),
    records,
    st.integers(0, 50),
    st.integers(0, 12),
)
def test_a_record_more_changes_only_itself_in_what_is_drawn(train, added, seed, at):
    before = draw_records(train, 0.5, seed)
    after = draw_records(
        [*train[:at], added, *train[at:]],
        0.5,
        seed,
    )
    assert Counter(after) - Counter(before) in (Counter(), Counter([added]))
    assert not Counter(before) - Counter(after)


def test_coins_have_the_share_and_are_independent():
    train = [Record(f"text {i}", "x") for i in range(4000)]
    drawn = [set(draw_records(train, 0.8, seed)) for seed in range(4)]
    assert all(
        3090 < len(records_drawn) < 3310 for records_drawn in drawn
    )  # four standard deviations of 25 around 3,200
    assert 2440 < len(drawn[0] & drawn[1]) < 2680
    assert draw_records(train, 0.8, 0) == [record for record in train if record in drawn[0]]


def test_two_spellings_of_one_record_have_one_coin():
    spelt = [
        draw_records([Record(text, "x")], 0.5, seed)
        for text in ("\u00e9 b", "e\u0301 B!")
        for seed in range(40)
    ]
    assert [bool(drawn) for drawn in spelt[:40]] == [bool(drawn) for drawn in spelt[40:]]


def test_a_public_part_leaves_a_private_record(local_data):
    public = load_config("samsum").data.public["local"]
    rows = [
        {"dialogue": f"Ann: line {i}\nBob: reply {i}", "summary": f"They talk about {i}."}
        for i in range(public + 1)
    ]
    write(local_data, "samsum", "test", [{"dialogue": "T: ask", "summary": "A."}])
    write(local_data, "samsum", "train", rows)
    task = Task.load("samsum", "local")
    assert len(task.train) == 1
    assert len(task.public) == public
    assert task.size == 1
    write(local_data, "samsum", "train", rows[:public])
    with pytest.raises(DataError, match="public part"):
        Task.load("samsum", "local")
