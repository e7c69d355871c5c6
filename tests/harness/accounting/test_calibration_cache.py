"""Calibrated answers on disk: what is remembered, and when it is not believed."""

import math

import pytest
from dp_accounting import dp_event as dp

from dpicl.accounting import calibration, calibration_cache
from dpicl.mechanism.bases import Sizes
from dpicl.mechanisms.tang import Tang
from dpicl.releasing.release import calibrate_mechanism
from tests.harness.accounting.makers import DELTA, SIZES, OneGaussian, SoftTokens

ONE_GAUSSIAN = OneGaussian()


def calibrate(cache, mechanism=ONE_GAUSSIAN, sizes=SIZES, epsilon=1.0, delta=DELTA, **more):
    return calibrate_mechanism(mechanism, sizes, epsilon, delta, cache=cache, **more)


@pytest.fixture
def searches(monkeypatch):
    """Grows by one for every search that is really done."""
    done: list[str] = []
    original = calibration._Search.search_by_proof

    def count(search: calibration._Search) -> object:
        done.append(search.name)
        return original(search)

    monkeypatch.setattr(calibration._Search, "search_by_proof", count)
    return done


def test_answers_are_remembered_on_disk(tmp_path, searches):
    first = calibrate(tmp_path)
    assert calibrate(tmp_path) == first
    assert len(searches) == 1
    calibration_cache._open.cache_clear()
    assert calibrate(tmp_path) == first
    assert len(searches) == 1


def test_every_input_has_an_answer_of_its_own(tmp_path, searches):
    calibrate(tmp_path)
    calibrate(tmp_path, OneGaussian(1.0))
    calibrate(tmp_path, epsilon=2.0)
    calibrate(tmp_path, delta=2 * DELTA)
    for records in (30_000, 30_001):
        calibrate(tmp_path, Tang(), Sizes({None: records}, {None: 1}))
    assert len(searches) == 6


def test_an_edited_mechanism_is_calibrated_anew(tmp_path, searches, monkeypatch):
    before = calibrate(tmp_path).knob
    original, knob = OneGaussian.events, OneGaussian.knob

    def edit_events(self: OneGaussian, value: float, sizes: Sizes) -> dp.DpEvent:
        known = value == math.sqrt(knob.low * knob.high)  # the key has this event
        return original(self, value, sizes) if known else dp.GaussianDpEvent(value / 2)

    monkeypatch.setattr(OneGaussian, "events", edit_events)
    assert calibrate(tmp_path).knob > 1.4 * before
    assert len(searches) == 2


def test_an_edited_paper_formula_is_solved_anew(tmp_path, monkeypatch):
    before = calibrate(tmp_path, SoftTokens(), mode="paper").knob
    monkeypatch.setattr(SoftTokens, "paper_epsilon", lambda self, knob, sizes, delta: 1 / knob)
    after = calibrate(tmp_path, SoftTokens(), mode="paper").knob
    assert after == pytest.approx(1.0, rel=1e-3) != before


def test_a_damaged_answer_is_searched_for_again(tmp_path, searches):
    first = calibrate(tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for content in (
        b"",
        whole[:-5],
        whole.replace(b"knob", b"knot"),
        whole.replace(b"0", b"1", 1),
    ):
        path.write_bytes(content)
        calibration_cache._open.cache_clear()  # another process
        assert calibrate(tmp_path) == first
    assert len(searches) == 5
    calibration_cache._open.cache_clear()
    assert calibrate(tmp_path) == first
    assert len(searches) == 5


def test_a_folder_that_cannot_be_made_only_costs_time(tmp_path):
    (tmp_path / "file").write_text("")
    assert calibrate(tmp_path / "file" / "below").bounds.upper <= 1.0


def test_the_default_cache_is_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("DPICL_CACHE", str(tmp_path))
    calibrate_mechanism(OneGaussian(), SIZES, 1.0, DELTA)
    assert len(list((tmp_path / "calibration").iterdir())) == 1
