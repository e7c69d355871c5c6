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
from typing import Annotated, Any

from dpicl.api.parameters import Flag, Natural, OnePath, Paths, Results, Seed, as_list, verb
from dpicl.cli import apart
from dpicl.cli.output import Answer
from dpicl.core.errors import UsageError
from dpicl.core.messages import message
from dpicl.core.paths import DEFAULT_RESULTS, find_suite, shipped_suites
from dpicl.core.printable import make_visible
from dpicl.leaderboards.gate import card, code
from dpicl.leaderboards.gate.case import Case, Finding
from dpicl.leaderboards.gate.contents import read_contents
from dpicl.leaderboards.gate.examination import (
    ROOT,
    Examination,
    examine,
    find_submissions,
    known_suites,
    places_check,
)
from dpicl.plan.suite import Suite
from dpicl.plan.suite_files import load_suite

#: The suite of a new submission: everybody has its records, and it has five seeds.
_FIRST_SUITE = "open"
#: Seconds that one cell may take to run again, or the checks of code.
_SILENCE_SECONDS = 3600.0
#: Further sentences of one check that are shown; JSON has all.
_SHOWN = 5
_MARKS = {"ok": "ok", "failed": "FAILED", "not checked": "not checked"}


def _show(
    examinations: Sequence[Examination],
    whole: Sequence[Finding],
    boards: Sequence[str],
) -> Iterator[str]:
    for examination in examinations:
        name = examination.case.contents.name
        yield f"{name}\n{findings_text(examination.findings)}\n\n{examination.ending}"
    if whole:
        yield f"the whole\n{findings_text(whole)}"
    if not examinations:
        yield "There is no submission yet; begin one with `dpicl submit --new TEAM/METHOD`."
    yield from (f"Next: {command}" for command in boards)


def findings_text(findings: Sequence[Finding]) -> str:
    """One line a check, further sentences below it."""
    lines = []
    for finding in findings:
        lines.append(f"  {finding.check:<16} {_MARKS[finding.status]:<12} {finding.why}")
        texts = list(finding.others[:_SHOWN])
        left = len(finding.others) - _SHOWN
        if left > 0:
            texts.append(f"... and {left} more (--json has all)")
        lines += [f"  {'':<29} {text}" for text in texts]
    return "\n".join(lines)


def _silence(arguments: Mapping[str, Any]) -> float | None:
    """How many seconds a run may be silent; None where no submitted code runs."""
    return _SILENCE_SECONDS if arguments.get("run_code") else None


@verb(
    "dpicl submit leaderboards/submissions/example/vote",
    apart=_silence,
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
    files = [str(file) for file in as_list(suite)] or ([_FIRST_SUITE] if new else [])
    suites = {file: load_suite(find_suite(file)) for file in files}
    if new:
        if all or base or run_code or rerun:
            raise UsageError(
                "--new writes a card and examines nothing; leave out the other flags but --suite."
            )
        if len(suites) > 1:
            raise UsageError("A submission is of one suite; give --suite once.")
        return _write_new(place or Path(), new, *suites.popitem())
    if place is None and not all:
        raise UsageError(
            "Name the folder of a submission, or give --all; `dpicl submit --help` shows an example."
        )
    if rerun_seed is not None and not rerun:
        raise UsageError("--rerun-seed repeats the draw of a re-run; add --rerun N.")
    if base and not Path(base).is_dir():
        raise UsageError(f"There is no folder {base}; give --base a folder with an earlier copy.")
    contents = list(map(read_contents, _folders(place, all)))
    others = contents if all else [*contents, *map(read_contents, find_submissions(ROOT))]
    known = known_suites() | {suite.name: suite for suite in suites.values()}
    earlier = None if base is None else Path(base)
    settings = {"run_code": run_code, "maintainer": maintainer, "announce": _announce}
    cases = [
        Case(content, known, Path(results), earlier, others, **settings)  # type: ignore[arg-type]
        for content in contents
    ]
    if rerun and not all:  # with --all a finding says so
        reason = code.reason_not_to_rerun(cases[0])
        if reason:
            raise UsageError(f"{contents[0].name} cannot be run again: {reason}.")
    examinations = [examine(case, rerun, rerun_seed) for case in cases]
    whole = [places_check((place or ROOT).absolute())] if all else []
    return _answer(examinations, whole, {suite.name: file for file, suite in suites.items()})


def _announce(line: str) -> None:
    apart.report_alive()
    message(line)


def _answer(
    examinations: Sequence[Examination],
    whole: Sequence[Finding],
    files: Mapping[str, str],
) -> Answer:
    """whole: what was found of all submissions together. files: of suites that do not ship, by name."""
    passed = [examination for examination in examinations if examination.good]
    boards = list(dict.fromkeys(_board(examination.case, files) for examination in passed))
    is_whole_good = all(finding.status != "failed" for finding in whole)
    good = len(passed) == len(examinations) and is_whole_good
    document = {
        "ok": good,
        "submissions": [examination.as_json() for examination in examinations],
        "whole": [asdict(finding) for finding in whole],
        "next": boards,
    }
    return Answer(document, _show(examinations, whole, boards), 0 if good else 1)


def _board(case: Case, files: Mapping[str, str]) -> str:
    """The command that shows the rows of a submission among the others. files: of suites that do not ship, by name."""
    assert case.card is not None  # what passes has one
    suite = case.card.suite
    root = case.contents.folder.parent.parent
    place = os.path.relpath(root) if root.is_relative_to(Path.cwd()) else str(root)
    words = ["dpicl", "board", files.get(suite, suite), "--full", "--submissions", place]
    if case.record != Path(DEFAULT_RESULTS):
        words += ["--results", str(case.record)]
    return shlex.join(words)


def _folders(folder: Path | None, every: bool) -> list[Path]:
    if folder is not None and not folder.is_dir():
        raise UsageError(
            f"There is no folder {folder}; give that of a submission, <team>/<method>."
        )
    if not every:
        assert folder is not None  # checked before
        cards = (*folder.glob("*/submission.yaml"), *folder.glob("*/*/submission.yaml"))
        below = sorted(make_visible(str(path.parent)) for path in cards)
        if below and not (folder / "submission.yaml").exists():
            raise UsageError(
                f"{folder} holds submissions; name one of them, such as {below[0]}, or add --all."
            )
        return [folder.absolute()]
    folders = find_submissions(folder or ROOT)
    if not folders and folder is not None:
        raise UsageError(
            f"There is no submission below {folder}; they are folders <team>/<method>."
        )
    return [path.absolute() for path in folders]


def _write_new(root: Path, name: str, file: str, suite: Suite) -> Answer:
    """file: the suite's, or its name."""
    paths = card.begin(root, name, suite, datetime.now(UTC).year)
    folder = paths[0].parent
    mechanism = str(folder / f"{folder.name}.py")
    run = [
        "run",
        file,
        "--plugin",
        mechanism,
        "--mechanism",
        folder.name,
        "--results",
        str(folder / "results"),
    ]
    send = ["submit", str(folder)]
    if file not in shipped_suites():
        send += ["--suite", file]
    commands = [shlex.join(["dpicl", *words]) for words in (["check", mechanism], run, send)]
    lines = [f"Wrote {path}" for path in paths]
    lines.append("Fill in the card, put your mechanism beside it, then:")
    lines += [f"  {command}" for command in commands]
    return Answer({"files": list(map(str, paths)), "next": commands}, lines)
