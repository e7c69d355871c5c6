"""Checks suites: what is listed twice, more than there is, or missing in another list."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpicl.core.errors import unknown_name
from dpicl.core.strict_yaml import Place
from dpicl.models import name_in_results
from dpicl.plan.suite import Suite
from dpicl.plan.suite_rows import HEADROOM_MECHANISMS

#: Where something is wrong, and what.
Violation = tuple[Place, str]
#: Cells of one suite (the largest that ships has 2,040): to list as many takes seconds and 300 MB.
_MOST_CELLS = 30_000
#: A suite whose lists have more combinations than this is refused before its cells are counted.
_LARGEST_PRODUCT = 10_000_000


def find_violations(suite: Suite) -> Iterator[Violation]:
    """What is wrong although each value has its type: listed twice, more than there are, absent from another list."""
    yield from _repetitions(suite)
    yield from _seed_violations(suite)
    grids = {entry.row: entry.settings for entry in suite.mechanisms}
    for i, entry in enumerate(suite.mechanisms):
        place: Place = ("mechanisms", i)
        if (entry.seeds or 0) > len(suite.seeds):
            message = (
                f"{entry.row} asks for {entry.seeds} seeds, and 'seeds' lists {len(suite.seeds)}."
            )
            yield (*place, "seeds"), message
        if isinstance(entry.tune, str) and not grids.get(entry.tune):
            yield (
                (*place, "tune"),
                f"{entry.row} is to share the choice of {entry.tune}, which has no grid.",
            )
        of_models = entry.tasks if isinstance(entry.tasks, dict) else {}
        tasks = [task for named in of_models.values() for task in named] or list(entry.tasks)
        for key, named in (("models", of_models), ("tasks", tasks), ("epsilons", entry.epsilons)):
            for value in named:
                if value not in getattr(suite, key):
                    where = "epsilons" if key == "epsilons" else "tasks"
                    yield (
                        (*place, where),
                        f"{entry.row} names {value}, which '{key}' does not list.",
                    )
    yield from _contrast_violations(suite)
    yield from find_size_violations(suite)


def _contrast_violations(suite: Suite) -> Iterator[Violation]:
    entries = {entry.row: entry for entry in suite.mechanisms}
    for i, contrast in enumerate(suite.contrasts):
        place: Place = ("contrasts", i)
        if contrast.better == contrast.than:
            yield (
                (*place, "than"),
                f"{contrast.name!r} compares {contrast.than} with itself; name another row.",
            )
        if contrast.epsilon is not None and contrast.epsilon not in suite.epsilons:
            yield (
                (*place, "epsilon"),
                f"{contrast.name!r} names {contrast.epsilon:g}, which 'epsilons' does not list.",
            )
        for key, row in (("better", contrast.better), ("than", contrast.than)):
            if row not in entries:
                yield (*place, key), str(unknown_name(f"row of {contrast.name!r}", row, entries))
                continue
            epsilon, entry = contrast.epsilon or suite.epsilons[0], entries[row]
            if (
                entry.name not in HEADROOM_MECHANISMS
                and entry.epsilons
                and epsilon not in entry.epsilons
            ):
                yield (
                    (*place, key),
                    f"{row} has no ε = {epsilon:g}; name one that it has as 'epsilon'.",
                )
            for task in contrast.tasks:
                if task not in suite.tasks:
                    yield (
                        (*place, "tasks"),
                        f"{contrast.name!r} names {task}, which 'tasks' does not list.",
                    )
                elif not suite.has_task(entry, task):
                    yield (
                        (*place, "tasks"),
                        f"{row} does not run on {task}, which {contrast.name!r} names.",
                    )


def _repetitions(suite: Suite) -> Iterator[Violation]:
    lists = {
        key: getattr(suite, key)
        for key in ("seeds", "baseline_seeds", "epsilons", "tasks", "models")
    }
    lists["mechanisms"] = [entry.row for entry in suite.mechanisms]
    lists["models"] = list(map(name_in_results, suite.models))
    lists["contrasts"] = [contrast.name for contrast in suite.contrasts]
    for key, values in lists.items():
        first: dict[Any, int] = {}
        for i, value in enumerate(values):
            if first.setdefault(value, i) < i:
                hint = "; give one of them a 'label' of its own" if key == "mechanisms" else ""
                yield (key, i), f"{value} occurs twice in '{key}'{hint}."


def _seed_violations(suite: Suite) -> Iterator[Violation]:
    if shared := sorted({*suite.seeds} & {*suite.baseline_seeds}):
        message = f"'baseline_seeds' lists {shared[0]}, which is one of 'seeds' too; no row may use a seed of headroom."
        yield ("baseline_seeds",), message
    names = [entry.name for entry in suite.mechanisms]
    absent = [name for name in HEADROOM_MECHANISMS[:2] if name not in names]
    if suite.baseline_seeds and absent:
        yield (
            ("baseline_seeds",),
            f"'baseline_seeds' needs {' and '.join(absent)} among 'mechanisms'; add it.",
        )
    counts: dict[str, Mapping[Any, int]] = {
        "task_seeds": suite.task_seeds,
        "epsilon_seeds": suite.epsilon_seeds,
    }
    for key, seeds_of in counts.items():
        for name, count in seeds_of.items():
            if count > len(suite.seeds):
                yield (
                    (key,),
                    f"'{key}' asks for {count} seeds ({name}), and 'seeds' lists {len(suite.seeds)}.",
                )
    for epsilon in suite.epsilon_seeds:
        if epsilon not in suite.epsilons:
            yield (
                ("epsilon_seeds",),
                f"'epsilon_seeds' names {epsilon:g}, which 'epsilons' does not list.",
            )


def find_size_violations(suite: Suite) -> Iterator[Violation]:
    """More test records than `queries`, `fresh_test_records` without a number of test records, too many cells."""
    if suite.fresh_test_records and any(suite.records_of(task) is None for task in suite.tasks):
        yield (
            ("fresh_test_records",),
            "'fresh_test_records' needs 'test_records': how many each seed draws; add it.",
        )
    most = max(suite.test_records or 0, *suite.task_test_records.values(), 0)
    if suite.queries is not None and most > suite.queries:
        yield (
            ("queries",),
            f"'queries' ({suite.queries}) does not cover {most} test records; raise it.",
        )
    if (cells := _count_cells(suite)) > _MOST_CELLS:
        message = f"this suite has {cells:,} cells, {_MOST_CELLS:,} is the most; ask for fewer seeds or epsilons."
        yield ("seeds",), message


def _count_cells(suite: Suite) -> int:
    """How many cells a suite has at most, before any is made: a baseline counts at every epsilon, and where the lists
    have too many combinations these are all counted."""
    lists: list[Sequence[Any]] = [suite.models, suite.tasks, suite.mechanisms, suite.epsilons]
    combinations = math.prod(map(len, lists))
    seeds = len(suite.seeds) + len(suite.baseline_seeds)
    if combinations * seeds > _LARGEST_PRODUCT:
        return combinations * seeds
    cells = 0
    for entry in suite.mechanisms:
        headroom_seeds = len(suite.baseline_seeds) if entry.name in HEADROOM_MECHANISMS else 0
        for task in suite.tasks:
            models = sum(entry.has_task(task, model) for model in suite.models)
            for epsilon in entry.epsilons or suite.epsilons:
                cells += models * (len(suite.seeds_of(task, epsilon, entry)) + headroom_seeds)
    return cells
