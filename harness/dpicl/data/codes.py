"""Replaces labels by codewords; only the records show which class has which codeword.

A task of codes (`metadata.codes` of task.yaml names the task whose records it has) lists its codewords in public, and a
random map from the base task's label words to them is drawn for each seed. Train and test records carry codewords; who
reads no record has nothing to tell classes apart with. Where there are fewer codewords than label words, each seed also
draws its classes: a public choice that looks at no record, and records of other classes are left out. What a mechanism
sees of such a task (`PublicTask`) does not depend on the map, bit for bit:

* which records there are, which of them a limit keeps, their order, ids and fingerprint are made from texts and from
  the base task's label words, before the map is applied;
* test records are shown without their labels, and the id of a test record is a hash of its text alone;
* no part of the train set is public, and n_y is one constant for all codewords (`equal_sizes`), since classes of
  different sizes would give the map away;
* the stream of the map is none that a mechanism may draw from (`dpicl.core.seeds`), and every public draw
  (labels of shots, order of test records) comes from another one.

For the privacy analysis the map is a constant: epsilon holds for every map, and for whoever knows it. What rests on
trust is what rests on it for seeded noise too: whoever looks up the cell's seed in the harness can draw the map again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Partition, Record


def draw_classes(
    labels: Sequence[str],
    count: int,
    seed: int,
) -> tuple[str, ...]:
    """``count`` label words of the base task in their public order, each set with the same probability, by public
    randomness of the seed."""
    drawn = streams(seed).stream("classes of codes").permutation(len(labels))[:count]
    return tuple(labels[at] for at in sorted(drawn.tolist()))


def code_map(
    labels: Sequence[str],
    codewords: Sequence[str],
    seed: int,
) -> Mapping[str, str]:
    """Label word of the base task -> codeword: one of all k! one-to-one maps, uniformly, a function of the seed.

    labels: as many as there are codewords.
    """
    order = streams(seed).stream("codes").permutation(len(codewords))
    return {label: codewords[at] for label, at in zip(labels, order.tolist(), strict=True)}


def encode_labels(
    records: Sequence[Record],
    codes: Mapping[str, str],
) -> list[Record]:
    """The records of the classes that have codewords, in their order, with these."""
    return [Record(record.text, codes[record.label]) for record in records if record.label in codes]


def equal_sizes(records: int, codewords: Sequence[str]) -> dict[Partition, int]:
    """n_y of every codeword where none is declared: the same share of all records, rounded up."""
    return {codeword: -(-records // len(codewords)) for codeword in codewords}
