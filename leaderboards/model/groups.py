"""The commands that make a row again, and that audit it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from dpicl.harness.core.cell import Cell
from dpicl.leaderboards.model.comparability import Group
from dpicl.leaderboards.model.rows import Row

#: What `dpicl audit` takes when no `--delta` is given.
DEFAULT_DELTA = 1e-5


def reproduce_command(group: Group, row: Row) -> str:
    """The command that makes a row again. That of a submitted row runs the code that was sent in.

    Options from the command line are part of the label, as 'row+name=value' (see dpicl.harness.run.expand).
    """
    cell, submission = row.results[0].cell, row.submission
    words = ["dpicl", "run", group.asked]
    if submission is None:
        label, *options = cell.label.split("+")
    else:
        label = cell.mechanism
        options = [f"{label}.{name}={json.dumps(value)}" for name, value in sorted(cell.options.items())]
        if submission.plugin is not None:
            words += ["--plugin", f"leaderboards/submissions/{submission.name}/{submission.plugin.name}"]
    words += ["--task", cell.task, "--mechanism", label, "--model", cell.model, "--source", group.source]
    words += [] if row.is_end else ["--epsilon", f"{cell.epsilon:g}"]
    words += [] if cell.test_records is None else ["--limit", str(cell.test_records)]
    return shlex.join([*words, *(word for option in options for word in ("--option", option))])


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
