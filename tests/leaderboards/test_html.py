"""The page: complete, self-contained, and safe whatever the results say."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from harness.errors import ResultError
from leaderboards.board import build_board
from leaderboards.html import render_html, write_html
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
