"""Embedding centroids: what one record moves, what a release costs, and what is answered from it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from dpicl import models
from dpicl.accounting import accountants
from dpicl.accounting.slack import LARGEST, slack
from dpicl.attacks.observers import Recording
from dpicl.core.cell import ReleaseConfig
from dpicl.core.vocabulary import Query, Record, Sizes
from dpicl.data.task import Task
from dpicl.mechanisms.embedding_centroids import EmbeddingCentroids
from dpicl.models.embeddings import load_embeddings
from dpicl.privacy.primitives import NoisySum
from dpicl.privacy.release_hooks import observing
from dpicl.releasing.release import calibrate_mechanism, release

SIM = EmbeddingCentroids(embedding="sim")
LOGISTIC = replace(SIM, head="logistic", steps=3)


@pytest.fixture(scope="module")
def agnews():
    task = Task.load("agnews", "synthetic", limit_train=30, limit_test=12)
    return replace(task, declared=dict.fromkeys(task.labels, 30))


def release_sums(mechanism, task, epsilon=1.0, seed=0):
    """The release, and every noisy sum that was made."""
    recording = Recording()
    config = ReleaseConfig(epsilon=epsilon, delta=1e-5, seed=seed)
    with observing(recording):
        outcome = release(mechanism, task, models.load("sim"), config)
    return outcome, recording.observed_releases


def test_one_more_record_adds_one_vector_to_one_class(agnews):
    more = Record("a text about football and a match", "Sports")
    _, without = release_sums(SIM, agnews)
    _, with_it = release_sums(SIM, replace(agnews, train=(*agnews.train, more)))
    moved = [b.release.clean - a.release.clean for a, b in zip(without, with_it, strict=True)]
    at = list(agnews.group_sizes).index("Sports")
    assert [bool(each.any()) for each in moved] == [
        label == "Sports" for label in agnews.group_sizes
    ]
    assert moved[at][0] == pytest.approx(
        load_embeddings("sim").encode([more.text])[0],
        abs=1e-5,
    )
    assert 0.999 < np.linalg.norm(moved[at]) <= 1 == without[at].release.bound


def test_a_gradient_is_clipped_and_classes_charged_together(agnews):
    more = Record("a text about football and a match", "Sports")
    _, without = release_sums(LOGISTIC, agnews)
    _, with_it = release_sums(LOGISTIC, replace(agnews, train=(*agnews.train, more)))
    first = (
        with_it[0].release.clean - without[0].release.clean
    )  # later steps follow from released noise
    assert 0.99 * LOGISTIC.clip < np.linalg.norm(first) <= LOGISTIC.clip == without[0].release.bound
    assert first.any(axis=1).all() and len(without) == LOGISTIC.steps


def test_a_record_changes_no_bit_of_the_gradients_of_the_others(agnews, monkeypatch):
    """Given the same released sums. A product of matrices would round a row by how many rows there are."""
    gradients: list[np.ndarray] = []
    config = ReleaseConfig(epsilon=1.0, delta=1e-5, seed=0)
    wide = np.random.default_rng(0).normal(size=(200, 384)) / math.sqrt(
        384
    )  # as wide as the embedded model's

    def fix_sum(noisy_sum, vectors, sample, weights):
        gradients.append(weights)
        total = np.random.default_rng(len(gradients) % LOGISTIC.steps).normal(
            size=(weights.shape[1], vectors.shape[1])
        )
        sample.spend(noisy_sum.event).noisy_sum(total, noisy_sum.bound)
        return total

    monkeypatch.setattr(NoisySum, "release", fix_sum)
    monkeypatch.setattr(
        EmbeddingCentroids, "_embed", lambda self, sample, reader: wide[: len(sample.slots)]
    )
    for size in (1, 5, 9, 14):
        gradients.clear()
        for train in (agnews.train[:size], agnews.train[: size + 1]):
            release(
                LOGISTIC,
                replace(agnews, train=train),
                models.load("sim"),
                config,
                queries=(),
            )
        without, with_them = gradients[: LOGISTIC.steps], gradients[LOGISTIC.steps :]
        assert len(with_them) == LOGISTIC.steps
        for one, other in zip(without, with_them, strict=True):
            assert np.array_equal(one, other[: len(one)])


@pytest.mark.parametrize(
    ("mechanism", "epsilon"), [(SIM, 8.0), (EmbeddingCentroids(head="logistic"), 1.0)]
)
def test_the_noise_is_that_of_one_gaussian_whatever_the_sizes(mechanism, epsilon):
    sizes = Sizes(
        {None: 500} if mechanism.head == "logistic" else {"a": 10, "b": 99},
        {},
    )
    calibrated = calibrate_mechanism(mechanism, sizes, epsilon, 1e-5, cache=None)
    steps = 1 if mechanism.head == "centroid" else mechanism.steps
    expected = {1.0: 3.7304, 8.0: 0.60024}[
        epsilon
    ]  # the exact Gaussian curve (Balle & Wang 2018) at delta = 1e-5
    assert calibrated.knob == pytest.approx(expected * math.sqrt(steps), rel=1e-3)
    assert 0.98 * epsilon <= calibrated.bounds.upper <= epsilon
    loose = slack(calibrated.event, 1e-5, calibrated.bounds.upper)
    assert loose is None or loose <= LARGEST


@pytest.mark.parametrize("mechanism", [SIM, LOGISTIC])
def test_any_number_of_queries_is_answered_from_one_release(agnews, mechanism):
    outcome, noisy = release_sums(mechanism, agnews)
    assert outcome.sizes.queries is None and outcome.per_query is None
    before = len(noisy)
    again = outcome.more(
        [Query(f"{n}", query.text) for n, query in enumerate(agnews.queries() * 5)]
    )
    assert list(again.values()) == list(outcome.answers.values()) * 5
    assert len(noisy) == before
    assert accountants.epsilon(outcome.ledger.event(), 1e-5).upper == outcome.bounds.upper <= 1
    assert set(outcome.answers.values()) <= set(agnews.labels)


def test_a_query_without_words_follows_no_order_of_records(agnews):
    """All scores are 0 then, and the first class is the answer: of the public list, not of the first record."""
    config = ReleaseConfig(epsilon=1.0, delta=1e-5, seed=0)
    blank = [Query("blank", " ")]
    counted = replace(agnews, declared=None)
    for train in (counted.train, counted.train[::-1]):
        task = replace(counted, train=train)
        outcome = release(SIM, task, models.load("sim"), config, blank)
        assert outcome.answers == {"blank": task.labels[0]}
        assert list(task.group_sizes) == list(task.labels)


def test_the_nearest_centroid_by_cosine_as_computed_by_hand(agnews):
    outcome, noisy = release_sums(SIM, agnews)
    rows = {label: one.released[0] for label, one in zip(agnews.group_sizes, noisy, strict=True)}
    for query in agnews.queries():
        vector = load_embeddings("sim").encode([query.text])[0]
        cosines = {label: row @ vector / np.linalg.norm(row) for label, row in rows.items()}
        assert outcome.answers[query.id] == max(cosines, key=cosines.get)
