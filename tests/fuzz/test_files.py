"""Whatever a file holds, only our own errors come out: thousands of seeded mutations of every kind of file.

A reader answers, or raises what its docstring says. What it lets pass goes on to what uses it: a board, a page's text,
prompts. A few hundred go through the command line, which exits with 0, 1 or 2 and never with a traceback.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from dpicl.data import config as task_config
from dpicl.results.schema import to_text
from dpicl.scaffold.writing import TASK, write_example
from tests.fuzz.kinds import KINDS, RESULTS
from tests.leaderboards.attack_factory import make_external
from tests.leaderboards.factory import make_result

FEW, MANY = 30, 1250


@pytest.mark.parametrize(("count", "seed"), [(FEW, 0), pytest.param(MANY, 1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_only_our_own_errors_come_out(kind: str, fresh_cache: Path, tmp_path: Path, count: int, seed: int):
    rng, longest = random.Random(f"{kind} {seed}"), 0
    one = KINDS[kind]
    path = tmp_path / one.name
    files = one.files()
    for content in files:  # sound ones
        path.write_bytes(content)
        one.use(path)
    for _ in range(count):
        content = one.damaged(rng.choice(files), rng)
        path.write_bytes(content)
        try:
            one.use(path)
        except one.errors as error:
            longest = max(longest, len(str(error)))
        except Exception as error:
            (tmp_path / "kept").write_bytes(content)
            raise AssertionError(f"{type(error).__name__} for a {kind}: {content[:3000]!r}") from error
    assert longest < 3000


# --- the command line ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "seed"), [(15, 0), pytest.param(300, 1, marks=pytest.mark.slow)])
def test_commands_on_mutated_files_end_in_words(
    count: int, seed: int, tmp_path: Path, dpicl, sim_suite: Path, monkeypatch: pytest.MonkeyPatch
):
    """What passes the check of a task's file also runs: a plug-in task on the simulated model."""
    rng, codes, results, suite = random.Random(seed), set(), tmp_path / "results", tmp_path / "suite.yaml"
    result = make_result(suite="sim_suite", model="sim", task="agnews")
    folder = write_example(TASK, "task", "meals", (), tmp_path)[0]
    records = min(folder.glob("*.jsonl"))
    attack = min((RESULTS / "attacks").rglob("*.json"))
    places = {
        "result": (results / "sim_suite/sim/tang/agnews" / f"{result.cell_id}.json", to_text(result).encode()),
        "attack": (results / attack.relative_to(RESULTS), attack.read_bytes()),
        "external": (results / "external/quick/one.json", make_external().model_dump_json().encode()),
        "suite": (suite, sim_suite.read_bytes()),
        "task": (folder / "task.yaml", (folder / "task.yaml").read_bytes()),
        "records": (records, records.read_bytes()),
    }
    monkeypatch.setenv("DPICL_DATA", str(tmp_path))
    one = ("--plugin", folder, "--model", "sim", "--mechanism", "tang", "--seed", 0, "--limit", 4)
    commands = (
        ("plan", suite, "--results", results),
        ("board", suite, "--no-submissions", "--results", results),
        ("board", suite, "--no-submissions", "--html", tmp_path / "site", "--results", results),
        ("board", "attacks", "--results", results),
        ("compare", results / "sim_suite", results / "sim_suite"),
        *[("run", folder / "suite.yaml", *one, "--results", tmp_path / f"run{number}") for number in range(3)],
    )
    for path, content in places.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for _ in range(count):
        kind = rng.choice(list(places))
        path, content = places[kind]
        path.write_bytes(KINDS[kind].damaged(content, rng))
        monkeypatch.setattr(task_config, "_given", {})
        answer = dpicl(*rng.choice(commands[-3:] if kind in ("task", "records") else commands[:-3]))
        codes.add(answer.code)
        assert answer.code in (0, 1, 2) and "Traceback" not in answer.err
        path.write_bytes(content)
    assert count < 100 or codes == {0, 2}
