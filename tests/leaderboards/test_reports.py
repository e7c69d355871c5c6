"""What the reports say of planned claims is what boards print from the committed results."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest

import dpicl as api
from benchmarks.rank_coverage import write_table
from dpicl.core.messages import signed_text
from dpicl.leaderboards.compare.rows import RowComparison, compare_named
from dpicl.leaderboards.model.board import Board
from dpicl.leaderboards.model.contrasts import JudgedContrast

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"`dpicl compare (\S+) (\S+) --suite (\w+)`")
DIFFERENCE = re.compile(r"([+−]\.\d{3}) \(([+−]\.\d{3}) to ([+−]\.\d{3})\)")
PAGES = {
    name: (ROOT / f"docs/reports/{name}.md").read_text("utf-8") for name in ("findings", "results")
}
COMMANDS = sorted({one.groups() for page in PAGES.values() for one in COMMAND.finditer(page)})
CLAIMS = [
    line for line in PAGES["findings"].splitlines() if line.startswith("|") and COMMAND.search(line)
]


@cache
def board(suite: str) -> Board:
    return api.board(
        suite, results=ROOT / "results", submissions=ROOT / "leaderboards/submissions"
    ).board


@cache
def compare(one: str, other: str, suite: str) -> RowComparison:
    return compare_named(board(suite), suite, one, other)


def write_number(number: float) -> str:
    """As the reports write it: '+.096', '−.051'."""
    text = signed_text(number)
    return ("" if text.startswith("−") else "+") + text.replace("0.", ".", 1)


@pytest.mark.parametrize("suite", sorted({suite for *_, suite in COMMANDS}))
def test_every_comparison_in_a_report_finds_its_rows(suite):
    for one, other, of in COMMANDS:
        if of == suite:
            assert compare(one, other, suite).pairs, (one, other)


def find_planned(suite: str, rows: set[str]) -> list[JudgedContrast]:
    """The planned claims about two rows, by label, of every section."""
    sections = [one for section in board(suite).sections for one in section.contrasts]
    return [
        one
        for one in sections
        if {one.better.split(" at ")[0].split(" (")[0], one.than.split(" at ")[0].split(" (")[0]}
        == rows
    ]


@pytest.mark.parametrize("line", CLAIMS, ids=lambda line: "-".join(COMMAND.search(line).groups()))
def test_a_claim_says_what_the_board_prints_of_its_contrast(line):
    _, claim, verdict, differences, *_ = line.split("|")
    one, other, suite = COMMAND.search(line).groups()
    planned = find_planned(suite, {one.split("@")[0], other.split("@")[0]})
    at_one, _, at_eight = differences.partition("at ε = 8")
    for text, eight in ((at_one, False), (at_eight, True)):
        tests = [one.test for one in planned if (" at ε = 8" in one.better) is eight and one.test]
        printed = [tuple(map(write_number, (test.mean, test.low, test.high))) for test in tests]
        assert sorted(DIFFERENCE.findall(text)) == sorted(printed), claim
    at_one_alone = [one for one in planned if " at ε = 8" not in one.better]
    verdicts = {one.verdict for one in at_one_alone if one.test}
    assert ("**better**" in verdict) is bool(
        verdicts and verdicts <= {"shown", "the opposite is shown"}
    ), claim
    assert ("no verdict" in verdict) is (not verdicts), claim


def test_the_table_of_false_verdicts_is_that_of_the_measurement():
    measured = json.loads((ROOT / "benchmarks/rank_coverage.json").read_text("utf-8"))
    page = (ROOT / "docs/reports/performance.md").read_text("utf-8")
    assert page.endswith(
        "<!-- generated from benchmarks/rank_coverage.json -->\n" + write_table(measured)
    )
    for one in measured:
        most = 0.05 + 2 * one["standard_error"]
        assert max(one["better"], one["claims"], one["equivalent"]) <= most
