"""`dpicl compare`: which of two rows of a board is better, and did a release make anything worse?

Two rows (`dpicl compare tang pta --suite field`) are compared as the rank sets of their board are; two folders of
results are two releases of one model, cell by cell.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dpicl.cli import output
from dpicl.cli.arguments import Parser, Subparsers, add_command, api_kwargs, numeric
from dpicl.core.errors import ResultError, UsageError
from dpicl.core.files import put_whole
from dpicl.leaderboards.api import compare as compare_rows
from dpicl.leaderboards.compare.pairing import Filter
from dpicl.leaderboards.compare.sides import read_side
from dpicl.leaderboards.compare.verdicts import Settings, compare
from dpicl.leaderboards.render import comparison_view
from dpicl.leaderboards.render.pairs_view import pairs_json

#: Exit code where something got worse or is missing, and `--fail-on-regression` is given.
REGRESSED = 1
_STDOUT = "-"
_OF_ROWS = ("--suite", "--results", "--plugin", "--source", "--limit", "--model")
_OF_RELEASES = (
    *("--fail-on-regression", "--allow-missing", "--alpha", "--min-effect", "--metric", "--markdown"),
    "--mechanism",
)


def add(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(
        subparsers,
        "compare",
        "dpicl compare tang pta --suite field --epsilon 1",
        _compare,
    )
    flag = parser.add_argument
    flag("base", metavar="BASE", help="a row (tang, tang@1), or result file or folder of what is there")
    flag("candidate", metavar="CANDIDATE", help="another row, or result file or folder of what is to come")
    flag("--fail-on-regression", action="store_true", help="exit code 1 when a cell got worse or is missing")
    flag("--allow-missing", action="store_true", help="the candidate may lack rows, seeds and metrics of the base")
    share = numeric(lambda value: 0 < value < 1, "it must lie between 0 and 1, both excluded")
    flag("--alpha", type=share, default=0.05, metavar="A", help="family-wise error over all cells (default: 0.05)")
    effect = numeric(lambda value: 0 <= value < 1, "it must lie between 0 and 1")
    flag("--min-effect", type=effect, default=0.01, metavar="X", help="smallest change that counts (default: 0.01)")
    flag("--metric", metavar="M", help="metric to compare (default: the main metric of each task)")
    add_cell_flags(parser)
    flag("--markdown", metavar="FILE", help="also write it as Markdown; '-' prints that instead")
    rows = parser.add_argument_group("for two rows")
    rows.add_argument("--suite", metavar="SUITE", help="suite of the board (default: the one that has both rows)")
    parser.share("--results", "--plugin")
    parser.share("--source", default=None)
    parser.count("--limit", "N", "test records of each task")
    parser.repeated("--model", "X", "model")


def add_cell_flags(parser: Parser) -> None:
    """Which cells of result files; each may be repeated."""
    parser.repeated("--task", "T", "task")
    parser.repeated("--mechanism", "M", "row or mechanism")
    parser.repeated("--epsilon", "E", "target epsilon", numeric(lambda value: value >= 0, "epsilon is 0 or above"))


def _compare(arguments: argparse.Namespace) -> int:
    if _names_rows(arguments):
        return _compare_rows(arguments)
    _refuse(arguments, _OF_ROWS, "of two rows of a board", "two result folders")
    if arguments.json and arguments.markdown == _STDOUT:
        raise UsageError("--json and --markdown - both want stdout; give --markdown a file.")
    base, candidate = read_side("base", Path(arguments.base)), read_side("candidate", Path(arguments.candidate))
    settings = Settings(**api_kwargs(Settings, arguments))
    wanted = Filter(*map(tuple, (arguments.task, arguments.mechanism, arguments.epsilon)))
    comparison = compare(base, candidate, settings, wanted)
    for side in (base, candidate):
        if side.foreign:
            output.message(
                f"dpicl: left out {output.count(len(side.foreign), 'JSON file')} of {side.name} that are no results,"
                f" for example {side.foreign[0]}."
            )
    if arguments.markdown == _STDOUT:
        output.emit(comparison_view.render_markdown(comparison))
    elif arguments.markdown:
        _write(Path(arguments.markdown), comparison_view.render_markdown(comparison))
    if arguments.json:
        output.emit_json(comparison_view.comparison_json(comparison))
    elif arguments.markdown != _STDOUT:
        output.emit(comparison_view.render_terminal(comparison), styled=True)
    return REGRESSED if arguments.fail_on_regression and comparison.regressed else 0


def _write(path: Path, text: str) -> None:
    if not path.parent.is_dir():  # a folder that is misspelt is not made
        raise ResultError(f"There is no folder {path.parent}; choose another file with --markdown.")
    try:
        put_whole(path, text)
    except OSError as error:
        raise ResultError(f"Cannot write {path}: {error.strerror}; choose another file with --markdown.") from error


def _names_rows(arguments: argparse.Namespace) -> bool:
    """Whether the two are rows: a suite is named, or neither is a path."""
    if arguments.suite:
        return True
    paths = [
        text
        for text in (arguments.base, arguments.candidate)
        if Path(text).exists() or "/" in text or text.endswith(".json")
    ]
    if len(paths) == 1 and arguments.base != arguments.candidate:
        (name,) = {arguments.base, arguments.candidate} - {*paths}
        raise UsageError(f"{paths[0]} is a path and '{name}' is none; give two result folders, or two rows of a board.")
    return not paths


def _compare_rows(arguments: argparse.Namespace) -> int:
    _refuse(arguments, _OF_RELEASES, "of two releases", "two rows")
    found = compare_rows(
        arguments.base,
        arguments.candidate,
        suite=arguments.suite,
        task=arguments.task,
        epsilon=arguments.epsilon,
        results=arguments.results,
        models=arguments.model,
        source=arguments.source,
        test_records=arguments.limit,
        plugins=arguments.plugin,
    )
    return output.answer(arguments, pairs_json(found.compared), lambda: output.emit(found.text(), styled=True))


def _refuse(arguments: argparse.Namespace, flags: tuple[str, ...], whose: str, what: str) -> None:
    """Raises UsageError for a flag that says nothing about what is compared."""
    for flag in flags:
        name = flag.removeprefix("--").replace("-", "_")
        if getattr(arguments, name) != arguments.parser.get_default(name):
            raise UsageError(f"{flag} is a flag {whose}, and {what} are compared here; leave it out.")
