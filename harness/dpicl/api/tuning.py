"""What `dpicl tune` does: runs the settings of a suite's grids, and writes the choice beside its file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpicl.api.functions import run_selection
from dpicl.core.errors import UsageError, require_known
from dpicl.core.paths import DEFAULT_RESULTS, find_suite
from dpicl.plan.selection import select, selection_of, task_facts
from dpicl.plan.suite import Changes, load_suite
from dpicl.plan.suite_rows import Tuned
from dpicl.plan.tuning import choose_settings, require_writable, tuning_suite, write_choice


@dataclass(frozen=True)
class Tuning:
    """The choice, and the file that it was written into."""

    tuned: Tuned
    path: Path


def tune(
    suite: str,
    *,
    results: Path = DEFAULT_RESULTS,
    plugins: Sequence[Path] = (),
    tasks: Sequence[str] = (),
    limit: int | None = None,
    shots: int | None = None,
    engine: str = "inline",
    workers: int | None = None,
    command: str = "dpicl.tune",
) -> Tuning:
    """Chooses the tuned options of a suite (dpicl.plan.tuning) and writes them into the file
    SUITE.tuned.yaml beside it.

    tasks: some of the suite's, of which each row runs on the first that it can do; none: all whose own records are
        real. limit: test records of each; None: as many as the suite has. shots: demonstrations; None: the suite's, by
        task. command: what the file says was run.
    What is finished is kept under ``results``, and the same call goes on from there.
    Raises UsageError for a suite without grids, for a folder that takes no file before anything runs, and where a cell
    failed.
    """
    path = find_suite(suite)
    require_writable(path)
    require_known(f"task of {suite}", tasks, load_suite(path).tasks)
    own = select(suite, results, plugins, Changes(tasks=tasks, test_records=limit))
    facts = task_facts()
    sources = {task: facts[task](own.suite.source).source for task in own.suite.tasks}
    made = tuning_suite(own.suite, sources, own.mechanisms, shots=shots)
    selection = selection_of(made, own.mechanisms, results, asked=suite)
    finished = run_selection(selection, tuple(plugins), engine, workers, True)
    if failed := [note for note in finished.notes if note.startswith("failed")]:
        raise UsageError(f"Nothing was chosen: {failed[0]}.")
    tuned = choose_settings(own.suite, made, list(finished), command)
    return Tuning(tuned, write_choice(path, tuned))
