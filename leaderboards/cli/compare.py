"""`dpicl compare`: did a release of a model, of a mechanism or of a package make anything worse?"""

from __future__ import annotations

import argparse
from pathlib import Path

from dpicl.harness.cli import output
from dpicl.harness.cli.arguments import Parser, Subparsers, add_command, numeric, passed
from dpicl.harness.core.errors import ResultError, UsageError
from dpicl.leaderboards.compare.pairing import Filter
from dpicl.leaderboards.compare.sides import read_side
from dpicl.leaderboards.compare.verdicts import Settings, compare
from dpicl.leaderboards.render import comparison_text
from dpicl.leaderboards.render.as_json import comparison_json

#: Exit code where something got worse or is missing, and `--fail-on-regression` is given.
REGRESSED = 1
_STDOUT = "-"


def add(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(
        subparsers,
        "compare",
        "dpicl compare results/classification/embedded candidate/classification --fail-on-regression",
        _compare,
    )
    parser.add_argument("base", type=Path, metavar="BASE", help="result file or folder of what is there")
    parser.add_argument("candidate", type=Path, metavar="CANDIDATE", help="result file or folder of what is to come")
    parser.add_argument(
        "--fail-on-regression", action="store_true", help="exit code 1 when a cell got worse or is missing"
    )
    parser.add_argument(
        "--allow-missing", action="store_true", help="the candidate may lack rows, seeds and metrics of the base"
    )
    parser.add_argument(
        "--alpha",
        type=numeric(lambda value: 0 < value < 1, "it must lie between 0 and 1, both excluded"),
        default=0.05,
        metavar="A",
        help="family-wise error over all cells (default: 0.05)",
    )
    parser.add_argument(
        "--min-effect",
        type=numeric(lambda value: 0 <= value < 1, "it must lie between 0 and 1"),
        default=0.01,
        metavar="X",
        help="smallest change that counts (default: 0.01)",
    )
    parser.add_argument("--metric", metavar="M", help="metric to compare (default: the main metric of each task)")
    parser.choice(
        "--test",
        ("calibrated", "bootstrap"),
        "exact McNemar, sign flips or seeds × documents, as fits (default); or the paired bootstrap everywhere",
        default="calibrated",
    )
    add_cell_flags(parser)
    parser.add_argument("--markdown", metavar="FILE", help="also write it as Markdown; '-' prints that instead")


def add_cell_flags(parser: Parser) -> None:
    """Which cells of result files; each may be repeated."""
    parser.repeated("--task", "T", "task")
    parser.repeated("--mechanism", "M", "row or mechanism")
    parser.repeated("--epsilon", "E", "target epsilon", numeric(lambda value: value >= 0, "epsilon is 0 or above"))


def _compare(arguments: argparse.Namespace) -> int:
    if arguments.json and arguments.markdown == _STDOUT:
        raise UsageError("--json and --markdown - both want stdout; give --markdown a file.")
    base, candidate = read_side("base", arguments.base), read_side("candidate", arguments.candidate)
    settings = Settings(method=arguments.test, **passed(Settings, arguments))
    wanted = Filter(*map(tuple, (arguments.task, arguments.mechanism, arguments.epsilon)))
    comparison = compare(base, candidate, settings, wanted)
    for side in (base, candidate):
        if side.foreign:
            output.message(
                f"dpicl: left out {output.count(len(side.foreign), 'JSON file')} of {side.name} that are no results,"
                f" for example {side.foreign[0]}."
            )
    if arguments.markdown == _STDOUT:
        output.emit(comparison_text.render_markdown(comparison))
    elif arguments.markdown:
        _write(Path(arguments.markdown), comparison_text.render_markdown(comparison))
    if arguments.json:
        output.emit_json(comparison_json(comparison))
    elif arguments.markdown != _STDOUT:
        output.emit(comparison_text.render_terminal(comparison), styled=True)
    return REGRESSED if arguments.fail_on_regression and comparison.regressed else 0


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ResultError(f"Cannot write {path}: {error.strerror}; choose another file with --markdown.") from error
