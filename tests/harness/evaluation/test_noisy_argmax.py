"""The chance that a coordinate is the largest under noise: against closed forms and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from dpicl.harness.evaluation.noisy_argmax import argmax_chance
from tests.examples import examples

VECTORS = st.lists(st.floats(-3, 30), min_size=1, max_size=12).map(np.array)
SCALES = st.floats(0.05, 20)


@settings(max_examples=examples(50), deadline=None)
@given(VECTORS, SCALES)
def test_chances_add_up_and_are_those_of_a_simulation(clean, scale):
    chances = np.array([argmax_chance(clean, scale, place) for place in range(len(clean))])
    assert chances.sum() == pytest.approx(1, abs=1e-9)
    draws = 4_000
    drawn = (clean + np.random.default_rng(0).normal(0, scale, (draws, len(clean)))).argmax(axis=1)
    shares = np.bincount(drawn, minlength=len(clean)) / draws
    assert (np.abs(shares - chances) <= 5.5 * np.sqrt(chances * (1 - chances) / draws) + 2 / draws).all()


@pytest.mark.parametrize("gap", [-40.0, -9.0, -1.5, 0.0, 0.3, 8.0, 40.0])
def test_two_coordinates_have_a_closed_form(gap):
    found = argmax_chance(np.array([gap * 3.0, 0.0]), 3.0, 0)
    assert found == pytest.approx(ndtr(gap / math.sqrt(2)), rel=1e-9, abs=1e-14)


def test_equal_coordinates_share_and_thousands_are_no_problem():
    assert argmax_chance(np.zeros(50_000), 0.7, 17) == pytest.approx(1 / 50_000, rel=1e-6)
    one = np.zeros(2_000)
    one[5] = 3.0
    others = argmax_chance(one, 1.0, 0)
    assert argmax_chance(one, 1.0, 5) == pytest.approx(1 - 1_999 * others, rel=1e-7)


def test_without_noise_the_first_of_the_largest_is_certain():
    clean = np.array([1.0, 2.0, 2.0])
    assert [argmax_chance(clean, 0.0, place) for place in range(3)] == [0.0, 1.0, 0.0]
