"""Every page of the site is safe whatever results, attacks and submissions say."""

import base64
import csv
import hashlib
import io
import re
from collections import Counter
from functools import cache

import pytest
from rich.cells import cell_len

from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.model.evidence import build_attacks
from dpicl.leaderboards.render.columns import rows_frame, to_csv
from dpicl.leaderboards.render.html import attacks_page, pages, suites_page
from dpicl.leaderboards.render.page import web_address
from tests.leaderboards.attack_factory import AUC, make_attack
from tests.leaderboards.factory import ends, make_result
from tests.leaderboards.shown import render_attacks, render_terminal
from tests.leaderboards.site_factory import HOSTILE, Page, full_board, shape

KINDS = ("index.html", "tasks", "rows", "attacks", "suites")
_ATTRIBUTES = """
    alt aria-current aria-hidden aria-label aria-live autocomplete charset class content download height hidden href
    http-equiv id label lang name open placeholder rel role scope spellcheck src tabindex title type value width
"""
_TAGS = """
    a abbr bdi body button code dd details div dl dt em figcaption figure footer h1 h2 h3 h4 head header html
    img input label li main meta nav ol option p script section select span strong style summary table tbody td th
    thead title tr ul caption wbr
"""


@cache
def site(text: str) -> dict[str, str]:
    """Every file of a site in which the text stands wherever an untrusted one may be."""
    board = full_board(text)
    attacks = [
        make_attack(attack=text, measures={text: AUC["auc"]}, counts={text: 1}, notes=[text])
    ]
    files = pages(board, links=[("All suites", "../index.html")])
    return {
        **files,
        "attacks": attacks_page(build_attacks(attacks)),
        "suites": suites_page({text: board}, []),
    }


def documents(text: str) -> dict[str, str]:
    return {
        name: content
        for name, content in site(text).items()
        if not name.endswith((".csv", ".json"))
    }


def group_by_kind(text: str) -> dict[str, Counter[tuple[str, tuple[str, ...]]]]:
    """Shape of the pages of every kind, together."""
    found: dict[str, Counter[tuple[str, tuple[str, ...]]]] = {kind: Counter() for kind in KINDS}
    for name, content in documents(text).items():
        found[name.partition("/")[0]] += shape(content)
    return found


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_texts_change_no_tag_and_no_attribute_of_any_page(value):
    harmless, hostile = group_by_kind("plain"), group_by_kind(value)
    assert all(harmless[kind] for kind in KINDS)
    assert hostile == harmless


def test_pages_hold_our_tags_and_attributes_alone_and_load_nothing_from_elsewhere():
    """What harmless texts make; `test_hostile_texts_change_no_tag` says that hostile ones make the same."""
    for name, content in documents("plain").items():
        page = Page(content)
        assert {tag for tag, _ in page.tags} <= set(_TAGS.split())
        names = {
            name
            for _, attributes in page.tags
            for name in attributes
            if not name.startswith("data-")
        }
        assert names <= set(_ATTRIBUTES.split())
        assert [attributes.get("type") for tag, attributes in page.tags if tag == "script"] == [
            None
        ]
        images = [attributes["src"] for tag, attributes in page.tags if tag == "img"]
        assert all(address.startswith("data:image/svg+xml;base64,") for address in images)
        assert not page.comments and "http://" not in content and "https://" not in content
        if re.search(r"<th[^>]*><button", content):
            assert "table.sortable thead button" in page.scripts[0], name


@pytest.mark.parametrize("value", HOSTILE)
def test_control_and_direction_characters_are_nowhere_and_names_stay_in_their_folder(value):
    for name, content in site(value).items():
        assert re.fullmatch(r"((rows|tasks)/)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,120}", name), name
        assert ".." not in name
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u2028\u2029\x00\x1b]", content), name


@pytest.mark.parametrize("value", HOSTILE)
def test_links_lead_to_files_of_the_site_and_nowhere_else(value):
    files = site(value)
    for name, content in files.items():
        if name.endswith((".csv", ".json")) or name in ("attacks", "suites"):
            continue
        for link in Page(content).links:
            path = link.partition("#")[0].removeprefix("../" if "/" in name else "")
            assert path in files or path in ("", "../index.html"), link
            assert path != "../index.html" or link.endswith("index.html")


@pytest.mark.parametrize(
    "value", [*HOSTILE, "+1", "-1+cmd|' /C calc'!A0", "@SUM(A1)", "\t=1", " =1"]
)
def test_no_text_in_the_csv_is_a_formula(value):
    board = build_board([*ends(), make_result("tang", 0.6, label=value, aggregates={value: 0.5})])
    lines = list(csv.reader(io.StringIO(to_csv(rows_frame(board)))))
    assert len(lines) == 4
    assert len({len(line) for line in lines}) == 1
    number = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?|inf")
    for cell in (cell for line in lines for cell in line):
        assert number.fullmatch(cell) or not cell.lstrip().startswith(("=", "+", "-", "@")), cell
        assert "\n" not in cell


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_texts_move_no_cursor_of_a_terminal_and_widen_no_table(value):
    attacks = [
        make_attack(value, task=value, attack=value, measures={value: AUC["auc"]}, notes=[value])
    ]
    board = render_terminal(full_board(value), color=False, attacks=True)
    for text in (board, render_attacks(build_attacks(attacks), color=False)):
        assert not {"\x1b", "\u202e", "\x00"} & {*text}
        assert (
            max(cell_len(line) for line in text.splitlines() if "dpicl " not in line) <= 110
        )  # but for commands


def test_a_million_characters_anywhere_are_cut_and_counted():
    files = site("x" * 1_000_000)
    for name, content in files.items():
        if not name.endswith(".json"):
            assert len(content) < 400_000, name
    assert "1,000,000 characters in all" in Page(files["index.html"]).words
    assert all(len(name) < 150 for name in files)


def test_the_policy_admits_exactly_the_style_and_script_of_the_page():
    for content in documents("plain").values():
        tags = Page(content).tags
        policy = next(
            a["content"] for tag, a in tags if a.get("http-equiv") == "Content-Security-Policy"
        )
        assert (
            policy.startswith("default-src 'none';")
            and "unsafe" not in policy
            and "http" not in policy
        )
        for tag in ("style", "script"):
            (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>", content, re.DOTALL)
            digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
            assert f"{tag}-src 'sha256-{digest}'" in policy


@pytest.mark.parametrize(
    "text",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        " https://example.org",
        "https://example.org/ a",
        "https://example.org/\u202e",
        "https://user:word@example.org",
        'https://example.org/"',
        "https://example.org/<b>",
        "https://[",
        "https://",
        "http:example.org",
        "data:text/html,x",
        "//example.org",
        "https://example.org/" + "a" * 1000,
    ],
)
def test_only_plain_web_addresses_become_links(text):
    assert web_address(text) is None
    assert web_address("https://example.org/a?b=c#d") == "https://example.org/a?b=c#d"
