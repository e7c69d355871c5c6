"""Jobs of Slurm: by submitit's own executor on this machine, and through a stand-in for Slurm's commands."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dpicl.harness.core.errors import DataError, UsageError
from dpicl.harness.run import slurm_engine, worker
from dpicl.harness.run.engine_settings import EngineSettings
from dpicl.harness.run.engines import make_engine
from dpicl.harness.run.fingerprints import Fingerprints
from dpicl.harness.run.results import SuiteReference
from dpicl.harness.run.slurm_engine import Shard
from dpicl.harness.run.store import Store
from dpicl.harness.run.worker import Done, Job
from tests.harness.helpers import refuse
from tests.harness.secure_suite import rows_of, suite, write_records
from tests.harness.test_engines import mortal, outcomes  # noqa: F401
from tests.leaderboards.factory import make_result

#: Slurm's commands, as far as submitit uses them: a job is a process group of this machine.
COMMANDS = {
    "sbatch": """\
id=$(( $(ls "$SLURM_STAND_IN" | grep -c script) + 101 ))
cp "$1" "$SLURM_STAND_IN/script-$id"
export SLURM_JOB_ID=$id SLURM_NTASKS=1 SLURM_JOB_NUM_NODES=1 SLURM_NODEID=0 SLURM_PROCID=0 SLURM_LOCALID=0
export SLURM_JOB_NODELIST=here
sed "s/%j/$id/g; s/%t/0/g" "$1" > "$SLURM_STAND_IN/run-$id"
setsid bash "$SLURM_STAND_IN/run-$id" > /dev/null 2>&1 < /dev/null &
echo $! > "$SLURM_STAND_IN/process-$id"
echo "Submitted batch job $id"
""",
    "srun": """\
while [[ "$1" == --* ]]; do
    case "$1" in --output) out="$2"; shift 2 ;; --error) err="$2"; shift 2 ;; *) shift ;; esac
done
exec "$@" > "$out" 2> "$err"
""",
    "sacct": """\
echo "JobID|State|NodeList"
for word in "$@"; do
    if [[ -f "$SLURM_STAND_IN/process-$word" ]]; then
        kill -0 "$(cat "$SLURM_STAND_IN/process-$word")" 2> /dev/null && state=RUNNING || state=COMPLETED
        echo "$word|$state|here"
    fi
done
""",
    "scancel": 'kill -KILL -- -"$(cat "$SLURM_STAND_IN/process-$1")"\n',
}


@pytest.fixture
def slurm(tmp_path, monkeypatch) -> Path:
    """The folder in which the stand-in keeps its jobs."""
    tools, jobs = tmp_path / "tools", tmp_path / "jobs"
    tools.mkdir()
    jobs.mkdir()
    for name, text in COMMANDS.items():
        (tools / name).write_text(f"#!/usr/bin/env bash\n{text}")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_STAND_IN", str(jobs))
    return jobs


def finished(process: Any) -> dict[str, Any]:
    """What a run answers that ends well."""
    out, err = process.communicate()
    assert process.returncode == 0, err
    return json.loads(out)


@pytest.mark.cluster
@pytest.mark.timeout(1800)
def test_jobs_do_every_cell_once_and_a_dead_one_costs_one_more_try(dpicl, dpicl_process, mortal, tmp_path):  # noqa: F811
    suite, plugin, log = mortal({0: 0, 1: 1, 2: 0})
    words = ["run", suite, "--plugin", plugin, "--json", "--results"]
    flags = ("--engine", "slurm", "--scheduler", "local", "--workers", 2, "--cpus", 1, "--minutes", 30)
    answer = finished(dpicl_process(*words, tmp_path / "slurm", *flags))
    assert answer["counts"] == {"done": 3, "present": 0, "skipped": 0, "failed": 0}
    assert Counter(log.read_text().split())["1"] == 2
    log.write_text("1\n")
    assert dpicl(*words, tmp_path / "inline").code == 0
    assert outcomes(tmp_path / "slurm") == outcomes(tmp_path / "inline")


@pytest.mark.cluster
@pytest.mark.timeout(1800)
def test_sbatch_gets_what_was_asked_for_and_at_most_so_many_jobs(
    dpicl,
    dpicl_process,
    mortal,  # noqa: F811
    slurm,
    tmp_path,
):
    suite, plugin, log = mortal({0: 0, 1: 0})
    words = ["run", suite, "--plugin", plugin, "--json", "--results", tmp_path / "slurm", "--engine", "slurm"]
    flags = ("--workers", 1, "--cpus", 1, "--minutes", 30, "--sbatch", "partition=night")
    dry = dpicl(*words, *flags, "--dry-run")
    assert dry.code == 0 and dry.json["jobs"] == [2]
    assert list(slurm.iterdir()) == [] and not (tmp_path / "slurm").exists()
    assert finished(dpicl_process(*words, *flags))["counts"]["done"] == 2
    assert sorted(log.read_text().split()) == ["0", "1"]
    (script,) = (path.read_text() for path in slurm.glob("script-*"))
    for line in ("--partition=night", "--time=30", "--cpus-per-task=1"):
        assert f"#SBATCH {line}" in script
    assert len(outcomes(tmp_path / "slurm")) == 2


def test_a_machine_without_slurm_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    job = Job(SuiteReference(name="quick", version=1, hash="a" * 64), tmp_path)
    with pytest.raises(UsageError, match="srun"):
        make_engine("slurm", None).run([make_result().cell], job, print)


@pytest.fixture
def ready(monkeypatch, tmp_path) -> tuple[Job, list[Any]]:
    """A job whose cells have ready-made results, and those."""
    results = [make_result(seed=seed) for seed in range(4)]
    made = {result.cell_id: result for result in results}
    monkeypatch.setattr(worker, "run_cell", lambda cell, *rest: made[cell.id])
    monkeypatch.setattr(Fingerprints, "difference", lambda self, result: "")
    Store(tmp_path, "quick").prepare()
    return Job(SuiteReference(name="quick", version=1, hash="a" * 64), tmp_path), results


def test_a_job_leaves_cells_to_the_next_one_when_its_time_is_short(ready, monkeypatch):
    job, results = ready
    monkeypatch.setattr(slurm_engine, "AT_ONCE", 1)
    cells = tuple(result.cell for result in results)
    short = Shard(job, cells, seconds=0.0)()
    assert [done.cell for done in short.done] == [cells[0]]  # it always goes on
    rest = Shard(job, cells[1:], seconds=600.0)()
    assert [done.status for done in rest.done] == ["done"] * 3


def test_a_job_that_cannot_start_says_why(ready, monkeypatch):
    job, results = ready
    monkeypatch.setattr(slurm_engine, "LocalWorker", lambda job: (_ for _ in ()).throw(DataError("no records")))
    end = Shard(job, (results[0].cell,), seconds=600.0)()
    assert end.error == "no records" and end.done == ()


@pytest.mark.parametrize(
    ("engine", "settings"),
    [("inline", {"address": "a:1"}), ("local", {"cpus": 2}), ("ray", {"minutes": 3}), ("slurm", {"address": "a:1"})],
)
def test_a_setting_of_another_engine_is_refused(engine, settings):
    with pytest.raises(UsageError, match=f"--{next(iter(settings))}"):
        make_engine(engine, None, EngineSettings(**settings))


def test_results_say_how_cells_ended(ready):
    job, results = ready
    end = Shard(job, (results[0].cell,), seconds=600.0)()
    assert end.done == (Done(results[0].cell, "done", end.done[0].seconds, score=end.done[0].score),)
    assert json.loads(Store(job.results, "quick").path(results[0].cell).read_text())["cell_id"] == results[0].cell_id


@pytest.mark.parametrize("engine", ["ray", "slurm"])
def test_secure_noise_stays_on_one_machine(engine, tmp_path):
    """What a private set has spent is kept on one machine."""
    pytest.importorskip(engine.replace("slurm", "submitit"))
    cell = make_result().cell.model_copy(update={"noise": "secure", "sizes": {"a": 100}})
    job = Job(SuiteReference(name="quick", version=1, hash="a" * 64), tmp_path)
    with pytest.raises(UsageError, match="secure"):
        make_engine(engine, None).run([cell], job, print)


def test_a_dry_run_refuses_what_the_run_would(dpicl, sim_suite, tmp_path, monkeypatch):
    monkeypatch.setenv("DPICL_DATA", str(write_records(tmp_path / "data", rows_of("train", 40))))
    words = ("--engine", "slurm", "--dry-run", "--results", tmp_path / "results")
    refuse(dpicl("run", suite(tmp_path, "voting"), *words), "secure")
    for option in ("time=5", "comment=a\n#SBATCH --x=y"):
        refuse(dpicl("run", sim_suite, *words, "--sbatch", option), option.partition("=")[0])
    assert not (tmp_path / "results").exists()
