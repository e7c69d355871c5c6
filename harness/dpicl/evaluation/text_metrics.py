"""Compares a text with a reference: ROUGE, BLEU-1, METEOR and cosine similarity of embeddings, all in [0, 1].

The settings are those of the evaluation of SGA (tjdgh3946/PubDP-ICL): ROUGE F1 with stemming, sentence BLEU with weight
on single words alone, METEOR of nltk. An empty answer scores 0 everywhere. What a machine lacks is skipped with a
reason (`list_unavailable`), never replaced.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpicl.core.errors import ModelError

if TYPE_CHECKING:  # nltk takes seconds to load, and most tasks write no text
    from rouge_score.rouge_scorer import RougeScorer

ROUGE = ("rouge1", "rouge2", "rougeL")

#: (answer, reference)
Pair = tuple[str, str]

_END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def scores(answer: str, reference: str) -> dict[str, float]:
    """Every metric that looks at one document alone: rouge1, rouge2, rougeL, bleu1, and meteor where WordNet is."""
    from nltk.corpus import wordnet
    from nltk.translate.meteor_score import single_meteor_score

    found = {**rouge(answer, reference), "bleu1": bleu1(answer, reference)}
    if "meteor" not in list_unavailable():
        found["meteor"] = float(single_meteor_score(words(reference), words(answer), wordnet=wordnet))
    return found


def rouge(answer: str, reference: str) -> dict[str, float]:
    """F1 of rouge1, rouge2 and rougeL, with stemming."""
    return {name: float(score.fmeasure) for name, score in _rouge().score(reference, answer).items()}


def bleu1(answer: str, reference: str) -> float:
    """Sentence BLEU on single words with the brevity penalty, case kept.

    Smoothing (method 4 in the published code) changes the counts of longer n-grams only, so there is nothing to smooth.
    """
    from nltk.translate.bleu_score import sentence_bleu

    return float(sentence_bleu([words(reference)], words(answer), weights=(1.0,)))


def words(text: str) -> list[str]:
    """Tokens of nltk's word_tokenize, with sentences ended at . ! or ? before a blank.

    nltk would find sentences with its Punkt data, which has to be downloaded; only abbreviations come out differently.
    """
    import nltk

    return [w for part in _END_OF_SENTENCE.split(text) for w in nltk.word_tokenize(part, preserve_line=True)]


def similarities(pairs: Sequence[Pair]) -> list[float]:
    """Cosine of the sentence embeddings of each answer and its reference, 0 where it is negative; all in one batch.

    Raises ModelError when the embedding model is missing; `list_unavailable` says so beforehand.
    """
    return list(_similarities(tuple((answer, reference) for answer, reference in pairs)))


def mean_similarity(pairs: Sequence[Pair]) -> float:
    """Mean of `similarities`; NaN without pairs."""
    return float(np.mean(similarities(pairs))) if pairs else float("nan")


@cache
def list_unavailable() -> dict[str, str]:
    """Metric -> why it cannot be computed here; looked up once a process."""
    from nltk.corpus import wordnet

    reasons = {}
    try:
        wordnet.ensure_loaded()
    except LookupError:
        reasons["meteor"] = "WordNet is not installed; run `python -m nltk.downloader wordnet` to have METEOR."
    try:
        _embed([])
    except ModelError as error:
        reasons["similarity"] = str(error)
    return reasons


@lru_cache(maxsize=4)
def _similarities(pairs: tuple[Pair, ...]) -> tuple[float, ...]:
    """Kept, because lm-eval's aggregation and the scores of single documents ask for the same ones."""
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    rows = dict(zip(texts, _embed(texts), strict=True))
    return tuple(float(np.clip(rows[answer] @ rows[reference], 0.0, 1.0)) for answer, reference in pairs)


def _embed(texts: Sequence[str]) -> np.ndarray:
    """float64[n, d]: rows of length 1, or 0 for a blank text."""
    from dpicl.models.embeddings import load_embeddings

    model = load_embeddings("embedded")
    return model.encode(texts) if texts else np.zeros((0, model.dimension))


@cache
def _rouge() -> RougeScorer:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(ROUGE), use_stemmer=True)
