"""A run is killed at system calls that touch its results folder and its cache, SQLite's own among them."""

from __future__ import annotations

import random
import shutil
import signal
from collections import defaultdict
from collections.abc import Callable, Sequence

import pytest

from tests.faults.places import Place, Undisturbed, check_resumed
from tests.faults.strace import Call, calls, killed_at, usable

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif("not usable()", reason="needs strace, and the right to use it"),
]
assert usable is not None  # for the condition above

POINTS = 100


def spread(found: Sequence[Call], count: int) -> list[Call]:
    """So many of the calls: of every name some, of frequent ones more."""
    chance, by_name = random.Random(0), defaultdict(list)
    for call in found:
        by_name[call.name].append(call)
    for each in by_name.values():
        chance.shuffle(each)
    chosen: list[Call] = []
    while len(chosen) < min(count, len(found)):
        for each in by_name.values():
            chosen += [each.pop()] if each else []
    return chosen[:count]


def test_a_run_that_is_killed_at_system_calls_loses_nothing(
    place: Callable[..., Place], undisturbed: Undisturbed
) -> None:
    traced = place("traced")
    found = calls(traced.words(), traced.folder)
    chosen = spread(found, POINTS)
    assert len(chosen) == POINTS and {"link", "fsync", "write", "unlink"} <= {call.name for call in chosen}
    killed = 0
    for number, call in enumerate(chosen):
        here = place(str(number))
        code = killed_at(call, here.words(), here.folder)
        assert code in (0, -signal.SIGKILL), (call, code, (here.folder / "said").read_text())
        killed += code == -signal.SIGKILL
        check_resumed(here, undisturbed, set())
        shutil.rmtree(here.folder)
    assert killed > POINTS * 0.9
