"""A comparison as one JSON document: names, numbers and verdicts (docs/releases.md describes every field)."""

from __future__ import annotations

from typing import Any

from dpicl.leaderboards.compare.pairing import Key, Unmatched
from dpicl.leaderboards.compare.sides import Side
from dpicl.leaderboards.compare.verdicts import CellVerdict, Comparison


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Everything that the terminal and Markdown show. Infinity is left to the writer (`output.plain`)."""
    settings = comparison.settings
    return {
        "base": _side(comparison.base),
        "candidate": _side(comparison.candidate),
        "settings": {
            "alpha": settings.alpha,
            "min_effect": settings.min_effect,
            "metric": settings.metric,
            "test": settings.method,
            "allow_missing": settings.allow_missing,
        },
        "changes": [
            {"name": change.name, "base": change.base, "candidate": change.candidate, "changed": change.changed}
            for change in comparison.changes
        ],
        "tested": comparison.tested,
        "regressed": comparison.regressed,
        "incomplete": comparison.incomplete,
        "cells": [_cell(cell) for cell in comparison.cells],
        "missing": [_unmatched(one) for one in comparison.missing],
        "unmatched": [_unmatched(one) for one in comparison.unmatched],
        "summaries": [vars(summary) for summary in comparison.summaries],
    }


def _side(side: Side) -> dict[str, Any]:
    return {"path": side.path, "results": len(side.results), "foreign": [str(path) for path in side.foreign]}


def _unmatched(one: Unmatched) -> dict[str, Any]:
    return {"side": one.side, **_key(one.key), "seeds": one.seeds, "whole_row": one.whole}


def _key(key: Key) -> dict[str, Any]:
    return {"task": key.task, "mechanism": key.label, "epsilon": key.epsilon, "mode": key.mode, "suite": key.suite}


def _cell(cell: CellVerdict) -> dict[str, Any]:
    test = cell.test
    return {
        **_key(cell.key),
        "metric": cell.metric,
        "less_is_better": cell.less_is_better,
        "seeds": cell.seeds,
        "documents": cell.documents,
        "base": cell.base,
        "candidate": cell.candidate,
        "difference": cell.difference,
        "interval": None if test is None else [test.low, test.high],
        "test": None if test is None else test.name,
        "p": None if test is None else test.p,
        "p_adjusted": cell.adjusted,
        "detectable_drop": None if test is None else test.detectable,
        "verdict": cell.verdict,
        "note": cell.note,
        "metric_missing": cell.missing,
        "proved_epsilon": {"base": cell.proved[0], "candidate": cell.proved[1]},
        "privacy": cell.privacy,
    }
