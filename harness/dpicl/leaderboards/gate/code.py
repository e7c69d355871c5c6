"""The checks that run code: conformance and declared events. Code that was sent runs only with `--run-code`.

It runs as the gate's own user, with what that user can read and reach. docs/submit.md names a container for it.
"""

from __future__ import annotations

from pathlib import Path

from dpicl.core.errors import DpiclError
from dpicl.core.plugins import as_plugin_error
from dpicl.leaderboards.gate.case import Case, NotChecked, Outcome, by_sentence
from dpicl.leaderboards.gate.consistency import RESEND
from dpicl.leaderboards.gate.contents import Contents
from dpicl.leaderboards.gate.ledgers import events_of
from dpicl.mechanism.registry import load_mechanisms
from dpicl.privacy.events import from_json, to_json


def announcement(contents: Contents) -> str:
    """The line that stands before code runs."""
    assert contents.plugin is not None
    return f"{contents.name}: running {contents.plugin.name}, sha256 {contents.plugin_hash}. This is no sandbox."


def trust_caveat(contents: Contents) -> str:
    """The caveat of a passed check that ran submitted code: the code itself may have decided the answer."""
    return "" if contents.plugin is None else "; this trusts the submitted code not to cheat, so read it first"


def reason_not_to_run(case: Case) -> str:
    """Why the mechanism's code may not run, or "". Code of the package may, on models that come with the project."""
    contents = case.contents
    if contents.card is None or not contents.results:
        return "there is no card or no result"
    used = {result.cell.plugin for result in contents.results.values()}
    if used != {None} and contents.plugin is None:
        return "its results are of a plugin file that was not submitted"
    if used not in ({None}, {contents.plugin_hash}):
        return "its results are of another file than the submitted one"
    models = {result.cell.model.partition(":")[0] for result in contents.results.values()}
    if "server" in models:
        return "its model is behind a server, and no address that was submitted is asked"
    if contents.size:
        return "its files are refused; fix the size first"
    if contents.plugin is not None and not case.run_code:
        return "that runs the submitted code; read it, then give --run-code"
    if "hf" in models and not case.run_code:
        return "that loads the model that it names; give --run-code"
    return ""


def plugins(contents: Contents) -> list[Path]:
    """The submitted file; none for mechanisms of the package."""
    return [] if contents.plugin is None else [contents.plugin]


def events_check(case: Case) -> Outcome:
    """Is each ledger complete, that is, what the mechanism declares for these sizes at this noise?"""
    if reason := reason_not_to_run(case):
        raise NotChecked(f"whether ledgers are complete is seen by the mechanism's `events`: {reason}")
    with as_plugin_error("The mechanism's `events` fails"):
        answers = events_of(case.results.values(), plugins(case.contents))
    wrong = f"its ledger is not what the mechanism declares for these sizes and this noise; {RESEND}"
    problems = by_sentence(
        (name, "" if declared == to_json(from_json(result.privacy.event)) else wrong)
        for (name, result), declared in zip(case.results.items(), answers, strict=True)
    )
    return Outcome(problems, f"{len(answers)} ledgers are what the mechanism declares{trust_caveat(case.contents)}")


def conformance_check(case: Case) -> Outcome:
    """The conformance kit (`dpicl check`) on the mechanisms of the results."""
    if reason := reason_not_to_run(case):
        raise NotChecked(reason)
    if not case.run_code:
        raise NotChecked("its mechanism is one of the package, whose tests run the kit; or --run-code")
    from dpicl.conformance.kit import check_mechanism  # loads torch

    known = load_mechanisms(plugins(case.contents))
    problems, passed = [], 0
    cells = (result.cell for result in case.results.values())
    for name, digest in dict.fromkeys((cell.mechanism, cell.plugin) for cell in cells):
        if name not in known or known[name].plugin_hash != digest:
            problems.append(f"There is no mechanism '{name}' in the {'package' if digest is None else 'file'}.")
            continue
        try:
            checks = check_mechanism(known[name].cls)
        except DpiclError as error:
            problems.append(str(error))
            continue
        passed += sum(check.status == "passed" for check in checks)
        problems += [f"{name}, {one.check}: {one.why[:500]}" for one in checks if one.status == "failed"]
    return Outcome(problems, f"{passed} checks of `dpicl check` passed{trust_caveat(case.contents)}")
