"""Columns of tables with a row a cell: for programs, and for the Parquet file of a site."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from dpicl.results.schema import Result

#: Column -> (its croissant type, what it is, its value).
COLUMNS: Final[Mapping[str, tuple[str, str, Callable[[Result], Any]]]] = {
    "suite": ("sc:Text", "suite of the cell", lambda one: one.suite.name),
    "version": ("sc:Integer", "version of the suite", lambda one: one.suite.version),
    "task": ("sc:Text", "task", lambda one: one.cell.task),
    "row": ("sc:Text", "name of the row on the board", lambda one: one.cell.label),
    "mechanism": ("sc:Text", "mechanism", lambda one: one.cell.mechanism),
    "model": ("sc:Text", "language model", lambda one: one.cell.model),
    "source": (
        "sc:Text",
        "where records come from: hub, local or synthetic",
        lambda one: one.cell.source,
    ),
    "epsilon": ("sc:Float", "target ε; infinity without privacy", lambda one: one.cell.epsilon),
    "delta": ("sc:Float", "δ", lambda one: one.privacy.delta),
    "seed": ("sc:Integer", "seed of records and noise", lambda one: one.cell.seed),
    "epsilon_claimed": (
        "sc:Float",
        "ε by the authors' formula",
        lambda one: one.privacy.epsilon_claimed,
    ),
    "epsilon_proved": ("sc:Float", "upper bound of ε", lambda one: one.privacy.epsilon_proved),
    "queries": (
        "sc:Integer",
        "queries that ε covers; empty: any number",
        lambda one: one.privacy.queries,
    ),
    "metric": ("sc:Text", "main metric", lambda one: one.main_metric),
    "reader": (
        "sc:Text",
        "who reads what was released, for it",
        lambda one: one.reader_of(one.main_metric),
    ),
    "score": (
        "sc:Float",
        "its mean over test records",
        lambda one: one.scores[one.main_metric].value,
    ),
    "low": ("sc:Float", "low end of its 95% interval", lambda one: one.scores[one.main_metric].low),
    "high": (
        "sc:Float",
        "high end of its 95% interval",
        lambda one: one.scores[one.main_metric].high,
    ),
    "commit": ("sc:Text", "commit of the code", lambda one: one.manifest.commit),
    "changed_checkout": (
        "sc:Boolean",
        "whether the checkout had changes that the commit lacks; empty: unknown",
        lambda one: one.manifest.dirty,
    ),
    "created": ("sc:Text", "when the cell ran, ISO 8601", lambda one: one.created),
    "cell": ("sc:Text", "id of the cell, which names its file", lambda one: one.cell_id),
}
