"""Equal tuning: one protocol chooses, for every row that has a grid, the options that its paper tuned.

Every tuned row of a suite lists the same number of settings (suite_rows.SETTINGS). They run as rows of a suite of their
own, NAME-tuning, at the suite's first epsilon and model, with seeds that no suite uses, on the project's synthetic
records: those are public, and no row of the suite is scored on them. A task whose own records are the synthetic ones is
left out, since its test records would choose. A row runs on the first task that its mechanism does: classes for most,
free answers for the rest. The setting with the best mean score over seeds is the row's on every task, epsilon and seed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from dpicl.core.errors import UsageError
from dpicl.core.files import put_whole
from dpicl.core.messages import count
from dpicl.core.plugins import Registered
from dpicl.data.task import Task
from dpicl.mechanism.options import build
from dpicl.mechanism.outputs import skip_reason
from dpicl.plan.suite import Suite, choice_path, load_suite
from dpicl.plan.suite_rows import SETTINGS, MechanismEntry, ScoredSetting, Tuned, TunedRow
from dpicl.results.manifest import commit
from dpicl.results.schema import Result

#: Seeds of tuning; those of suites begin at 0.
SEEDS = (1000, 1001)


def tuning_suite(
    suite: Suite,
    sources: Mapping[str, str],
    mechanisms: Mapping[str, Registered],
    seeds: Sequence[int] = SEEDS,
    shots: int | None = None,
) -> Suite:
    """The suite whose rows are the settings of the tuned rows of another one: ROW.0, ROW.1 and so on.

    sources: task -> where the suite's own records come from. shots: demonstrations of every task, fewer than the
    suite's where those take too long; None: the suite's. Raises UsageError where there is nothing to tune, where no
    task has other records than the synthetic ones, and where a row can do none of the tasks.
    """
    tasks = [task for task in suite.tasks if sources[task] != "synthetic"]
    if not any(entry.settings for entry in suite.mechanisms):
        raise UsageError(f"No row of suite {suite.name} has a grid; add `tune: {{OPTION: [VALUE, ...]}}` to one.")
    if not tasks:
        raise UsageError(
            f"All records of suite {suite.name} are synthetic here, and its own test records must not choose options;"
            " set DPICL_DATA to the folder with its real ones."
        )
    rows = list[MechanismEntry]()
    for entry in suite.mechanisms:
        if entry.settings:
            mechanism = build(mechanisms[entry.name].cls, entry.options)
            own = next((t for t in tasks if skip_reason(mechanism, Task.without_records(t)) is None), None)
            if own is None:
                raise UsageError(f"{entry.row} can do none of {', '.join(tasks)}; name one that it can with --task.")
            change = {"tasks": [own], "epsilons": [], "tune": {}}
            for i, setting in enumerate(entry.settings):
                options = {**entry.options, **setting}
                rows.append(entry.model_copy(update={"label": label_of(entry, i), "options": options, **change}))
    update: dict[str, Any] = {
        "name": f"{suite.name}-tuning",
        "source": "synthetic",
        "models": suite.models[:1],
        "seeds": list(seeds),
        "baseline_seeds": [],
        "epsilons": suite.epsilons[:1],
        "epsilon_seeds": {},
        "task_seeds": {},
        "sizes": {},
        "tasks": tasks,
        "mechanisms": rows,
    }
    if shots is not None:
        update |= {"shots": shots, "task_shots": {}}
    return suite.model_copy(update=update)


def label_of(entry: MechanismEntry, setting: int) -> str:
    return f"{entry.row}.{setting}"


def choose_settings(suite: Suite, made: Suite, results: Sequence[Result], command: str) -> Tuned:
    """What the results of `tuning_suite` (``made``) choose for the rows of a suite; of equal settings the first.

    Raises UsageError where a setting lacks a result that another one of its row has.
    """
    code = commit()[0]
    return Tuned(
        model=made.models[0],
        epsilon=made.epsilons[0],
        seeds=made.seeds,
        shots=made.shots,
        test_records=made.test_records,
        records={result.cell.task: result.manifest.data.fingerprint for result in results},
        rows={
            entry.row: TunedRow(command=command, commit=code, settings=_ranked(entry, results))
            for entry in suite.mechanisms
            if entry.settings
        },
    )


def _ranked(entry: MechanismEntry, results: Sequence[Result]) -> list[ScoredSetting]:
    found, asked = [], set()
    for i, setting in enumerate(entry.settings):
        own = [result for result in results if result.cell.label == label_of(entry, i)]
        asked.add(frozenset((result.cell.task, result.cell.seed) for result in own))
        by_task: dict[str, list[float]] = {}
        for result in own:
            by_task.setdefault(result.cell.task, []).append(_score(result))
        means = {task: round(fmean(scores), 4) for task, scores in by_task.items()}
        found.append(
            ScoredSetting(options=setting, score=round(fmean(means.values()), 4) if means else 0.0, tasks=means)
        )
    if len(asked) > 1 or not found[0].tasks:
        raise UsageError(f"Not every setting of {entry.row} has its results; run the same command again.")
    return sorted(found, key=lambda one: -one.score)


def _score(result: Result) -> float:
    """The main metric, negative where lower is better."""
    value = result.scores[result.main_metric].value
    return -value if result.lower_is_better(result.main_metric) else value


def require_writable(path: Path) -> None:
    """Raises UsageError where what is chosen for the suite of that file could not be kept beside it."""
    choice = choice_path(path)
    if (choice.exists() and not choice.is_file()) or not os.access(choice.parent, os.W_OK):
        raise UsageError(f"Cannot write {choice}, the file of what is chosen; copy the suite to another folder.")


def write_choice(path: Path, tuned: Tuned) -> Path:
    """Writes what is chosen for the suite of that file beside it; returns where. Other rows keep an earlier choice.

    Raises UsageError, and leaves an earlier choice alone, where its rows were tuned otherwise and where the disk does
    not take it.
    """
    choice = choice_path(path)
    if (earlier := load_suite(path).tuned) is not None:
        try:
            tuned = earlier.joined(tuned)
        except ValueError as error:
            raise UsageError(f"{choice} keeps what it has: {error}; tune all alike, or move that file away.") from error
    text = yaml.safe_dump(tuned.model_dump(mode="json"), sort_keys=False, default_flow_style=None, width=150)
    try:
        put_whole(choice, "# Written by `dpicl tune`; run it again instead of changing this.\n" + text)
    except OSError as error:
        raise UsageError(
            f"Cannot write {choice}: {error.strerror}; fix that, and run the same command again."
        ) from error
    return choice


def describe_tuning(suite: Suite, results: Sequence[Result]) -> list[str]:
    """What a board says of the rows whose results have the options that tuning chose."""
    rows = {
        result.cell.label
        for result in results
        if (options := suite.chosen(result.cell.label)) and options.items() <= result.cell.options.items()
    }
    if not rows or suite.tuned is None:
        return []
    how = f"{count(SETTINGS, 'setting')} a row, on public synthetic records"
    return [
        f"Tuned: {', '.join(sorted(rows))} ({how} at ε = {suite.tuned.epsilon:g}; SUITE.tuned.yaml has the scores)."
    ]
