"""How far one raw record moves the set that is loaded: every small file against every one with a record more."""

from collections import Counter
from itertools import product

import pytest

from dpicl.harness.data.splits import Record, deduplicate, split_public, subsample

#: Two spellings of one key, whose lot under SEED is the smallest, and other keys; two classes.
TEXTS, LABELS, SEED = ("a", "A!", "b", "d"), ("x", "y"), 3
UNIVERSE = [Record(text, label) for text, label in product(TEXTS, LABELS)]
TEST = [Record("c", "x")]


def loaded(train, limit, partitioned, public):
    """The private set of a raw file, by the same steps as `Task.load`; None where it is too small."""
    train, test, _ = deduplicate(train, TEST)
    if len(train) <= public:
        return None
    _, private = split_public("task", train, public, seed=SEED)
    return Counter(subsample("task", partitioned, private, test, limit, None, seed=SEED)[0])


def moves(limit, partitioned, public, length=4, agreeing=False):
    """Symmetric difference of the loaded sets, by label, of all pairs of neighbouring files of up to that length.

    agreeing: only files in which records of one key have one label.
    """
    found = set()
    for size in range(length):
        for train in product(UNIVERSE, repeat=size):
            before = loaded(train, limit, partitioned, public)
            for added, at in product(UNIVERSE, range(size + 1)):
                longer = [*train[:at], added, *train[at:]]
                keys = {(record.text[0].lower(), record.label) for record in longer}
                if agreeing and len(keys) > len({key for key, _ in keys}):
                    continue
                after = loaded(longer, limit, partitioned, public)
                if before is not None and after is not None:
                    moved = Counter(record.label for record in ((before - after) + (after - before)).elements())
                    found.add(tuple(moved[label] for label in LABELS))
    return found


@pytest.mark.parametrize("public", [0, 1])
def test_with_classes_and_a_limit_one_raw_record_moves_two_of_each_of_two_classes_and_no_more(public):
    """With a public part the one key that is repeated here is public, and then it moves nothing private twice."""
    found = moves(limit=1, partitioned=True, public=public)
    assert ((2, 2) in found) == (public == 0)
    assert max(map(max, found)) == 2


@pytest.mark.parametrize(
    ("limit", "partitioned", "agreeing"),
    [(None, True, False), (None, False, False), (1, False, False), (1, True, True)],
)
def test_without_a_limit_or_classes_or_duplicates_of_another_class_it_moves_two(limit, partitioned, agreeing):
    found = moves(limit, partitioned, public=0, agreeing=agreeing)
    assert max(map(sum, found)) == 2


def test_without_duplicates_and_limits_it_moves_itself_alone():
    """The third text is a test record, which never counts."""
    train = [Record("a", "x"), Record("b", "y")]
    before, after = (loaded(files, None, True, 0) for files in (train, [*train, Record("d", "x")]))
    assert after - before == Counter([Record("d", "x")]) and not before - after
    assert loaded([*train, *TEST], None, True, 0) == before
