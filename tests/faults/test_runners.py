"""Several runs on one folder, some of them killed; and workers whose run is killed."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.faults.deadly import in_child, start_child, wait_for
from tests.faults.places import Place, Undisturbed
from tests.harness.helpers import children


def check_once(here: Place, undisturbed: Undisturbed, killed: int) -> None:
    assert here.outcomes() == undisturbed.outcomes
    assert max(here.releases().values()) <= 1 + killed
    assert here.left_over() == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(6))
def test_four_runs_on_one_folder_do_every_cell_once(place, undisturbed, seed):
    """One of them may be killed."""
    here, chance = place(str(seed)), random.Random(seed)
    words = here.words()
    folders = [here.folder / f"run{number}" for number in range(4)]
    for folder in folders:
        folder.mkdir()
    running = [start_child(words, folder) for folder in folders]
    victim = chance.randrange(4) if seed % 2 else None
    if victim is not None:
        time.sleep(chance.uniform(0, 3))
        os.kill(running[victim].pid, signal.SIGKILL)
    codes = [wait_for(child)[0] for child in running]
    said = [(folder / "said").read_text() for folder in folders]
    alive = [code for number, code in enumerate(codes) if number != victim]
    assert set(alive) == {0}, said
    done = [line for text in said for line in text.splitlines() if " in " in line and line.startswith("[")]
    assert victim is not None or len(done) == 3, said
    code, _ = in_child(words, here.folder)
    assert code == 0
    check_once(here, undisturbed, killed=int(victim is not None))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_worker_processes_die_with_the_run_that_started_them(dpicl_process, place):
    process = dpicl_process(*place("parent").words(), "--engine", "local", "--workers", 1)
    end = time.monotonic() + 120
    while not (workers := children(process.pid)):
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.02)
    process.kill()
    process.communicate()
    while any(_is_alive(pid) for pid in workers):
        assert time.monotonic() < end
        time.sleep(0.05)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
