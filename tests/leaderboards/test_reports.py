"""What the reports say of two rows is what their commands print from the committed results."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

import dpicl as api
from dpicl.core.messages import signed_text
from dpicl.leaderboards.compare.rows import RowComparison, compare_named
from dpicl.leaderboards.model.board import Board

ROOT = Path(__file__).parents[2]
COMMAND = re.compile(r"`dpicl compare (\S+) (\S+) --suite (\w+)`")
DIFFERENCE = re.compile(r"([+−]\.\d{3}) \(([+−]\.\d{3}) to ([+−]\.\d{3})\)")
PAGES = {name: (ROOT / f"docs/reports/{name}.md").read_text("utf-8") for name in ("findings", "results")}
COMMANDS = sorted({found.groups() for page in PAGES.values() for found in COMMAND.finditer(page)})
CLAIMS = [line for line in PAGES["findings"].splitlines() if line.startswith("|") and COMMAND.search(line)]


@cache
def board(suite: str) -> Board:
    return api.board(suite, results=ROOT / "results", submissions=ROOT / "leaderboards/submissions").board


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
            assert all(pair.found is not None for pair in compare(one, other, suite).pairs), (one, other)


@pytest.mark.parametrize("line", CLAIMS, ids=lambda line: "-".join(COMMAND.search(line).groups()))
def test_a_claim_says_what_its_command_prints(line):
    _, claim, verdict, differences, *_ = line.split("|")
    one, other, suite = COMMAND.search(line).groups()
    at_one, _, at_eight = differences.partition("at ε = 8")
    for text, first in ((at_one, one), (at_eight, one.replace("@1", "@8"))):
        if said := DIFFERENCE.findall(text):
            second = other.replace("@1", "@8") if first != one else other
            found = [pair.found for pair in compare(first, second, suite).pairs]
            printed = [tuple(map(write_number, (each.value, each.low, each.high))) for each in found]
            assert sorted(said) == sorted(printed), claim
    assert at_one.strip() and DIFFERENCE.search(at_one)
    better = {pair.found.verdict for pair in compare(one, other, suite).pairs} == {"better"}
    assert better == ("**better**" in verdict), claim
