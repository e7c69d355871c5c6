"""What released texts carry: a classifier that is made of the demonstrations alone labels all test records.

No language model is asked. Every reader is the same multinomial logistic regression on other features of a text:

* ``wordllama``: the mean of WordLlama's static word vectors, of length 1 (dpicl.models.static_vectors);
* ``tfidf``: TF-IDF of words and pairs of words (case folded; 1 + ln of counts; length 1), whose vocabulary and
  document frequencies are those of the demonstrations;
* ``minilm``: the sentence embedding of all-MiniLM-L6-v2.

The first two are independent of every mechanism, and the worse of them is what the texts carry. MiniLM stands beside
them, except for a mechanism that uses it, which it favours (`find_readers_used`).
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from dpicl.core import scripts
from dpicl.core.errors import DataError, UsageError, require_known
from dpicl.core.extras import require_extras
from dpicl.core.messages import names_text
from dpicl.core.plugins import is_harness
from dpicl.core.vocabulary import Demonstration, Record
from dpicl.mechanism.bases import Mechanism
from dpicl.models.embeddings import load_embeddings
from dpicl.models.static_vectors import load_static_vectors

#: A text with its label.
Labelled = Demonstration | Record | tuple[str, str]
#: (texts of demonstrations [k], of test records [Q]) -> their features: [k, d] and [Q, d], a row of zeros for a text
#: in which nothing can be read.
Featurize = Callable[[Sequence[str], Sequence[str]], tuple[Any, Any]]


@dataclass(frozen=True)
class Reader:
    """title: in tables. signs: what options of a mechanism that uses it hold, in small letters, where a whole value
    stands in quotation marks. code_signs: what its code holds, in small letters."""

    title: str
    featurize: Featurize
    signs: tuple[str, ...]
    code_signs: tuple[str, ...]


def carried_by(
    reader: str,
    demonstrations: Sequence[Labelled],
    test_records: Sequence[Labelled],
    labels: Sequence[str],
) -> np.ndarray:
    """int8[Q]: 1 where the classifier of that reader gives a test record its label, else 0.

    labels: of the task, in public order. A demonstration in which the reader finds no word counts for nothing; where
    there is no other one, the answer is the first label, as it is without demonstrations.
    Raises UsageError for an unknown reader, and where scikit-learn is missing; ModelError where a reader's wheel is;
    DataError for a label that the task does not have.
    """
    require_known("reader", [reader], READERS)
    texts, shown = _take_apart("demonstration", demonstrations, labels)
    queries, truth = _take_apart("test record", test_records, labels)
    answers = np.full(len(queries), labels[0])
    if texts and queries:
        with require_extras():
            known, query_rows = READERS[reader].featurize(texts, queries)
            is_read = np.asarray(abs(known).sum(axis=1)).ravel() > 0
            if is_read.any():
                answers = np.array(
                    logistic(
                        query_rows,
                        known[is_read],
                        np.array(shown)[is_read].tolist(),
                    )
                )
    return (answers == np.array(truth)).astype(np.int8)


def choose_worse(scores: Mapping[str, float]) -> str:
    """The independent reader that finds less: what it finds is what the texts carry. scores: reader -> accuracy."""
    return min(INDEPENDENT, key=lambda name: scores[name])


def logistic(queries: Any, shown: Any, labels: Sequence[str]) -> list[str]:
    """The label by a multinomial logistic regression on the demonstrations, with scikit-learn's penalty (L2, C = 1),
    where all classes weigh the same. With one label there is nothing to fit: it is the answer.

    queries [Q, d], shown [k, d]: arrays, or sparse matrices of scipy.
    """
    if len(set(labels)) == 1:
        return [labels[0]] * queries.shape[0]
    from sklearn.linear_model import LogisticRegression  # takes a second to load

    fitted = LogisticRegression(class_weight="balanced", max_iter=1_000).fit(shown, list(labels))
    return [str(label) for label in fitted.predict(queries)]


def find_readers_used(
    options: Mapping[str, Any],
    mechanism: type[Mechanism] | None = None,
) -> list[str]:
    """The readers that a mechanism uses itself, so that their scores favour it.

    options: of the cell, defaults included. mechanism: its class, where it is at hand: its file, and those of its
    bases, are searched for a reader's name. Code that hides which model it loads is not found by this.
    """
    values = json.dumps([*options.values()], default=str).lower()
    used = []
    for name, reader in READERS.items():
        in_code = mechanism is not None and _is_in_code(reader.code_signs, mechanism)
        if in_code or any(sign in values for sign in reader.signs):
            used.append(name)
    return used


def require_independent(
    row: str,
    options: Mapping[str, Any],
    mechanism: type[Mechanism] | None = None,
) -> None:
    """Raises UsageError for a row whose mechanism uses a reader that is to be independent of all."""
    used = [
        READERS[name].title for name in find_readers_used(options, mechanism) if name in INDEPENDENT
    ]
    if used:
        raise UsageError(
            f"{row} uses {names_text(used)}, by which boards read what texts carry, independently of every mechanism;"
            " let it use something else."
        )


def _take_apart(
    kind: str,
    items: Sequence[Labelled],
    labels: Sequence[str],
) -> tuple[list[str], list[str]]:
    """Texts and labels. Raises DataError for a label that the task does not have."""
    pairs = [item if isinstance(item, tuple) else (item.text, item.label) for item in items]
    for _, label in pairs:
        if label not in labels:
            raise DataError(
                f"A {kind} has the label {label[:40]!r}, which is none of the task's ({names_text(labels)});"
                " correct it."
            )
    return [text for text, _ in pairs], [label for _, label in pairs]


@cache
def _is_in_code(signs: Sequence[str], mechanism: type[Mechanism]) -> bool:
    """Whether one of these words, in small letters, is in the files that a class and its bases are defined in, outside
    of comments and docstrings. The harness's own files are left out."""
    modules = dict.fromkeys(
        base.__module__ for base in mechanism.__mro__ if issubclass(base, Mechanism)
    )
    for name in modules:
        if name not in sys.modules or is_harness(name):
            continue
        try:
            source = inspect.getsource(sys.modules[name])
        except (OSError, TypeError):  # typed into a prompt: there is no file
            continue
        if any(sign in source.lower() for sign in signs):
            code = _drop_prose(source).lower()
            if any(sign in code for sign in signs):
                return True
    return False


def _drop_prose(source: str) -> str:
    """Python code without comments, and without texts that stand alone, as docstrings do."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = None
    return ast.unparse(tree)


@lru_cache(maxsize=8)
def _static_vectors(texts: tuple[str, ...]) -> np.ndarray:
    return load_static_vectors().encode(texts)


@lru_cache(maxsize=8)
def _sentence_embeddings(texts: tuple[str, ...]) -> np.ndarray:
    return load_embeddings("embedded").encode(texts)


@lru_cache(maxsize=1 << 15)
def _words(text: str) -> list[str]:
    return scripts.split_words(scripts.fold_text(text))


def _use_static_vectors(
    shown: Sequence[str],
    queries: Sequence[str],
) -> tuple[np.ndarray, np.ndarray]:
    return _static_vectors(tuple(shown)), _static_vectors(tuple(queries))


def _use_sentence_embeddings(
    shown: Sequence[str],
    queries: Sequence[str],
) -> tuple[np.ndarray, np.ndarray]:
    return _sentence_embeddings(tuple(shown)), _sentence_embeddings(tuple(queries))


def _use_tfidf(
    shown: Sequence[str],
    queries: Sequence[str],
) -> tuple[Any, Any]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not any(map(_words, shown)):  # there is no vocabulary
        return np.zeros((len(shown), 1)), np.zeros((len(queries), 1))
    weights = TfidfVectorizer(
        tokenizer=_words, token_pattern=None, lowercase=False, ngram_range=(1, 2), sublinear_tf=True
    )
    return weights.fit_transform(shown), weights.transform(queries)


READERS: Mapping[str, Reader] = {
    "wordllama": Reader(
        "WordLlama's static vectors",
        _use_static_vectors,
        signs=("wordllama", "word-llama", "word_llama", "l2_supercat", "l2-supercat"),
        code_signs=("wordllama", "word-llama", "l2_supercat", "l2-supercat", "static_vectors"),
    ),
    "tfidf": Reader(
        "TF-IDF",
        _use_tfidf,
        signs=("tfidf", "tf-idf", "tf_idf"),
        code_signs=("tfidfvectorizer", "tfidftransformer"),
    ),
    "minilm": Reader(
        "MiniLM's embeddings",
        _use_sentence_embeddings,
        signs=('"embedded"', "all-minilm-l6-v2"),
        code_signs=("all-minilm-l6-v2",),
    ),
}
#: The readers of which the worse decides: no mechanism uses them.
INDEPENDENT = ("wordllama", "tfidf")
