"""A table without headroom ranks nobody, and every board shows headroom first."""

from __future__ import annotations

import pytest

from dpicl.leaderboards.compare.rows import compare_named
from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.render.as_json import board_json
from dpicl.leaderboards.render.html import pages
from tests.leaderboards.factory import make_result, replace_cell, with_outcomes
from tests.leaderboards.shown import render_terminal
from tests.leaderboards.site_factory import Page

METRIC = "acc_calibrated"


def over_seeds(first, other, step=2):
    """Two scores in turn, over ten seeds; in turn of so many."""
    return {seed: other if seed % step else first for seed in range(10)}


def row(name, by_seed, task="agnews", development=False, **settings):
    """One result a seed, with this score; development seeds have other test records."""
    results = []
    kind, fingerprint = ("new", "d" * 64) if development else ("old", "f" * 64)
    settings |= {"task": task, "documents": 40, "fingerprint": fingerprint}
    for seed, score in by_seed.items():
        one = make_result(name, score, seed=seed, **settings)
        ids = [f"{kind}{number}" for number in range(40)]
        one = with_outcomes(one, one.documents[METRIC].outcomes, ids=ids)
        results.append(replace_cell(one, development=development))
    return results


PUBLIC, REAL = "public_demonstrations", "real_demonstrations"
LITTLE, MUCH = over_seeds(0.3, 0.3), over_seeds(0.85, 0.9)


def make_rows(public, real, development=None, **settings):
    rows = row("zero_shot", over_seeds(0.2, 0.2), **settings)
    rows += row("tang", over_seeds(0.5, 0.55), **settings)
    rows += row("pta", over_seeds(0.3, 0.35, 3), **settings)
    rows += row(REAL, real, **settings) + row(PUBLIC, public, epsilon=0.0, **settings)
    for name, scores in (development or {}).items():
        rows += row(name, scores, development=True, epsilon=0.0, **settings)
    return rows


def board(public, real, development=None):
    return build_board(make_rows(public, real, development))


def test_without_headroom_nobody_has_a_rank():
    (table,) = board(LITTLE, MUCH).sections[0].tables
    assert table.headroom[METRIC].rewards and not table.ranks_nobody
    assert all(one.rank is not None for one in table.rows if one.epsilon == 1)
    (section,) = board(MUCH, MUCH).sections
    assert not section.tables[0].headroom[METRIC].rewards
    assert {one.rank for one in section.rows} == {None}
    (answer,) = section.answers
    assert (answer.best, answer.verdict) == ((), "no headroom")


def test_pairs_are_compared_where_rows_are_ranked():
    """Or, where none are, on the tasks that are named."""
    both = build_board([*make_rows(LITTLE, MUCH), *make_rows(MUCH, MUCH, task="trec")])
    comparison = compare_named(both, "s", "tang@1", "pta@1")
    assert [pair.table.task for pair in comparison.pairs] == ["agnews"]
    assert comparison.left_out == ("trec",) and "Left out, since" in str(comparison)
    assert comparison.pairs[0].difference is not None
    alone = compare_named(both, "s", "tang@1", "pta@1", tasks=["trec"])
    assert [pair.table.task for pair in alone.pairs] == ["trec"] and not alone.left_out
    models = build_board([*make_rows(LITTLE, MUCH), *make_rows(MUCH, MUCH, model="other")])
    assert compare_named(models, "s", "tang@1", "pta@1").left_out == ("agnews (other)",)


def test_development_seeds_decide_and_stand_in_no_row():
    half = dict.fromkeys((7, 8, 9), 0.5)
    (table,) = board(LITTLE, MUCH, {PUBLIC: half, REAL: half}).sections[0].tables
    headroom = table.headroom[METRIC]
    assert headroom.development and headroom.seeds == (7, 8, 9)
    assert headroom.gain == 0.0 and not headroom.rewards
    assert {seed for one in table.in_order for seed in one.seeds} == {*range(10)}
    assert table.documents == 40 and not table.missing


def test_without_public_demonstrations_headroom_is_unknown():
    """And rows keep their ranks."""
    rows = [one for one in make_rows(LITTLE, MUCH) if one.cell.mechanism != PUBLIC]
    built = build_board(rows)
    (table,) = built.sections[0].tables
    assert table.headroom == {} and table.rows[0].rank is not None
    words = " ".join(Page(pages(built)["index.html"]).words.split())
    assert f"headroom is unknown: no {PUBLIC}" in words


def test_real_demonstrations_of_matched_length_are_a_row():
    """And not the end of recovery."""
    rows = make_rows(LITTLE, MUCH)
    cut = {"label": "real_matched", "options": {"matched_tokens": 12}}
    (table,) = build_board(rows + row(REAL, over_seeds(0.6, 0.65), **cut)).sections[0].tables
    assert table.real_data.label == REAL and table.headroom[METRIC].real_row == "real_matched"
    ranked = {one.label: one for one in table.rows}
    gain = 0.525 - 0.3  # over the public ones
    assert ranked["tang"].recovery == pytest.approx(gain / (0.875 - 0.3))
    assert ranked["real_matched"].unranked and ranked["real_matched"].rank is None


def test_every_output_shows_headroom():
    built = board(LITTLE, MUCH)
    data = board_json(built)["sections"][0]["tasks"][0]["headroom"][METRIC]
    assert data["gain"] == pytest.approx(0.575) and data["rewards"] is True
    assert data["low"] < data["gain"] < data["high"]
    text = render_terminal(built)
    assert text.index("0.300 → 0.875") < text.index("tang  ")


def test_a_task_with_nothing_but_headroom_has_no_table():
    rows = row(PUBLIC, {7: 0.5, 8: 0.5}, development=True, epsilon=0.0)
    built = build_board(rows + row(REAL, {7: 1.0, 8: 1.0}, development=True))
    (section,) = built.sections
    assert section.tables == () and [table.task for table in section.measured] == ["agnews"]
    text = render_terminal(built, full=False)
    assert "no row has run yet" in text and "0.500 (0" in text and "Claims" not in text
    assert board_json(built)["sections"][0]["measured"]["agnews"][METRIC]["gain"] == 0.5
    assert "Headroom" in Page(pages(built)["index.html"]).words
