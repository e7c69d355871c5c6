"""`dpicl board all`: all shipped suites that have results, as a list in the terminal; with `--html` as one site."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpicl.harness.cli import output
from dpicl.harness.core.errors import ResultError, UsageError
from dpicl.leaderboards.cli import evidence

if TYPE_CHECKING:
    from dpicl.harness.mechanism.registry import Registered
    from dpicl.harness.run.expand import Cell
    from dpicl.harness.run.results import Result
    from dpicl.harness.run.selection import Selection
    from dpicl.harness.run.suite import Source, Suite

_COLUMNS = ("suite", "version", "model", "source", "rows", "best at each ε (mean recovery)")


def show(arguments: argparse.Namespace) -> int:
    """Every suite with all of its models and sources of records; no data set needs to be there."""
    from dpicl.harness.core.paths import shipped_suites
    from dpicl.harness.mechanism import registry
    from dpicl.harness.run.fingerprints import Fingerprints
    from dpicl.harness.run.presence import at_hand
    from dpicl.harness.run.suite import load_suite

    if arguments.limit is not None or arguments.source is not None or arguments.model:
        raise UsageError("`dpicl board all` shows all results of all suites; leave out --limit, --source and --model.")
    mechanisms = registry.load_mechanisms(arguments.plugin)
    submissions = evidence.submissions_of(arguments)
    attacks, external = evidence.load(arguments.results)
    boards, html = registry.leaderboards(), registry.leaderboards("html")
    known = boards.Evidence(tuple(attacks), tuple(external), evidence.defaults(mechanisms))
    found, skipped = {}, {}
    records = Fingerprints(download=False)
    for path in shipped_suites().values():
        suite = load_suite(path)
        kept, retired, selections = _results(arguments, suite, mechanisms)
        kept, notes = at_hand(kept, records)
        if kept or retired:
            own = [one for one in submissions if any(result.suite.name == suite.name for result in one.results)]
            board = boards.build_board(kept, suite.name, known, own, retired)
            found[suite.name] = replace(board, notes=(*notes, *board.notes))
            reasons = [reason for selection in selections for reason in evidence.skip_reasons(selection, kept)]
            skipped[suite.name] = list({(one["label"], one["task"]): one for one in reasons}.values())
    if not found:
        raise ResultError(
            f"There is no result of a shipped suite under {arguments.results}; make some with `dpicl run quick`."
        )
    page = None
    if arguments.html:
        page = html.write_all(found, arguments.html, mechanisms, skipped, boards.build_attacks(attacks, external))
    lines = html.suites_json(found)
    if arguments.json:
        output.emit_json({"suites": lines, "page": page})
        return 0
    output.emit_table(_COLUMNS, [[*(str(line[name]) for name in _COLUMNS[:-1]), _best(line)] for line in lines])
    output.emit(f"Page: {page}" if page else "Next: dpicl board all --html site")
    return 0


def _results(
    arguments: argparse.Namespace, suite: Suite, mechanisms: Mapping[str, Registered]
) -> tuple[list[Result], list[Result], list[Selection]]:
    """(results of the suite as it is now, results of retired versions, a selection for every source of records)."""
    from dpicl.harness.mechanism import registry
    from dpicl.harness.run.selection import Selection, report_damaged
    from dpicl.harness.run.store import Store

    store = Store(arguments.results, suite.name)
    results, damaged = store.load_all()
    report_damaged(damaged, moved=False)
    current = [result for result in results if result.suite.hash == suite.hash]
    models = sorted({result.cell.model for result in current})
    selections: list[Selection] = []
    for source in _sources(current):
        chosen = suite.model_copy(update={"models": models, "source": source})
        cells = _cells(chosen, source, mechanisms)
        selections.append(Selection(suite.name, chosen, dict(mechanisms), cells, store))
    standing = registry.leaderboards("comparability")
    kept = [one for one in current if any(standing.may_stand(one, suite, selection.cells) for selection in selections)]
    retired = [result for result in results if standing.is_retired(result, suite)]
    if left_out := len(results) - len(kept) - len(retired):
        output.message(
            f"{suite.name}: {output.count(left_out, 'result')} with other suite settings or options left out."
        )
    return kept, retired, selections


def _cells(suite: Suite, source: Source, mechanisms: Mapping[str, Registered]) -> list[Cell]:
    """The cells of a suite on one source, whether its records are here or not."""
    from dpicl.harness.data.task import list_tasks
    from dpicl.harness.run.expand import TaskFacts, expand
    from dpicl.harness.run.selection import facts_of

    def facts(name: str) -> Callable[[str], TaskFacts]:
        return lambda _: facts_of(name, source)

    return expand(suite, mechanisms, {name: facts(name) for name in list_tasks()}, reveal=True)


def _sources(results: list[Result]) -> list[Source]:
    """The sources of records that results name."""
    known: tuple[Source, ...] = ("hub", "local", "synthetic")
    return [source for source in known if any(result.cell.source == source for result in results)]


def _best(line: Mapping[str, Any]) -> str:
    best = [f"ε = {one['epsilon']}: {one['label']} {one['recovery']} ({one['of']})" for one in line["best"]]
    return "; ".join([*best, *line["nobody"]])
