"""Metrics in words, and the kind of task that each of them belongs to."""

from __future__ import annotations

_CLASSIFICATION, _EXTRACTION, _TEXT, _RECOMMENDATION = "classification", "extraction", "text", "recommendation"
_WRITING = "writing"

#: Metric -> (its name in words, the kind of task that is scored by it).
_METRICS = {
    "acc_calibrated": ("calibrated accuracy", _CLASSIFICATION),
    "acc": ("accuracy", _CLASSIFICATION),
    "exact_match": ("exact match", _EXTRACTION),
    "rouge1": ("ROUGE-1", _TEXT),
    "rouge2": ("ROUGE-2", _TEXT),
    "rougeL": ("ROUGE-L", _TEXT),
    "bleu1": ("BLEU-1", _TEXT),
    "meteor": ("METEOR", _TEXT),
    "similarity": ("embedding similarity", _TEXT),
    "parses": ("well-formed answers", _RECOMMENDATION),
    "valid": ("valid answers", _RECOMMENDATION),
    "genre_distance": ("genre distance", _RECOMMENDATION),
    "year_distance": ("year distance", _RECOMMENDATION),
    "plausible": ("plausible texts", _WRITING),
    "word_distance": ("word distance", _WRITING),
    "repeats": ("repeated texts", _WRITING),
}


def metric_name(metric: str) -> str:
    """A metric in words; its own name where it is not known."""
    return _METRICS[metric][0] if metric in _METRICS else metric


def task_kind(main_metric: str) -> str:
    """The kind of task with this main metric; tasks with an unknown one form a kind that bears the metric's name."""
    return _METRICS[main_metric][1] if main_metric in _METRICS else main_metric


def scored_things(metric: str) -> str:
    """What a score of this metric is a mean over: a JSON task scores the released texts themselves."""
    return "released texts" if metric in ("parses", "valid", "plausible") else "test records"
