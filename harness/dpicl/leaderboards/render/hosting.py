"""The results of a site as one table, a row a cell, with a data card."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from dpicl.leaderboards.model.board import Board
from dpicl.leaderboards.model.rows import Row
from dpicl.results.schema import Result

_LICENCE = "https://www.apache.org/licenses/LICENSE-2.0"

#: Column of the table -> (its croissant type, what it is, its value).
COLUMNS: Final[Mapping[str, tuple[str, str, Callable[[Row, Result], Any]]]] = {
    "suite": ("sc:Text", "suite of the cell", lambda _, one: one.suite.name),
    "version": ("sc:Integer", "version of the suite", lambda _, one: one.suite.version),
    "submission": (
        "sc:Text",
        "who sent the row in; empty for our own",
        lambda row, _: row.submission.name if row.submission else None,
    ),
    "task": ("sc:Text", "task", lambda _, one: one.cell.task),
    "row": ("sc:Text", "name of the row on the board", lambda _, one: one.cell.label),
    "mechanism": ("sc:Text", "mechanism", lambda _, one: one.cell.mechanism),
    "model": ("sc:Text", "language model", lambda _, one: one.cell.model),
    "source": ("sc:Text", "where records come from: hub, local or synthetic", lambda _, one: one.cell.source),
    "epsilon": ("sc:Float", "target ε; infinity without privacy", lambda _, one: one.cell.epsilon),
    "delta": ("sc:Float", "δ", lambda _, one: one.privacy.delta),
    "seed": ("sc:Integer", "seed of records and noise", lambda _, one: one.cell.seed),
    "epsilon_claimed": ("sc:Float", "ε by the authors' formula", lambda _, one: one.privacy.epsilon_claimed),
    "epsilon_proved": ("sc:Float", "upper bound of ε", lambda _, one: one.privacy.epsilon_proved),
    "queries": ("sc:Integer", "queries that ε covers; empty: any number", lambda _, one: one.privacy.queries),
    "metric": ("sc:Text", "main metric", lambda _, one: one.main_metric),
    "score": ("sc:Float", "its mean over test records", lambda _, one: one.scores[one.main_metric].value),
    "low": ("sc:Float", "low end of its 95% interval", lambda _, one: one.scores[one.main_metric].low),
    "high": ("sc:Float", "high end of its 95% interval", lambda _, one: one.scores[one.main_metric].high),
    "commit": ("sc:Text", "commit of the code", lambda _, one: one.manifest.commit),
    "created": ("sc:Text", "when the cell ran, ISO 8601", lambda _, one: one.created),
    "cell": ("sc:Text", "id of the cell, which names its file", lambda _, one: one.cell_id),
}
_RETIRED = ("sc:Boolean", "whether that version is no longer the suite's current one")
_TYPES = {"sc:Integer": "Int64", "sc:Text": "string", "sc:Float": "float64", "sc:Boolean": "bool"}


def data_files(boards: Mapping[str, Board], retired: Mapping[str, Board]) -> dict[str, str | bytes]:
    """`results.parquet`, a row a cell, and `croissant.json`, which describes it (mlcommons.org/croissant/1.0).

    boards, retired: by the suite's name; retired: of earlier versions.
    """
    import pandas as pd

    cells = [
        (row, result, old)
        for old, own in ((False, boards), (True, retired))
        for board in own.values()
        for section in board.sections
        for row in section.rows
        for result in row.results
    ]
    columns = {name: [value(row, result) for row, result, _ in cells] for name, (_, _, value) in COLUMNS.items()}
    kinds = {name: kind for name, (kind, *_) in COLUMNS.items()} | {"retired": _RETIRED[0]}
    frame = pd.DataFrame(columns | {"retired": [old for *_, old in cells]})
    table = io.BytesIO()
    frame.astype({name: _TYPES[kind] for name, kind in kinds.items()}).to_parquet(table, index=False)
    content = table.getvalue()
    newest = max((result.created for _, result, _ in cells), default=None)
    return {"results.parquet": content, "croissant.json": json.dumps(_croissant(content, newest), indent=1) + "\n"}


def _croissant(table: bytes, newest: str | None) -> dict[str, Any]:
    source = {"fileObject": {"@id": "results.parquet"}}
    described = {name: about[:2] for name, about in COLUMNS.items()} | {"retired": _RETIRED}
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"results/{name}",
            "name": name,
            "description": description,
            "dataType": kind,
            "source": {**source, "extract": {"column": name}},
        }
        for name, (kind, description) in described.items()
    ]
    return {
        "@context": {
            "@language": "en",
            "@vocab": "https://schema.org/",
            "sc": "https://schema.org/",
            "cr": "http://mlcommons.org/croissant/",
            "dct": "http://purl.org/dc/terms/",
            "conformsTo": "dct:conformsTo",
            "citeAs": "cr:citeAs",
            **{name: f"cr:{name}" for name in ("column", "extract", "field", "fileObject", "recordSet", "source")},
            "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        },
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": "dpicl-bench-results",
        "description": "Scores and proved privacy of differentially private in-context learning: one row a cell, that"
        " is task, mechanism, model, target ε and seed. No row holds a record, public or private.",
        "license": _LICENCE,
        **({"datePublished": newest[:10]} if newest else {}),
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": "results.parquet",
                "name": "results.parquet",
                "contentUrl": "results.parquet",
                "encodingFormat": "application/x-parquet",
                "sha256": hashlib.sha256(table).hexdigest(),
            }
        ],
        "recordSet": [{"@type": "cr:RecordSet", "@id": "results", "name": "results", "field": fields}],
    }
