"""`dpicl check`: runs the conformance kit on the mechanisms of a name or a file. Exit code 1 when a check fails."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from dpicl.api import parameters as p
from dpicl.api.tables import Findings
from dpicl.cli import apart
from dpicl.cli.output import Answer
from dpicl.conformance.kit import CheckFinding, check_mechanism
from dpicl.core.errors import ResultError
from dpicl.core.messages import count, message
from dpicl.engines.worker import limit_threads
from dpicl.mechanism import checked
from dpicl.mechanism.given import Given, GivenMechanism, given_mechanism
from dpicl.mechanism.options import option_types, share_out
from dpicl.mechanism.registry import load_plugin
from dpicl.results.manifest import cores
from dpicl.tables.document import Block, text_table

#: A mechanism has some thirty settings of unequal size: more processes wait for the largest.
_MOST_PROCESSES = 8


def _answer(verdicts: Findings, arguments: Mapping[str, Any]) -> Answer:
    documents, shown = [], list[Block | str]()
    for name, (tasks, findings) in verdicts.by_mechanism.items():
        failures = sum(finding.status == "failed" for finding in findings)
        checks = [asdict(finding) for finding in findings]
        documents.append({"mechanism": name, "ok": not failures, "tasks": tasks, "checks": checks})
        shown.append(
            text_table(
                ["check", "", "seen"],
                [[f.check, f.status, f.why] for f in findings],
                name,
            )
        )
        end = f"{count(failures, 'check')} failed" if failures else "all checks passed"
        shown.append(f"{name}: {end}{' on ' if tasks else ''}{', '.join(tasks)}")
    return Answer(
        {"ok": verdicts.ok, "seed": verdicts.seed, "mechanisms": documents},
        shown,
        0 if verdicts.ok else 1,
    )


@p.verb(
    "dpicl check voting --task agnews",
    answer=_answer,
    # whatever a plug-in does to its process, it passes only by a verdict
    apart=lambda changes: apart.SILENCE_SECONDS,
)
def check(
    mechanism: Annotated[GivenMechanism, p.OneMechanism, p.Flag(metavar="NAME_OR_FILE")],
    *,
    task: p.Task | None = None,
    seed: p.Seed = 0,
    options: p.Options | None = None,
    plugins: p.Plugins = (),
    progress: Annotated[bool, p.HIDDEN] = True,
) -> Findings:
    """The conformance kit on a mechanism, or on all of a file: it looks for the usual privacy bugs in small runs.

    From Python it runs in this process: for code that you do not trust, `dpicl check` has a process of its own.
    Raises UsageError for a task that the mechanism cannot do and for options that do not fit.

    mechanism: see `dpicl list mechanisms`, or a Python file.
    task: check on this task only (default: one of every kind that it does).
    """
    by_name = dict[str, tuple[list[str], list[CheckFinding]]]()
    processes = 1
    if apart.is_apart():
        limit_threads(1)  # a fork hangs where it needs the threads of OpenMP that its parent had
        processes = min(cores(), _MOST_PROCESSES)
    every = _find_given(mechanism, p.as_list(plugins))
    changes = share_out(
        {each.name: option_types(each.cls) for each in every}, p.option_changes(options)
    )
    for each in every:
        tasks: list[str] = []

        def report(task: str, name: str = each.name, tasks: list[str] = tasks) -> None:
            tasks.append(task)
            if progress:
                message(f"{name} on {task}")

        changed = {**each.options, **changes[each.name]}
        findings = check_mechanism(
            each.cls, task, changed, seed, report, apart.report_alive, processes
        )
        by_name[each.name] = tasks, findings
    every_finding = [finding for _, findings in by_name.values() for finding in findings]
    verdicts = Findings(every_finding, by_mechanism=by_name, seed=seed)
    digest = every[0].registered.plugin_hash if every else None
    if digest and task is None and not options:
        _note(digest, verdicts.ok)
    elif digest and verdicts.ok:
        message(
            "Rows of this file keep the mark ‡: only a check without --task and --option counts for them."
        )
    return verdicts


def _find_given(mechanism: GivenMechanism, plugins: list[Path]) -> list[Given]:
    """The mechanisms of a file, or the one that was given. Raises UsageError or PluginError where there is none."""
    if isinstance(mechanism, str | Path) and (
        str(mechanism).endswith(".py") or os.path.isfile(mechanism)
    ):
        # isfile: False for a name that is too long
        return [Given(each) for each in load_plugin(Path(mechanism))]
    return [given_mechanism(mechanism, plugins)]


def _note(digest: str, passed: bool) -> None:
    """So that a run of this file says in its results whether the kit passed it."""
    try:
        checked.note(digest, passed)
    except ResultError as error:
        message(f"Results of this file will not say that it was checked: {error}")
