"""From flags to cells: the suite, what the command line changes, the registry, and the results that are there."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from dpicl.harness import models
from dpicl.harness.cli.output import message
from dpicl.harness.core.cell import Cell
from dpicl.harness.core.errors import unknown
from dpicl.harness.core.paths import find_suite
from dpicl.harness.core.plugins import Registered
from dpicl.harness.data.config import source_spec
from dpicl.harness.data.sources import resolve
from dpicl.harness.data.task import list_tasks, load_config
from dpicl.harness.mechanism.registry import load_mechanisms
from dpicl.harness.run.expand import TaskFacts, expand
from dpicl.harness.run.results import SuiteReference
from dpicl.harness.run.store import Damaged, Store
from dpicl.harness.run.suite import Changes, OptionChange, Suite, changed, load_suite


@dataclass(frozen=True)
class Selection:
    """What a command works on. asked: the suite as the user wrote it, for messages that name a next command."""

    asked: str
    suite: Suite
    mechanisms: dict[str, Registered]
    cells: list[Cell]
    store: Store

    @property
    def reference(self) -> SuiteReference:
        return SuiteReference(name=self.suite.name, version=self.suite.version, hash=self.suite.hash)


def select(arguments: argparse.Namespace) -> Selection:
    """Reads the suite and expands it. Raises UsageError for anything that is not known or does not fit."""
    mechanisms = load_mechanisms(arguments.plugin)
    suite = load_suite(find_suite(arguments.suite))
    options = [OptionChange(*item) for item in getattr(arguments, "option", [])]
    suite = changed(
        suite,
        Changes(
            tasks=getattr(arguments, "task", []),
            mechanisms=getattr(arguments, "mechanism", []),
            models=arguments.model,
            epsilons=getattr(arguments, "epsilon", []),
            seeds=getattr(arguments, "seed", []),
            source=arguments.source,
            test_records=arguments.limit,
        ),
        mechanisms,
    )
    check_models(suite)
    # a command without the flag makes no release: it shows what is there
    cells = expand(suite, mechanisms, task_facts(), options, reveal=getattr(arguments, "reveal_records", True))
    return Selection(arguments.suite, suite, mechanisms, cells, Store(arguments.results, suite.name))


def check_models(suite: Suite) -> None:
    """Raises UsageError for a model whose kind is not known; whether it is there shows when it is loaded."""
    kinds = {entry["name"].partition(":")[0]: entry["name"] for entry in models.known()}
    for i, name in enumerate(suite.models):
        if name.partition(":")[0] not in kinds:
            raise suite.error(("models", i), str(unknown("model", name, kinds.values())))


def task_facts() -> dict[str, Callable[[str], TaskFacts]]:
    """Known task -> a function from the wanted source to the task's facts. Loads no record."""

    def reader(name: str) -> Callable[[str], TaskFacts]:
        return lambda source: facts_of(name, resolve(source, name))

    return {name: reader(name) for name in list_tasks()}


def facts_of(name: str, source: str) -> TaskFacts:
    """What task.yaml says of a task, with the source of its records."""
    config = load_config(name)
    return TaskFacts(config["metadata"]["version"], source, source_spec(config).labels)


def report_damaged(damaged: list[Damaged], moved: bool) -> None:
    """One sentence about the files that are no results, on stderr."""
    if not damaged:
        return
    first = damaged[0]
    what = "set aside (kept in a folder set_aside beside it)" if moved else "ignored (`dpicl run` sets it aside)"
    more = f"; so are {len(damaged) - 1} more" if len(damaged) > 1 else ""
    message(f"dpicl: {first.path} is no result of this version and is {what}: {first.reason}{more}.")
