"""Reads suites strictly, from YAML files or the keys of a program, and applies what a command line changes.

What `dpicl tune` chose is beside a suite's file, in SUITE.tuned.yaml, which only that command writes. Unknown keys are
errors that name file, line and the closest known key.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from dpicl.core.errors import UsageError, unknown_name
from dpicl.core.messages import capitalize
from dpicl.core.paths import real_path
from dpicl.core.plain_words import explanation
from dpicl.core.strict_yaml import Document, Place, read
from dpicl.models import name_in_results
from dpicl.models.server_settings import address_problem
from dpicl.plan.suite import Source, Suite
from dpicl.plan.suite_checks import find_size_violations, find_violations
from dpicl.plan.suite_rows import MechanismEntry, Tuned


def load_suite(path: Path) -> Suite:
    """Reads a suite file, and what was chosen for its rows. Raises UsageError naming file, line and key for anything
    that is not as it should be."""
    document = read(path)
    if not isinstance(document.data, dict):
        raise document.error((), "a suite is a set of keys; see docs/suites.md for an example.")
    suite = make_suite(document.data, document)
    for i, model in enumerate(suite.models):
        if problem := address_problem(model):
            raise document.error(("models", i), problem)
    if os.path.lexists(choice := choice_path(path)):
        try:
            document = read(choice)
            suite._tuned = Tuned.model_validate(document.data)
        except ValidationError as problem:
            raise _suggest_removal(document.error(*explanation(problem, Tuned))) from None
        except UsageError as error:
            raise _suggest_removal(error) from None
    return suite


def _suggest_removal(error: UsageError) -> UsageError:
    return UsageError(f"{error} Remove that file, and run `dpicl tune` again.")


def choice_path(path: Path) -> Path:
    """The file beside a suite file that says what `dpicl tune` chose."""
    return real_path(path).with_suffix(".tuned.yaml")


def make_suite(data: Mapping[str, Any], document: Document | None = None) -> Suite:
    """A suite of these keys and values; document: the file that they come from. Raises UsageError as `load_suite`."""

    def error(place: Place, message: str) -> UsageError:
        return document.error(place, message) if document else UsageError(capitalize(message))

    try:
        suite = Suite.model_validate(data)
    except ValidationError as problem:
        raise error(*explanation(problem, Suite)) from None
    for violation in find_violations(suite):
        raise error(*violation)
    suite._document = document
    suite._listed_seeds, suite._listed_epsilons = suite.seeds, suite.epsilons
    suite._grids = {entry.row: entry.settings for entry in suite.mechanisms}
    return suite


def suite_of_program(**keys: Any) -> Suite:
    """The suite, called python, of cells that a program or one command asks for. Raises UsageError as `load_suite`."""
    return make_suite({"name": "python", "version": 1, **keys})


class OptionChange(NamedTuple):
    """One `--option`: for every mechanism that has the option, or for the row or mechanism named before the dot."""

    target: str | None
    name: str
    value: Any


@dataclass(frozen=True)
class Changes:
    """What the command line asks for instead of what the suite says. Empty means: as the suite says."""

    tasks: Sequence[str] = ()
    mechanisms: Sequence[str] = ()
    models: Sequence[str] = ()
    epsilons: Sequence[float] = ()
    seeds: Sequence[int] = ()
    source: Source | None = None
    test_records: int | None = None
    options: Sequence[OptionChange] = ()


AS_IT_IS = Changes()


def apply_changes(suite: Suite, changes: Changes, known: Mapping[str, Any]) -> Suite:
    """The suite with the command line's lists in place of its own.

    A mechanism is named by its row in the suite, or by a registered name (``known``), which is then added with its own
    defaults. Raises UsageError for a mechanism that is neither, and for numbers out of range.
    """
    update: dict[str, Any] = {}
    for key in ("tasks", "models", "epsilons", "seeds"):
        if getattr(changes, key):
            update[key] = list(dict.fromkeys(getattr(changes, key)))
    if "models" in update:
        update["models"] = list(
            {name_in_results(model): model for model in update["models"]}.values()
        )
    if "seeds" in update:
        update["baseline_seeds"] = [
            seed for seed in suite.baseline_seeds if seed in update["seeds"]
        ]
        update["seeds"] = [seed for seed in update["seeds"] if seed not in suite.baseline_seeds]
    if changes.mechanisms:
        update["mechanisms"] = [
            entry
            for name in dict.fromkeys(changes.mechanisms)
            for entry in _find_entries(suite, name, known)
        ]
    if added := [model for model in changes.models if model not in suite.models]:
        entries = update.get("mechanisms", suite.mechanisms)
        update["mechanisms"] = [_add_models(entry, added) for entry in entries]
    if changes.source is not None:
        update["source"] = changes.source
    if changes.test_records is not None:
        update["test_records"] = changes.test_records
        update["task_test_records"] = {}  # a number that was asked for is that of every task
    new = suite.model_copy(update=update)
    new._from_flags = suite._from_flags | update.keys()
    for violation in find_size_violations(new):
        raise new.error(*violation)
    return new


def _add_models(entry: MechanismEntry, models: Iterable[str]) -> MechanismEntry:
    """The row on models that its suite does not name: with the tasks of the first model that it lists."""
    if not isinstance(entry.tasks, dict):
        return entry
    first = next(iter(entry.tasks.values()))
    return entry.model_copy(update={"tasks": {**entry.tasks, **dict.fromkeys(models, first)}})


def _find_entries(
    suite: Suite,
    name: str,
    known: Mapping[str, Any],
) -> list[MechanismEntry]:
    """The rows of this name, else all rows of the mechanism, else a new row of a known mechanism."""
    rows = [entry for entry in suite.mechanisms if entry.row == name]
    rows = rows or [entry for entry in suite.mechanisms if entry.name == name]
    if not rows and name not in known:
        raise unknown_name(
            "mechanism",
            name,
            {*known, *(entry.row for entry in suite.mechanisms)},
        )
    return rows or [MechanismEntry(name=name)]
