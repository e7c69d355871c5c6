"""An exact audit whose canary is a person with 63 rows: one row of theirs moves what is released, and no more."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from dpicl import models
from dpicl.accounting.ledger import Ledger
from dpicl.attacks.exact_pairs import exact_epsilon
from dpicl.attacks.exact_worlds import Comparison, World, compare_worlds, path_of
from dpicl.attacks.observers import Policy
from dpicl.core.output_cache import OutputCache
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Sizes
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.options import build
from dpicl.mechanism.registry import load_mechanisms
from dpicl.mechanisms.topic_words import list_words
from dpicl.own.records import OwnRecords, load_own
from dpicl.privacy.release_hooks import observing
from dpicl.releasing.execution import Execution
from dpicl.releasing.release import calibrate_mechanism

LABELS = ("billing", "refund")
SIZES = dict.fromkeys(LABELS, 40)
DELTA = 1e-6
PERSON = OwnRecords({label: label for label in LABELS}, person_field="customer_id")
SINGLE = replace(PERSON, person_field=None, per_record=True)
#: Mechanisms in whose one sample every record is, with options that a test can afford.
MECHANISMS = {
    "embedding_centroids": {"embedding": "sim"},
    "one_vote": {"candidates": 6, "tokens": 4, "embedding": "sim"},
    "private_evolution": {"rounds": 2, "candidates": 3, "tokens": 4, "embedding": "sim"},
    "topic_words": {"words": 4},
}


@pytest.fixture
def files(tmp_path, fresh_cache):
    """Tickets of 20 people with two rows each and of one with 63, whose rows are the last; and without that one."""
    others = [(f"ticket {n} on {label}", label, f"c-{n}") for n in range(20) for label in LABELS]
    word = list_words(models.load("sim"))[0]
    theirs = [(f"{word} {n}", "billing", "Bob") for n in range(63)]
    paths = (tmp_path / "with.csv", tmp_path / "without.csv")
    for path, rows in zip(paths, (others + theirs, others), strict=True):
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("text", "label", "customer_id"), *rows])
    return paths


def audit_person(
    mechanism: Mechanism, records: OwnRecords, files: tuple[Path, Path]
) -> tuple[Comparison, float]:
    """(what the person moves, the proved epsilon): both worlds are executed as a release is."""
    present, absent = (load_own(records, path, SIZES, True).task for path in files)
    rows = len(present.train) - len(absent.train)
    shots = () if mechanism.reads_all else LABELS
    sizes = Sizes(SIZES, dict.fromkeys(shots or LABELS, 1))
    calibration = calibrate_mechanism(mechanism, sizes, 1.0, DELTA, cache=None)

    def run(task, path: Policy, copies: int) -> World:
        randomness = streams(0)
        world = World(
            path, randomness=randomness.source("sampling"), group="billing", copies=copies
        )
        execution = Execution(
            mechanism,
            task.public_view(),
            models.load("sim"),
            calibration.knob,
            calibration.by_label,
            records=task.train,
            sizes=sizes,
            ledger=Ledger(calibration.event, calibration.epsilon),
            sampling=world,
            noise=randomness.source("noise"),
            public=randomness.public,
            observer=world,
            outputs=lambda: OutputCache(None),
            shots=shots,
        )
        with observing(world):
            execution.run()
        return world

    leading = run(present, path_of({}), rows)
    return compare_worlds(leading, run(absent, leading.repeat_path, 0)), calibration.bounds.upper


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_person_with_63_rows_shows_no_more_than_was_proved(files, name):
    mechanism = build(load_mechanisms()[name].cls, MECHANISMS[name])
    comparison, proved = audit_person(mechanism, PERSON, files)
    assert comparison.moved and max(comparison.shares) <= 1 + 1e-9
    assert 0 < exact_epsilon(comparison.losses, DELTA, proved) <= proved <= 1


def test_63_rows_that_are_protected_one_by_one_show_more(files):
    mechanism = build(
        load_mechanisms()["embedding_centroids"].cls, MECHANISMS["embedding_centroids"]
    )
    comparison, proved = audit_person(mechanism, SINGLE, files)
    assert max(comparison.shares) > 3
    assert exact_epsilon(comparison.losses, DELTA, proved) > 3 * proved
