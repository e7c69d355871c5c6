"""Metrics in words, and the kind of task that each of them belongs to."""

from __future__ import annotations

#: Kind of task -> the metrics that score it, with their names in words.
_KINDS = {
    "classification": {
        **{"acc_calibrated": "calibrated accuracy", "acc": "accuracy"},
        "acc_nearest": "accuracy of the nearest demonstration",
        "acc_logistic": "accuracy of a logistic classifier on demonstrations",
        "log_loss": "log-loss of the right label, in ln 1000",
        "distinguishable": "distinguishable texts",
    },
    "extraction": {"exact_match": "exact match"},
    "text": {
        **{"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L", "bleu1": "BLEU-1", "meteor": "METEOR"},
        "similarity": "embedding similarity",
    },
    "recommendation": {
        **{"parses": "well-formed answers", "valid": "valid answers"},
        **{"genre_distance": "genre distance", "year_distance": "year distance"},
    },
    "writing": {"plausible": "plausible texts", "word_distance": "word distance", "repeats": "repeated texts"},
}
_NAMES = {metric: name for names in _KINDS.values() for metric, name in names.items()}


def metric_name(metric: str) -> str:
    """A metric in words; its own name where it is not known."""
    return _NAMES.get(metric, metric)


def task_kind(main_metric: str) -> str:
    """The kind of task with this main metric; tasks with an unknown one form a kind that bears the metric's name."""
    return next((kind for kind, names in _KINDS.items() if main_metric in names), main_metric)


def scored_thing(metric: str) -> str:
    """What a score of this metric is a mean over: a JSON task scores the released texts themselves."""
    return "released text" if metric in ("parses", "valid", "plausible") else "test record"
