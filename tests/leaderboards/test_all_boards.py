"""`dpicl board all` and the site that `dpicl board SUITE --html` writes."""

from __future__ import annotations

import csv
import hashlib
import json
from xml.etree import ElementTree

import datasets
import pandas as pd
import pytest

from dpicl.results.store import Store
from tests.harness.helpers import refuse
from tests.leaderboards.factory import ends, make_result, shipped_options, write_shipped
from tests.leaderboards.site_factory import Page


@pytest.fixture
def results_folder(tmp_path):
    """Results of the suite quick on two sources of records, one result with other options, one of another suite."""
    options = shipped_options("tang")
    folder = tmp_path / "results"
    for source in ("synthetic", "local"):
        results = [*ends(source=source), make_result("tang", 0.6, source=source, options=options)]
        other = make_result("tang", 0.9, source=source, options={**options, "slots": 99})
        write_shipped(folder, [*results, other])
    Store(folder, "somebody").write(make_result("tang", 0.9, suite="somebody"))
    return folder


def test_all_suites_with_results_are_listed_without_any_data_set(
    dpicl, results_folder, monkeypatch
):
    monkeypatch.delenv("DPICL_DATA", raising=False)
    answer = dpicl(f"board all --results {results_folder} --no-submissions --json")
    assert answer.code == 0
    lines = answer.json["suites"]
    rows = sorted((line["suite"], line["source"], line["rows"]) for line in lines)
    assert rows == [("quick", "local", 3), ("quick", "synthetic", 3)]
    (answered,) = lines[0]["answers"]
    assert (answered["epsilon"], answered["task"], answered["best"]) == (1.0, "agnews", [])
    assert answered["verdict"] == "nobody is ranked, because no row has 10 seeds"
    assert "2 results with another suite version or settings" in answer.err


def test_the_site_of_all_suites_has_a_folder_a_suite(dpicl, results_folder, tmp_path):
    site = tmp_path / "site"
    answer = dpicl(f"board all --results {results_folder} --no-submissions --html {site}")
    assert answer.code == 0
    assert f"Page: {site / 'index.html'}" in answer.out
    for name in ("index.html", "attacks/index.html", "quick/index.html", "quick/board.csv"):
        assert (site / name).is_file()
    assert not (site / "somebody").exists()
    for page in site.rglob("*.html"):
        paths = {
            (page.parent / link.partition("#")[0]).resolve()
            for link in Page(page.read_text("utf-8")).links
            if not link.startswith("https://arxiv.org/abs/")
        }
        assert paths >= {site / "docs" / "index.md", site / "CITATION.cff", site / "LICENSE"}
        assert all(path.exists() for path in paths)
    with (site / "quick" / "board.csv").open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == 6


def test_a_hosted_site_has_a_map_a_feed_and_links_on_every_page(dpicl, results_folder, tmp_path):
    site, url, repository = (
        tmp_path / "site",
        "https://example.org/board",
        "https://example.org/code",
    )
    hosted = ("--html", site, "--url", f"{url}/", "--repository", repository)
    assert dpicl(f"board all --results {results_folder} --no-submissions", *hosted).code == 0
    places = ElementTree.parse(site / "sitemap.xml").iter(
        "{http://www.sitemaps.org/schemas/sitemap/0.9}loc"
    )
    pages = {
        page.relative_to(site).as_posix().removesuffix("index.html")
        for page in site.rglob("*.html")
    }
    assert {place.text.removeprefix(f"{url}/") for place in places} == pages
    atom = "{http://www.w3.org/2005/Atom}"
    entries = ElementTree.parse(site / "feed.xml").findall(f"{atom}entry")
    assert len(entries) == 6
    for entry in entries:
        assert (site / entry.find(f"{atom}id").text.removeprefix(f"{url}/")).is_file()
    for page in site.rglob("*.html"):
        assert {repository, f"{repository}/blob/HEAD/LICENSE"} <= {
            *Page(page.read_text("utf-8")).links
        }
    refuse(dpicl("board", "all", *hosted[2:], "--results", results_folder), "--url")
    refuse(dpicl(f"board all --html {site} --url javascript:alert(1)"), "https://")


def test_the_site_has_all_results_as_one_table_with_a_card(
    dpicl, results_folder, tmp_path, monkeypatch
):
    site = tmp_path / "site"
    assert dpicl(f"board all --results {results_folder} --no-submissions --html {site}").code == 0
    table = datasets.load_dataset(
        "parquet",
        data_files=str(site / "results.parquet"),
        split="train",
        cache_dir=str(tmp_path / "cache"),
    ).to_pandas()
    (tang,) = table[(table.row == "tang") & (table.source == "local")].to_dict("records")
    assert (tang["suite"], tang["task"], tang["score"]) == ("quick", "agnews", pytest.approx(0.6))
    assert len(table) == 6 and table.cell.nunique() == 6 and pd.isna(tang["submission"])
    card = json.loads((site / "croissant.json").read_text("utf-8"))
    (file,), (records,) = card["distribution"], card["recordSet"]
    assert file["sha256"] == hashlib.sha256((site / "results.parquet").read_bytes()).hexdigest()
    assert [field["name"] for field in records["field"]] == [*table.columns]


def test_what_makes_no_sense_for_all_suites_is_refused(dpicl, tmp_path):
    for flags in (["--limit", "3"], ["--source", "local"], ["--model", "embedded"]):
        answer = dpicl("board", "all", *flags)
        assert answer.code == 2
        assert f"{flags[0]} chooses what is shown of one suite" in answer.err
    answer = dpicl(f"board all --results {tmp_path} --no-submissions")
    assert answer.code == 2
    assert "dpicl run quick" in answer.err


def test_the_run_of_record_comes_first(dpicl, tmp_path, monkeypatch):
    monkeypatch.delenv("DPICL_DATA", raising=False)
    write_shipped(tmp_path, [*ends(suite="quick"), *ends(suite="record")])
    answer = dpicl(f"board all --results {tmp_path} --no-submissions --json")
    assert [line["suite"] for line in answer.json["suites"]] == ["record", "quick"]


def test_a_board_says_that_its_seeds_share_private_records(dpicl, results_folder, monkeypatch):
    monkeypatch.delenv("DPICL_DATA", raising=False)
    answer = dpicl(
        f"board quick --source synthetic --results {results_folder} --no-submissions",
        "--json",
    )
    assert any(
        note.startswith("All seeds share one set of private records")
        for note in answer.json["notes"]
    )
