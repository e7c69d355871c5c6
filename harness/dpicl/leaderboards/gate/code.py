"""The checks that run submitted code, only with `--run-code`: declared events, conformance, and a re-run.

Code runs as the gate's own user, with what that user can read and reach. docs/submit.md names a container for it.

The cells of a re-run are drawn at random, after the submission is fixed, so nobody chooses them. On the same processor,
device, dtype and packages, and where the model rounds as it did (`Model.arithmetic`: threads and settings of libraries
change it too; results of before it was noted have none), everything must be identical: noise is seeded. Elsewhere
rounding moves a token now and then, and with it everything after it; then scores must agree within 2 standard errors of
one cell, or 0.02 if that is larger. An honest claim is as often above the re-run as below it. So that these allowances
are not collected in one direction, the mean of claimed minus re-run is tested over all cells (`p_of_lean`).
"""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pstdev

import numpy as np

from dpicl.accounting.events import from_json, to_json
from dpicl.core.errors import DpiclError, UsageError
from dpicl.core.messages import count
from dpicl.core.plugins import as_plugin_error
from dpicl.leaderboards.gate.card import CARD
from dpicl.leaderboards.gate.case import Case, NotChecked, Outcome, state_problems
from dpicl.leaderboards.gate.consistency import RESEND
from dpicl.leaderboards.gate.contents import Contents
from dpicl.leaderboards.gate.ledgers import SAME, events_of
from dpicl.mechanism.registry import load_mechanisms
from dpicl.results.schema import Result, from_text, to_text

#: Smallest difference of scores that counts on another machine.
SLACK = 0.02
#: How often the test of the mean refuses an honest submission, at most; draws of signs that it is made from.
LEAN_LEVEL = 0.01
_SIGN_DRAWS = 9_999
#: The fewest draws of noise with which a re-run can refuse scores that lean one way: 2^-7 < 0.01 < 2^-6.
FEWEST_DRAWS = 7
_EQUAL = 1e-9


def trust_caveat(contents: Contents) -> str:
    """The caveat of a passed check that ran submitted code: the code itself may have decided the answer."""
    return (
        ""
        if contents.plugin is None
        else "; this trusts the submitted code not to cheat, so read it first"
    )


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
    if models & {"hf", "vllm"} and not case.run_code:
        return "that loads the model that it names; give --run-code"
    return ""


def reason_not_to_rerun(case: Case) -> str:
    """The same for what could be run; "" for files that are refused, and where there is no card or no result."""
    return (
        "" if case.contents.size or not case.card or not case.results else reason_not_to_run(case)
    )


def plugins(contents: Contents) -> list[Path]:
    """The submitted file; none for mechanisms of the package."""
    return [] if contents.plugin is None else [contents.plugin]


def events_check(case: Case) -> Outcome:
    """Is each ledger complete, that is, what the mechanism declares for these sizes at this noise?"""
    if reason := reason_not_to_run(case):
        raise NotChecked(
            f"whether ledgers are complete is seen by the mechanism's `events`: {reason}"
        )
    with as_plugin_error("The mechanism's `events` fails"):
        answers = events_of(case.results.values(), plugins(case.contents))
    wrong = (
        f"its ledger is not what the mechanism declares for these sizes and this noise; {RESEND}"
    )
    problems = state_problems(
        (name, "" if declared == to_json(from_json(result.privacy.event)) else wrong)
        for (name, result), declared in zip(case.results.items(), answers, strict=True)
    )
    return Outcome(
        problems,
        f"{len(answers)} ledgers are what the mechanism declares{trust_caveat(case.contents)}",
    )


def conformance_check(case: Case) -> Outcome:
    """The conformance kit (`dpicl check`) on the mechanisms of the results."""
    if reason := reason_not_to_run(case):
        raise NotChecked(reason)
    if not case.run_code:
        raise NotChecked(
            "its mechanism is one of the package, whose tests run the kit; or --run-code"
        )
    from dpicl.conformance.kit import check_mechanism  # loads torch

    known = load_mechanisms(plugins(case.contents))
    problems, passed = [], 0
    cells = (result.cell for result in case.results.values())
    for name, digest in dict.fromkeys((cell.mechanism, cell.plugin) for cell in cells):
        if name not in known or known[name].plugin_hash != digest:
            problems.append(
                f"There is no mechanism '{name}' in the {'package' if digest is None else 'file'}."
            )
            continue
        try:
            checks = check_mechanism(known[name].cls)
        except DpiclError as error:
            problems.append(str(error))
            continue
        passed += sum(check.status == "passed" for check in checks)
        problems += [
            f"{name}, {check.check}: {check.why[:500]}"
            for check in checks
            if check.status == "failed"
        ]
    return Outcome(
        problems, f"{passed} checks of `dpicl check` passed{trust_caveat(case.contents)}"
    )


@dataclass(frozen=True)
class RerunCell:
    """A cell as reported and as it came out now. problem: what is wrong with the latter, or ""."""

    reported: Result
    reproduced: Result
    identical: bool
    problem: str

    @property
    def score(self) -> float:
        """What came out now, in the metric that was reported: a task's later version may have another main metric."""
        return float(self.reproduced.scores[self.reported.main_metric].value)


def sample(
    contents: Contents,
    count: int,
    seed: int | None = None,
) -> tuple[int, list[Result]]:
    """(seed, cells): drawn without replacement from all cells, in the order of their ids.

    seed: of an earlier draw, to repeat it; None: from the system's entropy, since whatever follows from the content is
    chosen by the sender.
    """
    seed = secrets.randbits(32) if seed is None else seed
    results = sorted(contents.results.values(), key=lambda result: result.cell_id)
    return seed, random.Random(seed).sample(results, min(count, len(results)))


def rerun(case: Case, chosen: Sequence[Result]) -> list[RerunCell]:
    """Runs cells again, whose code may run. Raises PluginError where it fails."""
    from dpicl.run.pipeline import run_cell  # loads torch
    from dpicl.run.workbench import Workbench

    bench = Workbench(load_mechanisms(plugins(case.contents)))
    cells = []
    for reported in chosen:
        cell = reported.cell
        case.announce(f"running {cell}")
        with as_plugin_error(f"The re-run of {cell} fails"):
            reproduced = from_text(to_text(run_cell(cell, reported.suite, bench)))
            cells.append(compare_reruns(reported, reproduced))
    return cells


def compare_reruns(reported: Result, now: Result) -> RerunCell:
    """Both results of one cell."""
    metric = reported.main_metric
    if metric not in now.scores or metric not in now.documents:
        raise UsageError(
            f"{reported.cell} was scored by {metric}, which its task no longer has; run the suite again."
        )
    same_cell = now.cell_id == reported.cell_id
    same_outcomes = reported.documents[metric] == now.documents[metric]
    identical = same_cell and same_outcomes and _same_texts(reported, now)
    difference = abs(now.scores[metric].value - reported.score)
    allowed = allowed_difference(reported)
    claimed, proved = reported.privacy.epsilon_proved, now.privacy.epsilon_proved
    problem = ""
    if not same_cell:
        problem = "another cell came out"
    elif abs(proved - claimed) > SAME * claimed:
        problem = "another epsilon is proved"
    elif _place(reported) == _place(now) and not identical:
        problem = "on the same processor, device, dtype and packages, with the same rounding, it is not identical"
    elif difference > allowed:
        problem = f"the scores differ by {difference:.3f}, more than {allowed:.3f}"
    return RerunCell(reported, now, identical, problem)


def _same_texts(reported: Result, now: Result) -> bool:
    return all(
        getattr(reported, part) == getattr(now, part)
        for part in ("instruction", "released", "answers")
    )


def allowed_difference(result: Result) -> float:
    """What a score may differ by on another machine: 2 standard errors of the cell, or `SLACK` if that is larger."""
    outcomes = result.documents[result.main_metric].outcomes
    return max(SLACK, 2 * pstdev(outcomes) / math.sqrt(len(outcomes)))


def _place(result: Result) -> tuple[object, ...]:
    manifest = result.manifest
    packages = {
        name: version for name, version in manifest.packages.items() if name != "dpicl-bench"
    }
    return (
        manifest.dtype,
        manifest.device,
        manifest.python,
        tuple(sorted(packages.items())),
        manifest.machine.cpu,
        manifest.model.arithmetic,
    )


def p_of_lean(cells: Sequence[RerunCell], seed: int) -> float:
    """The one-sided p-value of "claimed is better than re-run, on average", by flipping signs at random.

    An honest submission and its re-run could change places, so each difference is as likely to have either sign; under
    that alone, p <= 0.01 has a probability of at most 0.01, for any number of cells. What flips its sign as a whole is
    what one draw of noise decided: a document where every answer has noise of its own, or where both released the same
    texts; else the cell. So p cannot come below 1/2^k for k cells of demonstrations that differ (`FEWEST_DRAWS`).
    seed: of the signs.
    """
    units = np.array(_list_units(cells))
    signs = (
        np.random.default_rng(seed).integers(0, 2, (_SIGN_DRAWS, len(units)), dtype=np.int8) * 2 - 1
    )
    above = np.count_nonzero(signs @ units >= units.sum() - _EQUAL)
    return float((1 + above) / (1 + _SIGN_DRAWS))


def _list_units(cells: Sequence[RerunCell]) -> list[float]:
    """What flips its sign as a whole, where it is not 0."""
    return [difference for cell in cells for difference in _differences(cell) if difference != 0]


def _differences(cell: RerunCell) -> list[float]:
    """How much better claimed is than re-run, in shares of the cell's score, one number for each draw of noise."""
    metric = cell.reported.main_metric
    better = -1.0 if cell.reported.lower_is_better(metric) else 1.0
    claimed, reproduced = [
        dict(zip(documents.ids, documents.outcomes, strict=True))
        for documents in (cell.reported.documents[metric], cell.reproduced.documents[metric])
    ]
    if _is_one_draw(cell) or claimed.keys() != reproduced.keys():
        return [better * (cell.reported.score - cell.score)]
    return [better * (claimed[id] - reproduced[id]) / len(claimed) for id in claimed]


def _is_one_draw(cell: RerunCell) -> bool:
    """Whether one draw of noise decided its score: demonstrations that did not come out the same."""
    return cell.reported.privacy.queries is None and not _same_texts(cell.reported, cell.reproduced)


def rerun_check(case: Case, chosen: Sequence[Result], seed: int) -> Outcome:
    """Runs these cells again and compares. seed: they were drawn with it."""
    cells = count(len(case.results), "cell")
    case.announce(f"{case.contents.name}: running {len(chosen)} of {cells} again, seed {seed}.")
    return rerun_outcome(case.contents, rerun(case, chosen), seed)


def rerun_outcome(contents: Contents, cells: Sequence[RerunCell], seed: int) -> Outcome:
    """Whether the re-run confirms what was reported. Raises NotChecked where too few demonstrations came out otherwise
    to tell whether their scores lean one way."""
    problems = []
    scores = []
    for cell in cells:
        name, reported = cell.reported.cell, cell.reported.score
        scores.append(f"{name}: {reported:.3f} → {cell.score:.3f}")
        if cell.problem:
            problems.append(
                f"{name}: reported {reported:.3f}, now {cell.score:.3f}: {cell.problem}."
            )
    before = fmean(cell.reported.score for cell in cells)
    now = fmean(cell.score for cell in cells)
    p = 1.0 if problems else p_of_lean(cells, seed)
    if p <= LEAN_LEVEL:
        problems.append(
            f"Each score is within its allowance, but they lean one way: reported minus now is {before - now:+.3f} on"
            f" average, p = {p:.4f} for an honest submission (refused at {LEAN_LEVEL:g})."
        )
    notes = [
        f"Reported → now: {', '.join(scores)}.",
        f"These cells were drawn at random; `--rerun {len(cells)} --rerun-seed {seed}` draws them again.",
    ]
    units = len(_list_units(cells))
    if not problems and units < FEWEST_DRAWS and any(map(_is_one_draw, cells)):
        is_all = len(cells) == len(contents.results)
        more = "more seeds, tasks or ε are needed" if is_all else "give a larger --rerun"
        raise NotChecked(
            f"{units} of {count(len(cells), 'cell')} came out with another score, and fewer than {FEWEST_DRAWS} cannot"
            f" show whether what was reported leans one way (p is at least 2^-{units}); {more}",
            notes,
        )
    number = f"{len(cells)} of {count(len(contents.results), 'cell')}"
    identical = sum(cell.identical for cell in cells)
    if not problems:
        first = cells[0].reproduced
        changes = " with changes" if first.manifest.dirty else ""
        commit = f"commit {(first.manifest.commit or 'unknown')[:12]}{changes}"
        notes.append(
            f"For the card: reproduced: {number}, {identical} identical, mean score {before:.3f} and now {now:.3f};"
            f" files {contents.digest}, {commit}, {first.created[:10]}, by YOUR NAME"
        )
    good = f"{number} came out again, {identical} identical{trust_caveat(contents)}"
    return Outcome(problems, good, notes)


def reproduced_check(case: Case) -> Outcome:
    """Is the card's record of a re-run about these very files?"""
    record = case.card.reproduced if case.card else ""
    if not record:
        return Outcome([], "none yet")
    if case.contents.digest in record:
        return Outcome([], "a re-run of these files")
    return Outcome(
        [f"{CARD}: `reproduced` is not about these files; remove it, and run cells again."]
    )
