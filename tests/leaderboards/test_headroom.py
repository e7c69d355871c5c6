"""A table without headroom ranks nobody, and every board shows headroom first."""

from __future__ import annotations

import pytest

from dpicl.leaderboards.compare.rows import compare_named
from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.render.as_json import board_json
from dpicl.leaderboards.render.html import pages
from dpicl.results.schema import Documents
from tests.leaderboards.factory import make_result
from tests.leaderboards.shown import render_terminal
from tests.leaderboards.site_factory import Page

METRIC = "acc_calibrated"


def over_seeds(first, other, step=2):
    """Two scores in turn, over ten seeds; in turn of so many."""
    return {seed: other if seed % step else first for seed in range(10)}


def row(name, by_seed, task="agnews", development=False, **given):
    found = []
    for seed, score in by_seed.items():
        one = make_result(name, score, seed=seed, task=task, documents=40, **given)
        ids = [f"{'new' if development else 'old'}{number}" for number in range(40)]
        documents = {
            m: Documents(ids=ids, outcomes=own.outcomes) for m, own in one.documents.items()
        }
        cell = one.cell.model_copy(update={"development": development})
        data = one.manifest.data.model_copy(
            update={"fingerprint": ("d" if development else "f") * 64}
        )
        manifest = one.manifest.model_copy(update={"data": data})
        update = {"documents": documents, "cell": cell, "cell_id": cell.id, "manifest": manifest}
        found.append(one.model_copy(update=update))
    return found


def make_rows(public, real, development=None, **given):
    means = {
        "zero_shot": over_seeds(0.2, 0.2),
        "tang": over_seeds(0.5, 0.55),
        "pta": over_seeds(0.3, 0.35, 3),
    }
    rows = [
        one
        for name, scores in (means | {"real_demonstrations": real}).items()
        for one in row(name, scores, **given)
    ]
    rows += row("public_demonstrations", public, epsilon=0.0, **given)
    for name, scores in (development or {}).items():
        rows += row(name, scores, development=True, epsilon=0.0, **given)
    return rows


def board(public, real, development=None):
    return build_board(make_rows(public, real, development))


LITTLE, MUCH = over_seeds(0.3, 0.3), over_seeds(0.85, 0.9)


def test_with_headroom_rows_have_ranks_and_without_it_nobody_does():
    (table,) = board(LITTLE, MUCH).sections[0].tables
    assert table.headroom[METRIC].rewards and not table.ranks_nobody
    assert all(one.rank is not None for one in table.rows if one.epsilon == 1)
    nothing = board(MUCH, MUCH).sections[0]
    (table,) = nothing.tables
    assert not table.headroom[METRIC].rewards
    assert [one.rank for one in table.rows] == [None] * len(table.rows)
    (answer,) = nothing.answers
    assert (answer.best, answer.verdict) == ((), "no headroom")


def test_pairs_are_compared_where_rows_are_ranked_or_where_none_are():
    both = build_board([*make_rows(LITTLE, MUCH), *make_rows(MUCH, MUCH, task="trec")])
    found = compare_named(both, "s", "tang@1", "pta@1")
    assert [pair.table.task for pair in found.pairs] == ["agnews"] and found.left_out == ("trec",)
    assert found.pairs[0].difference is not None and "Left out, since without headroom" in str(
        found
    )
    alone = compare_named(both, "s", "tang@1", "pta@1", tasks=["trec"])
    assert [pair.table.task for pair in alone.pairs] == ["trec"] and not alone.left_out
    models = build_board([*make_rows(LITTLE, MUCH), *make_rows(MUCH, MUCH, model="other")])
    assert compare_named(models, "s", "tang@1", "pta@1").left_out == ("agnews (other)",)


def test_development_seeds_decide_and_stand_in_no_row():
    ends = {
        "public_demonstrations": {7: 0.5, 8: 0.5, 9: 0.5},
        "real_demonstrations": {7: 0.5, 8: 0.5, 9: 0.5},
    }
    (table,) = board(LITTLE, MUCH, ends).sections[0].tables
    found = table.headroom[METRIC]
    assert (found.development, found.seeds, found.gain, found.rewards) == (
        True,
        (7, 8, 9),
        0.0,
        False,
    )
    assert {seed for one in table.in_order for seed in one.seeds} == {*range(10)}
    assert table.documents == 40 and not table.missing


def test_without_public_demonstrations_headroom_is_unknown_and_rows_keep_their_ranks():
    rows = (
        row("zero_shot", over_seeds(0.2, 0.2))
        + row("tang", over_seeds(0.5, 0.55))
        + row("real_demonstrations", MUCH)
    )
    made = build_board(rows)
    (table,) = made.sections[0].tables
    assert table.headroom == {} and table.rows[0].rank is not None
    assert "headroom is unknown: no public_demonstrations" in " ".join(
        Page(pages(made)["index.html"]).words.split()
    )


def test_real_demonstrations_of_matched_length_are_a_row_and_not_the_end_of_recovery():
    rows = (
        row("zero_shot", over_seeds(0.2, 0.2))
        + row("tang", over_seeds(0.5, 0.5))
        + row("real_demonstrations", MUCH)
    )
    rows += row(
        "real_demonstrations",
        over_seeds(0.6, 0.65),
        label="real_matched",
        options={"matched_tokens": 12},
    )
    rows += row("public_demonstrations", LITTLE, epsilon=0.0)
    (table,) = build_board(rows).sections[0].tables
    assert (
        table.real_data.label == "real_demonstrations"
        and table.headroom[METRIC].real_row == "real_matched"
    )
    tang = next(one for one in table.rows if one.label == "tang")
    assert tang.recovery == pytest.approx((0.5 - 0.3) / (0.875 - 0.3))  # over the public ones
    matched = next(one for one in table.rows if one.label == "real_matched")
    assert matched.unranked and matched.rank is None


def test_every_output_shows_headroom():
    made = board(LITTLE, MUCH)
    data = board_json(made)["sections"][0]["tasks"][0]["headroom"][METRIC]
    assert (
        data["gain"] == pytest.approx(0.575)
        and data["rewards"] is True
        and data["low"] < data["gain"] < data["high"]
    )
    text = render_terminal(made)
    assert text.index("0.300 → 0.875") < text.index("tang  ")


def test_a_task_whose_headroom_alone_was_measured_stands_with_it_and_has_no_table():
    rows = row("public_demonstrations", {7: 0.5, 8: 0.5}, development=True, epsilon=0.0)
    made = build_board(rows + row("real_demonstrations", {7: 1.0, 8: 1.0}, development=True))
    (section,) = made.sections
    assert section.tables == () and [table.task for table in section.measured] == ["agnews"]
    said = render_terminal(made, full=False)
    assert "no row has run yet" in said and "0.500 (0" in said and "Claims" not in said
    assert board_json(made)["sections"][0]["measured"]["agnews"][METRIC]["gain"] == 0.5
    assert "Headroom" in Page(pages(made)["index.html"]).words
