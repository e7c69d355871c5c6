"""From a suite to its cells: what is changed in it, the registry, and the store of its results."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dpicl import models
from dpicl.core.cell import Cell
from dpicl.core.errors import unknown
from dpicl.core.paths import DEFAULT_RESULTS, find_suite
from dpicl.core.plugins import Registered
from dpicl.data.sources import resolve
from dpicl.data.task import list_tasks, load_config
from dpicl.mechanism.registry import load_mechanisms
from dpicl.plan.expand import TaskFacts, expand
from dpicl.plan.suite import Changes, OptionChange, Suite, apply_changes, load_suite
from dpicl.results.schema import SuiteReference
from dpicl.results.store import Store


@dataclass(frozen=True)
class Selection:
    """What a command works on. asked: the suite as the user wrote it, plugins and changes: what else they said; for
    messages that name a next command."""

    asked: str
    suite: Suite
    mechanisms: dict[str, Registered]
    cells: list[Cell]
    store: Store
    plugins: Sequence[Path] = ()
    changes: Changes = field(default_factory=Changes)

    @property
    def reference(self) -> SuiteReference:
        return SuiteReference(name=self.suite.name, version=self.suite.version, hash=self.suite.hash)

    def command(self, name: str) -> str:
        """`dpicl NAME` on the same suite, source, limit, models, plug-ins and folder."""
        said, results = self.changes, self.store.results
        flags: list[tuple[str, object]] = [("--source", said.source), ("--limit", said.test_records)]
        flags += [("--model", model) for model in said.models]
        flags += [("--plugin", plugin) for plugin in self.plugins]
        flags += [("--results", None if results == DEFAULT_RESULTS else results)]
        words = [word for flag, value in flags if value is not None for word in (flag, str(value))]
        return shlex.join(["dpicl", *name.split(), self.asked, *words])


def select(
    suite: str,
    results: Path,
    plugins: Sequence[Path] = (),
    changes: Changes | None = None,
    options: Sequence[OptionChange] = (),
) -> Selection:
    """Reads the suite of that name or path and expands it.

    Raises UsageError for anything that is not known or does not fit.
    """
    mechanisms = load_mechanisms(plugins)
    read = load_suite(find_suite(suite))
    made = apply_changes(read, changes or Changes(), mechanisms)
    found = selection_of(made, mechanisms, results, options, suite)
    return replace(found, plugins=tuple(plugins), changes=changes or Changes())


def selection_of(
    suite: Suite,
    mechanisms: dict[str, Registered],
    results: Path,
    options: Sequence[OptionChange] = (),
    asked: str = "",
) -> Selection:
    """The cells of a suite and the store of its results. Raises UsageError as `select` does."""
    check_models(suite)
    cells = expand(suite, mechanisms, task_facts(), options)
    return Selection(asked or suite.name, suite, mechanisms, cells, Store(results, suite.name))


def check_models(suite: Suite) -> None:
    """Raises UsageError for a model whose kind is not known; whether it is there shows when it is loaded."""
    kinds = {entry["name"].partition(":")[0]: entry["name"] for entry in models.known()}
    for i, name in enumerate(suite.models):
        if name.partition(":")[0] not in kinds:
            raise suite.error(("models", i), str(unknown("model", name, kinds.values())))


def task_facts() -> dict[str, Callable[[str], TaskFacts]]:
    """Known task -> a function from the wanted source to the task's facts. Loads no record."""

    def reader(name: str) -> Callable[[str], TaskFacts]:
        return lambda source: facts_of(name, resolve(source, load_config(name).source))

    return {name: reader(name) for name in list_tasks()}


def facts_of(name: str, source: str) -> TaskFacts:
    """What task.yaml says of a task, with the source of its records."""
    config = load_config(name)
    return TaskFacts(config.metadata.version, source, config.classes)


def shard(cells: Sequence[Cell], number: int, of: int) -> list[Cell]:
    """The ``number``-th (from 1) of so many parts of a suite's cells, in their order.

    A function of the cells alone, whatever is done of them: each is in one part, parts differ by one cell at most, and
    a part has the cells of as few models as that allows. Among those of one model chance (their ids) decides, so that
    slow mechanisms are spread over all parts.
    """
    models = {model: place for place, model in enumerate(dict.fromkeys(cell.model for cell in cells))}
    dealt = sorted(cells, key=lambda cell: (models[cell.model], cell.id))
    first, last = ((len(cells) * end) // of for end in (number - 1, number))
    mine = {cell.id for cell in dealt[first:last]}
    return [cell for cell in cells if cell.id in mine]
