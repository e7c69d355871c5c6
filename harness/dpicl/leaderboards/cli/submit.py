"""`dpicl submit`: the gate of submissions to the board. Exit code 1 when a check fails.

It reads files. Submitted code runs only with `--run-code`, after a line that says so; run that in a container.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from dpicl.api.parameters import Flag, Natural, OnePath, Paths, Results, Seed, as_list, verb
from dpicl.cli import apart
from dpicl.cli.output import Answer
from dpicl.core.errors import UsageError
from dpicl.core.messages import message
from dpicl.core.paths import DEFAULT_RESULTS, find_suite, shipped_suites
from dpicl.core.printable import make_visible
from dpicl.leaderboards.gate import card, code, examination
from dpicl.leaderboards.gate.case import Case, Finding
from dpicl.leaderboards.gate.contents import read_contents
from dpicl.leaderboards.gate.examination import ROOT, Examination, examine, known_suites, places_check
from dpicl.leaderboards.gate.history import removed_check
from dpicl.plan.suite import Suite, load_suite

#: The suite of a new submission: everybody has its records, and it has five seeds.
_FIRST_SUITE = "open"
#: Seconds that one cell may take to run again, or the checks of code.
_SILENCE_SECONDS = 3600.0
#: Further sentences of one check that are shown; JSON has all.
_SHOWN = 5
_MARKS = {"ok": "ok", "failed": "FAILED", "not checked": "not checked"}


def _show(found: Sequence[Examination], whole: Sequence[Finding], boards: Sequence[str]) -> Iterator[str]:
    for one in found:
        yield f"{one.case.contents.name}\n{findings_text(one.findings)}\n\n{one.ending}"
    if whole:
        yield f"the whole\n{findings_text(whole)}"
    if not found:
        yield "There is no submission yet; begin one with `dpicl submit --new TEAM/METHOD`."
    yield from (f"Next: {command}" for command in boards)


def findings_text(findings: Sequence[Finding]) -> str:
    """One line a check, further sentences below it."""
    lines = []
    for finding in findings:
        lines.append(f"  {finding.check:<16} {_MARKS[finding.status]:<12} {finding.why}")
        left = len(finding.others) - _SHOWN
        more = [*finding.others[:_SHOWN], *([f"... and {left} more (--json has all)"] if left > 0 else [])]
        lines += [f"  {'':<29} {text}" for text in more]
    return "\n".join(lines)


@verb(
    "dpicl submit leaderboards/submissions/example/vote",
    apart=lambda given: _SILENCE_SECONDS if given.get("run_code") else None,
)
def submit(
    folder: Annotated[OnePath | None, Flag(metavar="DIR")] = None,
    *,
    all: bool = False,
    new: Annotated[str | None, Flag(metavar="TEAM/METHOD")] = None,
    results: Results = DEFAULT_RESULTS,
    suite: Annotated[Paths, Flag(metavar="FILE")] = (),
    base: Annotated[OnePath | None, Flag(metavar="DIR")] = None,
    maintainer: bool = False,
    run_code: bool = False,
    rerun: Natural = 0,
    rerun_seed: Seed | None = None,
) -> Answer:
    """The gate of submissions: files, records, epsilon, history; or the beginning of a new one.

    It reads files. Submitted code runs only with `run_code`, after a line that says so.
    Raises UsageError for parameters that contradict each other or lack another.

    folder: the submission: <team>/<method>.
    all: every submission below DIR (default: those of the project).
    new: write a card to fill in, below DIR (default: this folder).
    results: results of record, to compare with.
    suite: a suite that does not ship; may be repeated. With `new`: the suite of the card (default: open).
    base: an earlier copy, to compare with: scores move only with a new version.
    maintainer: footnote, unreliable and reproduced may be new or changed.
    run_code: run the submitted mechanism, here: use a container.
    rerun: run N cells again, drawn at random (7 or more of demonstrations: fewer confirm nothing elsewhere).
    rerun_seed: draw the cells of an earlier re-run again.
    """
    place = None if folder is None else Path(folder)
    asked = [str(one) for one in as_list(suite)] or ([_FIRST_SUITE] if new else [])
    own = {one: load_suite(find_suite(one)) for one in asked}
    if new:
        if all or base or run_code or rerun:
            raise UsageError("--new writes a card and examines nothing; leave out the other flags but --suite.")
        if len(own) > 1:
            raise UsageError("A submission is of one suite; give --suite once.")
        return _write_new(place or Path(), new, *own.popitem())
    refused = {
        "Name the folder of a submission, or give --all; `dpicl submit --help` shows an example.": not (place or all),
        "--rerun-seed repeats the draw of a re-run; add --rerun N.": rerun_seed is not None and not rerun,
        f"There is no folder {base}; give --base a folder with an earlier copy.": base and not Path(base).is_dir(),
    }
    if problem := next((sentence for sentence, is_so in refused.items() if is_so), ""):
        raise UsageError(problem)
    folders = _folders(place, all)
    contents = [read_contents(one) for one in folders]

    def announce(line: str) -> None:
        apart.report_alive()
        message(line)

    others = contents if all else [*contents, *map(read_contents, examination.find_submissions(ROOT))]
    suites = known_suites() | {one.name: one for one in own.values()}
    files, earlier = {one.name: file for file, one in own.items()}, None if base is None else Path(base)
    cases = [
        Case(one, suites, Path(results), earlier, others, run_code=run_code, maintainer=maintainer, announce=announce)
        for one in contents
    ]
    if rerun and not all and (reason := code.reason_not_to_rerun(cases[0])):
        raise UsageError(f"{contents[0].name} cannot be run again: {reason}.")  # with --all a finding says so
    found = [examine(one, rerun, rerun_seed) for one in cases]
    whole = [places_check((place or ROOT).absolute()), removed_check(earlier, folders)] if all else []
    boards = list(dict.fromkeys(_board(one.case, files) for one in found if one.good))
    good = not any([*(not one.good for one in found), *(one.status == "failed" for one in whole)])
    document = {"ok": good, "submissions": [one.as_json() for one in found]}
    document |= {"whole": [asdict(one) for one in whole], "next": boards}
    return Answer(document, _show(found, whole, boards), 0 if good else 1)


def _board(case: Case, files: Mapping[str, str]) -> str:
    """The command that shows the rows of a submission among the others. files: of suites that do not ship, by name."""
    suite, root = str(case.contents.suite), case.contents.folder.parent.parent
    suite = files.get(suite, suite)
    results = ["--results", str(case.record)] if case.record != Path(DEFAULT_RESULTS) else []
    place = os.path.relpath(root) if root.is_relative_to(Path.cwd()) else str(root)
    return shlex.join(["dpicl", "board", suite, "--full", "--submissions", place, *results])


def _folders(folder: Path | None, every: bool) -> list[Path]:
    if folder is not None and not folder.is_dir():
        raise UsageError(f"There is no folder {folder}; give that of a submission, <team>/<method>.")
    if not every:
        assert folder is not None  # checked before
        cards = (*folder.glob("*/submission.yaml"), *folder.glob("*/*/submission.yaml"))
        below = sorted(make_visible(str(path.parent)) for path in cards)
        if below and not (folder / "submission.yaml").exists():
            raise UsageError(f"{folder} holds submissions; name one of them, such as {below[0]}, or add --all.")
        return [folder.absolute()]
    found = examination.find_submissions(folder or ROOT)
    if not found and folder is not None:
        raise UsageError(f"There is no submission below {folder}; they are folders <team>/<method>.")
    return [one.absolute() for one in found]


def _write_new(root: Path, name: str, file: str, suite: Suite) -> Answer:
    """file: the suite's, or its name."""
    written = card.begin(root, name, suite, datetime.now(UTC).year)
    folder = written[0].parent
    mechanism = str(folder / f"{folder.name}.py")
    run = ["run", file, "--plugin", mechanism, "--mechanism", folder.name, "--results", str(folder / "results")]
    last = ["submit", str(folder), *([] if file in shipped_suites() else ["--suite", file])]
    commands = [shlex.join(["dpicl", *words]) for words in (["check", mechanism], run, last)]
    shown = [*(f"Wrote {path}" for path in written), "Fill in the card, put your mechanism beside it, then:"]
    shown += [f"  {one}" for one in commands]
    return Answer({"files": [str(path) for path in written], "next": commands}, shown)
