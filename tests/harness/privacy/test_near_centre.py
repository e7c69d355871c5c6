"""Sums drawn into a ball around a public point: what one record moves, whatever radius was released, and the noise."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpicl.accounting.accountants import epsilon
from dpicl.accounting.events import gaussian
from dpicl.core.errors import UsageError
from dpicl.mechanisms.adadpsyn import RADII
from dpicl.privacy.near_centre import NearCentre
from dpicl.privacy.primitives import GaussianSum
from dpicl.privacy.release_hooks import NoisyRelease, observing
from tests.harness.accounting.makers import WILD, Recorder, make_noise, pay
from tests.samples import noisy_releases

SIZE = 5
IDS = np.arange(SIZE) + 10
CENTRE = np.array([0.4, 0.3, 0.2, 0.1, 0.0])
ROWS = arrays(np.float64, (3, SIZE), elements=WILD)


class Answering:
    """Answers the histogram with all slots in one bin, and keeps what was to be released."""

    def __init__(self, at: int) -> None:
        self.at, self.releases = at, list[NoisyRelease]()

    def intercept(self, noisy_release, draw):
        self.releases.append(noisy_release)
        out = draw()
        return 100.0 * np.eye(len(out))[self.at] if len(self.releases) == 1 else out


def release_rows(rows, at, own_slots, noise=None):
    nearby = NearCentre(1.0, RADII, 3.0, own_slots=own_slots)
    watch = Answering(at)
    with observing(watch):
        sample = pay(nearby, noise or Recorder(), own_slots=len(rows) if own_slots else None)
        nearby.choose(rows, CENTRE, sample, IDS)
    return watch.releases


@pytest.mark.parametrize("own_slots", [False, True])
@given(
    rows=ROWS,
    other=arrays(np.float64, SIZE, elements=WILD),
    at=st.integers(0, len(RADII)),
)
def test_one_record_moves_both_releases_by_at_most_their_bounds(rows, other, at, own_slots):
    changed = np.vstack([rows, other]) if own_slots else np.vstack([rows[:-1], other])
    for before, after in zip(
        release_rows(rows, at, own_slots), release_rows(changed, at, own_slots), strict=True
    ):
        assert before.bound == after.bound and before.scale == after.scale
        assert np.linalg.norm(after.clean - before.clean) <= before.bound * (1 + 1e-12)


@pytest.mark.parametrize("own_slots", [False, True])
def test_the_bound_is_met_and_the_noise_is_a_multiple_of_it(own_slots):
    corner = np.eye(SIZE)[0]
    far = np.eye(SIZE)[4]
    shares = (0.1, 0.9)
    for at in range(len(RADII) + 1):
        near = release_rows(np.array([corner, corner, corner]), at, own_slots)
        moved = release_rows(
            np.array([corner, corner, corner, far] if own_slots else [corner, corner, far]),
            at,
            own_slots,
        )
        for release, share in zip(near, shares, strict=True):
            assert release.scale / release.bound == pytest.approx(1 / math.sqrt(share))
        assert np.linalg.norm(moved[1].clean - near[1].clean) >= 0.6 * near[1].bound
    radii = [
        release_rows(
            np.zeros((3, SIZE)),
            at,
            own_slots,
        )[1].bound
        for at in range(len(RADII))
    ]
    assert radii == [
        pytest.approx(
            min(
                (1 if own_slots else 2) * radius,
                math.sqrt(2),
            )
        )
        for radius in RADII
    ]


def test_both_releases_cost_what_one_gaussian_of_the_knob_costs():
    assert epsilon(NearCentre(0.8, RADII, 3.0).event, 1e-5).upper == pytest.approx(
        epsilon(gaussian(0.8), 1e-5).upper, rel=1e-9
    )


def test_slots_that_agree_get_a_small_ball_others_the_plain_sum():
    same = np.tile(CENTRE, (3, 1))
    nearby = NearCentre(1e-6, RADII, 3.0)
    for rows, bound in (
        (same, 2 * RADII[0]),
        (
            np.eye(SIZE)[[4, 4, 4]],
            math.sqrt(2),
        ),
    ):
        with noisy_releases() as releases:
            nearby.choose(rows, CENTRE, pay(nearby, make_noise()), IDS)
        assert releases[1].bound == pytest.approx(bound)


@given(rows=ROWS)
def test_without_noise_the_plain_sum_decides(rows):
    off, plain = NearCentre(0.0, RADII, 3.0), GaussianSum(0.0)
    assert off.choose(
        rows,
        CENTRE,
        pay(off, make_noise()),
        IDS,
    ) == plain.choose(rows, pay(plain, make_noise()), IDS)


@pytest.mark.parametrize(
    "wrong",
    [
        {"radii": ()},
        {"radii": (0.2, 0.1)},
        {"share": 0.0},
        {"histogram_share": 1.0},
    ],
)
def test_settings_that_mean_nothing_are_refused(wrong):
    with pytest.raises(UsageError):
        NearCentre(**{"noise_multiplier": 1.0, "radii": RADII, "expected": 3.0, **wrong})
