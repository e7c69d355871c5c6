"""Metrics of the tasks, in the two steps of lm-eval: one item a document, then one number over all items.

Classification scores every label word by its full log-probability after the prompt (the sum over its tokens) and
normalises over the labels; the arithmetic of contextual calibration is in
dpicl.evaluation.contextual_calibration.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpicl.evaluation import contextual_calibration as calibration
from dpicl.evaluation import text_metrics

#: One document: gold (index of its label, -1 if none), content_free, log_probs (one a label, natural logarithm).
Item = Mapping[str, Any]


def classification_results(
    doc: Mapping[str, Any], results: Sequence[tuple[float, bool]]
) -> dict[str, Item]:
    """lm-eval's process_results: the same item for both metrics; which documents count is decided over all of them."""
    item = {
        "gold": int(doc["gold"]),
        "content_free": bool(doc["content_free"]),
        "log_probs": [float(log_prob) for log_prob, _ in results],
    }
    return {"acc": item, "acc_calibrated": item}


def extraction_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """Exact match of the first line of the answer (MIT: `pred.strip().split("\\n")[0] == label`), whatever the Unicode
    form: an accent may be a character of its own, and a letter wide."""
    answer, label = (unicodedata.normalize("NFKC", text) for text in (results[0], doc["label"]))
    return {"exact_match": float(answer.strip().split("\n")[0] == label)}


def generation_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, Any]:
    """Scores of the first line of the answer against the reference (see dpicl.evaluation.text_metrics).

    The prompt opens a quotation mark, so one at the end of the answer is not part of it.
    'similarity' holds the two texts: embeddings are made for all documents at once, by the aggregation. A metric that
    this machine cannot compute is left out.
    """
    answer = results[0].strip().split("\n")[0].rstrip().removesuffix('"')
    scores: dict[str, Any] = text_metrics.scores(answer, doc["label"])
    if "similarity" not in text_metrics.list_unavailable():
        scores["similarity"] = (answer, doc["label"])
    return scores


def similarity(pairs: Sequence[text_metrics.Pair]) -> float:
    """Mean similarity of the embeddings of answer and reference; NaN without documents."""
    return text_metrics.mean_similarity(pairs)


def outcomes(items: Sequence[Item], calibrated: bool) -> list[float]:
    """1.0 or 0.0 for each document that is not content-free, in order.

    Without content-free documents (lm-eval's --samples can leave them out) there is no calibration: all are NaN.
    """
    real = [item for item in items if not item["content_free"]]
    if not real:
        return []
    p_cf = None
    if calibrated:
        blank = [item["log_probs"] for item in items if item["content_free"]]
        if not blank:
            return [math.nan] * len(real)
        p_cf = calibration.content_free_probabilities(blank)
    predicted = calibration.predictions([item["log_probs"] for item in real], p_cf)
    return [float(index == item["gold"]) for index, item in zip(predicted, real, strict=True)]


def accuracy(items: Sequence[Item]) -> float:
    """Share of documents whose most probable label is the right one; NaN without documents."""
    return _mean(outcomes(items, calibrated=False))


def calibrated_accuracy(items: Sequence[Item]) -> float:
    """Share of documents whose label is right after contextual calibration; NaN without documents."""
    return _mean(outcomes(items, calibrated=True))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan
