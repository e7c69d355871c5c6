"""Compares a text with a reference: ROUGE, BLEU-1, METEOR and cosine similarity of embeddings, all in [0, 1].

The settings are those of the evaluation of SGA (tjdgh3946/PubDP-ICL): ROUGE F1 with stemming, sentence BLEU with weight
on single words alone, METEOR of nltk. Words of scripts other than Latin, which rouge-score drops, count as well; where
a script has no blanks between words, every character is one. An empty answer scores 0 everywhere. What a machine lacks
is skipped with a reason (`list_unavailable`), never replaced.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpicl.core import scripts
from dpicl.core.errors import ModelError

if TYPE_CHECKING:  # nltk takes seconds to load, and most tasks write no text
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import Tokenizer

ROUGE = ("rouge1", "rouge2", "rougeL")

#: (answer, reference)
Pair = tuple[str, str]

_END_OF_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def scores(answer: str, reference: str) -> dict[str, float]:
    """Every metric that looks at one document alone: rouge1, rouge2, rougeL, bleu1, and meteor where WordNet is."""
    from nltk.corpus import wordnet
    from nltk.translate.meteor_score import single_meteor_score

    values = {**rouge(answer, reference), "bleu1": bleu1(answer, reference)}
    if "meteor" not in list_unavailable():
        values["meteor"] = float(
            single_meteor_score(words(reference), words(answer), wordnet=wordnet)
        )
    return values


def rouge(answer: str, reference: str) -> dict[str, float]:
    """F1 of rouge1, rouge2 and rougeL, with stemming; of Latin texts to the last bit those of rouge-score."""
    scores = _rouge().score(reference, answer)
    return {name: float(score.fmeasure) for name, score in scores.items()}


def bleu1(answer: str, reference: str) -> float:
    """Sentence BLEU on single words with the brevity penalty, case kept.

    Smoothing (method 4 in the published code) changes the counts of longer n-grams only, so there is nothing to smooth.
    """
    from nltk.translate.bleu_score import sentence_bleu

    return float(
        sentence_bleu(
            [words(reference)],
            words(answer),
            weights=(1.0,),
        )
    )


def words(text: str) -> list[str]:
    """Tokens of nltk's word_tokenize, with sentences ended at . ! or ? before a blank, and characters as words where a
    script has no blanks.

    nltk would find sentences with its Punkt data, which has to be downloaded; only abbreviations come out differently.
    """
    import nltk

    spaced = scripts.space_out(unicodedata.normalize("NFC", text))
    return [
        w
        for part in _END_OF_SENTENCE.split(spaced)
        for w in nltk.word_tokenize(part, preserve_line=True)
    ]


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
        reasons["meteor"] = (
            "WordNet is not installed; run `python -m nltk.downloader wordnet` to have METEOR."
        )
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
    return tuple(
        float(
            np.clip(
                rows[answer] @ rows[reference],
                0.0,
                1.0,
            )
        )
        for answer, reference in pairs
    )


def _embed(texts: Sequence[str]) -> np.ndarray:
    """float64[n, d]: rows of length 1, or 0 for a blank text."""
    from dpicl.models.embeddings import load_embeddings

    model = load_embeddings("embedded")
    return model.encode(texts) if texts else np.zeros((0, model.dimension))


@cache
def _rouge() -> RougeScorer:
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import DefaultTokenizer

    return RougeScorer(list(ROUGE), tokenizer=_EveryScript(DefaultTokenizer(use_stemmer=True)))


@dataclass(frozen=True)
class _EveryScript:
    """rouge-score's words of Latin texts, to which words of other scripts are added; characters of a text without any
    word."""

    latin: Tokenizer

    def tokenize(self, text: str) -> list[str]:
        others = [
            char
            for char in text
            if (char.isalpha() or char.isdecimal()) and not scripts.is_latin(char)
        ]
        if not others:
            return self.latin.tokenize(text) or list("".join(text.split()))
        tokens: list[str] = []
        for word in scripts.split_words(scripts.fold_text(text)):
            tokens += self.latin.tokenize(word) if all(map(scripts.is_latin, word)) else [word]
        return tokens
