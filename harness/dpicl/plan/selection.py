"""Selects cells of a suite, with changed settings, the registry, and the store of its results."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dpicl.core.cell import Cell
from dpicl.core.paths import DEFAULT_RESULTS, find_suite
from dpicl.core.plugins import Registered
from dpicl.mechanism.registry import load_mechanisms
from dpicl.plan.expand import expand
from dpicl.plan.suite import Suite
from dpicl.plan.suite_files import AS_IT_IS, Changes, apply_changes, load_suite
from dpicl.results.schema import SuiteReference
from dpicl.results.store import Store


@dataclass(frozen=True)
class Selection:
    """What a command works on. suite_name: as the user wrote it; plugins, changes: what else they asked for;
    for messages that name a next command."""

    suite_name: str
    suite: Suite
    mechanisms: dict[str, Registered]
    cells: list[Cell]
    store: Store
    plugins: tuple[Path, ...] = ()
    changes: Changes = AS_IT_IS

    @property
    def reference(self) -> SuiteReference:
        return SuiteReference(
            name=self.suite.name,
            version=self.suite.version,
            hash=self.suite.hash,
        )

    def command(self, name: str) -> str:
        """`dpicl NAME` on the same suite, source, limit, models, plug-ins and folder."""
        changes, results = self.changes, self.store.results
        flags: list[tuple[str, object]] = [
            ("--source", changes.source),
            ("--limit", changes.test_records),
        ]
        flags += [("--model", model) for model in changes.models]
        flags += [("--plugin", plugin) for plugin in self.plugins]
        flags += [("--results", None if results == DEFAULT_RESULTS else results)]
        words = [word for flag, value in flags if value is not None for word in (flag, str(value))]
        return shlex.join(["dpicl", *name.split(), self.suite_name, *words])


def select(
    suite: str,
    results: Path,
    plugins: Sequence[Path] = (),
    changes: Changes = AS_IT_IS,
) -> Selection:
    """Reads the suite of that name or path and expands it. Raises UsageError for anything that is not known or does not
    fit."""
    return selection_of(load_suite(find_suite(suite)), results, plugins, changes, suite)


def selection_of(
    suite: Suite,
    results: Path,
    plugins: Sequence[Path] = (),
    changes: Changes = AS_IT_IS,
    suite_name: str = "",
) -> Selection:
    """The cells of a suite and the store of its results. Raises UsageError as `select` does."""
    mechanisms = load_mechanisms(plugins)
    changed = apply_changes(suite, changes, mechanisms)
    cells = expand(changed, mechanisms, changes.options)
    return Selection(
        suite_name or suite.name,
        changed,
        mechanisms,
        cells,
        Store(results, suite.name),
        tuple(plugins),
        changes,
    )


def shard(cells: Sequence[Cell], number: int, of: int) -> list[Cell]:
    """The ``number``-th (from 1) of so many parts of a suite's cells, in their order.

    A function of the cells alone, whatever is done of them: each is in one part, parts differ by one cell at most, and
    a part has the cells of as few models as that allows. Among those of one model chance (their ids) decides, so that
    slow mechanisms are spread over all parts.
    """
    models = {
        model: place for place, model in enumerate(dict.fromkeys(cell.model for cell in cells))
    }
    dealt = sorted(cells, key=lambda cell: (models[cell.model], cell.id))
    first, last = ((len(cells) * end) // of for end in (number - 1, number))
    mine = {cell.id for cell in dealt[first:last]}
    return [cell for cell in cells if cell.id in mine]
