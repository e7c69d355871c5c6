"""Metrics in words."""

from __future__ import annotations

_NAMES = {
    **{"acc_calibrated": "calibrated accuracy", "acc": "accuracy", "exact_match": "exact match"},
    "acc_nearest": "accuracy of the nearest demonstration",
    "acc_logistic": "accuracy of a logistic classifier on demonstrations",
    "log_loss": "log-loss of the right label, in ln 1000",
    **{"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L", "bleu1": "BLEU-1", "meteor": "METEOR"},
    **{"similarity": "embedding similarity", "distinguishable": "distinguishable texts"},
    **{"parses": "well-formed answers", "valid": "valid answers"},
    **{"genre_distance": "genre distance", "year_distance": "year distance"},
    **{"plausible": "plausible texts", "word_distance": "word distance", "repeats": "repeated texts"},
}


def metric_name(metric: str) -> str:
    """A metric in words; its own name where it is not known."""
    return _NAMES.get(metric, metric)


def scored_thing(metric: str) -> str:
    """What a score of this metric is a mean over: a JSON task scores the released texts themselves."""
    return "released text" if metric in ("parses", "valid", "plausible") else "test record"
