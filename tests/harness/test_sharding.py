"""Parts of a suite that know nothing of each other."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.core.cell import Cell
from dpicl.plan.selection import shard
from dpicl.results.store import Store
from tests.faults.harness import MAY_DIFFER
from tests.leaderboards.factory import make_result


def cells(*of_models: int) -> list[Cell]:
    template = make_result().cell
    return [
        template.model_copy(update={"model": f"hf:{model}", "seed": seed})
        for model, number in enumerate(of_models)
        for seed in range(number)
    ]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(1, 12))
def test_every_cell_is_in_one_part_and_models_stay_together(of_models, parts):
    whole = cells(*of_models)
    found = [shard(whole, number, parts) for number in range(1, parts + 1)]
    assert Counter(cell.id for part in found for cell in part) == Counter(cell.id for cell in whole)
    sizes = [len(part) for part in found]
    assert max(sizes) - min(sizes) <= 1
    borders = sum(len({cell.model for cell in part}) - 1 for part in found if part)
    assert borders < max(1, len(of_models))  # a model begins in one part, and goes on in the next
    assert [cell.id for cell in shard(whole[::-1], 1, 1)] == [cell.id for cell in whole[::-1]]


def test_what_is_done_already_changes_no_part(dpicl, sim_suite, tmp_path):
    of_part = ("--mechanism", "zero_shot", "--seed", "0,1,2,3", "--shard", "2/3")
    words = [sim_suite, "--results", tmp_path, *of_part, "--json"]
    planned = [cell["id"] for cell in dpicl("plan", *words).json["cells"]]
    assert dpicl("run", *words).json["counts"]["done"] == len(planned)
    again = dpicl("run", *words).json["counts"]
    assert (again["done"], again["present"]) == (0, len(planned))
    assert [cell["id"] for cell in dpicl("plan", *words).json["cells"]] == planned


def outcomes(folder: Path) -> dict[str, object]:
    results, damaged = Store(folder, "sim_suite").load_all()
    assert damaged == []
    return {result.cell_id: result.model_dump(exclude=MAY_DIFFER) for result in results}


@pytest.mark.slow
def test_parts_make_the_suite_in_one_folder_and_copied_together(dpicl, sim_suite, tmp_path):
    assert dpicl("run", sim_suite, "--results", tmp_path / "whole").code == 0
    for number in (1, 2, 3):
        for folder in ("one", f"part{number}"):
            assert dpicl("run", sim_suite, "--results", tmp_path / folder, "--shard", f"{number}/3").code == 0
    for number in (3, 1, 2):
        shutil.copytree(tmp_path / f"part{number}", tmp_path / "all", dirs_exist_ok=True)
    whole = outcomes(tmp_path / "whole")
    assert len(whole) == 8
    assert outcomes(tmp_path / "one") == outcomes(tmp_path / "all") == whole
    boards = [dpicl("board", sim_suite, "--results", tmp_path / name, "--json").json for name in ("whole", "all")]
    answers = [[section["answers"] for section in board["sections"]] for board in boards]
    assert answers[0] == answers[1] and answers[0]
    done = dpicl("run", sim_suite, "--results", tmp_path / "all", "--json").json["counts"]
    assert done == {"done": 0, "present": 8, "skipped": 0, "failed": 0}
