"""Runs that are killed between any two things that they do to a file, and at random times: nothing is lost, nothing is
done twice, nothing stays behind.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.deadly import run_forked
from tests.faults.places import Place, Undisturbed, check_resumed
from tests.harness.helpers import children

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


def check_point(place: Callable[..., Place], undisturbed: Undisturbed, point: int, group: bool) -> None:
    here = place(f"{point}{group}")
    code, _ = run_forked(here.words(), here.folder, point, group)
    assert code == -signal.SIGKILL, (point, (here.folder / "said").read_text())
    check_resumed(here, undisturbed, set())
    shutil.rmtree(here.folder)


def test_a_run_that_is_killed_at_a_few_points_loses_nothing(place, undisturbed):
    assert undisturbed.points > 100
    for point in random.Random(0).sample(range(1, undisturbed.points + 1), 1):
        check_point(place, undisturbed, point, group=False)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_run_that_is_killed_at_every_point_of_the_writing_loses_nothing(place, undisturbed):
    for point in range(1, undisturbed.points + 1):
        check_point(place, undisturbed, point, group=point % 3 == 0)


def killed_at_random(process: subprocess.Popen[str], seconds: float, victim: str, chance: random.Random) -> None:
    """Kills a run, its process group or one of its workers after a while, unless it has ended; returns when it has."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        workers = sorted(children(process.pid))
        if victim == "worker" and workers:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(workers), signal.SIGKILL)
        elif victim == "group":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.communicate()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("victim", ["worker", "parent", "group"])
@pytest.mark.parametrize("seed", range(4))
def test_a_run_with_workers_that_is_killed_at_random_times_loses_nothing(
    dpicl_process, place, undisturbed, seed, victim
):
    chance = random.Random(f"local {seed} {victim}")
    here = place(f"{victim}{seed}")
    process = dpicl_process(*here.words(), "--engine", "local", "--workers", 2, process_group=0)
    workers: set[int] = set()
    while not workers and process.poll() is None:
        workers = children(process.pid)
        time.sleep(0.02)
    killed_at_random(process, chance.uniform(0, 15), victim, chance)
    if victim == "worker":
        assert process.returncode == 0
        assert here.outcomes() == undisturbed.outcomes
        assert max(here.releases().values()) <= 2
    check_resumed(here, undisturbed, here.labels() if victim == "worker" else set())
