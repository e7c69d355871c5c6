"""What every answer mechanism must hold, on neighbouring sets, with a reader that tries to break it."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpicl.mechanism.bases import FinalPrompt
from dpicl.mechanisms import ksa as ksa_file
from dpicl.mechanisms.esa import ESA
from dpicl.mechanisms.ksa import KSA
from dpicl.mechanisms.product_of_experts import ProductOfExperts
from dpicl.mechanisms.sga import SGA
from dpicl.privacy import cluster_tree, primitives, release_hooks, top_k
from dpicl.privacy.sampling_schemes import SCHEMES
from tests.examples import examples
from tests.mechanisms.answering import (
    ALL,
    QUERIES,
    RECORDS,
    HashReader,
    run_one,
)

HOSTILE = st.text(alphabet="ab@#~\"'\n é0{}%", max_size=20)
HYPOTHESIS = settings(
    max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def bounded_rows(name, texts, way, seed, monkeypatch, **options):
    """The rows behind every bounded sum of a run, after they were bounded; for top-k and trees, what goes in."""
    seen = []

    def spy(module, function):
        original = getattr(module, function)

        def observed(*arguments):
            seen.append(original(*arguments))
            return seen[-1]

        return module, function, observed

    class Observed(top_k.NoisyTopK):
        def choose(self, rows, sample):
            seen.append(rows)
            return super().choose(rows, sample)

    with monkeypatch.context() as patch:
        patch.setattr(*spy(primitives, "project_sub_simplex"))
        patch.setattr(*spy(primitives, "clip_norm"))
        patch.setattr(*spy(primitives, "clip_log_probs"))
        patch.setattr(*spy(cluster_tree, "clip_norm"))
        patch.setattr(ksa_file, "NoisyTopK", Observed)
        run_one(name, texts, way=way, seed=seed, **options)
    return seen


@pytest.mark.parametrize("shown", [1, 2])
@pytest.mark.parametrize("way", SCHEMES)
@pytest.mark.parametrize("name", ALL)
@given(record=HOSTILE, seed=st.integers(0, 50))
@HYPOTHESIS
def test_one_more_record_moves_one_bounded_row_by_no_more_than_stated(name, way, shown, record, seed, monkeypatch):
    """It replaces a row of M; with one example a slot, where queries do not share their slots, it adds one."""
    mechanism = dataclasses.replace(ALL[name][0], partition=way, examples_per_slot=shown)
    without, with_it = (
        bounded_rows(name, texts, way, seed, monkeypatch, examples_per_slot=shown)
        for texts in (RECORDS, [*RECORDS, record])
    )
    assert len(without) == len(with_it) == len(QUERIES)
    own = mechanism.scheme.own_slots
    assert own == (shown == 1 and way != "once")
    rows = 1 if own else 2
    for a, b in zip(without, with_it, strict=True):
        if own:
            assert 0 <= len(b) - len(a) <= 1
            assert np.array_equal(b[: len(a)], a)  # the record comes last
        else:
            assert len(a) == len(b) == mechanism.slots
            assert sum(not np.array_equal(x, y) for x, y in zip(a, b, strict=True)) <= 1
        move = b.sum(axis=0) - a.sum(axis=0)
        if isinstance(mechanism, KSA):
            assert set(np.unique(move)) <= ({0, 1} if own else {-1, 0, 1})
        elif isinstance(mechanism, ESA):
            assert np.linalg.norm(move) <= rows * mechanism.radius + 1e-9
        elif isinstance(mechanism, ProductOfExperts):
            assert np.ptp(move) <= rows * mechanism.clip + 1e-9
        elif not isinstance(mechanism, SGA):  # its points: tests of the tree
            assert np.linalg.norm(move) <= math.sqrt(rows) + 1e-9


@pytest.mark.parametrize("way", SCHEMES)
@pytest.mark.parametrize("name", ALL)
def test_what_a_release_states_is_half_or_a_root_less_where_every_record_has_a_slot(name, way, monkeypatch):
    stated = {}
    for shown in (1, 2):
        seen = stated[shown] = []
        for method in ("noisy_sum", "_choices"):
            original = getattr(release_hooks.Permit, method)

            def spy(permit, clean, bound, *more, original=original, seen=seen, **settings):
                seen.append(bound)
                return original(permit, clean, bound, *more, **settings)

            monkeypatch.setattr(release_hooks.Permit, method, spy)
        run_one(name, way=way, examples_per_slot=shown)
        monkeypatch.undo()
    ratios = {round(a / b, 6) for a, b in zip(stated[1], stated[2], strict=True)}
    less = {
        "esa": {0.5},
        "ksa": {0.5},
        "product_of_experts": {0.5},
        "sga": {0.5, 0.707107},
        "sga_out": {0.5, 0.707107},
    }.get(name, {0.707107})
    if isinstance(ALL[name][0], SGA):  # its radius is that of public answers, which have as many examples
        ratios &= {0.5, 0.707107, 1.0}
    assert ratios == ({1.0} if way == "once" else less)


@pytest.mark.parametrize("name", ALL)
def test_nobody_who_says_anything_still_leaves_a_public_answer(name):
    reader = HashReader(fixed="")
    for knob in (0.0, 1.0):
        answers, _, _ = run_one(name, reader=reader, knob=knob)
        assert all(isinstance(answer, str | FinalPrompt) for answer in answers)
    if name.startswith("sga"):
        assert answers == [""] * len(QUERIES)
