"""Several runs on one folder, some of them on other machines, some of them killed; and clocks that jump."""

from __future__ import annotations

import datetime
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.faults.deadly import in_child, start_child, wait_for
from tests.faults.places import Place, Undisturbed


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


class Jumping:
    """Clocks of the wall that jump by years at every look; monotonic ones go on."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def install(self) -> None:
        really, jump = time.time, self._jump

        class Odd(datetime.datetime):
            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return super().now(tz) + datetime.timedelta(seconds=jump())

        time.time = lambda: really() + jump()
        time.time_ns = lambda: int(time.time() * 1e9)
        for name, module in list(sys.modules.items()):
            if name.startswith("dpicl.") and getattr(module, "datetime", None) is datetime.datetime:
                module.datetime = Odd  # type: ignore[attr-defined]

    def _jump(self) -> float:
        return self._chance.choice([0.0, 3600.0, -3600.0, 3e8, -3e8])


def test_clocks_that_jump_change_nothing(place, undisturbed):
    here = place("odd")
    code, _ = in_child(here.words(), here.folder, Jumping(0).install)
    said = (here.folder / "said").read_text()
    assert code == 0 and "Traceback" not in said, said
    check_once(here, undisturbed, killed=0)
    years = {result["created"][:4] for result in _results(here)}
    assert years - {str(datetime.datetime.now(datetime.UTC).year)}, "no clock jumped"


def _results(here: Place) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in Path(here.results).rglob("*.json")]
