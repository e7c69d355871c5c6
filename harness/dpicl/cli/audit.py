"""`dpicl audit`: how much epsilon an auditor can demonstrate, beside what is claimed and proved."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from dpicl.api.exact import audit_exactly, audit_rows_exactly
from dpicl.api.functions import audit
from dpicl.api.tables import Audits, failure
from dpicl.attacks.exact_runs import ASKED, DEALS
from dpicl.attacks.results import AttackResult
from dpicl.cli import exact_table, output
from dpicl.cli.arguments import Subparsers, add_command, api_kwargs, confidence, options_of
from dpicl.core.errors import UsageError
from dpicl.core.messages import rounded_down, rounded_up
from dpicl.core.vocabulary import model_name
from dpicl.mechanism.given import given_mechanism


def add(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "audit", "dpicl audit voting --task agnews --epsilon 1 --access white-box", _audit)
    parser.add_argument("mechanism", nargs="?", metavar="MECHANISM", help="see `dpicl list mechanisms`; a row of SUITE")
    parser.add_argument("--task", metavar="T", help="where records and prompts come from")
    parser.share("--epsilon")
    parser.add_argument("--exact", action="store_true", help="one canary, no sampling error: see the page on audits")
    parser.add_argument("--suite", metavar="SUITE", help="with --exact: the rows of a suite, with their own options")
    parser.choice(
        "--other-records",
        DEALS,
        "with --exact: the canary alone (default), or beside the row's records, whose sampling is known",
        default="alone",
        dest="deal",
    )
    parser.choice(
        "--queries",
        ASKED,
        "with --exact: the row's queries (default), or the one that the canary moves most, every time",
        default="own",
        dest="asked",
    )
    parser.count("--copies", "K", "with --exact: of the canary at once, for group privacy (default: 1)", default=1)
    parser.count("--limit", "N", "with --exact: test records, asked as queries (default: 100)", default=100)
    parser.choice(
        "--access",
        ("black-box", "white-box"),
        "what is seen: the noisy releases inside (default), or the released answers and texts alone",
        default="white-box",
    )
    parser.choice(
        "--question",
        ("inquiry", "lookup"),
        "'is this text in your examples?' (default), or the canary's own input; for answer mechanisms",
        default="inquiry",
    )
    parser.count("--runs", "N", "runs on each side (default: 200)", least=8, default=200)
    parser.count("--noise-resamples", "R", "noise resamples of a run that has no formula (default: 50)", default=50)
    parser.count("--records", "N", "private records (default: as many as a sample expects, so q = 1)", least=2)
    parser.add_argument("--confidence", type=confidence, default=0.95, metavar="C", help="of the bound (default: 0.95)")
    parser.share("--delta", "--model", "--source", "--seed", "--results", "--option", "--plugin")


def _audit(arguments: argparse.Namespace) -> int:
    if arguments.exact:
        return _exact(arguments)
    if arguments.suite:
        raise UsageError("--suite goes with --exact, which audits the rows of a suite; add --exact, or leave it out.")
    given = {
        "--queries": arguments.asked != "own",
        "--other-records": arguments.deal != "alone",
        "--copies": arguments.copies > 1,
    }
    if exact := [flag for flag, is_given in given.items() if is_given]:
        raise UsageError(f"{exact[0]} goes with --exact, which audits one canary; add --exact, or leave it out.")
    _require_row(arguments, "or --exact --suite SUITE, for the rows of a suite")
    options = options_of(arguments.mechanism, arguments.option)
    results = audit(**api_kwargs(audit, arguments), options=options, plugins=arguments.plugin)
    documents = [result.model_dump(mode="json") for result in results]
    return output.answer(arguments, documents, lambda: _show(results.items), results.ok)


def _require_row(arguments: argparse.Namespace, otherwise: str) -> None:
    """Raises UsageError where what is audited is not named, and for a mechanism that there is not."""
    if arguments.mechanism:
        given_mechanism(arguments.mechanism, arguments.plugin)
    wanted = {"MECHANISM": arguments.mechanism, "--task T": arguments.task, "--epsilon E": arguments.epsilon}
    if missing := [name for name, given in wanted.items() if not given]:
        raise UsageError(f"An audit needs {' and '.join(missing)}; {otherwise}.")


def _exact(arguments: argparse.Namespace) -> int:
    if arguments.access != "white-box" or arguments.records is not None:
        raise UsageError(
            "An exact audit sees the noisy releases of the row's own records; leave --access and --records out."
        )
    results = _exact_rows(arguments) if arguments.suite else _exact_one(arguments)
    documents = [result.model_dump(mode="json") for result in results]
    output.answer(arguments, documents, lambda: exact_table.emit(results.items, results.notes))
    refuted = not results.ok
    return 1 if refuted else 2 if any(note.startswith("failed") for note in results.notes) else 0


def _exact_rows(arguments: argparse.Namespace) -> Audits:
    if arguments.option:
        raise UsageError("Rows of a suite are audited with their own options; leave --option out, or --suite.")
    return audit_rows_exactly(
        arguments.suite,
        tasks=[arguments.task] if arguments.task else [],
        mechanisms=[arguments.mechanism] if arguments.mechanism else [],
        epsilons=arguments.epsilon,
        deal=arguments.deal,
        asked=arguments.asked,
        copies=arguments.copies,
        plugins=arguments.plugin,
        results=arguments.results,
    )


def _exact_one(arguments: argparse.Namespace) -> Audits:
    _require_row(arguments, "or --suite SUITE, for the rows of a suite")
    options = options_of(arguments.mechanism, arguments.option)
    given = {**api_kwargs(audit_exactly, arguments), "test_records": arguments.limit}
    return audit_exactly(**given, options=options, plugins=arguments.plugin)


def _show(results: Sequence[AttackResult]) -> None:
    columns = ("target ε", "claimed", "proved", "audited", "exact, these runs", "TPR", "FPR", "limits", "method")
    output.emit_table(columns, [_row(result) for result in results], title=_title(results[0]))
    first = results[0]
    assert first.bound is not None
    judged = first.bound.decision.trials_in if first.bound.decision else 0
    output.emit(
        f"audited: a lower bound at {first.bound.confidence:.0%} confidence over samples and noise; of"
        f" {output.count(first.settings['runs'], 'run')} on each side {judged} judged, and the others chose the rule;"
        " exact: if these runs were all that there is."
    )
    for note in dict.fromkeys(note for result in results for note in result.notes):
        output.emit(f"note: {note}")
    for result in results:
        if reason := failure(result):
            output.emit(
                f"FAILED: epsilon = {result.subject.epsilon:g}: {reason}; the mechanism does not do what its events"
                f" say. `dpicl check {result.subject.mechanism}` looks for the reason."
            )


def _title(result: AttackResult) -> str:
    subject = result.subject
    options = " ".join(f"{name}={value}" for name, value in subject.options.items())
    return (
        f"{subject.mechanism} on {subject.task} ({subject.source}), {result.access}, {model_name(subject.model)},"
        f" {output.count(subject.members, 'record')}, δ = {subject.delta:g}; {options}"
    )


def _row(result: AttackResult) -> list[str]:
    bound, privacy = result.bound, result.privacy
    assert bound is not None and bound.decision is not None
    claimed = "-" if privacy.epsilon_claimed is None else rounded_up(privacy.epsilon_claimed)
    plain = result.details.get("exact", {}).get("epsilon")
    return [
        f"{result.subject.epsilon:g}",
        claimed,
        rounded_up(privacy.epsilon_proved),
        rounded_down(bound.epsilon),
        "-" if plain is None else rounded_down(float(plain)),
        f"{bound.decision.tpr:.3f}",
        f"{bound.decision.fpr:.3f}",
        str(result.details["limits"]),
        bound.method,
    ]
