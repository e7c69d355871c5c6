"""The checks of a submission: each is a function of one parsed submission (`Case`), and this is the list of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from dpicl.core.errors import DpiclError
from dpicl.core.messages import count
from dpicl.leaderboards.gate import code, consistency, history, ledgers, records, rerun, settings
from dpicl.leaderboards.gate.card import PLACEHOLDER, README
from dpicl.leaderboards.gate.case import Case
from dpicl.leaderboards.gate.findings import Finding, NotChecked, Outcome


@dataclass(frozen=True)
class Check:
    """function: raises NotChecked where it cannot be made, DpiclError for what is wrong with the submission.

    cheap: needs no accountant, record, earlier copy or code, so that a board can make it each time. needs_results,
    needs_suite: not made for a submission without results, and for results outside the suite.
    """

    name: str
    function: Callable[[Case], Outcome]
    cheap: bool = False
    needs_results: bool = False
    needs_suite: bool = False


def _size(case: Case) -> Outcome:
    number = count(len(case.contents.content), "file")
    return Outcome(case.contents.size, f"{number} of known kinds, none too large")


def _card(case: Case) -> Outcome:
    problems = [case.contents.card_problem] if case.contents.card_problem else []
    readme = case.contents.content.get(README, b"").decode("utf-8", "replace")
    if any(line.startswith(PLACEHOLDER) for line in readme.splitlines()):
        problems.append(f"README.md still says {PLACEHOLDER}; write what a reader should know, or remove the file.")
    return Outcome(problems, "every key is there and readable")


def _schema(case: Case) -> Outcome:
    return Outcome(case.contents.schema, f"{count(len(case.results), 'result')}, each where it belongs")


#: Every check, in the order of the report; docs/submit.md says when each passes.
CHECKS = (
    Check("size", _size, cheap=True),
    Check("card", _card, cheap=True),
    Check("schema", _schema, cheap=True),
    Check("suite", settings.suite_check, cheap=True),
    Check("data", settings.data_check, needs_results=True),
    Check("seeds", settings.seeds_check, needs_results=True),
    Check("epsilon", ledgers.epsilon_check, cheap=True, needs_results=True),
    Check("consistency", consistency.consistency_check, cheap=True, needs_results=True),
    Check("commit", consistency.commit_check, needs_results=True),
    Check("duplicates", consistency.duplicates_check, needs_results=True),
    Check("reproduced", rerun.reproduced_check, cheap=True),
    Check("history", history.history_check),
    Check("private records", records.records_check, needs_results=True, needs_suite=True),
    Check("ledger", code.events_check, needs_results=True, needs_suite=True),
    Check("conformance", code.conformance_check, needs_results=True, needs_suite=True),
)


def run_checks(case: Case, names: Iterable[str] = ()) -> Iterator[Finding]:
    """The finding of each check (of these names; none: of all), made as it is asked for."""
    outside = False
    for one in CHECKS:
        if names and one.name not in names:
            continue
        if one.needs_results and not case.results:
            finding = Finding(one.name, "not checked", "there is no result")
        elif one.needs_suite and outside:
            finding = Finding(one.name, "not checked", "the results are none of the suite; fix that first")
        else:
            finding = finding_of(one.name, one.function, case)
        outside = outside or (one.name == "suite" and finding.status != "ok")
        yield finding


def finding_of(name: str, function: Callable[[Case], Outcome], case: Case) -> Finding:
    """What one check finds."""
    try:
        return function(case).finding(name)
    except NotChecked as reason:
        return Finding(name, "not checked", str(reason), tuple(reason.notes))
    except DpiclError as error:
        return Finding(name, "failed", str(error))
