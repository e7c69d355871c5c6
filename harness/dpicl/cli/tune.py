"""`dpicl tune`: chooses the options that papers tuned, for all rows of a suite by one protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dpicl.api.evaluate import run_selection
from dpicl.api.parameters import (
    Count,
    Limit,
    Plugins,
    Results,
    Rows,
    Shots,
    SuiteName,
    Tasks,
    as_list,
    verb,
)
from dpicl.cli import call
from dpicl.cli.output import Answer
from dpicl.core.errors import UsageError, require_known
from dpicl.core.paths import DEFAULT_RESULTS, find_suite
from dpicl.plan.selection import select, selection_of
from dpicl.plan.suite_files import Changes, load_suite
from dpicl.plan.suite_rows import Tuned
from dpicl.plan.tuning import choose_settings, tuning_suite, tuning_table, write_choice


@dataclass(frozen=True)
class Tuning:
    """The choice, and the file that it was written into."""

    tuned: Tuned
    path: Path


def _answer(tuning: Tuning, arguments: Mapping[str, Any]) -> Answer:
    document = {**tuning.tuned.model_dump(mode="json"), "file": tuning.path}
    return Answer(
        document, [tuning_table(tuning.tuned), f"Written to {tuning.path}, with all scores."]
    )


@verb(
    "dpicl tune mine.yaml --engine local",
    answer=_answer,
)
def tune(
    suite: SuiteName,
    *,
    results: Results = DEFAULT_RESULTS,
    plugins: Plugins = (),
    task: Tasks = (),
    mechanism: Rows = (),
    test_records: Limit | None = None,
    shots: Shots | None = None,
    engine: Literal["inline", "local"] = "inline",
    workers: Count | None = None,
) -> Tuning:
    """Chooses the tuned options of a suite (dpicl.plan.tuning) and writes them into SUITE.tuned.yaml beside it.

    Each row runs on the first task that it can do, on a generated corpus that no row sees. What is finished is kept
    under ``results``, and the same call goes on from there. Rows that ``mechanism`` does not name keep their choice.
    Raises UsageError for a suite without grids, and where a cell failed.

    mechanism: row of the suite, or one that shares its grid; may be repeated (or A,B); others keep an earlier choice.
    shots: demonstrations, fewer than the suite's where those take too long, one for each class at least.
    engine: this process, or worker processes (default: inline).
    workers: workers of the engine (default: one for two cores).
    """
    name, files, folder = str(suite), as_list(plugins), Path(results)
    path, tasks = find_suite(name), as_list(task)
    whole = load_suite(path)
    require_known(f"task of {name}", tasks, whole.tasks)
    grids = {entry.row: entry.shared_row for entry in whole.mechanisms if entry.shared_row}
    rows = [grids.get(row, row) for row in as_list(mechanism)]
    chosen = select(
        name,
        folder,
        files,
        Changes(tasks=tasks, mechanisms=rows, test_records=test_records),
    )
    trial = tuning_suite(chosen.suite, chosen.mechanisms, shots)
    selection = selection_of(trial, folder, files, suite_name=name)
    finished = run_selection(selection, engine, workers, True)
    if failed := [note for note in finished.notes if note.startswith("failed")]:
        raise UsageError(f"Nothing was chosen: {failed[0]}.")
    tuned = choose_settings(chosen.suite, trial, list(finished), call.line("dpicl.tune"))
    return Tuning(tuned, write_choice(path, tuned))
