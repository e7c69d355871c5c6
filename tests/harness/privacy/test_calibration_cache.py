"""Calibrated answers on disk: what is remembered, and when it is not believed."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
from dp_accounting import dp_event as dp

from dpicl.mechanism.bases import Sizes
from dpicl.privacy import calibration, calibration_cache
from dpicl.releasing.release import calibrate_mechanism
from tests.harness.privacy.makers import DELTA, SIZES, NoisyTokens, OneGaussian, SoftTokens


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by one for every search that is really done."""
    done: list[str] = []
    original = calibration._Search.proved

    def counted(search: calibration._Search) -> object:
        done.append(search.name)
        return original(search)

    monkeypatch.setattr(calibration._Search, "proved", counted)
    return done


def test_answers_are_remembered_on_disk(tmp_path: Path, searches: list[str]) -> None:
    first = calibrate_mechanism(OneGaussian(), SIZES, 1.0, DELTA, cache=tmp_path)
    assert calibrate_mechanism(OneGaussian(), SIZES, 1.0, DELTA, cache=tmp_path) == first
    assert len(searches) == 1
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


def test_every_input_has_an_answer_of_its_own(tmp_path: Path, searches: list[str]) -> None:
    other_sizes = Sizes(records={"Sports": 30001, "World": 40000}, shots=SIZES.shots)
    calibrate_mechanism(OneGaussian(), SIZES, 1.0, DELTA, cache=tmp_path)
    calibrate_mechanism(OneGaussian(1.0), SIZES, 1.0, DELTA, cache=tmp_path)
    calibrate_mechanism(OneGaussian(), SIZES, 2.0, DELTA, cache=tmp_path)
    calibrate_mechanism(OneGaussian(), SIZES, 1.0, 2 * DELTA, cache=tmp_path)
    calibrate_mechanism(NoisyTokens(), SIZES, 1.0, DELTA, cache=tmp_path)
    calibrate_mechanism(NoisyTokens(), other_sizes, 1.0, DELTA, cache=tmp_path)
    assert len(searches) == 6


def test_an_edited_mechanism_is_calibrated_anew(
    tmp_path: Path, searches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = calibrate_mechanism(OneGaussian(), SIZES, 1.0, DELTA, cache=tmp_path).knob
    original, knob = OneGaussian.events, OneGaussian.knob

    def edited(self: OneGaussian, value: float, sizes: Sizes) -> dp.DpEvent:
        known = value == math.sqrt(knob.low * knob.high)  # the key has this event
        return original(self, value, sizes) if known else dp.GaussianDpEvent(value / 2)

    monkeypatch.setattr(OneGaussian, "events", edited)
    assert calibrate_mechanism(OneGaussian(), SIZES, 1.0, DELTA, cache=tmp_path).knob > 1.4 * before
    assert len(searches) == 2


def test_an_edited_paper_formula_is_solved_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = calibrate_mechanism(SoftTokens(), SIZES, 1.0, DELTA, mode="paper", cache=tmp_path).knob
    monkeypatch.setattr(SoftTokens, "paper_epsilon", lambda self, knob, sizes, delta: 1 / knob)
    after = calibrate_mechanism(SoftTokens(), SIZES, 1.0, DELTA, mode="paper", cache=tmp_path).knob
    assert after == pytest.approx(1.0, rel=1e-3) != before


@pytest.mark.parametrize("damage", ["", "[]", '{"knob": 1.0, "bounds": {}, "event": {}}', "[" * 50_000], ids=len)
def test_a_damaged_file_is_written_again(tmp_path: Path, searches: list[str], damage: str) -> None:
    first = calibrate_mechanism(OneGaussian(), SIZES, 1.0, DELTA, cache=tmp_path)
    (path,) = tmp_path.glob("*.json")
    whole = path.read_text()
    path.write_text(damage)
    assert calibrate_mechanism(OneGaussian(), SIZES, 1.0, DELTA, cache=tmp_path) == first
    assert path.read_text() == whole
    assert len(searches) == 2


def test_an_answer_under_another_key_is_not_believed(tmp_path: Path, searches: list[str]) -> None:
    weak = calibrate_mechanism(OneGaussian(), SIZES, 8.0, DELTA, cache=tmp_path)
    (path,) = tmp_path.glob("*.json")
    kept = path.read_bytes()
    strong = calibrate_mechanism(OneGaussian(), SIZES, 1.0, DELTA, cache=tmp_path)
    assert strong.knob > weak.knob
    (other,) = set(tmp_path.glob("*.json")) - {path}
    other.write_bytes(kept)  # well formed, and less noise
    assert calibrate_mechanism(OneGaussian(), SIZES, 1.0, DELTA, cache=tmp_path) == strong
    assert len(searches) == 3


def test_no_damage_to_a_file_changes_an_answer(tmp_path: Path) -> None:
    """Single bits, cuts, digits exchanged: what is read is what was written, or nothing."""
    first = calibrate_mechanism(OneGaussian(), SIZES, 1.0, DELTA, cache=tmp_path)
    (path,) = tmp_path.glob("*.json")
    whole = path.read_bytes()
    name = path.stem
    chance = random.Random(5)
    flips = [(at, chance.randrange(8)) for at in range(len(whole))]
    damaged = [whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :] for at, bit in flips]
    damaged += [whole[:at] for at in range(0, len(whole), 5)]
    digits = [at for at in range(len(whole)) if chr(whole[at]).isdigit()]
    for _ in range(500):
        several = bytearray(whole)
        for at in chance.sample(digits, chance.randrange(1, 6)):
            several[at] = ord(chance.choice("0123456789"))
        damaged.append(bytes(several))
    believed = 0
    for content in damaged:
        path.write_bytes(content)
        stored = calibration_cache.read(tmp_path, name)
        if stored is not None:
            assert stored == (first.knob, first.bounds, first.event)
            believed += 1
    assert believed < len(damaged) / 20  # blanks, and digits that stand for the same number


def test_a_folder_that_cannot_be_made_only_costs_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert calibrate_mechanism(OneGaussian(), SIZES, 1.0, DELTA, cache=tmp_path / "file" / "below").bounds.upper <= 1.0


def test_the_default_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPICL_CACHE", str(tmp_path))
    calibrate_mechanism(OneGaussian(), SIZES, 1.0, DELTA)
    (path,) = (tmp_path / "calibration").iterdir()
    assert json.loads(path.read_text())["event"]["event"] == "gaussian"
    assert calibration_cache.folder(None) is None
