"""Checks that the epsilon of a result is what its ledger costs, by reading the ledger strictly and recomputing.

The file's ledger must add up to the event that the file names, and `dpicl.accounting.accountants` bounds that event
anew. Whether the ledger is *complete* is seen with the mechanism's code (`dpicl.leaderboards.gate.code.events_check`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from dpicl.accounting import dp_event as dp
from dpicl.accounting.bounds import Bounds
from dpicl.accounting.events import flatten, from_json, to_json
from dpicl.accounting.ledger import Ledger
from dpicl.accounting.time_limit import TookTooLong, run_within
from dpicl.core.errors import DpiclError, PluginError, UsageError
from dpicl.core.messages import epsilon_text
from dpicl.core.seeds import streams
from dpicl.data.task import Task, load_config
from dpicl.leaderboards.gate.case import Case, Outcome, state_problems
from dpicl.leaderboards.gate.consistency import RESEND
from dpicl.leaderboards.model.marks import event_kinds
from dpicl.mechanism.bases import Mechanism, Sizes
from dpicl.mechanism.options import build, resolve_options
from dpicl.mechanism.registry import find_mechanism, load_mechanisms
from dpicl.results.parts import LedgerRow
from dpicl.results.schema import Result

#: Relative difference between two numbers that are one and the same.
SAME = 1e-6
#: How much less a ledger may cost than its file says: older files have the larger one of two accountants' bounds.
LOOSER = 0.02
#: The least share of its target that a calibrated knob spends.
SPENT = 0.98
#: Kinds of events that the primitives of `dpicl.privacy` charge. Others, such as `epsilon_delta`, are
#: assertions without a theorem of ours.
PRIMITIVES = {
    "none",
    "non_private",
    "gaussian",
    "zcdp",
    "bounded_range",
    "above_threshold",
    "poisson",
    "repeat",
    "compose",
    "parallel",
}
_SECONDS = 180.0


def add_up(ledger: Sequence[LedgerRow]) -> dp.DpEvent:
    """The rows of a file's ledger as one event."""
    return _compose_charges(
        (dp.SelfComposedDpEvent(from_json(row.event), row.count), row.partition) for row in ledger
    )


def _compose_charges(charges: Iterable[tuple[dp.DpEvent, str | None]]) -> dp.DpEvent:
    """The event of a ledger that is charged these events, each for a group of records or (None) for all."""
    total = Ledger(None, math.inf)
    for event, group in charges:
        total.charge(event, group)
    return total.event()


def events_of(results: Iterable[Result], plugins: Iterable[Path]) -> list[Any]:
    """The ledger that the mechanism of each result declares for that run, as the JSON of one event.

    Raises UsageError and PluginError for mechanisms that are not there, or that refuse their options.
    """
    mechanisms = load_mechanisms(plugins)
    return [
        _read_declaration(find_mechanism(result.cell.mechanism, mechanisms), result)
        for result in results
    ]


def _read_declaration(cls: type[Mechanism], result: Result) -> Any:
    """The JSON of what one mechanism declares. Options and sizes are untrusted: any error they cause is a refusal."""
    cell, knob = result.cell, result.privacy.knob
    try:
        mechanism = build(cls, resolve_options(cls, cell.task, cell.options))

        def declare() -> dp.DpEvent:  # in a ledger's form
            sizes = sizes_of(result, mechanism)
            if knob is None:
                event = mechanism.events(0.0, sizes)
            else:
                event = mechanism.events_of(knob.value, knob.by_label, sizes)
            branches = event.branches if isinstance(event, dp.ParallelDpEvent) else ((None, event),)
            return _compose_charges((branch, group) for group, branch in branches)

        return to_json(run_within(_SECONDS, declare))
    except DpiclError:
        raise
    except Exception as error:
        raise PluginError(
            f"{cell.mechanism} declares nothing for the options and sizes of its results ({type(error).__name__}); send"
            " what `dpicl run` wrote."
        ) from error


def sizes_of(result: Result, mechanism: Mechanism) -> Sizes:
    """The public sizes of a run of this mechanism, from the file and its public seed.

    Raises UsageError where Q does not cover the queries of an answer mechanism.
    """
    if mechanism.pays_per_query and (problem := queries_problem(result)):
        raise UsageError(f"{result.cell}: {problem}")
    cell = result.cell
    task = Task.from_records(load_config(cell.task), (), result.manifest.data.sizes)
    shots = mechanism.plan_shots(task, cell.shots, streams(cell.seed).stream("shots"))
    return mechanism.public_sizes(task.keep_sizes(), shots, result.privacy.queries or 0)


def epsilon_check(case: Case) -> Outcome:
    """Recomputes every epsilon; events that occur several times are accounted for once. For a board: adds up alone."""
    problems, largest = [], 0.0
    for name, result in case.results.items():
        problem = ledger_problem(result)
        if not problem and not case.cheap:
            problem = _asserted_problem(result, case.run_code)
            if not problem:
                problem, value = recompute(result)
                largest = max(largest, value / result.cell.epsilon if result.cell.epsilon else 0.0)
        problems.append((name, problem or explain_unspent(result)))
    good = (
        f"recomputed from {len(case.results)} ledgers; at most {100 * largest:.2f}% of the target"
    )
    return Outcome(state_problems(problems), good)


def ledger_problem(result: Result) -> str:
    """What is wrong without any accounting, or "": ledger against event, target and public sizes."""
    cell, privacy = result.cell, result.privacy
    try:
        total, event = add_up(privacy.ledger), from_json(privacy.event)
    except DpiclError as error:
        return f"its ledger cannot be read ({str(error).rstrip('.')}); {RESEND}"
    if to_json(total) != to_json(event):
        return f"the rows of its ledger do not add up to its event; {RESEND}"
    if not privacy.epsilon_proved <= cell.epsilon * (1 + 1e-9):
        return (
            f"its proved epsilon {epsilon_text(privacy.epsilon_proved)} is above the target {cell.epsilon:g}; lower it"
            " until the ledger fits."
        )
    return _sizes_problem(result, event)


def _sizes_problem(result: Result, event: dp.DpEvent) -> str:
    """Why rates or partitions do not fit the public sizes, or a released label was not paid for, or ""."""
    sizes = result.manifest.data.sizes
    branches = dict(event.branches) if isinstance(event, dp.ParallelDpEvent) else {}
    if unknown := branches.keys() - sizes.keys():
        return f"its ledger charges groups of records that the task does not have ({len(unknown)}); send what was run."
    free = {text.label for text in result.released} - branches.keys()
    if branches and free:
        return (
            f"it released texts for labels ({len(free)}) whose records are not on the ledger; charge what was read"
            " (dpicl.privacy.private_set does)."
        )
    everybody = sum(sizes.values())
    for group, branch in branches.items() or ((None, event),):
        records = everybody if group is None else sizes[group]
        for part in flatten(branch):
            if isinstance(part, dp.PoissonSampledDpEvent) and not _is_whole(
                part.sampling_probability * records
            ):
                return (
                    f"its sampling rate {part.sampling_probability:.6g} expects no whole number of {records} records;"
                    " use the rate of the samplers in dpicl.privacy.private_set."
                )
    return explain_unpaid(result)


def explain_unpaid(result: Result) -> str:
    """Why a release was not paid for, or ""."""
    cell, privacy = result.cell, result.privacy
    stored = len(result.texts)
    if cell.epsilon > 0 and not privacy.ledger and (stored or result.released_count):
        count = max(stored, result.released_count)
        return f"it released {count} texts and charged nothing; {RESEND}"
    answers = bool(result.answers) or cell.queries is not None or privacy.queries is not None
    return queries_problem(result) if answers and not result.prepared else ""


def queries_problem(result: Result) -> str:
    """For a result of an answer mechanism: why its Q does not cover its test records, or ""."""
    queries, of_cell = result.privacy.queries, result.cell.queries
    for count in (result.released_count, result.manifest.data.test_records):
        if queries is None or queries < count:
            return f"its epsilon covers {queries or 'no'} queries, and it answered {count}; charge all."
    if of_cell is not None and queries != of_cell:
        return f"its epsilon covers {queries} queries, its cell says {of_cell}; {RESEND}"
    if result.released_count < result.manifest.data.test_records:
        return f"it answered fewer queries than it has test records; {RESEND}"
    return ""


def explain_unspent(result: Result) -> str:
    """Why the proved epsilon is less than a knob calibrated to the target spends, or ""."""
    proved, target = result.privacy.epsilon_proved, result.cell.epsilon
    if not 0 < target < math.inf or proved >= SPENT * target:
        return ""
    return (
        f"its ledger costs epsilon {epsilon_text(proved)}, under {SPENT:g} of the target {target:g}, which no"
        f" calibrated knob leaves unspent; {RESEND}"
    )


def _asserted_problem(result: Result, run_code: bool) -> str:
    """Why nothing vouches for an event, or "": with the mechanism's code the check `ledger` compares it."""
    kinds = event_kinds(result.privacy.event) - PRIMITIVES
    if not kinds or run_code or result.cell.plugin is None:
        return ""
    return (
        f"its ledger asserts {', '.join(sorted(kinds))}, which no primitive of the project charges; only its code can"
        " say that it is declared, so read the file and give --run-code."
    )


def _is_whole(expected: float) -> bool:
    return round(expected) >= 1 and abs(expected - round(expected)) < 1e-6 * max(expected, 1)


def recompute(result: Result) -> tuple[str, float]:
    """(what is wrong with the proved epsilon or "", what the ledger costs)."""
    proved, target = result.privacy.epsilon_proved, result.cell.epsilon
    try:
        event = from_json(result.privacy.event)
        upper = run_within(_SECONDS, lambda: bounds_of(event, result.cell.delta)).upper
    except (DpiclError, TookTooLong) as error:
        return f"no epsilon can be proved for its ledger: {str(error).rstrip('.')}.", 0.0
    except Exception as error:  # an accountant that breaks on untrusted numbers proves nothing
        return f"no epsilon can be proved for its ledger ({type(error).__name__}).", 0.0
    problem = ""
    if not upper <= target * (1 + SAME):
        problem = f"its ledger costs epsilon {epsilon_text(upper)}, above the target {target:g}; use more noise."
    elif not (1 - LOOSER) * proved <= upper <= (1 + SAME) * proved:
        problem = f"its ledger costs epsilon {upper:.6f}, and the file says {proved:.6f}; {RESEND}"
    return problem, upper


@lru_cache(maxsize=256)
def bounds_of(event: dp.DpEvent, delta: float) -> Bounds:
    """The bounds of `accountants.epsilon`, kept: many results have one event."""
    from dpicl.accounting import accountants  # loads dp_accounting and prv_accountant

    return accountants.epsilon(event, delta)
