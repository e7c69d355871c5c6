"""The site of a suite: complete, readable without a script, every page where its links say."""

import math
from dataclasses import replace

import pytest

from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.model.comparability import BASELINES
from dpicl.leaderboards.render.addresses import Addresses
from dpicl.leaderboards.render.html import pages
from dpicl.leaderboards.render.row_view import MOST_ANSWERS
from tests.leaderboards.factory import ends, make_result, repeat
from tests.leaderboards.site_factory import Page, plain_results, submission


def site_of(results, **more) -> dict[str, str]:
    return pages(build_board(results, **more))


def task_words(files) -> str:
    """What a reader sees on the pages of tasks."""
    return " ".join(Page(text).words for name, text in files.items() if name.startswith("tasks/"))


def row_words(results, label="tang", **more) -> str:
    """What a reader sees on the only row's page with this label."""
    (content,) = [
        text for name, text in site_of(results, **more).items() if name.startswith(f"rows/{label}-")
    ]
    return Page(content).words


def test_a_site_has_a_page_for_the_board_and_every_row():
    files = site_of(plain_results())
    tops = [name for name in files if "/" not in name]
    assert tops == ["index.html", "board.csv", "board.json"]
    assert len([name for name in files if name.startswith("tasks/agnews-")]) == 1
    assert len([name for name in files if name.startswith("rows/")]) == 5


def test_a_row_keeps_its_address_when_seeds_are_added_and_not_on_another_board():
    def address(*results):
        board = build_board([*ends(), *results])
        return Addresses(board).page(board.sections[0].tables[0].rows[0])

    first = address(make_result("tang", 0.6))
    assert address(make_result("tang", 0.6), make_result("tang", 0.7, seed=1)) == first
    assert first.startswith("rows/tang-agnews-e1-")
    others = [
        {"suite_hash": "b" * 64},
        {"model": "other"},
        {"delta": 1e-6},
        {"source": "local"},
        {"epsilon": 2.0},
    ]
    for change in others:
        board = build_board([*ends(**change), make_result("tang", 0.6, **change)])
        assert Addresses(board).page(board.sections[0].tables[0].rows[0]) != first


SKIPPED = ({"label": "voting", "task": "agnews", "reason": "it has no labels"},)
#: Case -> (results, words on the first page or that of the task).
SAYS = {
    "rows": (plain_results(), ["zero_ shot", "real_ demonstrations", "∞", "0.600", "50%"]),
    "missing": ([make_result("tang", 0.6)], [f"agnews --mechanism {name}" for name in BASELINES]),
    "skipped": (plain_results(), ["No result on agnews, since it has no labels: voting."]),
}


@pytest.mark.parametrize("case", SAYS)
def test_a_board_can_be_read_without_a_script(case):
    results, wanted = SAYS[case]
    files = pages(replace(build_board(results), skipped=SKIPPED))
    words = Page(files["index.html"]).words + task_words(files)
    assert [part for part in wanted if part not in words] == []


def test_filters_offer_what_occurs():
    results = [
        *plain_results(),
        make_result("esa", 0.5, queries=20),
        *ends(task="samsum", metric="rougeL"),
    ]
    tags = Page(site_of(results)["index.html"]).tags
    offered = [attributes.get("value") for tag, attributes in tags if tag == "option"]
    for value in ("agnews", "samsum", "1", "8", "answers", "finite"):
        assert offered.count(value) == 1
    for value in (
        "embedded",
        "0",
        "∞",
        "reference baselines",
        "ours",
    ):  # no choice, or rows that always stay
        assert value not in offered
    rows = [attributes for tag, attributes in tags if tag == "tr" and "data-row" in attributes]
    assert {row["data-kind"] for row in rows} == {
        "answers",
        "demonstrations",
        "reference baselines",
    }
    assert {row["data-origin"] for row in rows} == {"ours"}


def test_the_page_of_a_row_shows_releases_ledger_manifest_seeds_and_command():
    tang = make_result("tang", 0.6, claimed=0.4)
    found = tang.privacy.model_copy(update={"accountants": {"prv": {"low": 0.99, "upper": 1.01}}})
    words = row_words([*ends(), tang.model_copy(update={"privacy": found})])
    for part in (
        "accountant: prv low 0.99, upper 1.01",
        "tang at ε = 1 on agnews",
        "a released text",
        "Poisson sample, rate 0.02, of [Gaussian noise, multiplier 0.75]",
        "0123456789ab",
        "noise_multiplier = 0.75",
        "claimed ε 0.4",
        "15 s and 12,345 tokens read a seed, at most 1,500 MB",
        "quick/embedded/tang/agnews",
        "dpicl run quick --task agnews --mechanism tang --model embedded --source synthetic --epsilon 1 --limit 20"
        " --results again",
    ):
        assert part in words
    assert f"{make_result('tang', 0.6).cell_id}.json" in words
    assert "command with --seed" not in words
    assert "The command with --seed 1 makes one of its 2 seeds." in row_words(
        [
            *ends(seed=1),
            *ends(seed=2),
            make_result("tang", 0.6, seed=1),
            make_result("tang", 0.6, seed=2),
        ]
    )


def test_the_page_of_a_row_leaves_out_what_does_not_apply():
    results = [*plain_results(), make_result("public", 0.5, epsilon=0.0, released=[])]
    for name, content in site_of(results).items():
        if not name.startswith("rows/"):
            continue
        facts = content[content.index("<dl") : content.index("</dl>")]
        assert "<dd>–</dd>" not in facts and "<dd></dd>" not in facts, name
        found = Page(content)
        assert "None." not in found.words and "Empty:" not in found.words
        heads = {text for text in ("Ledger of the first seed", "Attacks") if text in found.words}
        assert not heads if name.startswith("rows/zero_shot") else heads or "tang" not in name


def test_the_page_of_a_task_has_the_first_twenty_texts_of_every_row_at_its_smallest_epsilon():
    texts = [(f"text {number}", "World") for number in range(15)]
    results = [make_result("tang", 0.5, epsilon=8.0, released=[("of eight", "World")])]
    results += [make_result("tang", 0.5, epsilon=1.0, seed=seed, released=texts) for seed in (0, 1)]
    results += [make_result("pta", 0.5, epsilon=math.inf)]
    words = task_words(site_of(results))
    words = words[words.index("Released texts The first 20") :]
    assert (
        words.count("World text 4 ") == 2
        and words.count("World text 5 ") == 1
        and "of eight" not in words
    )
    assert "tang at ε = 1 seed label" in words and "pta at" not in words
    without = task_words(site_of([make_result("pta", 0.5, epsilon=math.inf)]))
    assert "Released texts The first" not in without


def test_texts_released_without_privacy_are_not_shown_but_counted():
    assert "4 demonstrations are not shown" in row_words(ends(), "real_demonstrations")
    results = [
        *ends(),
        make_result("esa", 0.6, epsilon=math.inf, queries=4, answers=[("test-0001", "a secret")]),
    ]
    words = row_words(results, "esa")
    assert "4 answers are not shown" in words
    assert "a secret" not in words


def test_answers_are_shown_by_record_with_a_column_a_seed_and_counted_when_there_are_many():
    many = [(f"test-{i:04d}", f"answer number {i}.") for i in range(MOST_ANSWERS + 50)]
    results = [
        *ends(),
        *ends(seed=1),
        make_result("esa", 0.6, answers=many, queries=90, per_query=0.214),
    ]
    results.append(
        make_result("esa", 0.6, answers=[("test-0007", "another answer")], queries=90, seed=1)
    )
    words = row_words(results, "esa")
    assert (
        f"{MOST_ANSWERS} of {MOST_ANSWERS + 50} test records, by id; the rest is in the result files"
        in words
    )
    assert "record seed 0 seed 1 test-0000 answer number 0. –" in words
    assert "test-0007 answer number 7. another answer" in words
    assert f"answer number {MOST_ANSWERS}." not in words
    assert "covers 90 queries" in words
    assert "per-query ε 0.214" in words


def test_a_recovery_stands_with_its_interval_or_says_why_it_has_none():
    results = repeat([*ends(documents=200), make_result("tang", 0.6, documents=200)])
    interval = build_board(results).sections[0].tables[0].rows[0].recovery_interval
    assert interval is not None
    low, high = interval
    assert f"50% {low:.0%} to {high:.0%}" in task_words(site_of(results))
    results = [
        *ends(zero_shot=0.4, real_data=0.5, documents=10),
        make_result("tang", 0.4, documents=10),
    ]
    assert "real demonstrations may gain nothing" in row_words(results)


def test_a_submission_has_a_card_with_its_links_and_what_was_found():
    files = site_of(plain_results(), submissions=[submission(unreliable="its code was not sent")])
    (row,) = [name for name in files if name.startswith("rows/team-method-")]
    found = Page(files[row])
    for part in (
        "Submitted as team/method",
        "A. Author and B. Author",
        "Apache-2.0",
        "its code was not sent",
    ):
        assert part in found.words
    for part in (
        "0.650 0.710",
        "1 of 1 cell, 0.640 by a maintainer",
        "a smaller prompt than in the paper",
    ):
        assert part in found.words
    outside = [
        a for tag, a in found.tags if tag == "a" and (a["href"] or "").startswith("https://")
    ]
    assert [a["href"] for a in outside] == ["https://example.org/paper", "https://example.org/code"]
    assert {a["rel"] for a in outside} == {"noopener noreferrer nofollow"}
    assert "--plugin leaderboards/submissions/team/method/method.py" in found.words
    words = task_words(files)
    for part in (
        "team/method, unreliable †",
        "a smaller prompt than in the paper",
        "0.710",
        "0.640",
    ):
        assert part in words
