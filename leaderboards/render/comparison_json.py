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
        "settings": {**_named(settings, "alpha", "min_effect", "metric", "allow_missing"), "test": settings.method},
        "changes": [_named(change, "name", "base", "candidate", "changed") for change in comparison.changes],
        **_named(comparison, "tested", "regressed", "incomplete"),
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
    names = ("metric", "less_is_better", "seeds", "documents", "base", "candidate", "difference", "verdict", "note")
    return {
        **_key(cell.key),
        **_named(cell, *names, "privacy"),
        "interval": None if test is None else [test.low, test.high],
        "test": None if test is None else test.name,
        "p": None if test is None else test.p,
        "p_adjusted": cell.adjusted,
        "detectable_drop": None if test is None else test.detectable,
        "metric_missing": cell.missing,
        "proved_epsilon": {"base": cell.proved[0], "candidate": cell.proved[1]},
    }


def _named(thing: object, *names: str) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in names}
