"""Calibration: the least noise that keeps the target."""

import math

import pytest
from dp_accounting import dp_event as dp

from dpicl.accounting.accountants import epsilon
from dpicl.core.errors import UnsupportedEvent, UsageError
from dpicl.mechanism.bases import Sizes
from dpicl.mechanisms.prism import Prism
from dpicl.mechanisms.tang import Tang
from dpicl.releasing.release import calibrate_mechanism
from tests.harness.accounting.makers import DELTA, SIZES, Fixed, FixedSize, OneGaussian, SoftTokens


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(0.1, marks=pytest.mark.slow),
        1.0,
        8.0,
    ],
)
def test_sampled_gaussians_end_just_below_the_target(target):
    sizes = Sizes({None: 30_000}, {None: 1})
    calibrated = calibrate_mechanism(Tang(), sizes, target, DELTA, cache=None)
    assert 0.98 * target <= calibrated.bounds.upper <= target
    assert calibrated.event == Tang().events(calibrated.knob, sizes)
    assert calibrated.bounds == epsilon(calibrated.event, DELTA)


@pytest.mark.parametrize(
    "row",
    [
        Tang(slots=8, tokens=12),
        Prism(prompts=32, tokens=12),
    ],
    ids=lambda row: row.name,
)
def test_each_label_has_the_noise_of_its_size_at_all_of_epsilon(row):
    sizes = Sizes(
        {"Abbreviation": 84, "Location": 835, "Entity": 1250},
        {"Abbreviation": 1, "Location": 1, "Entity": 2},
    )
    calibrated = calibrate_mechanism(row, sizes, 1.0, DELTA, cache=None)
    alone = {
        label: calibrate_mechanism(row, sizes.select_group(label), 1.0, DELTA, cache=None)
        for label in sizes.shots
    }
    assert calibrated.by_label == {label: one.knob for label, one in alone.items()}
    assert (
        calibrated.knob
        == max(calibrated.by_label.values())
        > 2 * calibrated.by_label["Location"]
        > 0
    )
    assert calibrated.event == row.events_of(calibrated.knob, calibrated.by_label, sizes)
    for _, branch in calibrated.event.branches:
        assert 0.98 <= epsilon(branch, DELTA).upper <= 1.0
    assert 0.98 <= epsilon(calibrated.event, DELTA).upper <= 1.0


def test_paper_mode_gives_the_published_temperature_and_proof():
    calibrated = calibrate_mechanism(SoftTokens(), SIZES, 1.0, 1e-4, mode="paper", cache=None)
    assert calibrated.knob == pytest.approx(1.1295, abs=1e-4)
    assert calibrated.mode == "paper"
    assert 0.98 <= calibrated.bounds.upper <= 1.0
    assert calibrated.bounds.accountants["proved"]["upper"] == pytest.approx(0.370, abs=1e-3)


def test_paper_mode_says_when_nothing_is_proved():
    calibrated = calibrate_mechanism(FixedSize(), SIZES, 1.0, DELTA, mode="paper", cache=None)
    assert calibrated.knob == pytest.approx(3.0, rel=1e-4)
    assert calibrated.bounds.accountants["proved"] is None
    assert any("nothing is proved" in note for note in calibrated.bounds.notes)


def test_infinite_epsilon_gives_the_non_private_knob():
    calibrated = calibrate_mechanism(Tang(), SIZES, math.inf, DELTA, cache=None)
    assert calibrated.knob == 0.0
    assert calibrated.bounds.upper == math.inf == epsilon(calibrated.event, DELTA).upper


def test_a_mechanism_without_a_knob_is_taken_as_it_is():
    free = calibrate_mechanism(Fixed(dp.NoOpDpEvent()), SIZES, 0.0, DELTA)
    assert free.knob == 0.0
    assert free.epsilon == 0.0
    assert free.bounds.upper == 0.0
    exposed = calibrate_mechanism(Fixed(dp.NonPrivateDpEvent()), SIZES, math.inf, DELTA)
    assert exposed.bounds.upper == math.inf
    with pytest.raises(UsageError, match="has no knob"):
        calibrate_mechanism(Fixed(dp.NonPrivateDpEvent()), SIZES, 8.0, DELTA)


def test_a_target_beyond_the_lower_end_takes_the_lower_end():
    calibrated = calibrate_mechanism(OneGaussian(), SIZES, 1e6, DELTA, cache=None)
    assert calibrated.knob == 0.1
    assert calibrated.bounds.upper < 1e6


def test_an_unreachable_target_says_what_to_change():
    with pytest.raises(UsageError, match=r"sigma = 50, its upper end, costs .* larger epsilon"):
        calibrate_mechanism(OneGaussian(), SIZES, 1e-3, DELTA, cache=None)


def test_modes_and_mechanisms_that_have_no_answer():
    with pytest.raises(UsageError, match="mode"):
        calibrate_mechanism(OneGaussian(), SIZES, 1.0, DELTA, mode="guess", cache=None)
    with pytest.raises(UsageError, match="no accounting of its paper"):
        calibrate_mechanism(OneGaussian(), SIZES, 1.0, DELTA, mode="paper", cache=None)
    with pytest.raises(UnsupportedEvent, match="Poisson slots"):
        calibrate_mechanism(FixedSize(), SIZES, 1.0, DELTA, cache=None)
