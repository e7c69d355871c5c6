"""`dpicl board all`: all shipped suites with results, as a list or one site. `dpicl board attacks`: all attacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dpicl.api.parameters import OfResults, as_list, folder_of
from dpicl.cli import output
from dpicl.cli.output import Answer
from dpicl.core.cell import Cell
from dpicl.core.errors import ResultError, UsageError
from dpicl.core.messages import count, message
from dpicl.core.paths import shipped_suites
from dpicl.core.plugins import Registered
from dpicl.data.task import list_tasks
from dpicl.leaderboards.api import load_evidence, read_evidence, view_of
from dpicl.leaderboards.model.evidence import build_attacks
from dpicl.leaderboards.model.submissions import Submission
from dpicl.leaderboards.render import page as pages
from dpicl.leaderboards.render.as_json import attacks_json
from dpicl.leaderboards.render.attacks_view import attack_blocks
from dpicl.leaderboards.render.html import attacks_page, suites_json, suites_table, write_site
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.registry import load_mechanisms
from dpicl.plan.expand import expand
from dpicl.plan.selection import Selection, facts_of
from dpicl.plan.suite import Suite, load_suite
from dpicl.results.fingerprints import Fingerprints
from dpicl.results.schema import Result
from dpicl.results.store import Store

#: The words in place of a suite.
ALL, ATTACKS = "all", "attacks"
#: The suites that come first, where they have results: the run of record, and the finished run.
OF_RECORD = ("record", "ginc")


def all_suites(
    given: OfResults,
    submissions: Sequence[Submission],
    html: Path | None,
    url: str | None = None,
    repository: str | None = None,
) -> Answer:
    """Every suite with all of its models and sources of records; no data set needs to be there."""
    if given.get("test_records") is not None or given.get("source") is not None or given.get("model"):
        raise UsageError("`dpicl board all` shows all results of all suites; leave out --limit, --source and --model.")
    mechanisms, folder = load_mechanisms(as_list(given.get("plugins") or ())), folder_of(given)
    known = load_evidence(folder, mechanisms, message)
    found = {}
    records = Fingerprints(download=False)
    for path in sorted(shipped_suites().values(), key=lambda path: [path.stem != name for name in OF_RECORD]):
        suite = load_suite(path)
        results, selection = _results(folder, suite, mechanisms)
        own = [one for one in submissions if any(result.suite.name == suite.name for result in one.results)]
        if (made := view_of(results, selection, known, own, message, records)) is not None:
            found[suite.name] = made.board
    if not found:
        raise ResultError(f"There is no result of a shipped suite under {folder}; make some with `dpicl run quick`.")
    page = None
    if html:
        every = build_attacks(known.attacks, known.external)
        page = write_site(found, html, mechanisms, every, url, repository)
    lines = suites_json(found)
    end = f"Page: {page}" if page else "Next: dpicl board all --html site"
    return Answer({"suites": lines, "page": page}, [suites_table(lines), end])


def _results(
    folder: Path, suite: Suite, mechanisms: Mapping[str, Registered[Mechanism]]
) -> tuple[list[Result], Selection]:
    """(every result of the suite, its cells of every model and source of records that has some)."""
    store = Store(folder, suite.name)
    results, damaged = store.load_all()
    output.report_damaged(damaged, moved=False)
    current = [result for result in results if result.suite.hash == suite.hash]
    models = sorted({result.cell.model for result in current})
    cells: list[Cell] = []
    for source in sorted({result.cell.source for result in current}):
        chosen = suite.model_copy(update={"models": models, "source": source})
        facts = {name: lambda _, name=name, source=source: facts_of(name, source) for name in list_tasks()}
        cells += expand(chosen, mechanisms, facts)
    return results, Selection(suite.name, suite, dict(mechanisms), cells, store)


def every_attack(given: OfResults, html: Path | None) -> Answer:
    """Every attack and audit under a results folder, whether a suite has a row for it or not."""
    if given.get("test_records") is not None:
        raise UsageError("--limit is about the test records of a suite; `dpicl board attacks` has none.")
    models, source = as_list(given.get("model") or ()), given.get("source")
    attacks, external = read_evidence(folder_of(given), message)
    subjects = [(one, one.subject) for one in attacks]
    kept = [
        one for one, own in subjects if own.model in (models or [own.model]) and source in (None, "auto", own.source)
    ]
    board = build_attacks(kept, external)
    page = pages.write({"index.html": attacks_page(board)}, html) if html else None
    if len(kept) < len(attacks):
        message(f"{count(len(attacks) - len(kept), 'attack')} with another model or source left out.")
    shown = [*attack_blocks(board), *([f"Page: {page}"] if page else [])]
    return Answer({**attacks_json(board), "page": page}, shown)
