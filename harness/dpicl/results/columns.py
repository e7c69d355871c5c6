"""Columns of tables with a row a cell: for programs, and for the Parquet file of a site."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Literal, NamedTuple

from dpicl.results.schema import Result


class Column(NamedTuple):
    """name: its head. path: of attributes of a result. type: of croissant (mlcommons.org/croissant/1.0). help: what it
    is."""

    name: str
    path: str
    type: Literal["sc:Text", "sc:Integer", "sc:Float", "sc:Boolean"]
    help: str

    def value(self, result: Result) -> Any:
        """What the column has of a result."""
        return attrgetter(self.path)(result)


_COLUMNS = (
    Column("suite", "suite.name", "sc:Text", "suite of the cell"),
    Column("version", "suite.version", "sc:Integer", "version of the suite"),
    Column("task", "cell.task", "sc:Text", "task"),
    Column("row", "cell.label", "sc:Text", "name of the row on the board"),
    Column("mechanism", "cell.mechanism", "sc:Text", "mechanism"),
    Column("model", "cell.model", "sc:Text", "language model"),
    Column("source", "cell.source", "sc:Text", "where records come from: hub, local or synthetic"),
    Column("epsilon", "cell.epsilon", "sc:Float", "target ε; infinity without privacy"),
    Column("delta", "privacy.delta", "sc:Float", "δ"),
    Column("seed", "cell.seed", "sc:Integer", "seed of records and noise"),
    Column("epsilon_claimed", "privacy.epsilon_claimed", "sc:Float", "ε by the authors' formula"),
    Column("epsilon_proved", "privacy.epsilon_proved", "sc:Float", "upper bound of ε"),
    Column("queries", "privacy.queries", "sc:Integer", "queries that ε covers; empty: any number"),
    Column("metric", "main_metric", "sc:Text", "main metric"),
    Column("reader", "reader", "sc:Text", "who reads what was released, for it"),
    Column("score", "score", "sc:Float", "its mean over test records"),
    Column("low", "main_score.low", "sc:Float", "low end of its 95% interval"),
    Column("high", "main_score.high", "sc:Float", "high end of its 95% interval"),
    Column("commit", "manifest.commit", "sc:Text", "commit of the code"),
    Column(
        "changed_checkout",
        "manifest.dirty",
        "sc:Boolean",
        "whether the checkout had changes that the commit lacks; empty: unknown",
    ),
    Column("created", "created", "sc:Text", "when the cell ran, ISO 8601"),
    Column("cell", "cell_id", "sc:Text", "id of the cell, which names its file"),
)
#: Name -> column, in the order of the tables.
COLUMNS = {column.name: column for column in _COLUMNS}
