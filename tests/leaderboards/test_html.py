"""The page: complete, self-contained, and safe whatever the results say."""

import base64
import hashlib
import math
import re
from html.parser import HTMLParser

import pytest

from harness.errors import ResultError
from leaderboards.board import build_board
from leaderboards.html import MOST_ANSWERS, render_html, write_html
from tests.leaderboards.factory import ends, make_result

HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' autofocus onfocus='alert(1)",
    "</td></table></details><iframe src=//evil.example>",
    "<!-- <svg/onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egnissim era sgat",
    "\x00\x1b[2J",
    "javascript:alert(1)",
]


class Page(HTMLParser):
    """Tags with their attributes, ids, and the text of elements."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


def page_of(results) -> str:
    return render_html(build_board(results))


def plain_results():
    return [*ends(), make_result("tang", 0.6), make_result("tang", 0.7, epsilon=8.0), make_result("prism", 0.5)]


def shape(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Tags and the names of their attributes, in order: what a hostile value must not change."""
    return [(tag, tuple(attributes)) for tag, attributes in Page(text).tags]


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_released_text_changes_no_tag_and_no_attribute(value):
    harmless = page_of([*ends(), make_result("tang", 0.6, released=[("a text", "World")])])
    hostile = page_of([*ends(), make_result("tang", 0.6, released=[(value, value)])])
    assert shape(hostile) == shape(harmless)


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_answers_change_no_tag_and_no_attribute(value):
    def results(text):
        more = {"aggregates": {text: 0.5, "valid": 0.5}, "skipped": {text: text}}
        return [*ends(), make_result("esa", 0.6, answers=[(text, text)], queries=1, per_query=0.3, **more)]

    hostile = page_of(results(value))
    assert shape(hostile) == shape(page_of(results("plain")))
    assert "\u202e" not in hostile
    assert "\x1b" not in hostile


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_names_change_no_tag_and_no_attribute(value):
    def results(name):
        return [*ends(suite=name), make_result("tang", 0.6, label=name, suite=name, options={name: name})]

    assert shape(page_of(results(value))) == shape(page_of(results("plain")))


def test_direction_and_control_characters_are_written_out():
    text = page_of([*ends(), make_result("tang", 0.6, released=[("\u202eabc\x1b[2J", "World")])])
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert "⟨U+202E⟩abc⟨U+001B⟩[2J" in text


def test_very_long_texts_are_cut_and_say_how_long_they_were():
    text = page_of([*ends(), make_result("tang", 0.6, released=[("x" * 1_000_000, "World")])])
    assert len(text) < 100_000
    assert "1,000,000 characters in all" in text


def test_a_million_characters_of_an_answer_and_of_its_id_are_cut():
    text = page_of([*ends(), make_result("esa", 0.6, answers=[("i" * 1_000_000, "x" * 1_000_000)], queries=1)])
    assert len(text) < 100_000
    assert text.count("1,000,000 characters in all") == 2


def test_answers_are_shown_with_their_ids_for_every_seed_and_counted_when_there_are_many():
    many = [(f"test-{i:04d}", f"answer number {i}.") for i in range(MOST_ANSWERS + 50)]
    results = [*ends(), *ends(seed=1), make_result("esa", 0.6, answers=many, queries=250, per_query=0.214)]
    results.append(make_result("esa", 0.6, answers=[("test-0007", "another answer")], queries=250, seed=1))
    text = " ".join(" ".join(Page(page_of(results)).texts).split())
    assert "seed 0, 200 of 250 answers" in text
    assert "test-0199 answer number 199." in text
    assert "answer number 200." not in text
    assert "seed 1, 1 of 1 answers" in text
    assert "test-0007 another answer" in text
    assert "covers 250 queries" in text
    assert "per-query ε 0.214" in text
    assert text.count("ε is for all Q queries together") == 1


def test_answers_given_without_privacy_are_not_shown_but_counted():
    results = [*ends(), make_result("esa", 0.6, epsilon=math.inf, queries=4, answers=[("test-0001", "a secret")])]
    text = " ".join(Page(page_of(results)).texts)
    assert "4 answers are not shown: they were made without privacy" in text
    assert "a secret" not in text


def test_metrics_are_on_the_page_in_words_with_the_reasons_of_those_that_are_not():
    more = {"metric": "valid", "others": {"parses": 0.9}}
    own = {"aggregates": {"genre_distance": 0.25}, "skipped": {"meteor": "the word list is not installed."}}
    results = [*ends(**more), make_result("tang", 0.6, **more, **own)]
    text = " ".join(" ".join(Page(page_of(results)).texts).split())
    assert "agnews: other metrics" in text
    assert "mechanism ε well-formed answers genre distance (lower is better)" in text
    assert "tang 1 0.900 0.250" in text
    assert "METEOR has no score for some row: the word list is not installed." in text
    assert "METEOR was not computed: the word list is not installed." in text


def test_recovery_stands_with_its_interval():
    results = [*ends(documents=200), make_result("tang", 0.6, documents=200)]
    low, high = build_board(results).sections[0].tables[0].rows[0].recovery_interval
    assert f"50% {low:.0%} to {high:.0%} 0.99" in " ".join(" ".join(Page(page_of(results)).texts).split())


def test_a_recovery_without_an_interval_says_why():
    results = [*ends(zero_shot=0.4, real_data=0.5, documents=10), make_result("tang", 0.4, documents=10)]
    (row,) = build_board(results).sections[0].tables[0].rows
    assert row.recovery == 0.0
    assert row.recovery_interval is None
    assert "real demonstrations gain nothing over zero-shot" in page_of(results)


def test_rankings_by_kind_of_task_are_headed_by_the_kind():
    results = [*ends(), make_result("voting", 0.6), *ends(task="samsum", metric="rougeL")]
    results.append(make_result("esa", 0.6, task="samsum", metric="rougeL"))
    texts = Page(page_of(results)).texts
    assert "Classification tasks" in texts
    assert "Text tasks" in texts


def test_the_policy_admits_exactly_this_style_and_script():
    text = page_of(plain_results())
    policy = next(a["content"] for tag, a in Page(text).tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_nothing_is_loaded_from_elsewhere_and_nothing_is_inline():
    text = page_of(plain_results())
    for tag, attributes in Page(text).tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert not {"src", "style"} & attributes.keys()
        assert not [name for name in attributes if name.startswith("on")]
        assert (attributes.get("href") or "#").startswith("#")
    assert "http://" not in text
    assert "https://" not in text


def test_every_row_links_to_its_details():
    tags = Page(page_of(plain_results())).tags
    targets = [attributes["href"][1:] for tag, attributes in tags if tag == "a"]
    ids = [attributes["id"] for tag, attributes in tags if tag == "details"]
    assert len(targets) == 5
    assert sorted(targets) == sorted(ids)


def test_page_shows_both_ends_releases_ledger_manifest_and_command():
    text = " ".join(" ".join(Page(page_of(plain_results())).texts).split())
    assert "zero_shot" in text
    assert "real_demonstrations" in text
    assert "∞" in text
    assert "a released text" in text
    assert "Poisson sample, rate 0.02, of [Gaussian noise, multiplier 0.75]" in text
    assert "0123456789ab" in text
    assert (
        "dpicl run quick --task agnews --mechanism tang --model embedded --source synthetic --epsilon 8 --limit 20"
        in text
    )


def test_texts_released_without_privacy_are_not_shown_but_counted():
    text = " ".join(Page(page_of(ends())).texts)
    assert "4 demonstrations are not shown" in text


def test_missing_ends_are_on_the_page_with_their_command():
    text = " ".join(Page(page_of([make_result("tang", 0.6)])).texts)
    assert "dpicl run quick --task agnews --mechanism zero_shot" in text
    assert "dpicl run quick --task agnews --mechanism real_demonstrations" in text


def test_options_of_the_command_line_are_in_the_command():
    text = " ".join(Page(page_of([*ends(), make_result("tang", 0.6, label="tang+slots=5")])).texts)
    assert "--mechanism tang --model" in text
    assert "--option slots=5" in text


def test_an_empty_board_is_a_page_that_says_what_to_run():
    assert "dpicl run quick" in render_html(build_board([]))


def test_page_is_written_whole_into_a_new_folder(tmp_path):
    path = write_html(build_board(plain_results()), tmp_path / "new" / "site")
    assert path == tmp_path / "new" / "site" / "index.html"
    assert path.read_text(encoding="utf-8") == page_of(plain_results())
    assert [entry.name for entry in path.parent.iterdir()] == ["index.html"]


def test_a_folder_that_cannot_be_written_is_an_error_that_says_so(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ResultError, match="choose another folder"):
        write_html(build_board(plain_results()), tmp_path / "file" / "site")
