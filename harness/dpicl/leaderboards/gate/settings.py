"""Checks that results match the suite they name: version, settings, tasks, epsilons, number of seeds, records.

The reference baselines of record (`zero_shot`, `real_demonstrations`) set the
standard: every recovery on the board is a place between those two. Records do not depend on the seed
(dpicl.results.fingerprints), so one result stands for all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import attrgetter, itemgetter

from dpicl.core.cell import Cell
from dpicl.core.errors import unknown_name
from dpicl.core.grouping import group_by
from dpicl.core.messages import count, names_text
from dpicl.leaderboards.gate.card import CARD
from dpicl.leaderboards.gate.case import Case, NotChecked, Outcome, state_problems
from dpicl.leaderboards.model.comparability import (
    BASELINES,
    REAL_DATA,
    REFERENCE,
    ROW,
    ZERO_SHOT,
    list_differing,
    values_of,
)
from dpicl.leaderboards.model.text import seeds_text
from dpicl.models.server_settings import without_address
from dpicl.plan.suite import Suite
from dpicl.results.schema import Result

#: The fewest seeds of a row at one epsilon on one task.
_FEWEST = 3
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+=-]{0,59}")


def suite_check(case: Case) -> Outcome:
    """Are all results of the suite, in the version that ships?"""
    card, suite, results = case.card, case.suite, case.results
    if card is None:
        raise NotChecked("there is no card that names a suite")
    if suite is None:
        return Outcome([f"{case.contents.name}: {unknown_name('suite', card.suite, case.suites)}"])
    if not results and (case.contents.size or case.contents.schema):
        raise NotChecked("no result could be read; fix the files first")
    if not results:
        command = (
            f"dpicl run {card.suite} --plugin FILE --mechanism METHOD --results FOLDER/results"
        )
        problem = f"There is no result; make some with `{command}`, where FOLDER is the submission."
        return Outcome([problem])
    if str(card.suite_version) != str(suite.version):
        problem = (
            f"{CARD}: suite_version is {card.suite_version}, and {suite.name} ships in version {suite.version}; run"
            " that one and set suite_version to it."
        )
        return Outcome([problem])
    of_files = [(name, _incompatibility(result, suite)) for name, result in results.items()]
    problems = state_problems([*of_files, *_plugins(case)]) + _options(results.values())
    number = count(len(results), "cell")
    return Outcome(
        problems, f"{number} of {suite.name}, version {suite.version}, hash {suite.hash[:8]}"
    )


def _incompatibility(result: Result, suite: Suite) -> str:
    """Why a result is none of this suite, or ""."""
    cell, named = result.cell, result.suite
    if (named.name, str(named.version)) != (suite.name, str(suite.version)):
        return (
            f"it is of suite {named.name}, version {named.version}; a submission is of one suite, here {suite.name},"
            f" version {suite.version}."
        )
    if cell.mechanism in BASELINES or cell.label in BASELINES:
        return f"{cell.label} is a reference baseline, which all rows share; remove it."
    if not _LABEL.fullmatch(cell.label):
        return "its row's label is not made of letters, digits and _ . + = -; give it another."
    if cell.task not in suite.tasks:
        return (
            f"task {cell.task} is not in the suite, which has {', '.join(suite.tasks)}; remove it."
        )
    if cell.epsilon not in suite.epsilons:
        known = ", ".join(f"{epsilon:g}" for epsilon in suite.epsilons)
        return f"epsilon {cell.epsilon:g} is not in the suite, which has {known}; remove it."
    differing = [
        f"{key} {getattr(cell, key)} instead of {value}"
        for key, value in _list_fixed(suite, cell).items()
        if getattr(cell, key) != value
    ]
    if not differing and named.hash == suite.hash:
        return ""
    settings = names_text(differing) or "other settings"
    return (
        f"it was not made with the suite as it is shipped ({settings}); run that, without --limit."
    )


def _list_fixed(suite: Suite, cell: Cell) -> dict[str, object]:
    """What the suite fixes for this cell."""
    names = ["delta", "noise", "train_records", "private_share"]
    names += [] if cell.queries is None else ["queries"]
    names += [] if suite.source == "auto" else ["source"]
    return {
        **{name: getattr(suite, name) for name in names},
        "fresh_test_records": bool(suite.fresh_test_records),
        "test_records": suite.records_of(cell.task),
        "metric": suite.task_metrics.get(cell.task),
        "shots": suite.task_shots.get(cell.task, suite.shots),
    }


def _plugins(case: Case) -> Iterable[tuple[str, str]]:
    """Results whose mechanism is not the submitted file."""
    submitted = case.contents.plugin_hash
    named = case.card.mechanism if case.card else ""
    if submitted is None and case.contents.size:  # it may be there, and refused
        return
    if named and submitted is None:
        yield CARD, f"mechanism names {named}, which is not there; send the file or drop the key."
        return
    for name, result in case.results.items():
        plugin = result.cell.plugin
        if plugin == submitted:
            continue
        if submitted is None:
            problem = "it was made with a mechanism's file that is not here; send the file and name it in the card."
        else:
            how = "without a plugin file" if plugin is None else "with another version of it"
            problem = (
                f"it was made {how}, not with the submitted {named}; run it again with that file."
            )
        yield name, problem


def _options(results: Iterable[Result]) -> list[str]:
    """Rows with several mechanisms or sets of options on a task: they must not be chosen for each seed or epsilon."""
    rows = group_by(results, "cell.model", "cell.label", "cell.task")
    sets = {row: {values_of(cell, ROW) for cell in cells} for row, cells in rows.items()}
    return [
        f"Row {label} on {task} ({model}) was run with {len(options)} sets of options; one row has one, so give them"
        " labels of their own, or remove all but one."
        for (model, label, task), options in sets.items()
        if len(options) > 1
    ]


def seeds_check(case: Case) -> Outcome:
    """As many seeds of every row as the suite gives its task and epsilon, each with noise of its own.

    So that nobody chooses seeds: those that the suite gives, then all that it lists or none of the rest.
    """
    suite = case.suite
    if suite is None:
        raise NotChecked("there is no suite that gives seeds")
    if case.contents.schema:
        raise NotChecked(
            "some results cannot be read, and they may be of seeds that seem to be missing; fix `schema`"
        )
    if case.is_frozen:
        return Outcome([], "nothing was changed; its seeds were looked at when it came")
    rows = group_by(case.results.values(), "cell.model", "cell.label", "cell.task", "cell.epsilon")
    problems = [
        f"{label} on {task} at epsilon {epsilon:g} ({model}) {problem}"
        for (model, label, task, epsilon), results in sorted(rows.items(), key=itemgetter(0))
        for problem in _seed_problems(suite, results)
    ]
    seeds = {result.cell.seed for result in case.results.values()}
    return Outcome(problems, f"seeds {seeds_text(seeds)} in {count(len(rows), 'row')}")


def _seed_problems(suite: Suite, results: Sequence[Result]) -> Iterable[str]:
    """What is wrong with the seeds of one row, as the ends of sentences."""
    seeds = {result.cell.seed for result in results}
    required = _seeds_of(suite, results[0].cell)
    further = {*suite.seeds} - required
    if len(seeds) < len(results):
        yield "has two results for one seed; keep one."
    if missing := required - seeds:
        numbers = ",".join(map(str, sorted(missing)))
        yield f"lacks seed {seeds_text(missing)} of the suite; run it too (--seed {numbers})."
    elif seeds & further and (missing := further - seeds):
        yield (
            f"has more seeds than the suite gives it and lacks seed {seeds_text(missing)} of its list; run all of"
            f" these, or seed {seeds_text(required)} alone."
        )
    elif unknown := seeds - required - further:
        yield f"has seed {seeds_text(unknown)}, which is none of the suite's; remove it."
    if _same_noise(results):
        yield (
            f"released the same for all {len(results)} seeds, although it has noise; say in the card why, or run it"
            " with noise that depends on the seed."
        )


def _seeds_of(suite: Suite, cell: Cell) -> set[int]:
    """The seeds that a run of the suite gives the row, task and epsilon of a cell, and more where these are few."""
    entries = suite.mechanisms if cell.plugin is None else ()
    entry = next((entry for entry in entries if entry.row == cell.label), None)
    of_suite = suite.seeds_of(cell.task, cell.epsilon, entry)
    seeds = dict.fromkeys([*of_suite, *suite.seeds, *range(_FEWEST)])
    return set(islice(seeds, max(_FEWEST, len(of_suite))))


def _same_noise(results: Sequence[Result]) -> bool:
    """Whether all seeds released the same texts (scored the same on every record, where texts are withheld)."""
    if len(results) < 2 or not any(result.privacy.ledger for result in results):
        return False
    releases: set[tuple[object, ...]] = set()
    for result in results:
        if result.texts:
            releases.add((tuple(result.texts), tuple(answer.id for answer in result.answers)))
        else:
            releases.add(tuple(result.documents[result.main_metric].outcomes))
    return len(releases) == 1


def _list_differing_from_record(result: Result, baseline: Result) -> list[str]:
    """What differs in the conditions of a result of record. The two have one seed where it draws the test records."""
    differing = list_differing(result, baseline, REFERENCE)
    for metric in result.documents.keys() & baseline.documents.keys():
        if {*result.documents[metric].ids} != {*baseline.documents[metric].ids}:
            differing.append("test records of every metric")
    return list(dict.fromkeys(differing))


def data_check(case: Case) -> Outcome:
    """Every result against the newest one of a reference baseline on its task and model, and seed where each draws its
    own test records: demonstrations against real ones, since both have numbers of texts, and answers against
    zero-shot."""
    if case.suite is None:
        raise NotChecked(
            "no suite that ships is named, so there are no results of record to compare with"
        )

    def place_of(result: Result, is_real_data: bool) -> tuple[object, ...]:
        cell = result.cell
        seed = cell.seed if cell.fresh_test_records else None
        return cell.task, cell.model, is_real_data, seed

    newest = {
        place_of(result, result.cell.mechanism == REAL_DATA): result
        for result in sorted(case.reference, key=attrgetter("created"))
        if result.cell.mechanism in BASELINES
    }
    differences, missing = [], set()
    for name, result in case.results.items():
        cell = result.cell
        baseline = newest.get(place_of(result, result.kind == "demonstrations"))
        if baseline is None:
            missing.add((cell.suite, cell.task, cell.model))
        elif conditions := _list_differing_from_record(result, baseline):
            problem = (
                f"the results of record for {cell.task} and {cell.model} differ in {names_text(conditions)}; run it"
                " with this version of the project and its data."
            )
            differences.append((name, problem))
    problems = state_problems(differences)
    for suite, task, model in sorted(missing):
        command = f"dpicl run {suite} --task {task} --model {without_address(model)}"
        problems.append(
            f"There is no result of record for {task} and {model} to compare with; use a model that {suite} has, or"
            f" make it with `{command} --mechanism {ZERO_SHOT} --mechanism {REAL_DATA}`."
        )
    number = len(group_by(case.results.values(), "cell.task", "cell.model"))
    good = f"records, prompts, test records and weights are those of the results of record ({number} of task and model)"
    return Outcome(problems, good)
