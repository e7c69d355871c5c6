"""What must be equal before two results may stand in one table, and the commands that make such results."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpicl.harness.core.cell import Cell
from dpicl.harness.run.results import Result

#: What `dpicl audit` takes when no `--delta` is given.
DEFAULT_DELTA = 1e-5


@dataclass(frozen=True)
class Group:
    """One suite version (hash of its content), one model (hash of its weights), one source of records, one delta.

    asked: the suite as a command names it: its name, or the path of its file.
    """

    suite: str
    version: str
    suite_hash: str
    model: str
    weights: str | None
    source: str
    delta: float
    asked: str

    @property
    def simulated(self) -> bool:
        """Whether the model is the seeded fake one."""
        return self.model == "sim" or self.model.startswith("sim:")

    def run_command(self, task: str, mechanism: str) -> str:
        """The command that makes the results of one mechanism on one task."""
        words = ["dpicl", "run", self.asked, "--task", task, "--mechanism", mechanism, "--model", self.model]
        return shlex.join([*words, "--source", self.source])


def group_of(result: Result, asked: str | None = None) -> Group:
    """The group of a result. asked: see `Group`; None stands for the suite's name."""
    return Group(
        suite=result.suite.name,
        version=str(result.suite.version),
        suite_hash=result.suite.hash,
        model=result.cell.model,
        weights=result.manifest.model.sha256 or result.manifest.model.revision,
        source=result.manifest.data.source,
        delta=result.cell.delta,
        asked=asked or result.suite.name,
    )


def reproduce_command(group: Group, cell: Cell, fixed: bool) -> str:
    """The command that makes a row again. fixed: its epsilon is 0 or infinite by nature and is not asked for.

    Options from the command line are part of the label, as 'row+name=value' (see dpicl.harness.run.expand).
    """
    row, *changes = cell.label.split("+")
    command = group.run_command(cell.task, row)
    if not fixed:
        command += f" --epsilon {cell.epsilon:g}"
    if cell.test_records is not None:
        command += f" --limit {cell.test_records}"
    return command + "".join(f" --option {shlex.quote(change)}" for change in changes)


def audit_command(group: Group, cell: Cell, defaults: Mapping[str, Any]) -> str:
    """The command that audits a row's mechanism at its epsilon.

    It has the row's options that are words or switches, where they differ from ``defaults``; sizes are the audit's own.
    Noise of an audit is seeded and its results are public, so records that are private in earnest are no part of one.
    """
    words = ["dpicl", "audit", cell.mechanism, "--task", cell.task, "--epsilon", f"{cell.epsilon:g}"]
    words += ["--model", group.model, "--source", "synthetic" if cell.secure else group.source]
    if group.delta != DEFAULT_DELTA:
        words += ["--delta", f"{group.delta:g}"]
    for name, value in sorted(cell.options.items()):
        if isinstance(value, str | bool) and (name not in defaults or defaults[name] != value):
            words += ["--option", f"{name}={json.dumps(value) if isinstance(value, bool) else value}"]
    return shlex.join(words) + (" --plugin FILE" if cell.plugin else "")
