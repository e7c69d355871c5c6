"""A permit is one release: with the charged noise, from the run's source, once; a sample is read while it is open."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event as dp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpicl.accounting.events import bounded_range, bounded_range_choice, gaussian
from dpicl.accounting.ledger import Ledger
from dpicl.core.errors import BudgetExceeded, PluginError, UnsupportedEvent
from dpicl.core.exact_noise import step_of
from dpicl.core.seeds import SecureNoise, SeededNoise, Streams
from dpicl.privacy.private_set import Sample
from dpicl.privacy.release_hooks import Permit, round_to_grid
from dpicl.privacy.secure_release import sum_margin
from tests.examples import examples
from tests.harness.accounting.makers import Row, private_set
from tests.samples import noisy_releases

TEXTS = [f"text {i}" for i in range(12)]


class Scales(SeededNoise):
    """Ordinary noise that notes what was asked for."""

    def __init__(self):
        super().__init__(lambda shot: np.random.default_rng(0))
        self.asked = []

    def gaussian(self, scale, size):
        self.asked.append(("gaussian", scale))
        return super().gaussian(scale, size)

    def gumbel(self, size):
        self.asked.append(("gumbel", 1.0))
        return super().gumbel(size)


def sampler(private, releases=None, times=3):
    return private.poisson_slots(
        12, 4, partition="a", releases=releases or gaussian(1.0), times=times
    )


@pytest.mark.parametrize("multiplier", [0.3, 1.0, 17.0])
def test_the_noise_of_a_sum_is_the_charged_multiple_of_its_bound(multiplier):
    for event in (
        gaussian(multiplier),
        dp.ZCDpEvent(1 / (2 * multiplier**2)),
    ):
        noise = Scales()
        Permit(event, noise).noisy_sum(np.zeros(3), bound=2.5)
        assert noise.asked == [("gaussian", pytest.approx(2.5 * multiplier))]


@pytest.mark.parametrize("event", [bounded_range_choice(0.5), bounded_range(0.5)])
def test_the_temperature_of_a_choice_is_that_of_its_range(event):
    with noisy_releases() as releases:
        Permit(event, Scales()).noisy_choice(np.zeros(3), 2.0)
    assert releases[0].scale == pytest.approx(2.0 / 0.5)


def test_a_permit_is_used_once_whatever_it_is_used_for():
    for first in ("noisy_sum", "noisy_choice", "joint_choice"):
        noise = Scales()
        permit = Permit(dp.NonPrivateDpEvent(), noise)
        rows = [np.zeros(2)] if first == "joint_choice" else np.zeros(2)
        getattr(permit, first)(rows, 1.0)
        for second in ("noisy_sum", "noisy_choice"):
            with pytest.raises(BudgetExceeded, match="was used"):
                getattr(permit, second)(np.zeros(2), 1.0)


@pytest.mark.parametrize(
    ("event", "use"),
    [
        (gaussian(1.0), "noisy_choice"),
        (bounded_range_choice(1.0), "noisy_sum"),
    ],
)
def test_a_permit_of_one_kind_draws_nothing_of_the_other(event, use):
    noise = Scales()
    with pytest.raises(UnsupportedEvent):
        getattr(Permit(event, noise), use)(np.zeros(2), 1.0)
    assert noise.asked == []


def test_one_permit_is_for_one_release_of_one_kind():
    both = dp.ComposedDpEvent([gaussian(1.0), bounded_range_choice(1.0)])
    with pytest.raises(UnsupportedEvent, match="one by one"):
        Sample(((),), both, Scales()).spend(both)
    twice = dp.SelfComposedDpEvent(gaussian(1.0), 2)
    with pytest.raises(UnsupportedEvent):
        Sample(((),), twice, Scales()).spend(twice).noisy_sum(np.zeros(2), 1.0)


def test_without_noise_nothing_is_asked_of_the_source():
    noise = Scales()
    sample = Sample(((),), dp.NonPrivateDpEvent(), noise)
    for _ in range(3):
        released = sample.spend(dp.NonPrivateDpEvent()).noisy_sum(np.arange(3.0), 1.0)
        assert released.tolist() == [0, 1, 2]
    assert {scale for _, scale in noise.asked} <= {0.0}


def test_a_sample_closes_when_its_sampler_draws_again():
    drawing = sampler(private_set(TEXTS))
    first = drawing.draw()
    (record, *_) = [record for slot in first.slots for record in slot]
    assert record.text.startswith("text")
    second = drawing.draw()
    assert second.slots
    for read in (lambda: first.slots, lambda: record.text, lambda: record.label):
        with pytest.raises(PluginError, match="closed sample"):
            read()
    with pytest.raises(BudgetExceeded, match="closed"):
        first.spend(gaussian(1.0))


def test_a_set_that_is_closed_gives_nothing_any_more():
    private = private_set(TEXTS)
    drawing = sampler(private)
    sample = drawing.draw()
    sample.spend(gaussian(1.0)).noisy_sum(np.zeros(2), 1.0)
    assert private.close() == 1
    with pytest.raises(PluginError):
        _ = sample.slots
    with pytest.raises(BudgetExceeded):
        sample.spend(gaussian(1.0))
    assert not any(drawing.draw().slots)
    assert private.reveal() == []


@pytest.mark.parametrize(
    ("release", "use", "argument"),
    [
        (gaussian(1.0), "noisy_sum", np.zeros(2)),
        (bounded_range_choice(1.0), "noisy_choice", np.zeros(2)),
        (bounded_range_choice(1.0), "joint_choice", [np.zeros(2)]),
        (dp.NonPrivateDpEvent(), "noisy_sum", np.zeros(2)),
    ],
    ids=["sum", "choice", "joint", "non-private"],
)
@pytest.mark.parametrize("end", ["draw", "close the sampler", "close the set"])
def test_a_permit_ends_with_the_sample_that_it_was_charged_for(release, use, argument, end):
    """Kept, it made a release that looks at several samples from the charge of one, or after the run."""
    noise = Scales()
    private = private_set(TEXTS, noise=noise)
    drawing = sampler(private, releases=release)
    permit = drawing.draw().spend(release)
    {"draw": drawing.draw, "close the sampler": drawing.close, "close the set": private.close}[
        end
    ]()
    with pytest.raises(BudgetExceeded, match="closed"):
        getattr(permit, use)(argument, 1.0)
    assert noise.asked == []
    assert private.close() == 0


def test_permits_of_one_sample_are_used_in_any_order():
    private = private_set(TEXTS)
    sample = sampler(private, releases=dp.SelfComposedDpEvent(gaussian(1.0), 2)).draw()
    first = sample.spend(gaussian(1.0))
    second = sample.spend(gaussian(1.0))
    for permit in (second, first):
        permit.noisy_sum(np.zeros(2), 1.0)
    assert private.close() == 2


def test_slots_and_samples_cannot_be_changed():
    sample = sampler(private_set(TEXTS)).draw()
    assert isinstance(sample.slots, tuple)
    assert all(isinstance(slot, tuple) for slot in sample.slots)
    record = next(record for slot in sample.slots for record in slot)
    for change in (
        lambda: setattr(sample, "slots", ()),
        lambda: setattr(record, "text", "other"),
        lambda: setattr(record, "label", "other"),
    ):
        with pytest.raises(AttributeError):
            change()


def find_reachable(thing, depth=6, reached=None):
    """Everything that attributes, items and slots of an object lead to (not what functions close over)."""
    reached = {} if reached is None else reached
    if (
        id(thing) in reached
        or depth < 0
        or isinstance(thing, str | bytes | int | float | type(None) | np.ndarray | type)
    ):
        return reached
    reached[id(thing)] = thing
    names = [
        *getattr(thing, "__dict__", {}),
        *getattr(type(thing), "__slots__", ()),
    ]
    parts = [getattr(thing, name, None) for name in names]
    if isinstance(thing, dict):
        parts += [*thing.keys(), *thing.values()]
    if isinstance(thing, list | tuple | set | frozenset):
        parts += list(thing)
    for part in parts:
        find_reachable(part, depth - 1, reached)
    return reached


def test_a_mechanism_reaches_no_record_no_ledger_and_no_noise():
    noise = Scales()
    private = private_set(TEXTS, noise=noise)
    drawing = sampler(private)
    reached = list(
        find_reachable(
            [
                private,
                drawing,
                drawing.draw(),
                Streams(0).public,
            ]
        ).values()
    )
    assert not any(isinstance(each, Row | Ledger | SeededNoise | Streams) for each in reached)


@pytest.mark.parametrize("name", ["noise", "sampling"])
def test_public_streams_give_none_of_noise_or_sampling(name):
    with pytest.raises(PluginError, match="choose another name"):
        Streams(0).public.stream(name)
    assert Streams(0).public.stream("order").random() == Streams(0).stream("order").random()


@pytest.mark.parametrize(
    "event", [dp.NonPrivateDpEvent(), bounded_range_choice(1e9), gaussian(1.0)]
)
def test_a_release_that_is_spent_no_times_gives_no_permit(event):
    """It cost nothing, and its permit let an exact sum, or a choice of any range, through."""
    noise = Scales()
    never = dp.SelfComposedDpEvent(event, 0)
    with pytest.raises(UnsupportedEvent):
        Sample(((),), gaussian(1.0), noise).spend(never)
    with pytest.raises(UnsupportedEvent):
        Permit(never, noise)
    assert noise.asked == []


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf])
def test_noise_is_not_scaled_away_by_the_bound(bound):
    noise = Scales()
    with pytest.raises(PluginError, match="above 0"):
        Permit(gaussian(1.0), noise).noisy_sum(np.zeros(2), bound)
    for use in ("noisy_choice", "joint_choice"):
        with pytest.raises(PluginError, match="above 0"):
            getattr(Permit(bounded_range_choice(1.0), noise), use)(
                np.zeros((1, 2)),
                bound,
            )
    assert noise.asked == []


#: Sums that lie on no grid, or far from it.
HOSTILE_SUMS = st.lists(
    st.floats()
    | st.sampled_from(
        [
            0.1,
            2**-60,
            1e300,
            -1e300,
            math.inf,
            -math.inf,
            math.nan,
            2.0**53 + 2,
        ]
    ),
    min_size=1,
    max_size=6,
).map(np.array)
STEP = step_of(2.0 * (1 + sum_margin(2.0, 64)))


@pytest.mark.parametrize(
    "noise",
    [Scales(), SecureNoise()],
    ids=["seeded", "secure"],
)
@pytest.mark.parametrize("grid", [STEP / 4, STEP, 2.0**-10, 16.0])
@given(clean=HOSTILE_SUMS)
@settings(max_examples=examples(50))
def test_a_release_on_a_grid_is_a_multiple_whatever_the_sum_is(noise, grid, clean):
    """The noise was rounded and the sum was not, so the released value modulo the grid was the sum modulo the grid."""
    for event in (gaussian(2.0), dp.NonPrivateDpEvent()):
        steps = Permit(event, noise).noisy_sum(clean, 1.0, grid) / grid
        assert np.array_equal(steps, np.rint(steps))
        assert np.isfinite(steps).all()


@pytest.mark.parametrize(
    "noise",
    [Scales(), SecureNoise()],
    ids=["seeded", "secure"],
)
@pytest.mark.parametrize("grid", [STEP, 2 * STEP, 2.0**-10])
def test_noise_on_a_grid_takes_odd_and_even_multiples(noise, grid):
    """Secure noise is whole steps and a half; on a grid of its own step all of it was rounded to even multiples, so
    that what was released told whether the sum was even."""
    released = Permit(gaussian(2.0), noise).noisy_sum(np.zeros(64), 1.0, grid)
    assert set(np.rint(released / grid) % 2) == {0.0, 1.0}


@given(
    st.integers(1, 6).flatmap(
        lambda size: st.tuples(
            *[
                arrays(
                    np.float64,
                    size,
                    elements=st.floats(-9, 9),
                )
            ]
            * 2
        )
    )
)
@settings(max_examples=examples(100))
def test_the_noise_pays_for_the_rounding_of_a_sum(sums):
    """And nothing is added to that of whole numbers, which stay as they are."""
    (one, rounding), (other, _) = (round_to_grid(each, 0.25) for each in sums)
    assert np.linalg.norm(one - other) <= np.linalg.norm(sums[0] - sums[1]) + rounding + 1e-12
    noise = Scales()
    Permit(gaussian(3.0), noise).noisy_sum(sums[0], 2.0, 0.25)
    assert noise.asked == [("gaussian", 3.0 * (2.0 + rounding))]
    whole, none = round_to_grid(
        np.rint(sums[0]).astype(np.int64),
        0.25,
    )
    assert none == 0 and np.array_equal(whole * 4, np.rint(sums[0]))


@pytest.mark.parametrize(
    "grid",
    [0.1, -0.5, math.nan, math.inf, 3.0, 5e-324, 2.0**1000],
)
def test_a_grid_that_floats_do_not_hold_is_refused_before_noise(grid):
    noise = Scales()
    with pytest.raises(PluginError, match="power of 2"):
        Permit(gaussian(1.0), noise).noisy_sum(np.zeros(2), 1.0, grid)
    assert noise.asked == []
