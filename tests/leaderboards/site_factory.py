"""Boards for tests of the site, and a reader of its pages that knows tags, attributes and texts."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from dpicl.leaderboards.model.board import Board, build_board
from dpicl.leaderboards.model.evidence import Evidence
from dpicl.leaderboards.model.submissions import Card, Reported, Submission
from tests.leaderboards.attack_factory import AUC, make_attack
from tests.leaderboards.factory import ends, make_result

_BREAKS = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' autofocus onfocus='alert(1)",
    "</td></table></details></select></style><iframe src=//evil.example>",
    "<!-- <svg/onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egnissim era sgat\u2066",
    "line\u2028separator\u2029and </SCRIPT >",
    "\x00\x1b[2J",
)
#: Texts that would break a page that does not escape them: all breaks in both orders, and those that must stand first.
HOSTILE = [
    " ".join(_BREAKS),
    "".join(reversed(_BREAKS)),
    "javascript:alert(1)",
    "../../../etc/passwd",
    "=HYPERLINK(1)",
    "https://example.org/\"onclick='alert(1)'",
]


class Page(HTMLParser):
    """Tags with their attributes, and the text of elements; ``scripts``, ``styles``: what is inside of these."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.comments: list[str] = []
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag if tag in ("script", "style") else self._inside

    def handle_endtag(self, tag: str) -> None:
        self._inside = "" if tag == self._inside else self._inside

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts.append(data)
        elif self._inside == "style":
            self.styles.append(data)
        elif not self._inside:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    @property
    def words(self) -> str:
        """What a reader sees, with single spaces."""
        return " ".join(" ".join(self.texts).split())

    @property
    def links(self) -> list[str]:
        return [attributes["href"] or "" for tag, attributes in self.tags if tag == "a"]


def shape(text: str) -> Counter[tuple[str, tuple[str, ...]]]:
    """How often every tag occurs with these names of attributes: what a hostile value must not change."""
    return Counter((tag, tuple(attributes)) for tag, attributes in Page(text).tags)


def plain_results() -> list[Any]:
    return [
        *ends(),
        make_result("tang", 0.6),
        make_result("tang", 0.7, epsilon=8.0),
        make_result("prism", 0.5),
    ]


def submission(text: str = "", unreliable: str = "") -> Submission:
    """A method that was submitted, with one row on agnews; text: stands for every text of its card."""
    result = make_result("private_icl", 0.65, options={"slots": 3})
    words: dict[str, Any] = {
        "team": "team",
        "method": "method",
        "authors": ["A. Author", "B. Author"],
        "licence": "Apache-2.0",
        "paper": "https://example.org/paper",
        "code": "https://example.org/code",
        "public_data": "none",
        "tuning": "on another task",
        "footnote": "a smaller prompt than in the paper",
        "unreliable": unreliable,
        "reproduced": "1 of 1 cell, 0.640 by a maintainer",
    }
    if text:
        words = dict.fromkeys(words, text) | {"authors": [text, text]}
    reported = Reported(task="agnews", epsilon=1, score=0.71, where="table 2")
    card = Card.model_construct(**words, reported=[reported])
    return Submission(card, (result,), Path("method.py"))


@cache
def full_board(text: str = "plain") -> Board:
    """A board with everything that a page may show; text: stands wherever a stranger may write."""
    named: dict[str, Any] = {"suite": text, "model": text, "source": text}
    released = {"released": [(text, text)], "options": {text: text}}
    measures = {"others": {text: 0.5}, "aggregates": {text + "x": 0.5}, "skipped": {text: text}}
    results = [
        *ends(seed=0),
        *ends(seed=1),
        *(make_result("tang", 0.6, seed=seed, claimed=0.5) for seed in (0, 1)),
        make_result("tang", 0.7, epsilon=8.0, **released),
        make_result(
            "esa", 0.6, answers=[(text, text), ("test-1", "World")], queries=2, per_query=0.3
        ),
        make_result("prism", 0.5, epsilon=math.inf),
        *ends(task=text),
        make_result("pta", 0.6, task=text, label=text, **released),
        *ends(**named, task=text),
        make_result("tang", 0.6, task=text, label=text, **named, **measures),
    ]
    attacks = [
        make_attack(audited=2.1, attack=text, counts={text: 1}, notes=[text]),
        make_attack(attack=text + "y", access="black-box", measures=AUC, audited=None),
    ]
    return build_board(results, None, Evidence(tuple(attacks)), [submission(text)])
