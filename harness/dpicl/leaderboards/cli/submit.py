"""`dpicl submit`: the gate of submissions to the board. Exit code 1 when a check fails.

It reads files. Submitted code runs only with `--run-code`, after a line that says so; run that in a container.
"""

from __future__ import annotations

import argparse
import shlex
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from dpicl.cli import output
from dpicl.cli.apart import Alive, run_apart
from dpicl.cli.arguments import Subparsers, add_command, whole
from dpicl.core.errors import UsageError
from dpicl.leaderboards.gate import card, code, examination, report
from dpicl.leaderboards.gate.case import Request
from dpicl.leaderboards.gate.contents import Contents, read_contents
from dpicl.leaderboards.gate.examination import ROOT, examine, known_suites, places_check
from dpicl.leaderboards.gate.findings import Finding
from dpicl.leaderboards.gate.history import removed_check
from dpicl.leaderboards.gate.report import Examination
from dpicl.leaderboards.model import text
from dpicl.results import manifest

#: The suite of a new submission: everybody has its records, and it has five seeds.
_FIRST_SUITE = "open"
#: Seconds that one cell may take to run again, or the checks of code.
_SILENCE_SECONDS = 3600.0


def add(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(
        subparsers,
        "submit",
        "dpicl submit leaderboards/submissions/example/vote --run-code --rerun 2",
        _submit,
    )
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR", help="the submission: <team>/<method>")
    parser.add_argument("--all", action="store_true", help="every submission below DIR (default: those of the project)")
    parser.add_argument(
        "--new", metavar="TEAM/METHOD", help="write a card to fill in, below DIR (default: this folder)"
    )
    parser.share("--results", help="results of record, to compare with")
    parser.repeated("--suite", "FILE", "a suite that does not ship", Path, split=False)
    parser.add_argument(
        "--base",
        type=Path,
        metavar="DIR",
        help="an earlier copy, to compare with: scores move only with a new version",
    )
    parser.add_argument(
        "--maintainer", action="store_true", help="footnote, unreliable and reproduced.json may be new or changed"
    )
    parser.add_argument("--run-code", action="store_true", help="run the submitted mechanism, here: use a container")
    parser.add_argument("--rerun", type=whole(1), default=0, metavar="N", help="run N cells again, drawn at random")
    parser.add_argument(
        "--rerun-seed",
        type=whole(0),
        metavar="S",
        help="draw the cells of an earlier re-run again",
    )
    parser.add_argument("--record", action="store_true", help="write what the re-run found to reproduced.json")
    parser.add_argument("--by", metavar="NAME", help="with --record: who ran it again")
    parser.add_argument("--markdown", action="store_true", help="the report as Markdown")


def _submit(arguments: argparse.Namespace) -> int:
    if arguments.new:
        return _new(arguments)
    _require_sense(arguments)
    if arguments.run_code:  # whatever the code does to its process, it passes only by a verdict of the gate
        return run_apart(lambda alive: _examine(arguments, alive), silence=_SILENCE_SECONDS)
    return _examine(arguments, lambda: None)


def _examine(arguments: argparse.Namespace, alive: Alive) -> int:
    root = (arguments.folder or ROOT).absolute()
    folders = _folders(arguments)
    contents = [read_contents(folder) for folder in folders]

    def announce(line: str) -> None:
        alive()
        output.message(line)

    request = Request(
        suites=known_suites(arguments.suite),
        results=arguments.results,
        base=arguments.base,
        run_code=arguments.run_code,
        maintainer=arguments.maintainer,
        rerun=arguments.rerun,
        rerun_seed=arguments.rerun_seed,
        announce=announce,
    )
    others = contents if arguments.all else [*contents, *map(read_contents, examination.find_submissions(ROOT))]
    if arguments.rerun:
        _require_runnable(arguments, contents)
    found = [examine(one, request, others) for one in contents]
    extra = [places_check(root), removed_check(arguments.base, folders)] if arguments.all else []
    good = all(one.good for one in found) and all(finding.status != "failed" for finding in extra)
    if arguments.json:
        documents = [one.as_json() for one in found]
        output.emit_json({"ok": good, "submissions": documents, "whole": [asdict(one) for one in extra]})
    elif arguments.markdown:
        output.emit(report.markdown(found, extra))
    else:
        _show(found, extra)
    if arguments.record:
        _record(arguments, found)
    return 0 if good else 1


def _require_runnable(arguments: argparse.Namespace, contents: list[Contents]) -> None:
    """Raises UsageError for a re-run that may not be made; with --all that is a finding of the submission instead."""
    if arguments.record and manifest.commit()[1]:
        raise UsageError(
            "A record names the commit that ran the cells, and tracked files are changed; commit them first."
        )
    one = contents[0] if contents else None
    if arguments.all or one is None or one.size or one.card is None or not one.results:
        return
    if reason := code.may_run(one, arguments.run_code):
        raise UsageError(f"{one.name} cannot be run again: {reason}.")


def _require_sense(arguments: argparse.Namespace) -> None:
    """Raises UsageError for flags that contradict each other or lack another."""
    if arguments.folder is None and not arguments.all:
        raise UsageError("Name the folder of a submission, or give --all; `dpicl submit --help` shows an example.")
    if arguments.record and not arguments.rerun:
        raise UsageError("There is nothing to record without a re-run; add --rerun N.")
    if arguments.record and not arguments.by:
        raise UsageError("A record says who ran the cells again; add --by NAME.")
    if arguments.json and arguments.markdown:
        raise UsageError("Give either --json or --markdown, not both.")
    if arguments.base is not None and not arguments.base.is_dir():
        raise UsageError(f"There is no folder {arguments.base}; give --base a folder with an earlier copy.")


def _folders(arguments: argparse.Namespace) -> list[Path]:
    folder: Path | None = arguments.folder
    if folder is not None and not folder.is_dir():
        raise UsageError(f"There is no folder {folder}; give that of a submission, <team>/<method>.")
    if not arguments.all:
        assert folder is not None  # _require_sense
        cards = (*folder.glob("*/submission.yaml"), *folder.glob("*/*/submission.yaml"))
        below = sorted(text.visible(str(path.parent)) for path in cards)
        if below and not (folder / "submission.yaml").exists():
            raise UsageError(f"{folder} holds submissions; name one of them, such as {below[0]}, or add --all.")
        return [folder.absolute()]
    found = examination.find_submissions(folder or ROOT)
    if not found and folder is not None:
        raise UsageError(f"There is no submission below {folder}; they are folders <team>/<method>.")
    return [one.absolute() for one in found]


def _show(found: list[Examination], extra: list[Finding]) -> None:
    for one in found:
        output.emit(f"{one.contents.name}\n{report.findings_text(one.findings)}\n")
        columns, rows = report.rows_of(one)
        if rows:
            output.emit_table(columns, rows)
        output.emit(report.ending(one) + "\n")
    if extra:
        output.emit(f"the whole\n{report.findings_text(extra)}")
    if not found:
        output.emit("There is no submission yet; begin one with `dpicl submit --new TEAM/METHOD`.")


def _record(arguments: argparse.Namespace, found: list[Examination]) -> None:
    for one in found:
        if one.reruns:
            path = one.contents.folder / card.REPRODUCED
            card.write_reproduced(path, [cell.reproduction(arguments.by) for cell in one.reruns])
            output.message(f"Recorded {output.count(len(one.reruns), 'cell')} in {path}")


def _new(arguments: argparse.Namespace) -> int:
    root = arguments.folder or Path()
    suite = known_suites(arguments.suite)[_FIRST_SUITE]
    written = card.begin(root, arguments.new, suite, datetime.now(UTC).year)
    folder = written[0].parent
    file = str(folder / f"{folder.name}.py")
    run = ["run", _FIRST_SUITE, "--plugin", file, "--mechanism", folder.name, "--results", str(folder / "results")]
    commands = [shlex.join(["dpicl", *words]) for words in (["check", file], run, ["submit", str(folder)])]
    if arguments.json:
        output.emit_json({"files": [str(path) for path in written], "next": commands})
        return 0
    output.emit("\n".join(f"Wrote {path}" for path in written))
    output.emit("\n".join(["Fill in the card, put your mechanism beside it, then:", *(f"  {one}" for one in commands)]))
    return 0
