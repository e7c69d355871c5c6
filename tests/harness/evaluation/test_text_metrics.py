"""Text metrics against published examples, hand-computed numbers and slow obvious code."""

import math

import numpy as np
import pytest

from dpicl.core.errors import ModelError
from dpicl.evaluation import text_metrics


@pytest.fixture(autouse=True)
def _fresh():
    text_metrics.list_unavailable.cache_clear()
    text_metrics._similarities.cache_clear()
    yield
    text_metrics.list_unavailable.cache_clear()
    text_metrics._similarities.cache_clear()


@pytest.fixture
def letters(monkeypatch):
    """Embeds a text as its letters a, b and minus; answers with the list of calls."""
    calls: list[list[str]] = []

    def embed(texts):
        calls.append(list(texts))
        rows = np.array(
            [
                [
                    t.count("a") - t.count("-"),
                    t.count("b"),
                ]
                for t in texts
            ],
            dtype=float,
        ).reshape(-1, 2)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)

    monkeypatch.setattr(text_metrics, "_embed", embed)
    return calls


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("the cat", "the cat", 1.0),
        ("the the the the", "the cat is here", 1 / 4),  # counts are clipped
        ("the cat", "the cat sat on it", math.exp(1 - 5 / 2)),  # brevity penalty
        ("the dog sat on it now", "the cat sat on it", 4 / 6),
        ("The cat", "the cat", 1 / 2),  # case counts
        ("a cat.", "a cat . ", 1.0),  # the full stop is a word
        ("I sat. I ran.", "I sat . I ran .", 1.0),  # also inside the text
        ("dog", "cat", 0.0),
    ],
)
def test_bleu1_by_hand(answer, reference, expected):
    assert text_metrics.bleu1(answer, reference) == pytest.approx(expected)


def test_an_empty_answer_scores_0_everywhere(letters):
    assert set(text_metrics.scores("", "a reference").values()) == {0.0}
    assert text_metrics.similarities(
        [
            ("", "a reference"),
            ("  ", "a"),
            ("a", "a"),
        ]
    ) == [
        0.0,
        0.0,
        1.0,
    ]


def test_similarity_is_the_cosine_and_never_negative(letters):
    near = text_metrics.similarities(
        [
            ("a", "ab"),
            ("a", "b"),
            ("a", "-"),
            ("ab", "aabb"),
        ]
    )
    assert near == pytest.approx([math.sqrt(1 / 2), 0.0, 0.0, 1.0])
    assert text_metrics.mean_similarity([("a", "ab"), ("a", "-")]) == pytest.approx(
        math.sqrt(1 / 2) / 2
    )
    assert math.isnan(text_metrics.mean_similarity([]))


def test_all_texts_are_embedded_in_one_batch_and_once(letters):
    pairs = [("a", "b"), ("a", "ab"), ("b", "a")]
    assert text_metrics.mean_similarity(pairs) == pytest.approx(
        np.mean(text_metrics.similarities(pairs))
    )
    assert letters == [["a", "b", "ab"]]


class NoSynonyms:
    """Stands in for WordNet: no word has a synonym, so METEOR matches words and stems only."""

    def ensure_loaded(self) -> None:
        """Nothing to load."""

    def synsets(self, word: str) -> list[str]:
        return []


def test_meteor_by_hand(monkeypatch, letters):
    monkeypatch.setattr("nltk.corpus.wordnet", NoSynonyms())
    # "the cat sat" against "the cat sat on it": precision 1, recall 3/5, one chunk of three matches
    fmean = 1 * (3 / 5) / (0.9 * 1 + 0.1 * (3 / 5))
    scores = text_metrics.scores("the cat sat", "the cat sat on it")
    assert scores["meteor"] == pytest.approx(fmean * (1 - 0.5 * (1 / 3) ** 3))
    assert text_metrics.scores("", "the cat")["meteor"] == 0.0


def test_without_wordnet_meteor_is_left_out_with_the_remedy(monkeypatch, letters):
    class Missing(NoSynonyms):
        def ensure_loaded(self) -> None:
            raise LookupError("wordnet")

    monkeypatch.setattr("nltk.corpus.wordnet", Missing())
    assert "nltk.downloader wordnet" in text_metrics.list_unavailable()["meteor"]
    assert set(text_metrics.scores("a", "a")) == {"rouge1", "rouge2", "rougeL", "bleu1"}


def test_without_an_embedding_model_similarity_says_why(monkeypatch):
    def fail(texts):
        raise ModelError("The wheel is not installed; install it.")

    monkeypatch.setattr(text_metrics, "_embed", fail)
    assert (
        text_metrics.list_unavailable()["similarity"] == "The wheel is not installed; install it."
    )
