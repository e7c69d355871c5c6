"""Parts of a suite that know nothing of each other, and the job array that runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.core.cell import Cell
from dpicl.plan.selection import shard
from dpicl.results.store import Store
from tests.faults.harness import MAY_DIFFER
from tests.harness.helpers import refuse
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
    words = [
        sim_suite,
        "--results",
        tmp_path,
        "--mechanism",
        "zero_shot",
        "--seed",
        "0,1,2,3",
        "--shard",
        "2/3",
        "--json",
    ]
    planned = [cell["id"] for cell in dpicl("plan", *words).json["cells"]]
    assert dpicl("run", *words).json["counts"]["done"] == len(planned)
    again = dpicl("run", *words).json["counts"]
    assert (again["done"], again["present"]) == (0, len(planned))
    assert [cell["id"] for cell in dpicl("plan", *words).json["cells"]] == planned


@pytest.mark.parametrize(
    "part",
    [
        "0/2",
        "3/2",
        "1/0",
        "1",
        "1/",
        "/2",
        "a/b",
        "-1/2",
        "1/2/3",
        "1/99999999",
        "²/3",
        "١/٢",
        "1/٢",
        "1/２",
        "9" * 5000 + "/2",
        "",
    ],
)
def test_a_part_that_there_is_not_is_refused(dpicl, sim_suite, tmp_path, part):
    refuse(dpicl("run", sim_suite, "--results", tmp_path, f"--shard={part}"), "--shard", "2/8")
    assert list(tmp_path.iterdir()) == []


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
    rankings = [[section["rankings"] for section in board["sections"]] for board in boards]
    assert rankings[0] == rankings[1] and rankings[0]
    done = dpicl("run", sim_suite, "--results", tmp_path / "all", "--json").json["counts"]
    assert done == {"done": 0, "present": 8, "skipped": 0, "failed": 0}


# --- dpicl slurm -----------------------------------------------------------------------------------------------------

#: Runs every job of an array, one after the other; a job that asks to be queued again runs again.
SBATCH = """\
range=$(sed -n 's/^#SBATCH --array=1-\\([0-9]*\\).*/\\1/p' "$1")
for SLURM_ARRAY_TASK_ID in $(seq "$range"); do
    export SLURM_ARRAY_TASK_ID SLURM_ARRAY_JOB_ID=7
    : > "$STAND_IN/queue"
    bash "$1" >> "$STAND_IN/log-$SLURM_ARRAY_TASK_ID" 2>&1 &
    job=$!
    until [ -z "${STOP_AFTER:-}" ] || grep -q "$STOP_AFTER" "$STAND_IN/log-$SLURM_ARRAY_TASK_ID"; do sleep 0.1; done
    if [ -n "${STOP_AFTER:-}" ]; then kill -USR1 "$job"; fi
    wait "$job"; echo $? >> "$STAND_IN/codes"
    while [ -s "$STAND_IN/queue" ]; do
        : > "$STAND_IN/queue"
        bash "$1" >> "$STAND_IN/log-$SLURM_ARRAY_TASK_ID" 2>&1
        echo $? >> "$STAND_IN/codes"
    done
done
"""


@pytest.fixture
def sbatch(tmp_path, monkeypatch):
    """sbatch(script) -> (exit codes of its jobs, their logs), by stand-ins for Slurm's commands."""
    tools, jobs = tmp_path / "tools", tmp_path / "jobs"
    for folder in (tools, jobs):
        folder.mkdir()
    for name, text in (("sbatch", SBATCH), ("scontrol", 'echo "$@" >> "$STAND_IN/queue"\n')):
        (tools / name).write_text(f"#!/usr/bin/env bash\n{text}")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("STAND_IN", str(jobs))

    def submit(script: str) -> tuple[list[str], str]:
        path = tmp_path / "job.sh"
        path.write_text(script)
        assert subprocess.run(["bash", "-n", str(path)]).returncode == 0
        subprocess.run(["sbatch", str(path)], check=True, cwd=tmp_path / "jobs")
        logs = "\n".join(log.read_text() for log in sorted(jobs.glob("log-*")))
        return (jobs / "codes").read_text().split(), logs

    return submit


def test_the_script_asks_for_what_was_asked_and_is_shell(dpicl, sim_suite, tmp_path, monkeypatch):
    monkeypatch.setenv("DPICL_CACHE", str(tmp_path / "a cache"))
    flags = ("--shards", 3, "--workers", 2, "--minutes", 30, "--cpus", 4, "--gpus=1", "--sbatch", "partition=night")
    answer = dpicl("slurm", sim_suite, "--results", tmp_path / "it's here", "--seed", "0,1", *flags, "--json")
    script = answer.json["script"]
    for line in ("array=1-3%2", "time=30", "cpus-per-task=4", "gpus=1", "partition=night"):
        assert f"#SBATCH --{line}\n" in script
    assert f"export DPICL_CACHE='{tmp_path}/a cache'" in script
    assert sum(answer.json["shards"]) == answer.json["cells"]
    (run,) = re.findall(r"^.* run .*--shard.*$", script, flags=re.MULTILINE)
    assert "--seed 0,1" in run and "--workers" not in run and "--gpus" not in run and "--json" not in run
    assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0
    plain = dpicl("slurm", sim_suite, "--shards", 2)
    assert plain.code == 0 and plain.out.startswith("#!") and "#SBATCH --array=1-2\n" in plain.out
    monkeypatch.delenv("DPICL_CACHE")  # where it is not set, setting it would move the budgets
    assert "DPICL_CACHE" not in dpicl("slurm", sim_suite, "--shards", 2).out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--shards", "99"), ("99", "8 cells")),
        (("--shards", "0"), ("--shards",)),
        (("--sbatch", "array=1-9"), ("array",)),
        (("--sbatch", "time=5"), ("--minutes",)),
        (("--results", "a\u202eb"), ("character",)),
        (("--sbatch", "comment=a'b"), ("comment",)),
        (("--sbatch", "comment=a\n#SBATCH --x=y"), ("comment",)),
        (("--sbatch", "partition"), ("NAME=VALUE",)),
        (("--mechanism", "nobody"), ("nobody",)),
        (("--shard", "1/2"), ("--shards",)),
    ],
)
def test_what_no_job_array_can_be_is_refused(dpicl, sim_suite, flags, words):
    refuse(dpicl("slurm", sim_suite, *flags), *words)


@pytest.mark.slow
def test_an_array_of_jobs_does_every_cell_once(dpicl, sim_suite, sbatch, tmp_path):
    script = dpicl("slurm", sim_suite, "--shards", 3, "--results", tmp_path / "results").out
    codes, logs = sbatch(script)
    assert codes == ["0"] * 3, logs
    assert len(re.findall(r"^\[\d+/\d+\] ", logs, flags=re.MULTILINE)) == 8
    assert dpicl("run", sim_suite, "--results", tmp_path / "whole").code == 0
    assert outcomes(tmp_path / "results") == outcomes(tmp_path / "whole")


@pytest.mark.slow
def test_a_job_whose_time_is_short_stops_and_is_queued_again(dpicl, tmp_path, sbatch, monkeypatch):
    suite = tmp_path / "long.yaml"
    suite.write_text(
        f"name: long\nversion: 1\nsource: synthetic\nmodel: sim\nseeds: {list(range(20))}\nepsilons: [4]\n"
        "tasks: [agnews]\ntest_records: 12\ntrain_records: 60\nmechanisms:\n  - {name: real_demonstrations}\n"
    )
    script = dpicl("slurm", suite, "--shards", 1, "--results", tmp_path / "results").out
    monkeypatch.setenv("STOP_AFTER", "^.3/20")
    codes, logs = sbatch(script)
    assert codes == ["0", "0"], logs
    assert "dpicl: stopped" in logs and "Traceback" not in logs
    last = dpicl("run", suite, "--results", tmp_path / "results", "--json").json
    assert last["counts"] == {"done": 0, "present": 20, "skipped": 0, "failed": 0}
    assert len(re.findall(r"^\[\d+/\d+\] ", logs, flags=re.MULTILINE)) == 20
    assert json.dumps(last)
