"""Task: shots, sizes, keyword lists, and the real records where they are."""

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dpicl.core.errors import UsageError
from dpicl.data.splits import Record
from dpicl.data.task import NEUTRAL_LABEL, TASKS, Task, load_config
from tests.harness.helpers import write


def test_shots_are_drawn_without_replacement_first():
    task = Task.load("agnews", source="synthetic", limit_train=1)
    draws = np.random.default_rng(0)
    for _ in range(20):
        assert len(set(task.plan_shots(3, draws))) == 3
    assert Counter(task.plan_shots(9, draws)).most_common()[-1][1] == 2
    assert task.plan_shots(0, draws) == ()
    with pytest.raises(UsageError):
        task.plan_shots(-1, draws)


def test_sizes_name_only_the_labels_that_are_used(local_data):
    labels = ["World", "World", "Sports", "Business", "Technology"]
    rows = [{"text": f"story {i}", "label": label} for i, label in enumerate(labels)]
    write(local_data, "agnews", "train", rows)
    write(local_data, "agnews", "test", [{"text": "exam", "label": "World"}])
    task = Task.load("agnews", source="local")
    sizes = task.sizes(("World", "Sports", "World"))
    assert sizes.records == {"World": 2, "Sports": 1}
    assert sizes.shots == {"World": 2, "Sports": 1}
    with pytest.raises(UsageError, match="Unknown label 'Sport'"):
        task.sizes(("Sport",))


@pytest.mark.parametrize(
    ("name", "kind", "labels"),
    [
        ("mit_g", "extraction", None),
        ("samsum", "generation", {NEUTRAL_LABEL}),
        ("wikimovies", "json", {"movie"}),
    ],
)
def test_a_task_without_classes_has_one_partition(name, kind, labels):
    task = Task.load(name, source="synthetic", limit_train=50, limit_test=3)
    shots = task.plan_shots(3, np.random.default_rng(0))
    assert task.kind == kind
    assert task.partitioned is False
    assert set(shots) == (labels or {*shots} & {*task.labels})
    sizes = task.sizes(shots)
    assert sizes.records == {None: 50}
    assert sizes.shots == {None: 3}


def test_keyword_lists_do_not_depend_on_the_data(local_data):
    before = load_config("mit_d").labels
    assert 100 <= len(before) == len(set(before))
    assert all(word == word.lower().strip() for word in before)
    write(
        local_data, "mit_d", "train", [{"text": "a film by nobody known", "slot": "nobody known"}]
    )
    write(local_data, "mit_d", "test", [{"text": "a film by somebody", "slot": "somebody"}])
    task = Task.load("mit_d", source="local")
    assert task.labels == before
    assert task.train == (Record("a film by nobody known", "nobody known"),)
    assert (TASKS / "mit_d" / "keywords.txt").is_file()


#: Task -> (train, test) records of the real data sets, and what is dropped of them.
REAL = {
    "agnews": (12000, 7599, (0, 0, 0)),
    "dbpedia": (14000, 1400, (0, 0, 0)),
    "trec": (5365, 500, (76, 11, 0)),
    "mit_g": (2953, 780, (0, 0, 0)),
    "mit_d": (1561, 415, (0, 0, 0)),
    "samsum": (6000 - 1900, 819, (0, 0, 0)),
    "xsum": (1927 - 640, 400, (0, 0, 0)),
    "chatdoctor": (2924 - 970, 400, (0, 0, 0)),
    "wikimovies": (12000, 1000, (0, 0, 0)),
    "enron": (2758, 689, (0, 0, 0)),
}
THERE = [
    name
    for name in REAL
    if Path(
        os.environ.get("DPICL_DATA") or os.devnull,
        name,
    ).is_dir()
]


@pytest.mark.skipif(
    not THERE, reason="DPICL_DATA is not set: no real records whose counts are known"
)
@pytest.mark.parametrize("name", THERE or [None])
def test_real_records_load_with_their_known_counts(name):
    task = Task.load(name, source="local")
    assert (
        len(task.train),
        len(task.test),
        tuple(task.dropped.values()),
    ) == REAL[name]
    if name == "trec":
        assert task.sizes(task.labels).records["Abbreviation"] < 90
