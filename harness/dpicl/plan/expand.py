"""Expands a suite into its cells; errors name file and line."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from dpicl import models
from dpicl.core.cell import Cell, Options
from dpicl.core.errors import PluginError, UsageError, unknown_name
from dpicl.core.plugins import Registered
from dpicl.core.strict_yaml import Place
from dpicl.data.config import list_tasks, load_config
from dpicl.data.sources import resolve
from dpicl.evaluation.carried import require_independent
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.options import build, fixed_epsilon, option_types, resolve_options
from dpicl.mechanism.outputs import name_failure
from dpicl.plan.suite import Suite
from dpicl.plan.suite_files import OptionChange
from dpicl.plan.suite_rows import HEADROOM_MECHANISMS, MechanismEntry


def expand(
    suite: Suite,
    mechanisms: Mapping[str, Registered],
    options: Sequence[OptionChange] = (),
) -> list[Cell]:
    """The cells of a suite, in the order in which they are run: those that measure headroom, then all others, by model,
    task, mechanism, epsilon, seed. A task has those of the suite's models that go with it, or its own. Loads no record.

    mechanisms: the registry.
    Raises UsageError, with file and line where there is one, for unknown names, for options that do not fit, and for a
    task that no model of the suite goes with.
    """
    _check_names(suite, mechanisms)
    _check_changes(suite, mechanisms, options)
    cells: list[Cell] = []
    readers = {task: _models_of(suite, i, task) for i, task in enumerate(suite.tasks)}
    for model in dict.fromkeys(
        [*suite.models, *(name for names in readers.values() for name in names)]
    ):
        for task in (task for task in suite.tasks if model in readers[task]):
            for i, entry in enumerate(suite.mechanisms):
                if not entry.has_task(task, model if model in suite.models else ""):
                    continue
                cells += _cells_of(suite, i, entry, mechanisms[entry.name], task, model, options)
    return sorted(cells, key=lambda cell: not cell.development)


def _models_of(suite: Suite, position: int, task: str) -> list[str]:
    try:
        return models.select_models(task, suite.models)
    except UsageError as error:
        raise suite.error(("tasks", position), str(error)) from None


def _cells_of(
    suite: Suite,
    position: int,
    entry: MechanismEntry,
    registered: Registered,
    task: str,
    model: str,
    changes: Sequence[OptionChange],
) -> Iterator[Cell]:
    config = load_config(task)
    changed = {
        change.name: change.value
        for change in changes
        if _is_applicable(change, entry, registered.cls)
    }
    try:
        options = _resolve(suite, entry, registered.cls, task, changed)
        own_epsilon = _own_epsilon(build(registered.cls, options))
        if config.classes and registered.cls.kind == "demonstrations":
            require_independent(entry.row, options, registered.cls)
    except UsageError as error:
        place: Place = ("mechanisms", position)
        raise (UsageError(str(error)) if changed else suite.error(place, str(error))) from None
    suffix = "".join(f"+{name}={value}" for name, value in sorted(changed.items()))
    shared = {
        "suite": suite.name,
        "suite_version": suite.version,
        "task": task,
        "task_version": config.metadata.version,
        "source": resolve(suite.source, config.source),
        "mechanism": entry.name,
        "label": entry.row + suffix,
        "options": options,
        "model": models.name_in_results(model),
        "delta": suite.delta,
        "shots": suite.task_shots.get(task, suite.shots),
        "test_records": suite.records_of(task),
        "train_records": suite.train_records,
        "private_share": suite.private_share,
        "fresh_test_records": bool(suite.fresh_test_records),
        "metric": suite.task_metrics.get(task),
        "noise": suite.noise,
        "mode": "proved",
        "plugin": registered.plugin_hash,
        "queries": registered.cls.query_budget(suite.queries),
    }
    epsilons = [
        epsilon for epsilon in suite.epsilons if not entry.epsilons or epsilon in entry.epsilons
    ]
    for epsilon in epsilons if own_epsilon is None else [own_epsilon]:
        seeds = [(seed, suite.is_development) for seed in suite.seeds_of(task, epsilon, entry)]
        if entry.name in HEADROOM_MECHANISMS:
            seeds += [(seed, True) for seed in suite.baseline_seeds]
        for seed, development in seeds:
            cell = Cell(**shared, epsilon=epsilon, seed=seed, development=development)
            yield cell.at_address(model)


def _resolve(
    suite: Suite,
    entry: MechanismEntry,
    cls: type[Mechanism],
    task: str,
    changed: Options,
) -> Options:
    """The options of a row on a task: its own, tuned ones, those of the task, and at last those of the command line.
    Those that tuning tries are looked at too. Raises UsageError."""
    chosen = {
        **entry.options,
        **suite.tuned_options(entry.row, task),
        **entry.per_task.get(task, {}),
        **changed,
    }
    for setting in entry.settings:
        resolve_options(cls, task, {**chosen, **setting})
    return resolve_options(cls, task, chosen)


def _own_epsilon(mechanism: Mechanism) -> float | None:
    """`fixed_epsilon`; 0 where the mechanism's `events` fail, so that its cells end with that error, one by one. (If
    they do not fail then, what costs more than 0 is refused.)"""
    try:
        with name_failure(mechanism):
            return fixed_epsilon(mechanism)
    except PluginError:
        return 0.0


def _is_applicable(change: OptionChange, entry: MechanismEntry, cls: type[Mechanism]) -> bool:
    return change.target in (entry.row, entry.name) or (
        change.target is None and change.name in option_types(cls)
    )


def _check_names(suite: Suite, mechanisms: Mapping[str, Registered]) -> None:
    """Whether a model of a known kind is there shows when it is loaded."""
    kinds = {entry["name"].partition(":")[0]: entry["name"] for entry in models.list_known()}
    for i, name in enumerate(suite.models):
        if name.partition(":")[0] not in kinds:
            raise suite.error(
                ("models", i),
                str(unknown_name("model", name, kinds.values())),
            )
        models.require_sound(name)
    for place, kind, name, known in _names(suite, mechanisms):
        if name not in known:
            raise suite.error(place, str(unknown_name(kind, name, known)))
    for task, metric in suite.task_metrics.items():
        if metric not in (metrics := load_config(task).main_metrics):
            raise suite.error(
                ("task_metrics", task), str(unknown_name(f"metric of {task}", metric, metrics))
            )


def _names(
    suite: Suite,
    mechanisms: Mapping[str, Registered],
) -> Iterator[tuple[Place, str, str, Collection[str]]]:
    """Place, kind and name of all that a suite names, with the known ones of that kind."""
    tasks = list_tasks()
    for i, task in enumerate(suite.tasks):
        yield ("tasks", i), "task", task, tasks
    for key in ("task_shots", "task_test_records", "task_seeds", "task_metrics"):
        for task in getattr(suite, key):
            yield (key, task), "task", task, tasks
    for i, entry in enumerate(suite.mechanisms):
        place: Place = ("mechanisms", i)
        yield (*place, "name"), "mechanism", entry.name, mechanisms
        for task in entry.per_task:
            yield (*place, "per_task", task), "task", task, tasks


def _check_changes(
    suite: Suite,
    mechanisms: Mapping[str, Registered],
    changes: Sequence[OptionChange],
) -> None:
    for change in changes:
        if any(
            _is_applicable(
                change,
                entry,
                mechanisms[entry.name].cls,
            )
            for entry in suite.mechanisms
        ):
            continue
        if change.target is not None:
            raise unknown_name(
                "mechanism", change.target, (entry.row for entry in suite.mechanisms)
            )
        choices = {
            name for entry in suite.mechanisms for name in option_types(mechanisms[entry.name].cls)
        }
        raise unknown_name("option", change.name, choices)
