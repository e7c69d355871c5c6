"""Writes the extra files of a hosted site: a results table with a data card, a site map and a feed."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Collection, Mapping
from datetime import datetime
from operator import itemgetter
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, tostring

from dpicl.core.messages import epsilon_text
from dpicl.core.printable import make_visible
from dpicl.leaderboards.model.board import Board
from dpicl.leaderboards.render.addresses import row_id
from dpicl.results.columns import COLUMNS

#: Entries of a feed: the newest rows.
MOST_ENTRIES: Final = 100
#: When a site without a row changed.
_NEVER: Final = "1970-01-01T00:00:00+00:00"
_LICENCE = "https://www.apache.org/licenses/LICENSE-2.0"

#: (column, croissant type, what it is).
_FIELDS = [
    *((column.name, column.type, column.help) for column in COLUMNS.values()),
    ("submission", "sc:Text", "who sent the row in; empty for our own"),
]
_TYPES = {
    "sc:Boolean": "boolean",
    "sc:Integer": "Int64",
    "sc:Text": "string",
    "sc:Float": "float64",
}


def data_files(boards: Collection[Board]) -> dict[str, str | bytes]:
    """`results.parquet`, a row a cell, and `croissant.json`, which describes it (mlcommons.org/croissant/1.0)."""
    import pandas as pd

    cells = [(row, result) for board in boards for row in board.rows for result in row.results]
    columns = {
        column.name: [column.value(result) for _, result in cells] for column in COLUMNS.values()
    }
    columns["submission"] = [row.submission.name if row.submission else None for row, _ in cells]
    table = io.BytesIO()
    kinds = {name: _TYPES[kind] for name, kind, _ in _FIELDS}
    pd.DataFrame(columns).astype(kinds).to_parquet(table, index=False)
    content = table.getvalue()
    newest = max((result.created for _, result in cells), default=None)
    return {
        "results.parquet": content,
        "croissant.json": json.dumps(_croissant(content, newest), indent=1) + "\n",
    }


def _croissant(table: bytes, newest: str | None) -> dict[str, Any]:
    source = {"fileObject": {"@id": "results.parquet"}}
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"results/{name}",
            "name": name,
            "description": description,
            "dataType": kind,
            "source": {**source, "extract": {"column": name}},
        }
        for name, kind, description in _FIELDS
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
            **{
                name: f"cr:{name}"
                for name in ("column", "extract", "field", "fileObject", "recordSet", "source")
            },
            "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        },
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": "dpicl-bench-results",
        "description": "Scores and proved privacy of differentially private in-context learning: one row a cell, that"
        " is task, mechanism, model, target ε and seed. No row holds a record, public or private.",
        "license": _LICENCE,
        **({"datePublished": datetime.fromisoformat(newest).date().isoformat()} if newest else {}),
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
        "recordSet": [
            {"@type": "cr:RecordSet", "@id": "results", "name": "results", "field": fields}
        ],
    }


def crawler_files(
    boards: Mapping[str, Board],
    pages: Collection[str],
    url: str,
) -> dict[str, str | bytes]:
    """`sitemap.xml` of the pages, and `feed.xml`, an Atom feed of the newest rows. pages: below ``url``."""
    sitemap = Element("urlset", xmlns="http://www.sitemaps.org/schemas/sitemap/0.9")
    for name in sorted(pages):
        SubElement(
            SubElement(sitemap, "url"), "loc"
        ).text = f"{url}/{name.removesuffix('index.html')}"
    rows = []
    for name, board in boards.items():
        for section in board.sections:
            for row in section.rows:
                created = max(result.created for result in row.results)
                rows.append((datetime.fromisoformat(created).isoformat(), name, section, row))
    newest = sorted(rows, key=itemgetter(0), reverse=True)[:MOST_ENTRIES]
    feed = Element("feed", xmlns="http://www.w3.org/2005/Atom")
    _describe(
        feed,
        "Private in-context learning: rows of the boards",
        f"{url}/",
        newest[0][0] if newest else _NEVER,
    )
    SubElement(SubElement(feed, "author"), "name").text = "dpicl-bench"
    SubElement(feed, "link", rel="self", href=f"{url}/feed.xml")
    for updated, name, section, row in newest:
        title = (
            f"{row.label} on {row.task} at ε = {epsilon_text(row.epsilon)}, {name}: {row.score:.3f}"
        )
        _describe(
            SubElement(feed, "entry"),
            title,
            f"{url}/{name}/rows/{row_id(section, row)}.html",
            updated,
        )
    roots = {"sitemap.xml": sitemap, "feed.xml": feed}
    return {name: tostring(root, "utf-8", xml_declaration=True) for name, root in roots.items()}


def _describe(element: Element, title: str, address: str, updated: str) -> None:
    for name, text in (("title", title), ("id", address), ("updated", updated)):
        SubElement(element, name).text = make_visible(text)
    SubElement(element, "link", href=address)
