"""What a hosted site has besides its pages: the results as one table with a data card, a site map and a feed."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple
from xml.etree.ElementTree import Element, SubElement, tostring

from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.text import epsilon_text
from dpicl.leaderboards.render.addresses import row_id
from dpicl.results.schema import Result

#: Entries of a feed: the newest rows.
MOST_ENTRIES: Final = 100
_LICENCE = "https://www.apache.org/licenses/LICENSE-2.0"


class HostedCell(NamedTuple):
    """One result on a site."""

    suite: str
    section: Section
    row: Row
    result: Result
    retired: bool


#: Column of the table -> (its croissant type, what it is, its value).
COLUMNS: Final[Mapping[str, tuple[str, str, Callable[[HostedCell], Any]]]] = {
    "suite": ("sc:Text", "suite of the cell", lambda one: one.result.suite.name),
    "version": ("sc:Integer", "version of the suite", lambda one: one.result.suite.version),
    "retired": ("sc:Boolean", "whether that version is no longer the suite's current one", lambda one: one.retired),
    "submission": (
        "sc:Text",
        "who sent the row in; empty for our own",
        lambda one: one.row.submission.name if one.row.submission else None,
    ),
    "task": ("sc:Text", "task", lambda one: one.result.cell.task),
    "row": ("sc:Text", "name of the row on the board", lambda one: one.result.cell.label),
    "mechanism": ("sc:Text", "mechanism", lambda one: one.result.cell.mechanism),
    "model": ("sc:Text", "language model", lambda one: one.result.cell.model),
    "source": ("sc:Text", "where records come from: hub, local or synthetic", lambda one: one.result.cell.source),
    "epsilon": ("sc:Float", "target ε; infinity without privacy", lambda one: one.result.cell.epsilon),
    "delta": ("sc:Float", "δ", lambda one: one.result.privacy.delta),
    "seed": ("sc:Integer", "seed of records and noise", lambda one: one.result.cell.seed),
    "epsilon_claimed": ("sc:Float", "ε by the authors' formula", lambda one: one.result.privacy.epsilon_claimed),
    "epsilon_proved": ("sc:Float", "upper bound of ε", lambda one: one.result.privacy.epsilon_proved),
    "queries": ("sc:Integer", "queries that ε covers; empty: any number", lambda one: one.result.privacy.queries),
    "metric": ("sc:Text", "main metric", lambda one: one.result.main_metric),
    "score": ("sc:Float", "its mean over test records", lambda one: one.result.scores[one.result.main_metric].value),
    "low": ("sc:Float", "low end of its 95% interval", lambda one: one.result.scores[one.result.main_metric].low),
    "high": ("sc:Float", "high end of its 95% interval", lambda one: one.result.scores[one.result.main_metric].high),
    "commit": ("sc:Text", "commit of the code", lambda one: one.result.manifest.commit),
    "created": ("sc:Text", "when the cell ran, ISO 8601", lambda one: one.result.created),
    "cell": ("sc:Text", "id of the cell, which names its file", lambda one: one.result.cell_id),
}


def hosted_cells(boards: Mapping[str, Board], retired: bool = False) -> Iterator[HostedCell]:
    """Every result on boards, in their order. boards: by the suite's name. retired: of versions that are."""
    for name, board in boards.items():
        for section in board.sections:
            for row in section.rows:
                yield from (HostedCell(name, section, row, result, retired) for result in row.results)


def data_files(boards: Mapping[str, Board], retired: Mapping[str, Board], url: str | None) -> dict[str, str | bytes]:
    """`results.parquet`, a row a cell, and `croissant.json`, which describes it (mlcommons.org/croissant/1.0).

    retired: boards of earlier versions. url: of the site, where it is known.
    """
    import pandas as pd

    cells = [*hosted_cells(boards), *hosted_cells(retired, retired=True)]
    frame = pd.DataFrame({name: [value(one) for one in cells] for name, (_, _, value) in COLUMNS.items()})
    whole = [name for name, (kind, *_) in COLUMNS.items() if kind == "sc:Integer"]
    texts = [name for name, (kind, *_) in COLUMNS.items() if kind == "sc:Text"]
    numbers = [name for name, (kind, *_) in COLUMNS.items() if kind == "sc:Float"]
    types = dict.fromkeys(whole, "Int64") | dict.fromkeys(texts, "string") | dict.fromkeys(numbers, "float64")
    table = io.BytesIO()
    frame.astype(types).to_parquet(table, index=False)
    content = table.getvalue()
    newest = max((one.result.created for one in cells), default=None)
    return {"results.parquet": content, "croissant.json": json.dumps(_croissant(content, newest, url), indent=1) + "\n"}


def _croissant(table: bytes, newest: str | None, url: str | None) -> dict[str, Any]:
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
        for name, (kind, description, _) in COLUMNS.items()
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
        **({"url": url} if url else {}),
        **({"datePublished": newest[:10]} if newest else {}),
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": "results.parquet",
                "name": "results.parquet",
                "contentUrl": f"{url}/results.parquet" if url else "results.parquet",
                "encodingFormat": "application/x-parquet",
                "sha256": hashlib.sha256(table).hexdigest(),
            }
        ],
        "recordSet": [{"@type": "cr:RecordSet", "@id": "results", "name": "results", "field": fields}],
    }


def crawler_files(boards: Mapping[str, Board], pages: Collection[str], url: str) -> dict[str, str | bytes]:
    """`sitemap.xml` of the pages, and `feed.xml`, an Atom feed of the newest rows. pages: below ``url``."""
    sitemap = Element("urlset", xmlns="http://www.sitemaps.org/schemas/sitemap/0.9")
    for name in sorted(pages):
        SubElement(SubElement(sitemap, "url"), "loc").text = f"{url}/{name.removesuffix('index.html')}"
    rows = {id(one.row): one for one in hosted_cells(boards)}.values()
    dated = sorted(((max(result.created for result in one.row.results), one) for one in rows), key=lambda pair: pair[0])
    feed = Element("feed", xmlns="http://www.w3.org/2005/Atom")
    _say(feed, "Private in-context learning: rows of the boards", f"{url}/", dated[-1][0])
    SubElement(SubElement(feed, "author"), "name").text = "dpicl-bench"
    SubElement(feed, "link", rel="self", href=f"{url}/feed.xml")
    for updated, one in dated[: -MOST_ENTRIES - 1 : -1]:
        row, address = one.row, f"{url}/{one.suite}/rows/{row_id(one.section, one.row)}.html"
        title = f"{row.label} on {row.task} at ε = {epsilon_text(row.epsilon)}, {one.suite}: {row.score:.3f}"
        _say(SubElement(feed, "entry"), title, address, updated)
    return {
        name: tostring(root, "utf-8", xml_declaration=True)
        for name, root in (("sitemap.xml", sitemap), ("feed.xml", feed))
    }


def _say(element: Element, title: str, address: str, updated: str) -> None:
    SubElement(element, "title").text = title
    SubElement(element, "id").text = address
    SubElement(element, "link", href=address)
    SubElement(element, "updated").text = updated
