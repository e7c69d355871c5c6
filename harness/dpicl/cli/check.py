"""`dpicl check`: the conformance kit on a mechanism, or on all of a file's. Exit code 1 when a check fails."""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import asdict
from pathlib import Path

from dpicl.cli import output
from dpicl.cli.apart import Alive, run_apart
from dpicl.cli.arguments import Subparsers, add_command, options_of
from dpicl.conformance.kit import check_mechanism
from dpicl.core.errors import ResultError
from dpicl.core.plugins import Registered
from dpicl.mechanism import checked
from dpicl.mechanism.registry import find_mechanism, load_mechanisms, load_plugin


def add(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "check", "dpicl check voting --task agnews", _check)
    parser.add_argument("mechanism", metavar="NAME_OR_FILE", help="see `dpicl list mechanisms`, or a Python file")
    parser.add_argument("--task", metavar="T", help="check on this task only (default: one of every kind that it does)")
    parser.share("--seed", "--option", "--plugin")


def _check(arguments: argparse.Namespace) -> int:
    """The checks run apart: whatever a plug-in does to its process, it passes only by a verdict of the kit."""
    return run_apart(lambda alive: _check_here(arguments, alive))


def _check_here(arguments: argparse.Namespace, alive: Alive) -> int:
    documents, good = [], True
    given = _mechanisms(arguments)
    names = {item.cls.name for item in given}
    for cls in (item.cls for item in given):
        started = time.monotonic()
        seen: list[str] = []

        def report(task: str, check: str, name: str = cls.name, seen: list[str] = seen) -> None:
            alive()
            if task not in seen:
                seen.append(task)
                output.message(f"{name} on {task}")

        others = names - {cls.name}
        options = options_of(cls.name, [option for option in arguments.option if option[0] not in others])
        findings = check_mechanism(cls, arguments.task, options, arguments.seed, report)
        passed = all(finding.status != "failed" for finding in findings)
        good = good and passed
        rows = [asdict(finding) for finding in findings]
        documents.append({"mechanism": cls.name, "ok": passed, "tasks": seen, "checks": rows})
        if not arguments.json:
            columns = ["check", "", "seen"]
            output.emit_table(columns, [[f.check, f.status, f.why] for f in findings], title=cls.name)
            failures = sum(finding.status == "failed" for finding in findings)
            end = "all checks passed" if passed else f"{output.count(failures, 'check')} failed"
            where = f" on {', '.join(seen)}" if seen else ""
            output.emit(f"{cls.name}: {end}{where} in {output.duration(time.monotonic() - started)}")
    digest = given[0].plugin_hash if given else None
    if digest and arguments.task is None and not arguments.option:
        _note(digest, good)
    elif digest and good:
        output.message("Rows of this file keep the mark ‡: only a check without --task and --option counts for them.")
    if arguments.json:
        output.emit_json({"ok": good, "seed": arguments.seed, "mechanisms": documents})
    return 0 if good else 1


def _note(digest: str, passed: bool) -> None:
    """So that a run of this file says in its results whether the kit passed it."""
    try:
        checked.note(digest, passed)
    except ResultError as error:
        output.message(f"Results of this file will not say that it was checked: {error}")


def _mechanisms(arguments: argparse.Namespace) -> list[Registered]:
    """The mechanisms of a file, or the one of that name. Raises UsageError or PluginError where there is none."""
    given: str = arguments.mechanism
    if given.endswith(".py") or os.path.isfile(given):  # False for a name that is too long
        return load_plugin(Path(given))
    known = load_mechanisms(arguments.plugin)
    find_mechanism(given, known)
    return [known[given]]
