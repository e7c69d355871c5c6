"""The answer first: one screen of a terminal, and the beginning of a page; a table is the same in every output."""

import re

from dpicl.leaderboards.model.board import build_board, choose_part
from dpicl.leaderboards.render.board_tables import headroom_table
from dpicl.leaderboards.render.html import pages, suites_page
from tests.leaderboards.factory import ends, make_result, repeat
from tests.leaderboards.shown import render_terminal
from tests.leaderboards.site_factory import Page

SEEDS = 10
TASKS = ("agnews", "trec", "dbpedia")


def results(methods=3, tasks=TASKS, epsilons=(1.0, 8.0), documents=50, seeds=SEEDS):
    found = []
    for task in tasks:
        same = {"task": task, "documents": documents}
        found += ends(zero_shot=0.2, real_data=0.9, **same)
        found.append(make_result("public_demonstrations", 0.4, epsilon=0.0, **same))
        for number in range(methods):
            score = 0.3 + 0.5 * number / methods
            found += [
                make_result(f"m{number:02}", score, epsilon=epsilon, **same) for epsilon in epsilons
            ]
    return repeat(found, seeds)


def test_no_method_and_no_task_is_ever_left_out_and_lines_fit(monkeypatch):
    board = build_board(results(24, [f"task_{i}_with_a_name" for i in range(9)], (1.0,), 4, 3))
    for width, parts in ((60, 9), (80, 5), (110, 3)):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = render_terminal(board, color=False, full=False).splitlines()
        assert max(map(len, lines)) <= width
        names = [line.split()[0] for line in lines if re.match(r"m\d\d ", line)]
        heads = " ".join(lines)
        assert all(names.count(f"m{number:02}") == names.count("m00") >= 1 for number in range(24))
        assert all(re.search(rf"task_{i}_|task_[^0-9]+ {i}_", heads) for i in range(9))
        assert names.count("m00") <= parts


def test_a_score_without_a_rank_stands_in_parentheses():
    rows = [*results(2, ["agnews"], (1.0,)), *repeat([make_result("few", 0.9, documents=50)], 3)]
    text = render_terminal(build_board(rows), color=False, full=False)
    cells = {line.split()[0]: line.split()[1] for line in text.splitlines() if line[:1] in "mfz"}
    assert cells == {
        "method": "agnews",
        "m01": "0.560*",
        "m00": "0.300",
        "few": "(0.887)",
        "zero_shot": "0.200",
    }
    assert "* beats every row without records; (…) no rank (why: --full)" in text


def test_headroom_has_its_interval_also_of_another_model_and_where_it_is_not_shown():
    other = []
    for seed in range(SEEDS):
        for task, real in (("xsum", 0.4), ("trec", 0.9)):
            own = {"task": task, "seed": seed, "model": "embedded-float32", "documents": 50}
            other += [make_result("public_demonstrations", 0.4, epsilon=0.0, **own)]
            other += [make_result("real_demonstrations", real, **own)]
    board = build_board([*results(), *other])
    first, apart = (headroom_table(section.tables) for section in board.sections)
    gain = re.compile(r"0\.500 \(−?0\.\d{3} to 0\.\d{3}\)")
    assert [bool(gain.search(" ".join(first.texts(line)))) for line in first.lines] == [True] * 3
    ranks = {apart.texts(line)[0]: "yes" in apart.texts(line) for line in apart.lines}
    assert ranks == {"trec": True, "xsum": False}
    shown = " ".join(render_terminal(board, color=False, full=False).split())
    assert (
        "Also: ε = 8 (--epsilon 8); SmolLM2-135M-Instruct (float32) on synthetic records (--full)."
        in shown
    )


def test_what_beats_no_control_is_said():
    tied = repeat(make_result(f"m{i}", 0.5, documents=50) for i in range(7))
    both = repeat(ends(zero_shot=0.7, real_data=0.9, documents=50))
    text = render_terminal(build_board([*tied, *both]), color=False, full=False)
    assert "agnews: none shown to beat zero_shot (0.700); 7 worse\n" in text


def test_every_task_has_a_line_with_its_verdict():
    scores = {"agnews": ("m0", 0.8), "trec": ("m1", 0.2), "dbpedia": ("m2", 0.3)}
    found = []
    for task, (name, score) in scores.items():
        same = {"task": task, "documents": 50}
        found += repeat(
            [*ends(zero_shot=0.5, real_data=0.9, **same), make_result(name, score, **same)]
        )
    said = " ".join(render_terminal(build_board(found), color=False, full=False).split())
    assert "agnews: m0 beats zero_shot (0.500) dbpedia: none shown to beat zero_shot" in said
    assert "trec: none shown to beat zero_shot (0.500); 1 worse" in said
    same = {"task": "trec", "documents": 50, "queries": 20, "per_query": 0.1}
    found += repeat([make_result("voting", 0.2, **same)])
    said = " ".join(render_terminal(build_board(found), color=False, full=False).split())
    assert "trec, any number of queries: none" in said and "trec, 20 queries: none" in said


def test_the_first_screen_says_what_was_compared_and_what_is_best():
    board = build_board(results())
    text = render_terminal(board, color=False, full=False)
    said = " ".join(text.split())
    for part in (
        "SmolLM2-135M-Instruct, ε = 1, δ = 1e-05, 10 seeds × 50 synthetic records",
        "agnews: m02 and m01 beat public_demonstrations (0.400); 1 worse; m02 is better than all 2 others",
        "Also: ε = 8 (--epsilon 8).",
    ):
        assert part in said
    (best,) = [line for line in text.splitlines() if line.split()[:1] == ["m02"]]
    assert best.split()[1:] == ["0.640*"] * 3
    order = [
        line.split()[0]
        for line in text.splitlines()
        if re.match(r"(m\d|zero|public|real_demonstrations )", line)
    ]
    assert order == [
        "m02",
        "m01",
        "m00",
        "public_demonstrations",
        "zero_shot",
        "real_demonstrations",
    ]
    at_eight = render_terminal(
        choose_part(board, epsilons=[8.0]), color=False, full=False, epsilon=8.0
    )
    assert "agnews: m02 and m01 beat public_demonstrations (0.400)" in at_eight
    one_task = render_terminal(choose_part(board, tasks=["trec"]), color=False, full=False)
    assert "dbpedia" not in one_task and "0.640*" in one_task
    assert (
        "agnews: calibrated accuracy" in render_terminal(board) and "agnews: calibrated" not in text
    )


def test_a_page_begins_with_charts_table_and_what_to_use():
    board = build_board(results())
    files = pages(board)
    text = files["index.html"][files["index.html"].index("<main") :]
    marks = [
        "how do I read it?",
        "<figure",
        'id="filters"',
        "Methods and tasks at ε = 1 and 8",
        "agnews: m02 and m01 beat public_demonstrations",
        "Best rows at each ε",
        "Is ε true?",
    ]
    places = [text.index(mark) for mark in marks]
    assert places == sorted(places)
    links = Page(files["index.html"]).links
    assert {"index.html#epsilon=&row=%22m02%22", "board.csv", "board.json"} <= {*links}
    assert {link.partition("#")[0] for link in links if link != "#main"} <= {*files}
    first = Page(suites_page({"quick": board, "other": build_board(ends(suite="other"))}, []))
    assert (
        "agnews: m02 and m01 beat public_demonstrations (0.400)" in first.words
        and "./quick/index.html#epsilon=&row=%22m02%22" in first.links
    )
    assert "./other/index.html" in first.links


def test_the_page_of_a_row_links_the_theorems_that_its_proof_rests_on():
    for site, found in (
        ("../docs", "../../docs"),
        ("https://example.org/docs", "https://example.org/docs"),
    ):
        files = pages(
            build_board([*ends(), make_result("tang")]), [("Documentation", f"{site}/index.md")]
        )
        (row,) = (
            Page(text) for name, text in files.items() if "rows/" in name and "Proof: of" in text
        )
        assert {
            f"{found}/accounting.md#theorems-by-what-is-in-the-ledger",
            f"{found}/proofs.md",
        } <= {*row.links}
        assert "Proof: of gaussian and poisson, by exact" in " ".join(row.words.split())
