"""Two rows side by side: their numbers, their settings, and the difference of their scores, paired.

Rows of one task in one section were scored on the same test records, and rows with a common seed share the randomness
that it gives. So the difference of two scores is bootstrapped in pairs: a replicate draws seeds and records once for
both rows (as `dpicl.harness.evaluation.statistics.seeds_documents_interval` draws them), and what they share cancels.
Rows of different tasks or sections are never tested against each other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import combinations
from statistics import fmean
from typing import Any

import numpy as np

from dpicl.harness.evaluation.statistics import percentile_interval, seeds_documents_means
from dpicl.harness.run.results import WITHHELD
from dpicl.leaderboards.model.audits import attack_name
from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.columns import words
from dpicl.leaderboards.model.rows import Row, outcomes_of
from dpicl.leaderboards.render.site.addresses import Addresses

#: Bootstrap replicates. One draw serves all pairs of a task, so many rows cost little.
DRAWS = 4_000
#: (score of the first minus score of the second, low, high, number of common seeds)
Difference = tuple[float, float, float, int]


def paired_differences(rows: Sequence[Row], level: float = 0.95) -> dict[tuple[int, int], Difference]:
    """(i, j), i < j -> difference of the scores of rows[i] and rows[j] with its interval, over their common seeds.

    The rows are of one task in one section. Pairs without a common seed are not in it. With one common seed the
    interval holds the test records' part alone.
    """
    outcomes = [{result.cell.seed: outcomes_of(result) for result in row.results} for row in rows]
    known: dict[tuple[int, tuple[int, ...]], np.ndarray] = {}

    def means(i: int, seeds: tuple[int, ...]) -> np.ndarray:
        if (i, seeds) not in known:
            known[i, seeds] = seeds_documents_means([outcomes[i][seed][1] for seed in seeds], draws=DRAWS)
        return known[i, seeds]

    found = {}
    for i, j in combinations(range(len(rows)), 2):
        seeds = tuple(sorted(outcomes[i].keys() & outcomes[j].keys()))
        if not seeds or any(outcomes[i][seed][0] != outcomes[j][seed][0] for seed in seeds):
            continue
        differences = np.round(means(i, seeds) - means(j, seeds), 12)  # rounding errors make no steps
        low, high = percentile_interval(differences, level)
        both = [fmean(fmean(outcomes[k][seed][1]) for seed in seeds) for k in (i, j)]
        found[i, j] = (both[0] - both[1], low, high, len(seeds))
    return found


def comparison(board: Board, addresses: Addresses) -> dict[str, Any]:
    """What the page needs: ``rows``, each with its numbers and settings in words, and ``pairs`` by their positions."""
    rows: list[dict[str, Any]] = []
    pairs: dict[str, list[float]] = {}
    for number, section in enumerate(board.sections):
        for table in section.tables:
            own = table.all_rows
            first = len(rows)
            rows += [_row(section, number, row, table.documents, addresses) for row in own]
            for (i, j), (difference, low, high, seeds) in paired_differences(own).items():
                pairs[f"{first + i} {first + j}"] = [round(difference, 4), round(low, 4), round(high, 4), seeds]
    return {"rows": rows, "pairs": pairs}


def _row(section: Section, number: int, row: Row, documents: int, addresses: Addresses) -> dict[str, Any]:
    group = section.group
    accounting = "" if row.mode == "proved" else ", paper accounting"
    where = f"{group.suite} version {group.version}, {group.model}, {group.source} records"
    return {
        "id": addresses.of(row),
        "page": addresses.page(row),
        "title": f"{row.title}{accounting}",
        "task": row.task,
        "section": number,
        "where": where,
        "documents": documents,
        "lower": row.lower_is_better(row.metric),
        "numbers": _numbers(row),
        "settings": _settings(section, row),
    }


def _numbers(row: Row) -> dict[str, str]:
    seconds = fmean(sum(result.cost.seconds.values()) for result in row.results)
    tokens = fmean(result.cost.tokens_read for result in row.results)
    found = words(row)
    found["proved ε"] = " ".join([found["proved ε"], *(f"{mark.sign} {mark.name}" for mark in row.marks)])
    if row.audit.best is not None:
        found["audited ε"] += f" ({attack_name(row.audit.best)})"
    return found | {
        "seconds a seed": WITHHELD if row.secure else f"{seconds:,.0f}",
        "tokens read a seed": WITHHELD if row.secure else f"{tokens:,.0f}",
    }


def _settings(section: Section, row: Row) -> dict[str, str]:
    """Everything that was set, by name; options of the mechanism after the rest."""
    first = row.results[0]
    cell, knob = first.cell, first.privacy.knob
    fixed: dict[str, Any] = {
        "suite version": f"{section.group.suite} {section.group.version}",
        "task": cell.task,
        "mechanism": cell.mechanism,
        "model": cell.model,
        "records": section.group.source,
        "δ": f"{cell.delta:g}",
        "accounting": cell.mode,
        "noise": cell.noise,
        "shots": cell.shots,
        "test records": "all" if cell.test_records is None else cell.test_records,
        "records a class": "all" if cell.train_records is None else cell.train_records,
        "knob": "none" if knob is None else f"{knob.name} = {knob.value:.6g}",
        "submitted by": "–" if row.submission is None else row.submission.team,
    }
    options = {f"option {name}": json.dumps(value) for name, value in sorted(cell.options.items())}
    return {name: str(value) for name, value in fixed.items()} | options
