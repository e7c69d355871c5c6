"""Scores across releases: which points stand where, what breaks a line, which steps count; the command."""

from __future__ import annotations

import re

import pytest

from dpicl.core.errors import UsageError
from dpicl.leaderboards.compare.track import build_tracks
from tests.harness.comparison.sides import ones, scored, with_manifest, written


def release(right: int, day: int, commit: str = "a" * 40, **more):
    """A result of 150 documents, made on a day of one month."""
    result = scored(ones(right, 150), created=f"2026-03-{day:02d}T00:00:00+00:00", **more)
    return with_manifest(result, commit=commit)


def seeds_of(point):
    return tuple(one.cell.seed for one in point.results)


def test_releases_are_ordered_by_time_and_told_apart_by_commit_and_weights():
    results = [
        release(90, 9, "c" * 40),
        release(91, 2, "b" * 40),
        release(92, 5, "a" * 40),
        with_manifest(release(93, 7, "a" * 40), model={"sha256": "e" * 64}),
    ]
    tracks = build_tracks(results)
    (track,) = tracks.lines
    assert [(r.number, r.commit[0], r.weights[0]) for r in tracks.releases] == [
        (1, "b", "c"), (2, "a", "c"), (3, "a", "e"), (4, "c", "c"),
    ]  # fmt: skip
    assert [point.score for point in track.points] == [91 / 150, 92 / 150, 93 / 150, 90 / 150]
    for point in tracks.document()["tracks"][0]["points"]:
        assert point["interval"][0] < point["score"] < point["interval"][1]


def test_releases_by_model_do_not_look_at_the_commit():
    results = [release(90, 1, seed=0), release(96, 2, "b" * 40, seed=1)]
    assert len(build_tracks(results).lines[0].points) == 2
    (track,) = build_tracks(results, by="model").lines
    (point,) = track.points
    assert (point.score, seeds_of(point)) == (pytest.approx(93 / 150), (0, 1))


def test_a_line_breaks_where_the_records_changed_and_says_so():
    results = [
        release(90, 1),
        release(60, 2, "b" * 40, fingerprint="0" * 64),
        release(60, 3, "c" * 40, fingerprint="0" * 64),
    ]
    (track,) = build_tracks(results).lines
    assert [point.broken for point in track.points] == ["", "other records", ""]
    assert [point.step is None for point in track.points] == [True, True, False]
    assert build_tracks(results).significant == 0


def test_a_planted_loss_is_a_worse_step_and_nothing_else_is():
    results = [release(110, 1), release(110, 2, "b" * 40), release(80, 3, "c" * 40)]
    results += [release(110, day, commit * 40, epsilon=8.0) for day, commit in ((1, "a"), (2, "b"), (3, "c"))]
    low, high = build_tracks(results).lines
    assert [point.verdict for point in low.points] == ["", "inconclusive", "worse"]
    assert low.points[2].step.mean == pytest.approx(-0.2)
    assert not {point.verdict for point in high.points} & {"better", "worse"}


def test_steps_are_adjusted_over_all_lines():
    pair = [release(100, 1), release(93, 2, "b" * 40)]
    assert build_tracks(pair).significant == 1
    crowd = [
        release(100, day, commit * 40, epsilon=float(e)) for e in range(2, 14) for day, commit in ((1, "a"), (2, "b"))
    ]
    assert build_tracks([*pair, *crowd]).significant == 0


def test_steps_need_a_seed_in_common():
    (track,) = build_tracks([release(100, 1, seed=0), release(50, 2, "b" * 40, seed=1)]).lines
    assert track.points[1].step is None
    (track,) = build_tracks(
        [release(100, 1, seed=0), release(50, 2, "b" * 40, seed=1), release(70, 2, "b" * 40, seed=0)]
    ).lines
    assert track.points[1].shared == (0,)
    assert track.points[1].step.mean == pytest.approx(-0.2)


TWICE = [release(100, 1), release(90, 5), release(80, 3)]
MIXED = [release(90, 1, seed=0), release(90, 1, seed=1), release(30, 9, seed=2, options={"slots": 5})]


@pytest.mark.parametrize(
    ("results", "seeds", "left_out", "why"), [(TWICE, (0,), 2, "older results"), (MIXED, (0, 1), 1, "other options")]
)
def test_of_one_release_the_newest_of_the_larger_part_stays_and_a_note_says_so(results, seeds, left_out, why):
    (track,) = build_tracks(results).lines
    (point,) = track.points
    assert (point.score, seeds_of(point)) == (pytest.approx(0.6), seeds)
    assert f"{left_out} of 3 results" in track.notes[0] and why in track.notes[0]


def test_rows_tasks_epsilons_and_suites_have_lines_of_their_own():
    results = [release(90, 1), release(90, 1, epsilon=8.0), release(90, 1, task="trec"), release(90, 1, suite="mine")]
    results.append(release(90, 1, mechanism="prism"))
    tracks = build_tracks(results).lines
    assert [track.suite for track in tracks] == ["mine", "quick", "quick", "quick", "quick"]


def test_releases_have_the_names_that_are_given():
    results = [release(90, 1), release(96, 2, "b" * 40)]
    releases = build_tracks(results, names={"bbb": "v2"}).releases
    assert [one.called for one in releases] == ["", "v2"]
    assert releases[1].title.startswith("v2: ")
    for start, count in (("zzz", "0 releases"), ("embedded", "2 releases")):
        with pytest.raises(UsageError, match=count):
            build_tracks(results, names={start: "v3"})


def test_the_command_answers_as_a_table_and_as_json_whatever_names_say(monkeypatch, dpicl, tmp_path):
    monkeypatch.setenv("COLUMNS", "110")
    old, new = (
        [scored(ones(right, 150), created=f"2026-0{month}-01T00:00:00+00:00")] for right, month in ((110, 1), (70, 2))
    )
    new = [with_manifest(new[0], dtype="float32"), release(110, 1, label="evil\x1b[2J\u202e", suite="=1\x1b")]
    folders = written(tmp_path / "old", old), written(tmp_path / "new", new)
    answer = dpicl("track", *folders, folders[0])
    assert answer.code == 0 and not {"\x1b", "\u202e"} & {*answer.out}
    assert answer.out.startswith("1 step better or worse, in 2 lines\n")
    assert re.search(r"tang +1 +0\.733 0\.6\d+–0\.[78]\d+ +0\.467 \S+ ▼", answer.out)
    document = dpicl("track", *folders, "--json", "--mechanism", "tang").json
    *_, track = document["tracks"]
    assert track["points"][-1]["step"]["verdict"] == "worse"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--task", "agnewz"), "Did you mean 'agnews'"),
        (("--model", "x"), "Unknown model of"),
        (("--by", "day"), "commit"),
    ],
)
def test_what_is_not_there_is_one_sentence_and_exit_code_2(dpicl, tmp_path, flags, words):
    answer = dpicl("track", written(tmp_path / "a", [scored(ones(20, 40))]), *flags)
    assert (answer.code, answer.err.count("\n")) == (2, 1) and words in answer.err


def test_a_missing_folder_and_a_damaged_file_are_exit_code_2(dpicl, tmp_path):
    assert dpicl("track", tmp_path / "nothing").code == 2
    folder = written(tmp_path / "a", [scored(ones(20, 40))])
    (folder / "bad.json").write_text('{"schema_version": 1}')
    answer = dpicl("track", folder)
    assert answer.code == 2 and "bad.json" in answer.err
