"""What pages say of the names on them: methods with their papers and code, tasks with what they ask."""

import pytest

from dpicl.data.config import task_folders
from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.render.guide import find_paper, make_guide
from dpicl.leaderboards.render.html import pages, suites_page
from dpicl.leaderboards.render.methods import style_of
from dpicl.mechanism.registry import load_mechanisms
from tests.leaderboards.site_factory import Page, plain_results


@pytest.mark.parametrize(
    ("source", "address"),
    [
        ("Tang et al., ICLR 2024, arXiv 2309.11765", "https://arxiv.org/abs/2309.11765"),
        ("A, openreview.net/forum?id=ab1C2", "https://openreview.net/forum?id=ab1C2"),
        ("no private data", ""),
        ("arXiv <script>", ""),
    ],
)
def test_a_source_leads_to_its_paper(source, address):
    assert find_paper(source) == address


def test_every_shipped_method_has_a_summary_and_each_of_a_paper_links_it():
    guide = make_guide(load_mechanisms(()), "mechanisms")
    assert all(method.summary and method.code for method in guide.methods.values())
    without = {name for name, method in guide.methods.items() if not method.paper}
    assert without <= {
        *("zero_shot", "real_demonstrations", "public_demonstrations", "public_records"),
        *("repeated_label", "esa_public", "one_vote"),
    }
    assert guide.tasks.keys() == task_folders().keys() and all(guide.tasks.values())
    assert guide.tasks["agnews"] == "AG News: the topic of a news blurb"


def test_pages_link_papers_and_code_and_say_what_methods_and_tasks_are():
    board = build_board(plain_results())
    guide = make_guide(load_mechanisms(()), "../mechanisms")
    page = Page(pages(board, guide=guide)["index.html"])
    assert {"https://arxiv.org/abs/2309.11765", "../mechanisms/tang.py"} <= {*page.links}
    assert "Tasks: AG News: the topic of a news blurb." in page.words
    assert f"What each method does prism {guide.methods['prism'].summary}" in page.words
    titles = [attributes.get("title") or "" for tag, attributes in page.tags if tag == "th"]
    assert guide.methods["tang"].summary in titles
    heads = [attributes.get("title") or "" for tag, attributes in page.tags if tag == "button"]
    assert any(head.startswith(guide.tasks["agnews"]) for head in heads)


def test_without_a_guide_no_page_links_another_host():
    board = build_board(plain_results())
    for content in (pages(board)["index.html"], suites_page({"quick": board}, [])):
        assert "https://" not in content and ">paper<" not in content


def test_the_sign_of_a_method_stands_in_tables_in_its_colour():
    (style,) = Page(pages(build_board(plain_results()))["index.html"]).styles
    tang = style_of("tang")
    assert f'content: "{tang.sign} "; color: {tang.colour};' in style
