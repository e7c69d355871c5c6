"""Prepares records of any source: removes duplicates, splits off a public part, applies limits, takes a fingerprint.
Texts may be private, so no error and no repr in this file shows one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence

from dpicl.core.errors import DataError
from dpicl.core.scripts import fold_text
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Record

Split = list[Record]
#: One part of so many of a pool of test records is kept for development seeds.
_DEVELOPMENT_PART = 5
#: ASCII without letters and digits.
_SEPARATORS = bytes(code for code in range(128) if not chr(code).isalnum())


def normalise(text: str) -> str:
    """The key by which two texts are one record: letters and digits of the folded text; without any, all but blanks."""
    folded = fold_text(text)
    return _keep_letters_and_digits(folded) or "".join(folded.split()) or folded


def letters(text: str) -> str:
    """The key of earlier versions, to which two Unicode forms were two records: limits and public parts of committed
    results, and old ledgers, rest on it."""
    return _keep_letters_and_digits(text.lower()) or text


def _keep_letters_and_digits(text: str) -> str:
    if text.isascii():  # a seventh of the time: corpora have 100,000 texts
        return text.encode().translate(None, _SEPARATORS).decode()
    return "".join(filter(str.isalnum, text))


def deduplicate(
    train: Sequence[Record],
    test: Sequence[Record],
) -> tuple[Split, Split, dict[str, int]]:
    """Keeps the first record of each key, and no train record whose key is in test; counts what was dropped.

    A repeated record would make one person's record count twice, and a record-level epsilon would not hold for them.
    """
    test_keys: set[str] = set()
    kept_test = [record for record in test if _is_new(record, test_keys)]
    train_keys: set[str] = set()
    unique = [record for record in train if _is_new(record, train_keys)]
    kept_train = [record for record in unique if normalise(record.text) not in test_keys]
    dropped = {
        "duplicates": len(train) - len(unique),
        "train_in_test": len(unique) - len(kept_train),
        "test_duplicates": len(test) - len(kept_test),
    }
    return kept_train, kept_test, dropped


def drop_known(
    train: Sequence[Record],
    known: Sequence[Record],
) -> tuple[Split, dict[str, int]]:
    """The train records whose key is in none of the known ones, each decided alone; counts what was dropped."""
    keys = {normalise(record.text) for record in known}
    disjoint = [record for record in train if normalise(record.text) not in keys]
    return disjoint, {
        "duplicates": 0,
        "train_in_test": len(train) - len(disjoint),
        "test_duplicates": 0,
    }


def _is_new(record: Record, keys: set[str]) -> bool:
    key = normalise(record.text)
    if key in keys:
        return False
    keys.add(key)
    return True


def split_public(
    name: str,
    train: Split,
    size: int,
    seed: int,
) -> tuple[Split, Split]:
    """(public, private): the ``size`` records with the lowest random priority are public; each part in its order.

    The priority of a record depends on it and the seed alone. So a record that is added to the private part, or taken
    from it, changes no public one. Raises DataError when no private record would be left.
    """
    if len(train) <= size:
        raise DataError(
            f"{name} has {len(train)} train records and {size} of them are its public part; bring more records or"
            " lower metadata.data.public in its task.yaml."
        )
    public = set(sorted(range(len(train)), key=lambda i: _priority(seed, train[i]))[:size])
    return [train[i] for i in sorted(public)], [
        record for i, record in enumerate(train) if i not in public
    ]


def subsample(
    name: str,
    partitioned: bool,
    train: Split,
    test: Split,
    limit_train: int | None,
    limit_test: int | None,
    seed: int,
    last: bool = False,
    pool: bool = False,
    classes: Collection[str] = (),
) -> tuple[Split, Split]:
    """At most limit_train train records a class (in all where not partitioned) and limit_test test records, by public
    randomness; ``last``: the last test records of its order in place of the first, none of which is among those.
    ``pool``: all of the first (the last) part from which seeds draw so many each; the last part is a fifth, or one
    draw. ``classes``: of these labels alone, and limits are of their records; () means all. Raises DataError where
    there are not so many others.

    A class keeps the train records with the smallest hash of (seed, text), in their order: one record more in a class
    displaces at most one other of it. (What one record more in the file does: docs/accounting.md.) Test records are
    always permuted, so that a shorter test set is a random part of a longer one (files are often sorted by class).
    """
    groups: dict[str, list[int]] = {}
    for index, record in enumerate(train):
        groups.setdefault(record.label if partitioned else "", []).append(index)
    chosen: list[int] = []
    for label, members in groups.items():
        if not classes or label in classes:
            chosen += sorted(members, key=lambda i: _priority(seed, train[i]))[:limit_train]
    order = streams(seed).stream(f"data:{name}:test").permutation(len(test)).tolist()
    if pool:  # whatever its classes, no record is both scored and for development
        scored = len(test) - max(limit_test or 0, len(test) // _DEVELOPMENT_PART)
        if scored < (limit_test or 1):
            raise DataError(
                f"{name} has {len(test)} test records; a seed is to draw {limit_test} of them, and as many are kept for"
                f" development seeds; set task_test_records to {len(test) // 2} at most."
            )
        order = order[scored:] if last else order[:scored]
    if classes:
        order = [i for i in order if test[i].label in classes]
    if not pool:
        if last and (limit_test is None or len(order) < 2 * limit_test):
            raise DataError(
                f"baseline_seeds measure headroom on test records of {name} that no row is scored on, and the rows take"
                f" {limit_test or 'all'} of {len(order)}; set task_test_records to {len(order) // 2} at most."
            )
        order = order[len(order) - (limit_test or 0) :] if last else order[:limit_test]
    return [train[i] for i in sorted(chosen)], [test[i] for i in order]


def draw_records(train: Sequence[Record], share: float, seed: int) -> Split:
    """The private records of one seed: each is kept by a coin of its own with probability ``share``, in their order.

    A coin is a hash of (seed, key of the text), the key by which duplicates are one record, so it depends on no other
    record. The map is therefore stable: for every seed, known or not, data sets that differ by one record r are mapped
    to two that are equal (the coin leaves r out) or differ by r alone. Hence what is (epsilon, delta)-DP in the drawn
    records is (epsilon, delta)-DP in all of them (transformations of stability 1: McSherry, PINQ, SIGMOD 2009, section
    3), provided that sizes are constants, here those of the whole set times ``share`` (`Task.draw`). Nothing is gained
    by amplification: the seed is published. Mechanisms with one seed get the same records, so they can be paired.
    """
    limit = round(share * 2**64)
    digests = (
        hashlib.sha256(f"private_share:{seed}:{normalise(record.text)}".encode()).digest()
        for record in train
    )
    coins = (int.from_bytes(digest[:8], "big") < limit for digest in digests)
    return [record for record, is_drawn in zip(train, coins, strict=True) if is_drawn]


def draw_test_records(
    name: str,
    pool: Sequence[Record],
    size: int,
    seed: int,
) -> Split:
    """The test records of one seed: a window of ``size`` records of a public permutation. Seeds that follow each other
    have disjoint windows as long as there are records; then the next permutation is used. Raises DataError where there
    are fewer than ``size``.
    """
    if len(pool) < size:
        raise DataError(
            f"{name} has {len(pool)} test records from which a seed is to draw {size}; set task_test_records to at"
            f" most {len(pool)}."
        )
    windows = len(pool) // size
    turn, window = divmod(seed, windows)
    order = streams(turn).stream(f"data:{name}:test window").permutation(len(pool))
    return [pool[i] for i in order[window * size : (window + 1) * size]]


def _priority(seed: int, record: Record) -> bytes:
    """A public random priority for each text, which does not depend on the other records."""
    return hashlib.sha256(f"{seed}:{letters(record.text)}".encode()).digest()


def require_records(
    name: str,
    labels: Sequence[str],
    train: Split,
    test: Split,
    dropped: Mapping[str, int],
) -> None:
    """Raises DataError for an empty set, and for a class without train records. dropped: what `deduplicate` counts."""
    if not train and test and dropped["train_in_test"]:
        raise DataError(
            f"{name} has no train record that is not a test record too ({dropped['train_in_test']} are both): the train"
            " file seems to be the test file; bring different records."
        )
    missing = [label for label in labels if label not in {record.label for record in train}]
    if missing:
        raise DataError(
            f"{name} has no train record of {', '.join(missing)}; add some or use another source."
        )
    if not train:
        raise DataError(f"{name} has an empty train set; use another source.")
    if not test:
        raise DataError(f"{name} has an empty test set; use another source.")


def fingerprint(
    train: Sequence[Record],
    test: Sequence[Record],
    public: Sequence[Record] = (),
) -> str:
    """sha256 over all records in order: (split, label, text), each as one JSON line."""
    digest = hashlib.sha256()
    for split, records in (("train", train), ("test", test), ("public", public)):
        for record in records:
            digest.update(
                json.dumps([split, record.label, record.text], ensure_ascii=True).encode() + b"\n"
            )
    return digest.hexdigest()
