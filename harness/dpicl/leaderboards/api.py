"""Boards for programs and notebooks: from a suite and a results folder to tables (docs/python.md). `dpicl board`,
`dpicl plot` and `dpicl.board` build them here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderResult

from dpicl.attacks.results import AttackResult, External
from dpicl.attacks.store import load_attacks, load_external
from dpicl.core.errors import ResultError, UsageError, require_known
from dpicl.core.messages import count, message
from dpicl.core.paths import DEFAULT_RESULTS, find_suite, shipped_suites, slug
from dpicl.core.plugins import Registered
from dpicl.core.printable import printable
from dpicl.leaderboards.compare.named_rows import RowComparison, compare_named, parse_name
from dpicl.leaderboards.gate.examination import ROOT, known_suites, load_submissions
from dpicl.leaderboards.model.board import Board, build_board
from dpicl.leaderboards.model.comparability import Admission, is_retired
from dpicl.leaderboards.model.evidence import Evidence
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.submissions import Submission, on_the_board
from dpicl.leaderboards.render.columns import numbers
from dpicl.leaderboards.render.console import to_text
from dpicl.leaderboards.render.pairs_view import pair_json, pairs_blocks
from dpicl.leaderboards.render.terminal import render_terminal
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.options import resolve_options
from dpicl.plan.presence import describe_completeness, find_skipped, select_current
from dpicl.plan.selection import Selection, select
from dpicl.plan.suite import Changes, Source
from dpicl.plan.tuning import describe_tuning
from dpicl.results.fingerprints import Fingerprints
from dpicl.results.schema import Result
from dpicl.results.store import Store, describe_damaged

if TYPE_CHECKING:
    import pandas as pd

#: Takes a sentence for the user.
Tell = Callable[[str], None]


@dataclass(frozen=True)
class BoardView:
    """A board and what it was built from. kept: our results on it.

    It is shown as `dpicl board` shows it: on a terminal by rich, in a notebook as a table.
    """

    board: Board
    selection: Selection
    kept: list[Result]
    evidence: Evidence
    retired: bool = False

    def rows(self) -> Iterator[Row]:
        """Every row of every table, in the board's order."""
        return (row for section in self.board.sections for row in section.rows)

    def to_frame(self) -> pd.DataFrame:
        """A pandas frame with one row for each row of the board; numbers as in board.csv."""
        import pandas as pd

        names = ("task", "label", "mechanism", "mode", "metric", "unranked")
        return pd.DataFrame([{**{name: getattr(row, name) for name in names}, **numbers(row)} for row in self.rows()])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        yield Text.from_ansi(render_terminal(self.board, retired=self.retired))

    def __repr__(self) -> str:
        return printable(render_terminal(self.board, retired=self.retired), styled=True)

    def _repr_html_(self) -> str:
        frame = self.to_frame().map(lambda value: printable(value) if isinstance(value, str) else value)
        return str(frame.to_html(index=False, escape=True))


def board(
    suite: str | Path,
    *,
    results: Path | str = DEFAULT_RESULTS,
    models: Sequence[str] = (),
    source: Source | None = None,
    test_records: int | None = None,
    plugins: Sequence[Path | str] = (),
    submissions: bool | Path | str = True,
    retired: bool = False,
) -> BoardView:
    """The board of a suite (a file, or the name of a shipped one) from the results in a folder.

    submissions: whether submitted methods stand on it, or the folder that holds them. retired: whether results of
        retired versions are shown as well.
    Raises UsageError for what is not known, ResultError where there is no result.
    """
    changes = Changes(models=models, source=source, test_records=test_records)
    files = [Path(each) for each in plugins]
    selection = select(str(suite), Path(results), files, changes)
    folder = None if isinstance(submissions, bool) else Path(submissions)
    own = [] if submissions is False else submissions_of(folder, message, str(suite), selection.suite.name)
    return board_view(selection, own, retired, message)


@dataclass(frozen=True)
class RowsCompared:
    """Two rows of a board side by side, shown as `dpicl compare` shows them. compared: the numbers."""

    compared: RowComparison

    def text(self) -> str:
        """What a terminal shows."""
        return to_text(pairs_blocks(self.compared))

    def to_frame(self) -> pd.DataFrame:
        """A pandas frame with one row for each pair of rows: their difference, its interval, adjusted p, verdict."""
        import pandas as pd

        names = ("task", "model", "source", "metric", "verdict", "difference", "low", "high", "p_adjusted", "documents")
        found = [pair_json(pair) for pair in self.compared.pairs]
        return pd.DataFrame(
            [
                {"first": one["first"]["row"], "second": one["second"]["row"], **{name: one[name] for name in names}}
                for one in found
            ]
        )

    def __repr__(self) -> str:
        return printable(self.text(), styled=True)

    def _repr_html_(self) -> str:
        return str(self.to_frame().map(lambda v: printable(v) if isinstance(v, str) else v).to_html(index=False))


def compare(
    one: str,
    other: str,
    *,
    suite: str | Path | None = None,
    task: str | Sequence[str] = (),
    epsilon: float | Sequence[float] = (),
    results: Path | str = DEFAULT_RESULTS,
    models: Sequence[str] = (),
    source: Source | None = None,
    test_records: int | None = None,
    plugins: Sequence[Path | str] = (),
) -> RowsCompared:
    """Two rows of a board: which is better on each task, by how much, and how sure that is.

    one, other: 'tang', or 'tang@1' for one ε. suite: None for the only shipped one whose results have both rows. task,
    epsilon: which ones (all). The rest is as for `board`.
    Raises UsageError for what is not known, with the closest names, and ResultError where there is no result.
    """
    asked = str(suite) if suite is not None else _suite_with(one, other, Path(results))
    view = board(asked, results=results, models=models, source=source, test_records=test_records, plugins=plugins)
    tasks = [task] if isinstance(task, str) else list(task)
    epsilons = [float(epsilon)] if isinstance(epsilon, int | float) else [float(one) for one in epsilon]
    return RowsCompared(compare_named(view.board, asked, one, other, tasks, epsilons))


def _suite_with(one: str, other: str, results: Path) -> str:
    """The shipped suite whose results have rows of both names. Raises UsageError where none has, or several have."""
    labels = {
        name: {folder.name for folder in Store(results, name).folder.glob("*/*") if folder.is_dir()}
        for name in shipped_suites()
    }
    every = set().union(*labels.values())
    wanted = {slug(parse_name(text, sorted(every)).label) for text in (one, other)}
    found = [name for name, own in labels.items() if wanted <= own]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{one} and {other} stand on {len(found)} boards; choose one with --suite {'|'.join(found)}.")
    require_known("row", sorted(wanted), every)
    raise UsageError(f"No board under {results} has both {one} and {other}; name a suite with --suite, or run one.")


def board_view(selection: Selection, submissions: Sequence[Submission], retired: bool, tell: Tell) -> BoardView:
    """The board of a selection. Raises ResultError without a result for it."""
    suite, store = selection.suite, selection.store
    results, damaged = store.load_all()
    if damaged:
        tell(describe_damaged(damaged, moved=False))
    kept, old = standing(results, selection, tell)
    submitted, _ = on_the_board(submissions)
    no_longer = [*old, *(result for result in submitted if is_retired(result, [suite]))]
    if no_longer and not retired:
        tell(f"{count(len(no_longer), 'result')} of retired versions of {suite.name}: see `dpicl board --retired`.")
    if not kept and not (no_longer and retired):
        raise ResultError(
            f"There is no result of suite {suite.name} with these settings under {store.folder.parent};"
            f" run `{selection.command('run')}`, or name the folder that has them with --results."
        )
    kept, notes = select_current(kept, Fingerprints(download=False))
    evidence = load_evidence(store.folder.parent, selection.mechanisms, tell)
    made = build_board(kept, selection.asked, evidence, submissions, no_longer, suite.superseded, suite.margin)
    notes = [*state_of(selection, kept), *describe_tuning(suite, kept), *readings(selection, kept), *notes]
    return BoardView(replace(made, notes=(*notes, *made.notes)), selection, kept, evidence, retired)


def standing(results: Sequence[Result], selection: Selection, tell: Tell) -> tuple[list[Result], list[Result]]:
    """(those that may stand on the board of a selection, those of retired versions); a sentence about all others.

    Results of an earlier version of a task stand there as long as there is none of its present version.
    """
    suite, admission = selection.suite, Admission(selection.suite, selection.cells)
    admitted = [result for result in results if admission.admits(result)]
    new = {result.cell.task for result in admitted if admission.is_current(result)}
    kept = [result for result in admitted if admission.is_current(result) or result.cell.task not in new]
    standing_now = {id(result) for result in kept}
    others = [result for result in results if id(result) not in standing_now]
    old = [result for result in others if is_retired(result, [suite]) or admission.admits(result)]
    if left_out := len(others) - len(old):
        what = "with other suite settings, model, source, limit or options left out"
        tell(f"{suite.name}: {count(left_out, 'result')} {what}.")
    if earlier := {result.cell.task for result in kept} - new:
        tell(
            f"{suite.name}: results of an earlier version of {', '.join(sorted(earlier))}; `dpicl run` makes new ones."
        )
    return kept, old


def submissions_of(folder: Path | None, tell: Tell, asked: str | None, suite: str | None = None) -> list[Submission]:
    """The submissions (to one suite) that pass the gate's cheap checks; a sentence for each other one.

    folder: None for those of the project. asked: a suite's file or name that is known besides the shipped ones.
    Raises UsageError for a folder that is not there.
    """
    if folder is not None and not folder.is_dir():
        raise UsageError(f"There is no folder {folder}; give one with <team>/<method> below it, or --no-submissions.")
    more = [] if asked is None else [find_suite(asked)]
    found, problems = load_submissions(folder or ROOT, known_suites(more), suite)
    for problem in problems:
        tell(f"dpicl: {problem}")
    return found


def read_evidence(results: Path, tell: Tell) -> tuple[list[AttackResult], list[External]]:
    """Every attack result and every external evaluation; one sentence about files that are neither."""
    attacks, damaged = load_attacks(results)
    external, more = load_external(results)
    for bad, what in ((damaged, "attack result"), (more, "external evaluation")):
        if bad:
            others = f"; so are {len(bad) - 1} more" if len(bad) > 1 else ""
            tell(f"dpicl: {bad[0].path} is no {what} of this version and is ignored: {bad[0].reason}{others}.")
    return attacks, external


def load_evidence(results: Path, mechanisms: Mapping[str, Registered[Mechanism]], tell: Tell) -> Evidence:
    """What `read_evidence` finds, as boards take it."""
    attacks, external = read_evidence(results, tell)

    def defaults(mechanism: str, task: str) -> Mapping[str, Any]:
        return resolve_options(mechanisms[mechanism].cls, task, {}) if mechanism in mechanisms else {}

    return Evidence(tuple(attacks), tuple(external), defaults)


def readings(selection: Selection, results: Sequence[Result]) -> list[str]:
    """A sentence for each mechanism of which something is our reading and not its paper's text."""
    shown = {result.cell.mechanism for result in results} & selection.mechanisms.keys()
    said = {name: selection.mechanisms[name].cls.reading for name in sorted(shown)}
    return [f"{name} is our reading of its paper: {reading}." for name, reading in said.items() if reading]


def skip_reasons(selection: Selection, results: Sequence[Result]) -> list[dict[str, str]]:
    """Why rows of the suite have no result on a task, where the mechanism says so itself."""
    there = {(result.cell.label, result.cell.task) for result in results}
    without = [cell for cell in selection.cells if (cell.label, cell.task) not in there]
    reasons = find_skipped(without, selection.mechanisms)
    found = {(cell.label, cell.task): reasons[cell.id] for cell in without if cell.id in reasons}
    return [{"label": label, "task": task, "reason": reason} for (label, task), reason in found.items()]


def state_of(selection: Selection, results: Sequence[Result]) -> list[str]:
    """A sentence that says how many cells of the suite are still to be run; none where all are there."""
    left_out = find_skipped(selection.cells, selection.mechanisms)
    said = describe_completeness(selection.suite.name, selection.cells, results, left_out)
    return [said] if said else []
