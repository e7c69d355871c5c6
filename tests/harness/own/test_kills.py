"""A process that is killed at any step of a release: what was charged, and what the same command does then."""

import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpicl as package
from dpicl import dp_event as dp
from dpicl import models
from dpicl.core.errors import PluginError, ResultError
from dpicl.core.paths import private_folder
from dpicl.own import job, released, unfinished
from dpicl.own.unfinished import UnfinishedRelease, hold_unfinished
from dpicl.privacy.private_set import Assigned
from dpicl.privacy.release_hooks import NoisyRelease, Permit
from tests.harness.own.desk import ALWAYS, SMALL

#: By which a killed process is known.
KILLED = 9
SLOTS = ("--option", "slots=4", "--option", "examples_per_slot=1")
VOTE = ("--option", "candidates=3", "--option", "tokens=3", "--option", "embedding=sim")
METHODS = {
    "one_vote": ("release", "one_vote", *VOTE, "--shots-per-label", 2),
    "embedding_centroids": ("release", "embedding_centroids", "--option", "embedding=sim"),
    "tang": ("release", "tang", *SMALL),
    "voting": ("answer", "voting", "--queries", "new.txt", *SLOTS),
}
#: Step -> where it is, which call of it is the last one, and whether that one is still made.
STEPS: dict[str, tuple[Any, str, int, bool]] = {
    "records are read": (job, "load_own", 1, False),
    "the charge was tried": (job, "charge", 1, True),
    "the model is loaded": (models, "load", 1, True),
    "it was rehearsed": (job._Run, "_rehearse", 1, True),
    "it was timed": (job._Run, "_estimate", 1, True),
    "it has a number": (UnfinishedRelease, "begin", 1, True),
    "it is charged": (job, "charge", 2, True),
    "a sample is drawn": (UnfinishedRelease, "end_sample", 1, True),
    "a value is drawn": (unfinished, "append_synced", 1, False),
    "a value is kept": (unfinished, "append_synced", 1, True),
    "two values are kept": (unfinished, "append_synced", 2, True),
    "it is made": (job, "release", 3, True),
    "it is written": (released, "put_whole", 5, True),
    "the card is written": (released, "put_whole", 8, True),
    "it is saved": (UnfinishedRelease, "remove", 1, False),
}
UNCHARGED = [*STEPS][:6]


def kill_after(run: Callable[[], object], step: str) -> None:
    """Runs it in a process that ends at the step as one that is killed does: nothing is closed or cleaned up."""
    owner, name, last, is_made = STEPS[step]
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of threads, none of which this test uses
        child = os.fork()
    if child == 0:
        original, calls = getattr(owner, name), 0

        def stop(*arguments: Any, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == last and not is_made:
                os._exit(KILLED)
            result = original(*arguments, **more)
            if calls == last:
                os._exit(KILLED)
            return result

        setattr(owner, name, stop)
        try:
            run()
        finally:
            os._exit(1)  # the step was not reached
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED


def list_kept(desk: Path) -> list[Path]:
    return sorted((private_folder()).glob("unfinished-*.jsonl"))


def count_charges() -> int:
    return sum(each["releases"] for each in package.budget())


@pytest.fixture
def run(dpicl, desk) -> Callable[[str], Any]:
    (desk / "new.txt").write_text("a swordfish\nanother one\n")

    def call(method: str, *more: object) -> Any:
        return dpicl(
            *METHODS[method], "--data", "tickets.csv", *ALWAYS, "--out", "out.jsonl", *more
        )

    return call


@pytest.mark.parametrize("step", STEPS)
def test_the_same_command_goes_on_with_what_was_charged(run, desk, step):
    kill_after(lambda: run("one_vote"), step)
    assert count_charges() == (0 if step in UNCHARGED else 1)
    killed_at_the_end = (desk / "out.jsonl").exists()
    for path in desk.glob("out*"):
        path.rename(desk / f"killed-{path.name}")
    answer = run("one_vote").succeed()
    assert count_charges() == 1 and not list_kept(desk)
    assert ("going on with the release that was stopped" in answer.err) is (step not in UNCHARGED)
    if killed_at_the_end:  # from the values that were drawn then
        assert (desk / "killed-out.jsonl").read_text() == (desk / "out.jsonl").read_text()


@pytest.mark.parametrize("method", ["embedding_centroids", "tang", "voting"])
@pytest.mark.parametrize("step", ["it is charged", "a sample is drawn"])
def test_what_goes_on_draws_no_second_sample(run, method, step):
    kill_after(lambda: run(method), step)
    run(method).succeed()
    # of all records there is one sample only; the coins of a part of them are thrown once for a charge
    is_lost = step == "a sample is drawn" and method != "embedding_centroids"
    assert count_charges() == (2 if is_lost else 1)


def test_another_release_is_charged_anew(run, desk):
    kill_after(lambda: run("one_vote"), "a value is kept")
    for other in (("--seed", 1), ("--epsilon", 0.5), ("--total-epsilon", 9)):
        run("one_vote", *other).succeed()
        for path in desk.glob("out*"):
            path.unlink()
    with (desk / "tickets.csv").open("a") as file:
        file.write("one more,refund\n")
    run("one_vote").succeed()
    assert count_charges() == 5 and len(list_kept(desk)) == 1


def test_a_limit_that_is_spent_holds_no_paid_release_back(run, desk):
    kill_after(lambda: run("one_vote", "--total-epsilon", 1), "it is charged")
    run("one_vote", "--total-epsilon", 1).succeed()
    for path in desk.glob("out*"):
        path.unlink()
    again = run("one_vote", "--total-epsilon", 1)
    assert again.code == 2 and "its limit is 1" in again.err


# --- the values of a run that was stopped


def make_release(count: int = 3, scale: float = 2.0, kind: Any = "gaussian") -> NoisyRelease:
    permit = Permit(dp.GaussianDpEvent(1.0), None)
    return NoisyRelease(kind, np.zeros(count), 1.0, scale, permit=permit)


def draw_from(
    unfinished_release: UnfinishedRelease,
    group: str,
    release: NoisyRelease,
    rate: float = 1.0,
    slots: int | None = None,
) -> Any:
    unfinished_release.end_sample(Assigned(group, rate, slots, 3, ()))
    assert release.permit is not None
    unfinished_release.note_spend(
        dp.GaussianDpEvent(1.0), release.permit, len(unfinished_release._groups) - 1
    )
    fresh = np.random.default_rng().normal
    return unfinished_release.intercept(release, lambda: fresh(size=release.clean.shape)).tolist()


def begin(path: Path) -> UnfinishedRelease:
    unfinished_release = UnfinishedRelease(path)
    unfinished_release.begin("version")
    return unfinished_release


def test_values_are_given_to_their_group_and_then_drawn(tmp_path):
    path = tmp_path / "kept.jsonl"
    first = begin(path)
    values = [draw_from(first, group, make_release()) for group in ("a", "a", "b")]
    again = UnfinishedRelease(path)
    assert draw_from(again, "b", make_release()) == values[2]
    assert [draw_from(again, "a", make_release()) for _ in range(2)] == values[:2]
    more = draw_from(again, "b", make_release())
    assert more not in values
    third = UnfinishedRelease(path)
    assert [draw_from(third, "b", make_release()) for _ in range(2)] == [values[2], more]


@pytest.mark.parametrize("other", [make_release(4), make_release(scale=1.0)])
def test_a_value_of_another_release_is_never_given(tmp_path, other):
    path = tmp_path / "kept.jsonl"
    draw_from(begin(path), "a", make_release())
    with pytest.raises(PluginError, match="cannot go on"):
        draw_from(UnfinishedRelease(path), "a", other)
    assert not path.exists()


def test_what_rests_on_secret_coins_is_not_kept(tmp_path):
    sampled = begin(tmp_path / "sampled.jsonl")
    threshold = begin(tmp_path / "threshold.jsonl")
    draw_from(sampled, "a", make_release(), rate=0.99)
    draw_from(threshold, "a", make_release(1, kind="threshold"))
    dealt = begin(tmp_path / "dealt.jsonl")
    draw_from(dealt, "a", make_release(), slots=3)
    assert not any(each.is_kept for each in (sampled, threshold, dealt))
    assert not list(tmp_path.iterdir())


def test_a_value_that_was_cut_off_was_seen_by_nobody(tmp_path):
    path = tmp_path / "kept.jsonl"
    first = begin(path)
    value = draw_from(first, "a", make_release())
    draw_from(first, "a", make_release())
    path.write_bytes(path.read_bytes()[:-5])
    again = UnfinishedRelease(path)
    assert draw_from(again, "a", make_release()) == value
    fresh = draw_from(again, "a", make_release())
    assert json.loads(path.read_text().splitlines()[-1])["values"] == fresh
    path.write_text(path.read_text().replace("gaussian", "gau\n", 1))
    with pytest.raises(ResultError, match="is damaged"):
        UnfinishedRelease(path)


def test_only_one_process_goes_on(fresh_cache):
    with hold_unfinished(["the same"]) as first, hold_unfinished(["the same"]) as second:
        assert first is not None and second is None
    with hold_unfinished(["the same"]) as third:
        assert third is not None
    assert not list((fresh_cache / "private").glob("unfinished-*"))
