"""Formats numbers and names for boards, and merges notes that apply to several things."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from dpicl.core.messages import join_names, names_text, signed_text
from dpicl.data.task_file import COUNTED

_METRICS = {
    "acc_calibrated": "calibrated accuracy",
    "acc": "accuracy",
    "exact_match": "exact match",
    "acc_nearest": "accuracy of the nearest demonstration",
    "acc_logistic": "accuracy of a logistic classifier on demonstrations",
    "carried": "what the texts carry, by the worse of two readers that no mechanism uses",
    "carried_wordllama": "read by WordLlama's static vectors",
    "carried_tfidf": "read by TF-IDF",
    "log_loss": "log-loss of the right label, in ln 1000",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "bleu1": "BLEU-1",
    "meteor": "METEOR",
    "similarity": "embedding similarity",
    "distinguishable": "distinguishable texts",
    "parses": "well-formed answers",
    "valid": "valid answers",
    "genre_distance": "genre distance",
    "year_distance": "year distance",
    "plausible": "plausible texts",
    "word_distance": "word distance",
    "repeats": "repeated texts",
}


def p_number(p: float) -> str:
    """'0.031', '<0.001'."""
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def interval_text(interval: tuple[float, float]) -> str:
    """'-0.012 to +0.034', of a difference."""
    low, high = interval
    return f"{signed_text(low)} to {signed_text(high)}"


def recovery_text(recovery: float) -> str:
    """A recovery as a percentage."""
    return f"{100 * recovery:z.0f}%".replace("-", "−")


def queries_text(queries: int | None) -> str:
    """Q, the number of queries that an epsilon covers."""
    return "any" if queries is None else f"{queries:,}"


def seeds_text(seeds: Iterable[int]) -> str:
    """Seeds with runs drawn together: (0, 1, 2, 5) is '0–2, 5'."""
    runs: list[list[int]] = []
    for seed in sorted(seeds):
        if runs and seed == runs[-1][1] + 1:
            runs[-1][1] = seed
        else:
            runs.append([seed, seed])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in runs)


def gather(notes: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Merges (note, subject): 'NOTE: a, b and c.', in the order in which the notes come first."""
    subjects: dict[str, list[str]] = defaultdict(list)
    for note, subject in notes:
        subjects[note].append(subject)
    return tuple(f"{note}: {join_names(names)}." for note, names in subjects.items())


def metric_name(metric: str) -> str:
    """A metric in words; its own name where it is not known."""
    return _METRICS.get(metric, metric)


def metrics_text(metrics: Iterable[tuple[str, str]]) -> str:
    """Of (metric, its reader): 'acc_nearest and acc_logistic, read by a classifier; exact_match, answered by …'."""
    by_reader: dict[str, dict[str, None]] = defaultdict(dict)
    for metric, reader in metrics:
        by_reader[reader][metric] = None
    return "; ".join(f"{names_text(names)}, {reader}" for reader, names in by_reader.items())


def scored_thing(reader: str) -> str:
    """What a score is a mean over, by who reads: a JSON task scores the released texts themselves."""
    return "released text" if reader == COUNTED else "test record"
