"""What stands on boards beside a suite's own results: attacks, submissions, reasons; and `dpicl board attacks`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpicl.harness.cli import output
from dpicl.harness.core.errors import UsageError

if TYPE_CHECKING:
    from dpicl.harness.attacks.results import AttackResult, External
    from dpicl.harness.mechanism.registry import Registered
    from dpicl.harness.run.results import Result
    from dpicl.harness.run.selection import Selection
    from dpicl.leaderboards.model.submissions import Submission

#: What stands for a suite in `dpicl board attacks`.
ATTACKS = "attacks"
#: What stands for a suite in `dpicl board all`.
ALL = "all"


def load(results: Path) -> tuple[list[AttackResult], list[External]]:
    """Every attack result and every external evaluation; one sentence on stderr about files that are neither."""
    from dpicl.harness.attacks.store import load_attacks, load_external

    attacks, damaged = load_attacks(results)
    external, more = load_external(results)
    for bad, what in ((damaged, "attack result"), (more, "external evaluation")):
        if bad:
            others = f"; so are {len(bad) - 1} more" if len(bad) > 1 else ""
            output.message(
                f"dpicl: {bad[0].path} is no {what} of this version and is ignored: {bad[0].reason}{others}."
            )
    return attacks, external


def defaults(mechanisms: Mapping[str, Registered]) -> Callable[[str, str], Mapping[str, Any]]:
    """(mechanism, task) -> the options that it has when none is given; none where the mechanism is not known."""
    from dpicl.harness.run.expand import resolve_options

    def of(mechanism: str, task: str) -> Mapping[str, Any]:
        return resolve_options(mechanisms[mechanism].cls, task, {}) if mechanism in mechanisms else {}

    return of


def show(arguments: argparse.Namespace) -> int:
    """`dpicl board attacks`: all of them, whether a suite has a row for them or not."""
    from dpicl.harness.mechanism import registry

    if arguments.limit is not None:
        raise UsageError("--limit is about the test records of a suite; `dpicl board attacks` has none.")
    attacks, external = load(arguments.results)
    chosen = [one for one in attacks if _chosen(one, arguments)]
    boards = registry.leaderboards()
    board = boards.build_attacks(chosen, external)
    page = registry.leaderboards("html").write_attacks_html(board, arguments.html) if arguments.html else None
    if arguments.json:
        output.emit_json({**boards.attacks_json(board), "page": page})
        return 0
    if len(chosen) < len(attacks):
        output.message(f"{output.count(len(attacks) - len(chosen), 'attack')} with another model or source left out.")
    output.emit(registry.leaderboards("terminal_attacks").render_attacks(board), styled=True)
    if page:
        output.emit(f"Page: {page}")
    return 0


def _chosen(result: AttackResult, arguments: argparse.Namespace) -> bool:
    subject = result.subject
    return (not arguments.model or subject.model in arguments.model) and (
        arguments.source in (None, "auto", subject.source)
    )


def submissions_of(arguments: argparse.Namespace, suite: str | None = None) -> list[Submission]:
    """The submissions (to one suite) that pass the gate's cheap checks; a sentence on stderr for each other one."""
    from dpicl.harness.core.errors import UsageError
    from dpicl.harness.core.paths import find_suite
    from dpicl.harness.mechanism import registry

    if arguments.no_submissions:
        return []
    folder: Path | None = arguments.submissions
    if folder is not None and not folder.is_dir():
        raise UsageError(f"There is no folder {folder}; give one with <team>/<method> below it, or --no-submissions.")
    gate = registry.leaderboards("gate")
    found: list[Submission]
    more = [] if arguments.suite == ALL else [find_suite(arguments.suite)]
    found, problems = gate.load_submissions(folder or gate.ROOT, gate.known_suites(more), suite)
    for problem in problems:
        output.message(f"dpicl: {problem}")
    return found


def skip_reasons(selection: Selection, results: list[Result]) -> list[dict[str, str]]:
    """Why rows of the suite have no result on a task, where the mechanism says so itself."""
    from dpicl.harness.data.task import Task
    from dpicl.harness.mechanism.bases import Mechanism
    from dpicl.harness.run.expand import build

    there = {(result.cell.label, result.cell.task) for result in results}
    reasons: dict[tuple[str, str], str] = {}
    for cell in selection.cells:
        key = (cell.label, cell.task)
        cls = selection.mechanisms[cell.mechanism].cls
        if key in there or key in reasons or cls.skip is Mechanism.skip:
            continue
        if reason := build(cls, cell.options).skip(Task.without_records(cell.task)):
            reasons[key] = reason
    return [{"label": label, "task": task, "reason": reason} for (label, task), reason in reasons.items()]
