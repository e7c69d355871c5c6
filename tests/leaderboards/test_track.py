"""Scores across releases: which points stand where, what joins and what breaks a line, and which steps count."""

from __future__ import annotations

import numpy as np
import pytest

from dpicl.core.errors import UsageError
from dpicl.leaderboards.compare.track import build_tracks, significant_steps
from tests.harness.comparison.sides import ones, scored, with_manifest


def release(right: int, day: int, commit: str = "a" * 40, **more):
    """A result of 150 documents, made on a day of one month."""
    result = scored(ones(right, 150), created=f"2026-03-{day:02d}T00:00:00+00:00", **more)
    return with_manifest(result, commit=commit)


def test_releases_are_ordered_by_time_and_told_apart_by_commit_and_weights():
    results = [
        release(90, 9, "c" * 40),
        release(91, 2, "b" * 40),
        release(92, 5, "a" * 40),
        with_manifest(release(93, 7, "a" * 40), model={"sha256": "e" * 64}),
    ]
    (track,) = build_tracks(results)
    assert [(r.number, r.commit[0], r.weights[0]) for r in track.releases] == [
        (1, "b", "c"), (2, "a", "c"), (3, "a", "e"), (4, "c", "c"),
    ]  # fmt: skip
    assert [point.score for point in track.points] == [91 / 150, 92 / 150, 93 / 150, 90 / 150]
    assert all(point.low < point.score < point.high for point in track.points)


def test_releases_by_model_do_not_look_at_the_commit():
    results = [release(90, 1, seed=0), release(96, 2, "b" * 40, seed=1)]
    assert len(build_tracks(results)[0].points) == 2
    (track,) = build_tracks(results, by="model")
    (point,) = track.points
    assert (point.score, point.seeds) == (pytest.approx(93 / 150), (0, 1))


def test_a_line_breaks_where_the_records_changed_and_says_so():
    results = [
        release(90, 1),
        release(60, 2, "b" * 40, fingerprint="0" * 64),
        release(60, 3, "c" * 40, fingerprint="0" * 64),
    ]
    (track,) = build_tracks(results)
    assert [point.broken for point in track.points] == ["", "other records", ""]
    assert [point.step is None for point in track.points] == [True, True, False]
    assert significant_steps([track]) == 0


def test_a_planted_loss_is_a_worse_step_and_nothing_else_is():
    results = [release(110, 1), release(110, 2, "b" * 40), release(80, 3, "c" * 40)]
    results += [release(110, day, commit * 40, epsilon=8.0) for day, commit in ((1, "a"), (2, "b"), (3, "c"))]
    low, high = build_tracks(results)
    assert [point.step and point.step.verdict for point in low.points] == [None, "inconclusive", "worse"]
    assert low.points[2].step.gain == pytest.approx(-0.2)
    assert not any(point.sign for point in high.points)


def test_steps_are_adjusted_over_all_lines():
    pair = [release(100, 1), release(93, 2, "b" * 40)]
    assert significant_steps(build_tracks(pair)) == 1
    crowd = [
        release(100, day, commit * 40, epsilon=float(e)) for e in range(2, 14) for day, commit in ((1, "a"), (2, "b"))
    ]
    assert significant_steps(build_tracks([*pair, *crowd])) == 0


def test_steps_need_a_seed_in_common():
    (track,) = build_tracks([release(100, 1, seed=0), release(50, 2, "b" * 40, seed=1)])
    assert track.points[1].step is None
    (track,) = build_tracks(
        [release(100, 1, seed=0), release(50, 2, "b" * 40, seed=1), release(70, 2, "b" * 40, seed=0)]
    )
    assert track.points[1].step.seeds == (0,)
    assert track.points[1].step.gain == pytest.approx(-0.2)


TWICE = [release(100, 1), release(90, 5), release(80, 3)]
MIXED = [release(90, 1, seed=0), release(90, 1, seed=1), release(30, 9, seed=2, options={"slots": 5})]


@pytest.mark.parametrize(
    ("results", "seeds", "left_out", "why"), [(TWICE, (0,), 2, "older results"), (MIXED, (0, 1), 1, "other options")]
)
def test_of_one_release_the_newest_of_the_larger_part_stays_and_a_note_says_so(results, seeds, left_out, why):
    (track,) = build_tracks(results)
    (point,) = track.points
    assert (point.score, point.seeds) == (pytest.approx(0.6), seeds)
    assert f"{left_out} of 3 results" in track.notes[0] and why in track.notes[0]


def test_rows_tasks_epsilons_and_suites_have_lines_of_their_own():
    results = [release(90, 1), release(90, 1, epsilon=8.0), release(90, 1, task="trec"), release(90, 1, suite="mine")]
    results.append(release(90, 1, mechanism="prism"))
    tracks = build_tracks(results)
    assert len(tracks) == 5
    assert len({id(track.releases) for track in tracks}) <= 5
    assert [track.suite for track in tracks] == ["mine", "quick", "quick", "quick", "quick"]


def test_a_distance_that_grew_is_a_loss():
    def distance(value, day, commit):
        return with_manifest(
            scored(np.full(40, value), metric="word_distance", created=f"2026-03-0{day}T00:00:00+00:00"), commit=commit
        )

    (track,) = build_tracks([distance(0.2, 1, "a"), distance(0.6, 2, "b")])
    assert track.points[1].step.gain == pytest.approx(-0.4)
    assert track.points[1].step.verdict == "worse"


def test_releases_have_the_names_that_are_given():
    results = [release(90, 1), release(96, 2, "b" * 40)]
    (track,) = build_tracks(results, names={"bbb": "v2"})
    assert [one.called for one in track.releases] == ["", "v2"]
    assert track.releases[1].title.startswith("v2: ")
    for start, count in (("zzz", "0 releases"), ("embedded", "2 releases")):
        with pytest.raises(UsageError, match=count):
            build_tracks(results, names={start: "v3"})
