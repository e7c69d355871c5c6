"""Equal tuning: one protocol chooses, for every row that has a grid, the options that its paper tuned.

Every tuned row of a suite lists the same number of settings (suite_rows.SETTINGS). They run as rows of a suite of their
own, NAME-tuning, at the suite's first epsilon and model, with seeds that no suite uses. Their records are generated,
and no row of the suite sees them: where its records are generated too, they come from another seed. A setting is tried
on the first task that its mechanism can do (classes for most, free answers for the rest), and the best one, by the mean
score over seeds, is the row's on every task, epsilon and seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from dpicl.core.cell import Options
from dpicl.core.errors import UsageError
from dpicl.core.files import put_whole
from dpicl.core.grouping import group_by
from dpicl.core.messages import count, score_text
from dpicl.core.plugins import Registered
from dpicl.data.config import load_config
from dpicl.data.task import Task
from dpicl.mechanism.options import build
from dpicl.mechanism.outputs import skip_reason
from dpicl.plan.suite import Suite
from dpicl.plan.suite_files import choice_path, load_suite
from dpicl.plan.suite_rows import (
    SETTINGS,
    MechanismEntry,
    ScoredSetting,
    Tuned,
    TunedRow,
    TunedTask,
)
from dpicl.results.manifest import commit
from dpicl.results.schema import Result
from dpicl.tables.document import Table, text_table

#: Seeds of tuning; those of suites begin at 0.
SEEDS = (1000, 1001)


def tuning_suite(
    suite: Suite,
    mechanisms: Mapping[str, Registered],
    shots: int | None = None,
) -> Suite:
    """The suite whose rows are the settings of the tuned rows of another one: ROW.0, ROW.1 and so on.

    shots: demonstrations of every task, for a suite whose own number takes too long; None: the suite's. Rows that can
    do none of the tasks are left out. Raises UsageError where nothing is left to tune, and where a task has more
    classes than shots, since the choice would then depend on which classes are shown.
    """
    rows, unfit = list[MechanismEntry](), list[str]()
    for entry in (entry for entry in suite.mechanisms if entry.settings):
        mechanism = build(mechanisms[entry.name].cls, entry.options)
        fits = [
            task for task in suite.tasks if skip_reason(mechanism, Task.read_public(task)) is None
        ]
        if not fits:
            unfit.append(entry.row)
            continue
        for i, setting in enumerate(entry.settings):
            options = {**entry.options, **setting}
            change = {
                "label": label_of(entry, i),
                "options": options,
                "tasks": fits[:1],
                "epsilons": [],
                "tune": {},
            }
            rows.append(entry.model_copy(update=change))
    if unfit and not rows:
        raise UsageError(
            f"{', '.join(unfit)} can do none of {', '.join(suite.tasks)}; name others by --task."
        )
    if not rows:
        raise UsageError(
            f"No row of suite {suite.name} has a grid to try; add `tune: {{OPTION: [VALUE, ...]}}` to one."
        )
    for task in dict.fromkeys(task for row in rows for task in row.tasks):
        if shots is not None and shots < (most := len(load_config(task).classes)):
            raise UsageError(f"{task} has {most} classes; give --shots as many at least.")
    update: dict[str, Any] = {
        "name": f"{suite.name}-tuning",
        "source": "synthetic",
        "models": suite.models[:1],
        "seeds": list(SEEDS),
        "baseline_seeds": [],
        "epsilons": suite.epsilons[:1],
        "epsilon_seeds": {},
        "task_seeds": {},
        "mechanisms": rows,
    }
    if shots is not None:
        update |= {"shots": shots, "task_shots": {}}
    return suite.model_copy(update=update).use_development_records()


def label_of(entry: MechanismEntry, setting: int) -> str:
    return f"{entry.row}.{setting}"


def choose_settings(
    suite: Suite,
    trial: Suite,
    results: Sequence[Result],
    command: str,
) -> Tuned:
    """What the results of `tuning_suite` (``trial``) choose for the rows of a suite; of equal settings the first.

    Raises UsageError where a setting lacks a result that another one of its row has.
    """
    code = commit()[0]
    tasks = dict[str, TunedTask]()
    for task in trial.tasks:
        of_task = [result for result in results if result.cell.task == task]
        labels = {entry.label for entry in trial.mechanisms if task in entry.tasks}
        rows = {
            entry.row: TunedRow(
                command=command,
                commit=code,
                settings=_rank(entry, entry.settings, of_task),
            )
            for entry in suite.mechanisms
            if label_of(entry, 0) in labels
        }
        if rows:
            tasks[task] = TunedTask(
                model=of_task[0].cell.model,
                epsilon=trial.epsilons[0],
                seeds=trial.seeds,
                shots=trial.task_shots.get(task, trial.shots),
                test_records=trial.records_of(task),
                records=of_task[0].manifest.data.fingerprint,
                rows=rows,
            )
    return Tuned(tasks=tasks)


def _rank(
    entry: MechanismEntry,
    settings: Sequence[Options],
    results: Sequence[Result],
) -> list[ScoredSetting]:
    """The settings of a row with their scores, the best one first. Raises UsageError where one lacks a seed."""
    scored, seeds = [], set()
    for i, setting in enumerate(settings):
        of_setting = [result for result in results if result.cell.label == label_of(entry, i)]
        seeds.add(frozenset(result.cell.seed for result in of_setting))
        scored.append(
            ScoredSetting(
                options=setting,
                score=round(fmean(result.worth for result in of_setting), 4) if of_setting else 0.0,
            )
        )
    if seeds != {frozenset(SEEDS)}:
        raise UsageError(
            f"Not every setting of {entry.row} has its results; run the same command again."
        )
    return sorted(scored, key=lambda one: -one.score)


def write_choice(path: Path, tuned: Tuned) -> Path:
    """Writes what was chosen beside the file of the suite; returns where. Other rows keep an earlier choice.

    Raises UsageError, and changes nothing, where the earlier rows were tuned with another model, epsilon, seeds, shots
    or records, and where the file cannot be written.
    """
    choice = choice_path(path)
    if (earlier := load_suite(path).tuned) is not None:
        try:
            tuned = earlier.join(tuned)
        except ValueError as error:
            raise UsageError(
                f"{choice} keeps what it has: {error}; tune all alike, or move that file away."
            ) from error
    text = yaml.safe_dump(
        tuned.model_dump(mode="json"),
        sort_keys=False,
        default_flow_style=None,
        width=150,
    )
    try:
        put_whole(
            choice, "# Written by `dpicl tune`; run it again instead of changing this.\n" + text
        )
    except OSError as error:
        raise UsageError(
            f"Cannot write {choice}: {error.strerror}; fix that, and run the same command again."
        ) from error
    return choice


def choices_in_use(suite: Suite) -> Tuned:
    """What tuning chose for the rows of a suite, without rows that are not in it and choices of an earlier grid."""
    used = {name: entry.row for entry in suite.mechanisms for name in (entry.shared_row, entry.row)}
    tasks = suite.tuned.tasks if suite.tuned else {}
    chosen = {
        task: {
            row: tuned_row
            for row, tuned_row in on.rows.items()
            if row in used and suite.tuned_options(used[row], task)
        }
        for task, on in tasks.items()
    }
    return Tuned(
        tasks={
            task: tasks[task].model_copy(update={"rows": tuned_row})
            for task, tuned_row in chosen.items()
            if tuned_row
        }
    )


def tuning_table(tuned: Tuned) -> Table:
    """What was chosen for every row, its score and that of the worst setting, on which task."""
    rows = []
    for task, on in tuned.tasks.items():
        for row, tuned_row in on.rows.items():
            best, worst = tuned_row.settings[0], tuned_row.settings[-1]
            options = ", ".join(f"{name} = {value}" for name, value in best.options.items())
            scores = (score_text(best.score), score_text(worst.score))
            rows.append([row, options, *scores, task, str(on.shots)])
    title = f"Tuned on generated public records, the best of {SETTINGS} settings each"
    return text_table(["row", "chosen", "score", "worst", "on", "shots"], rows, title)


def describe_tuning(suite: Suite, results: Sequence[Result]) -> list[str]:
    """What a board says of the rows whose results have the options that tuning chose."""
    labels = set()
    for (label, task), of_row in group_by(results, "cell.label", "cell.task").items():
        options = suite.tuned_options(label, task)
        if any(options.items() <= result.cell.options.items() for result in of_row if options):
            labels.add(label)
    rows = ", ".join(sorted(labels))
    note = f"Tuned: {rows} ({count(SETTINGS, 'setting')} a row, on public records; SUITE.tuned.yaml has the scores)."
    return [note] if rows else []
