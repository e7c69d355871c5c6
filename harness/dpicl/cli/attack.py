"""`dpicl attack`: runs an attack on mechanisms, and on controls that show its power; existing results are kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from dpicl.api import parameters as p
from dpicl.attacks import store
from dpicl.attacks.base import Attack
from dpicl.attacks.broken import broken_mechanisms
from dpicl.attacks.driver import BASELINES, MEMBERS, AttackJob, jobs_of, run_jobs
from dpicl.attacks.power import powers
from dpicl.attacks.registry import attack_of, load_attacks
from dpicl.attacks.results import AttackResult
from dpicl.attacks.table import ENDS, attacks_table, estimate_text, measure_name, pair_with_settings
from dpicl.cli.output import Answer
from dpicl.core.errors import UsageError, require_known
from dpicl.core.messages import count, duration, message
from dpicl.core.paths import DEFAULT_RESULTS
from dpicl.core.plugins import Registered
from dpicl.data.task import Task
from dpicl.engines.progress import count_progress
from dpicl.mechanism.options import option_types, share_out
from dpicl.mechanism.registry import find_mechanism, load_mechanisms
from dpicl.run.workbench import Workbench
from dpicl.tables.document import Block, notes

Skipped = dict[str, str]


@p.verb(
    "dpicl attack likelihood --task dbpedia --mechanism tang --mechanism prism --epsilon 1 --epsilon 8"
)
def attack(
    name: Annotated[str, p.Flag(metavar="NAME")],
    *,
    task: p.Task,
    mechanism: p.Rows,
    epsilon: p.SomeEpsilons = (),
    model: p.Model = "embedded",
    source: p.SourceName = "auto",
    seed: p.Seed = 0,
    delta: p.Delta = 1e-5,
    results: p.Results = DEFAULT_RESULTS,
    options: p.Options | None = None,
    plugins: p.Plugins = (),
    members: p.Count = MEMBERS,
    others: p.Count | None = None,
    shots: p.Shots | None = None,
    settings: Annotated[p.Options | None, p.Flag(name="--set")] = None,
    no_ends: bool = False,
) -> Answer:
    """Runs an attack on mechanisms and on controls that show its power; results that exist stay.

    Raises UsageError where nothing can be attacked.

    name: see `dpicl list attacks`.
    mechanism: see `dpicl list mechanisms`; may be repeated (or A,B).
    members: private records to be expected (default: 50).
    others: records that are not members (default: 50).
    shots: released demonstrations (default: the attack's own number).
    settings: option of the attack (see `dpicl list attacks`); may be repeated.
    no_ends: leave out zero-shot and the controls that show its power.
    """
    plugins, folder = p.as_list(plugins), Path(results)
    names = list(dict.fromkeys(p.as_list(mechanism)))
    epsilons = p.as_list(epsilon)
    attacks = load_attacks(plugins)
    require_known("attack", [name], attacks)
    registered = attacks[name]
    chosen = attack_of(registered.cls, p.options_of(name, settings, "attack"))
    if others is not None and not chosen.membership:
        raise UsageError(f"The attack {name} compares no members with others; leave --others out.")
    known = load_mechanisms(plugins) | broken_mechanisms()
    loaded = Task.load(task, source)
    known_options = {each: option_types(find_mechanism(each, known)) for each in names}
    changes = share_out(known_options, p.option_changes(options))
    jobs, skipped = list[AttackJob](), Skipped()
    for each in names if no_ends else _add_ends(names, chosen, loaded):
        of_mechanism = jobs_of(
            chosen,
            loaded,
            known[each],
            epsilons,
            changes.get(each, {}),
            model=model,
            delta=delta,
            seed=seed,
            shots=shots,
            members=members,
            others=others or MEMBERS,
            plugin=registered.plugin_hash,
        )
        reason = chosen.skip(of_mechanism[0].mechanism, loaded)
        if reason:
            skipped[each] = reason
        else:
            jobs += of_mechanism
    _require_some(name, jobs, skipped, names)
    for left_out, reason in skipped.items():
        message(f"{left_out} is left out: {reason}.")
    done, new, failed = _make_all(jobs, known, folder)
    if not done:
        raise UsageError(failed[0])
    return _answer(name, folder, done, skipped, new, 2 if failed else 0)


def _require_some(
    name: str, jobs: Sequence[AttackJob], skipped: Skipped, names: Sequence[str]
) -> None:
    """Raises UsageError where nothing is left that was asked for. names: of the mechanisms that were."""
    of_jobs = {job.mechanism.name for job in jobs}
    if not of_jobs or (skipped and of_jobs.isdisjoint(names) and of_jobs <= {*ENDS}):
        reasons = "; ".join(f"{left_out}: {reason}" for left_out, reason in skipped.items())
        raise UsageError(f"The attack {name} cannot be made on any of these mechanisms: {reasons}.")


def _add_ends(names: Sequence[str], chosen: Attack, task: Task) -> list[str]:
    """The mechanisms in the order of the table: with the reference baselines first and last, and then the first
    mechanism broken on purpose that the attack says something about, its own positive control if it can."""
    fitting = [
        name for name, each in broken_mechanisms().items() if not chosen.skip(each.cls(), task)
    ]
    broken = sorted(fitting, key=lambda name: name != chosen.positive_control)[:1]
    first, last = BASELINES
    return [first, *(name for name in names if name not in BASELINES), last, *broken]


def _make_all(
    jobs: Sequence[AttackJob], mechanisms: dict[str, Registered], folder: Path
) -> tuple[list[AttackResult], int, list[str]]:
    """(every result, how many of them are new, what could not be made and why)."""
    results: list[AttackResult] = []
    failed: list[str] = []
    new = 0
    outcomes = run_jobs(jobs, Workbench(mechanisms), folder, message, lambda job: count_progress())
    for number, outcome in enumerate(outcomes, 1):
        place, result = f"[{number}/{len(jobs)}]", outcome.result
        if result is None:
            failed.append(f"{outcome.job}: {outcome.error}")
            message(f"{place} {failed[-1]}")
            continue
        results.append(result)
        if outcome.earlier:
            message(f"{place} {outcome.job}: already there")
            continue
        new += 1
        seconds = duration(sum(result.cost.seconds.values()))
        measure, estimate = next(iter(result.measures.items()))
        message(
            f"{place} {outcome.job}: {measure_name(measure)} {estimate_text(estimate)} in {seconds}"
        )
    return results, new, failed


def _answer(
    name: str,
    folder: Path,
    results: Sequence[AttackResult],
    skipped: Skipped,
    new: int,
    code: int = 0,
) -> Answer:
    known = powers([*store.load_attacks(folder)[0], *results])  # controls, shown or not
    rows = [
        {
            **each.model_dump(mode="json"),
            "path": store.path_of(folder, each),
            "power": known[each.id].to_json() if each.id in known else None,
        }
        for each in results
    ]
    refuted = [
        f"{result.subject.mechanism}: the proved epsilon is refuted; look at it with `dpicl check`."
        for result in results
        if result.refutes_proof
    ]
    where = f"{count(len(results), 'result')} in {folder / store.ATTACKS}"
    shown: list[Block | str] = [
        attacks_table(name, pair_with_settings(results, known)),
        *notes(refuted, "flag"),
        where,
    ]
    return Answer(
        {"attack": name, "made": new, "skipped": skipped, "results": rows},
        shown,
        code,
    )
