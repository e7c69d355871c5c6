"""Answers without noise are the non-private method done slowly; with noise it has the stated scale."""

import math
from collections import Counter

import numpy as np
import pytest

from dpicl.core.seeds import SeededNoise
from dpicl.mechanism.bases import FinalPrompt
from dpicl.mechanisms.sga import SGA, PublicSpace
from dpicl.privacy import release_hooks
from dpicl.privacy.cluster_tree import ClusterTree
from dpicl.privacy.sampling_schemes import SCHEMES
from tests.mechanisms.answering import (
    ALL,
    DIMENSION,
    QUERIES,
    RECORDS,
    HashReader,
    generator,
    released_candidates,
    run_answers,
    run_one,
    slots_of,
)

SEEDS = pytest.mark.parametrize("seed", range(2))


def answer_each(name, texts=RECORDS, seed=0):
    """(query, its slots, its answer) of every query, without noise."""
    answers, _, _ = run_one(name, texts, seed=seed, knob=0.0)
    return zip(
        QUERIES,
        slots_of(ALL[name][0], texts, seed=seed),
        answers,
        strict=True,
    )


@SEEDS
@pytest.mark.parametrize("name", ["voting", "voting_raw"])
def test_votes_are_the_plurality_of_the_slots_own_labels(name, seed):
    mechanism, task, _ = ALL[name]
    texts = [*RECORDS[:9], "@1", "@2", "@3"]
    for query, slots, answer in answer_each(name, texts, seed=seed):
        votes = Counter[int]()
        for slot in slots:
            if not any("@" in record.text for record in slot):
                row = (
                    HashReader()
                    .label_scores(query, [slot], calibrated=mechanism.calibrate)[0]
                    .tolist()
                )
                votes[row.index(max(row))] += 1
        assert (
            answer
            == task.labels[
                min(
                    range(3),
                    key=lambda at: (-votes[at], at),
                )
            ]
        )


@pytest.mark.parametrize("name", ["voting_spans", "voting_keywords"])
@SEEDS
def test_phrases_are_the_plurality_of_lines_that_are_candidates(name, seed):
    _, task, phrases = ALL[name]
    for query, slots, answer in answer_each(name, seed=seed):
        words = query.text.split()
        if name == "voting_spans":
            public = [
                " ".join(words[i : i + n]) for n in (1, 2, 3, 4) for i in range(len(words) - n + 1)
            ]
        else:
            public = list(task.labels)
        lines = [(text.split("\n")[0]).lower() for text in HashReader(phrases).texts(query, slots)]
        votes = [lines.count(phrase.lower()) for phrase in public]
        assert answer == public[votes.index(max(votes))]


@SEEDS
def test_esa_is_the_candidate_nearest_to_the_clipped_mean(seed):
    mechanism, _, _ = ALL["esa"]
    reader = HashReader()
    for query, slots, answer in answer_each(
        "esa",
        [*RECORDS[:10], "@", "@"],
        seed=seed,
    ):
        public = reader.candidates(query, 6, mechanism.temperature)
        vectors = reader.embed(public, "embedded")
        centre = sum(vectors) / 6
        mean = centre.copy()
        for text in reader.texts(query, slots):
            if text:
                away = reader.embed([text], "embedded")[0] - centre
                mean += away * min(1.0, 0.5 / math.sqrt(away @ away)) / 4
        distances = [float((vector - mean) @ (vector - mean)) for vector in vectors]
        assert answer == public[distances.index(min(distances))]


@SEEDS
def test_ksa_suggests_the_words_of_most_slots_in_order(seed):
    public = {
        "q1": ["anna", "brings", "cake", "tomorrow", "noon"],
        "q2": ["party", "noon"],
        "q3": ["cake", "anna"],
    }
    for query, slots, answer in answer_each("ksa", seed=seed):
        answers_of_slots = [set(text.split()) for text in HashReader().texts(query, slots)]
        counts = {
            word: sum(word in words for words in answers_of_slots) for word in public[query.id]
        }
        best = sorted(
            public[query.id],
            key=lambda word: -counts[word],
        )[:3]
        assert answer.prompt == (
            f"Do it.\nDialogue: {query.text}\nSummarize the above dialogue with the following word suggestions ranked"
            f" by their frequency from high to low: [{', '.join(best)}]\nThe summary is:"
        )


@SEEDS
def test_histogram_ranks_candidates_by_the_slots_nearest_to_them(seed):
    mechanism, task, _ = ALL["sga_histogram"]
    for query, slots, answer in answer_each(
        "sga_histogram",
        [*RECORDS[:10], "@", "@"],
        seed=seed,
    ):
        reader = HashReader()
        public = released_candidates(mechanism, query, task)
        vectors = reader.embed(public, "embedded")
        votes = [0] * len(public)
        for text in reader.texts(query, slots):
            if text:
                vector = reader.embed([text], "embedded")[0]
                votes[
                    max(
                        range(len(public)),
                        key=lambda at: vector @ vectors[at],
                    )
                ] += 1
        best = sorted(
            range(len(public)),
            key=lambda at: -votes[at],
        )[: mechanism.top]
        listed = ",\n".join(public[at] for at in best)
        assert f"[{listed}]" in answer.prompt


class Clustered(HashReader):
    """Public answers: corners of a square. Private ones: close to three corners, 5, 3 and 2 of them."""

    corners = {
        "north": (0, 1),
        "south": (0, -1),
        "east": (1, 0),
        "west": (-1, 0),
    }

    def public_texts(self, query, slots):
        return list(self.corners)

    def texts(self, query, slots):
        return ["south"] * 5 + ["east"] * 3 + ["west"] * 2

    def embed(self, texts, name):
        rows = np.zeros((len(texts), DIMENSION))
        for i, text in enumerate(texts):
            rows[i, 2:4] = self.corners[text]
            rows[i] += generator(i).normal(0, 0.01, DIMENSION)
        return rows


def test_sga_ranks_the_candidates_of_clusters_by_their_size():
    mechanism = SGA(slots=10, examples_per_slot=1, public_slots=4, top=4, levels=3)
    (answer,), _, _ = run_answers(
        mechanism, RECORDS, knob=0.0, reader=Clustered(), queries=QUERIES[:1]
    )
    assert "[south,\neast,\nwest]" in answer.prompt
    (answer,), _, _ = run_answers(
        mechanism, RECORDS, knob=0.01, reader=Clustered(), queries=QUERIES[:1]
    )
    assert "[south,\neast,\nwest]" in answer.prompt


def test_the_noise_of_means_is_two_public_radii_times_sigma():
    mechanism, task, _ = ALL["sga"]
    tree = ClusterTree(1.5, 1.0)
    space = PublicSpace.of(
        HashReader().embed(released_candidates(mechanism, QUERIES[0], task), "embedded"),
        mechanism.dimensions,
    )
    scales = []

    class Observed(SeededNoise):
        def gaussian(self, scale, size):
            scales.append(scale)
            return super().gaussian(scale, size)

    run_answers(
        mechanism,
        RECORDS,
        knob=1.5,
        queries=QUERIES[:1],
        noise=Observed(lambda shot: np.random.default_rng(0)),
    )
    assert scales[:-1] == [pytest.approx(math.sqrt(2) * tree.count_multiplier)] * mechanism.levels
    assert scales[-1] == pytest.approx(2 * space.radius * tree.sum_multiplier)
    assert space.radius < 0.99  # projected vectors of length 1


def is_public(entry, query):
    return (
        entry[1] == query.id
        and entry[2]
        and all(r.text.lower().startswith("public") for r in entry[2])
    )


def test_public_candidates_follow_no_seed_and_no_private_set():
    """They belong to the query; where slots are shared by all queries, so are the public ones."""

    def public_slots(seed, texts, way):
        _, _, reader = run_one("sga", texts, seed=seed, way=way)
        return {q.id: [e[2] for e in reader.asked if is_public(e, q)] for q in QUERIES}

    first = public_slots(0, RECORDS, "per_query")
    assert first == public_slots(9, ["something else"], "per_query")
    assert first["q1"] != first["q2"]
    together = public_slots(0, RECORDS, "one_sample")
    assert together["q1"] == together["q2"] == together["q3"]


@pytest.mark.parametrize("way", SCHEMES)
@pytest.mark.parametrize("name", ALL)
def test_a_record_with_a_slot_of_its_own_needs_a_smaller_bound(name, way, monkeypatch):
    stated: dict[int, list[float]] = {}
    for shown in (1, 2):
        bounds = stated[shown] = []
        for method in ("noisy_sum", "_choices"):
            original = getattr(release_hooks.Permit, method)

            def spy(permit, clean, bound, *more, original=original, bounds=bounds, **settings):
                bounds.append(bound)
                return original(permit, clean, bound, *more, **settings)

            monkeypatch.setattr(release_hooks.Permit, method, spy)
        run_one(name, way=way, examples_per_slot=shown)
        monkeypatch.undo()
    ratios = {
        round(a / b, 6)
        for a, b in zip(
            stated[1],
            stated[2],
            strict=True,
        )
    }
    less = {
        "esa": {0.5},
        "ksa": {0.5},
        "product_of_experts": {0.5},
        "sga": {0.5, 0.707107},
        "sga_out": {0.5, 0.707107},
    }.get(name, {0.707107})
    if isinstance(
        ALL[name][0], SGA
    ):  # its radius is that of public answers, which have as many examples
        ratios &= {0.5, 0.707107, 1.0}
    assert ratios == ({1.0} if way == "once" else less)


@pytest.mark.parametrize("name", ALL)
def test_nobody_who_says_anything_still_leaves_a_public_answer(name):
    reader = HashReader(fixed="")
    for knob in (0.0, 1.0):
        answers, _, _ = run_one(name, reader=reader, knob=knob)
        assert all(isinstance(answer, str | FinalPrompt) for answer in answers)
    if name.startswith("sga"):
        assert answers == [""] * len(QUERIES)
