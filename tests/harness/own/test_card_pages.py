"""The card that somebody signs: its first page, its HTML, and what its numbers are about."""

import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dpicl.own.card_pages import card_html, card_markdown, first_page
from tests.harness.own.desk import assert_nothing_charged, read_card, release

HOSTILE = '</td><script>alert("x")</script>|[a](b)`\n# y\u202e--><img src=x onerror=y>'


class Page(HTMLParser):
    """Tags and visible text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def text_of_first_page(card: dict) -> str:
    markdown = card_markdown(card).replace("\\", "")
    return markdown.partition("## For engineers")[0]


def test_the_first_page_has_what_is_signed_and_no_hash_or_json(dpicl, desk):
    release(dpicl, "--contact", "privacy@example.org", "--total-epsilon", 3).succeed()
    page = text_of_first_page(read_card())
    assert "by a factor of at most 2.72" in page and "a guess of 50% becomes at most 74%" in page
    for words in (
        "1 in 1,000,000",
        "4 texts",
        "all releases at most 2",
        "privacy@",
        "Yes: what",
        "about 60 private",
    ):
        assert words in page, words
    assert not re.search(r"[0-9a-f]{32}|\{", page)


def test_odds_of_the_first_page_follow_from_group_privacy(dpicl, desk):
    release(dpicl).succeed()
    card = read_card()
    (table,) = [block for block in first_page(card)[0].blocks if getattr(block, "head", ())]
    epsilon, delta = card["privacy"]["epsilon_proved"], card["privacy"]["delta"]
    for number, (name, odds, chance) in zip(
        (1, 2, 5),
        table.rows,
        strict=True,
    ):
        exact = math.exp(number * epsilon)
        shown = float(odds.removeprefix("at most "))
        assert exact <= shown <= exact * 1.01 and name.startswith(f"{number} row")
        grown = delta * sum(math.exp(step * epsilon) for step in range(number))
        assert 1 / int(chance.removeprefix("1 in ").replace(",", "")) == pytest.approx(
            grown, rel=1e-3
        )


def test_without_a_promise_the_first_page_makes_none(dpicl, desk):
    release(dpicl, "--noise", "seeded").succeed()
    page = text_of_first_page(read_card())
    assert not read_card()["private"]
    assert_nothing_charged(dpicl)
    assert "No: the noise came from a seed" in page and "factor" not in page
    assert page.split("\n\n")[1].startswith("**NOT PRIVATE")


def test_a_large_epsilon_is_said_to_promise_next_to_nothing(dpicl, desk):
    release(dpicl).succeed()
    card = read_card()
    card["privacy"]["epsilon_proved"] = 30.0
    assert "Next to nothing is promised" in text_of_first_page(card)


def test_html_shows_hostile_names_as_they_are_and_loads_nothing(dpicl, desk):
    release(dpicl).succeed()
    card = read_card() | {"mechanism": HOSTILE, "contact": HOSTILE, "reading": [HOSTILE]}
    card["task"]["labels"] = [HOSTILE, "billing"]
    card["person"] = {"rows": 1, "epsilon": 1.0, "delta": 1e-6, "field": HOSTILE}
    page = Page(card_html(card))
    allowed = {
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "section",
        "h1",
        "h2",
        "p",
        "ul",
        "li",
    }
    assert set(page.tags) <= allowed | {"table", "tr", "th", "td"}
    assert "<script>alert" in page.text and "\u202e" not in card_html(card)
    markdown = card_markdown(card)
    assert "<script>" not in markdown.replace("\\<script\\>", "")
    assert "\n# y" not in markdown and "\u202e" not in markdown


def test_the_html_card_prints_its_first_page_alone(dpicl, desk):
    release(dpicl).succeed()
    page = Path("demos.card.html").read_text()
    assert page == card_html(read_card()) and "swordfish" not in page
    assert (
        "@page" in page
        and "break-before: page" in page
        and "http" not in page.replace("http-equiv", "")
    )
