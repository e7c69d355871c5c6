"""Submitting what a default run wrote: own results are no duplicates, and missing seeds name a command."""

from __future__ import annotations

import shlex
import shutil

from dpicl.program import parse
from tests.leaderboards.gate.conftest import World


def test_what_ones_own_run_left_in_the_results_folder_is_no_duplicate(world: World):
    shutil.copytree(world.folder / "results", world.results, dirs_exist_ok=True)  # `dpicl run` without --results
    assert world.status("duplicates")[0] == "ok"


def test_too_few_seeds_name_the_command_that_runs_more(world: World):
    world.files[0].unlink()
    status, said = world.status("seeds")
    assert status == "failed"
    words = shlex.split(said.partition("`")[2].partition("`")[0])
    found = parse(words[1:]).given
    assert found["plugins"] == [world.folder / "vote.py"] and found["results"] == world.folder / "results"
    assert found["seed"] == list(range(5)) and found["mechanism"] and found["task"] and found["epsilon"]
