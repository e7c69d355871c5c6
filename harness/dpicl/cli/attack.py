"""`dpicl attack`: runs an attack on mechanisms, and on controls that show its power; results that exist stay."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpicl.attacks import store
from dpicl.attacks.base import Attack
from dpicl.attacks.broken import broken_mechanisms
from dpicl.attacks.driver import BASELINES, MEMBERS, AttackJob, AttackSettings, jobs_of, run_attack
from dpicl.attacks.power import CONTROLS, powers
from dpicl.attacks.registry import attack_of, load_attacks
from dpicl.attacks.results import AttackResult
from dpicl.cli import output
from dpicl.cli.arguments import Subparsers, add_command, option
from dpicl.cli.attack_table import emit_results, headline
from dpicl.core.errors import UsageError, require_known
from dpicl.core.plugins import Registered
from dpicl.data.task import Task
from dpicl.engines.progress import count_progress
from dpicl.mechanism.options import option_types, shared_out
from dpicl.mechanism.registry import find_mechanism, load_mechanisms
from dpicl.run.workbench import Workbench

Skipped = dict[str, str]


def add(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "attack",
        "dpicl attack likelihood --task dbpedia --mechanism tang --mechanism prism --epsilon 1 --epsilon 8",
        _attack,
    )
    parser.add_argument("attack", metavar="NAME", help="see `dpicl list attacks`")
    parser.add_argument("--task", metavar="T", help="see `dpicl list tasks`")
    parser.repeated("--mechanism", "M", "see `dpicl list mechanisms`")
    parser.share("--epsilon", "--model", "--source", "--seed", "--delta", "--results", "--option", "--plugin")
    parser.count("--members", "N", "private records to be expected (default: 50)")
    parser.count("--others", "N", "records that are not members (default: 50)")
    parser.share("--shots", default=None, help="released demonstrations (default: the attack's own number)")
    parser.repeated("--set", "K=V", "option of the attack (see `dpicl list attacks`)", option, split=False)
    parser.add_argument(
        "--no-ends", action="store_true", help="leave out zero-shot and the controls that show its power"
    )
    parser.add_argument("--show", action="store_true", help="only show the results that are there")


def _attack(arguments: argparse.Namespace) -> int:
    attacks = load_attacks(arguments.plugin)
    require_known("attack", [arguments.attack], attacks)
    registered = attacks[arguments.attack]
    attack = attack_of(registered.cls, _own_options(arguments))
    if arguments.show:
        _emit(arguments, _stored(arguments), {}, 0)
        return 0
    mechanisms = load_mechanisms(arguments.plugin) | broken_mechanisms()
    common = _setting(arguments, attack, registered.plugin_hash)
    jobs, skipped = _selected(arguments, common, mechanisms)
    if not jobs:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in skipped.items())
        raise UsageError(f"The attack {attack.name} cannot be made on any of these mechanisms: {reasons}.")
    for name, reason in skipped.items():
        output.message(f"{name} is left out: {reason}.")
    results, made, failed = _made(jobs, mechanisms, arguments.results)
    if not results:
        raise UsageError(failed[0])
    _emit(arguments, results, skipped, made)
    return 2 if failed else 0


def _setting(arguments: argparse.Namespace, attack: Attack, plugin: str | None) -> AttackSettings:
    """The task is loaded, the model is not."""
    if not arguments.mechanism or not arguments.task:
        raise UsageError("Name a task and a mechanism, for example --task dbpedia --mechanism tang --epsilon 1.")
    if arguments.others is not None and not attack.membership:
        raise UsageError(f"The attack {attack.name} compares no members with others; leave --others out.")
    given = {name: getattr(arguments, name) for name in ("model", "delta", "seed", "shots")}
    given |= {"members": arguments.members or MEMBERS, "others": arguments.others or MEMBERS}
    return AttackSettings(attack, Task.load(arguments.task, arguments.source), **given, plugin=plugin)


def _selected(
    arguments: argparse.Namespace, common: AttackSettings, mechanisms: dict[str, Registered]
) -> tuple[list[AttackJob], Skipped]:
    """The jobs in the order of the table, with the reference baselines first and last; and who is left out, and why."""
    names = list(dict.fromkeys(arguments.mechanism))
    given = shared_out({name: option_types(find_mechanism(name, mechanisms)) for name in names}, arguments.option)
    first, last = BASELINES
    if not arguments.no_ends:
        names = [first, *(name for name in names if name not in BASELINES), last, *_broken(common)]
    epsilons, jobs, skipped = list(arguments.epsilon), [], {}
    if epsilons and not (arguments.no_ends or _broken(common)):  # an attack on noise itself: its control is no noise
        epsilons.append(math.inf)
    for name in names:
        own = jobs_of(common, mechanisms, name, epsilons, given.get(name, {}))
        reason = common.attack.skip(own[0].mechanism, common.task)
        if reason is None:
            jobs += own
        else:
            skipped[name] = reason
    if skipped and all(
        job.mechanism.name in (*BASELINES, *CONTROLS) and job.mechanism.name not in arguments.mechanism for job in jobs
    ):
        return [], skipped
    return jobs, skipped


def _broken(common: AttackSettings) -> list[str]:
    """The first mechanism broken on purpose that the attack says something about."""
    fitting = (name for name, each in broken_mechanisms().items() if not common.attack.skip(each.cls(), common.task))
    return list(fitting)[:1]


def _own_options(arguments: argparse.Namespace) -> dict[str, Any]:
    for owner, key, _ in arguments.set:
        if owner not in (None, arguments.attack):
            raise UsageError(f"--set {owner}.{key} names another attack; write --set {key}=VALUE.")
    return {key: value for _, key, value in arguments.set}


def _made(
    jobs: Sequence[AttackJob], mechanisms: dict[str, Registered], folder: Path
) -> tuple[list[AttackResult], int, list[str]]:
    """(every result, how many of them were made now, what could not be made and why). A result is written as soon as it
    is there; a job that a user can fix does not stop the others."""
    bench, made = Workbench(mechanisms), 0
    results: list[AttackResult] = []
    failed: list[str] = []
    for number, job in enumerate(jobs, 1):
        found = store.stored(folder, job, output.message)
        if found is not None:
            results.append(found)
            output.message(f"[{number}/{len(jobs)}] {job}: already there")
            continue
        try:
            result = run_attack(job, bench, count_progress())
        except UsageError as error:
            failed.append(f"{job}: {error}")
            output.message(f"[{number}/{len(jobs)}] {failed[-1]}")
            continue
        store.write(folder, result)
        results.append(result)
        made += 1
        seconds = output.duration(sum(result.cost.seconds.values()))
        output.message(f"[{number}/{len(jobs)}] {job}: {headline(result)} in {seconds}")
    return results, made, failed


def _stored(arguments: argparse.Namespace) -> list[AttackResult]:
    """The results of this attack that fit the flags which were given."""
    found, damaged = store.load_attacks(arguments.results)
    for each in damaged:
        output.message(f"dpicl: {each.path} is ignored: {each.reason}.")
    kept = [
        result
        for result in found
        if result.attack == arguments.attack
        and arguments.task in (None, result.subject.task)
        and (not arguments.mechanism or result.subject.mechanism in arguments.mechanism)
        and (not arguments.epsilon or result.subject.epsilon in arguments.epsilon)
    ]
    if not kept:
        raise UsageError(f"There is no such result of {arguments.attack} under {arguments.results}; run it first.")
    return sorted(kept, key=lambda r: (r.subject.model, r.subject.task, r.subject.epsilon, r.subject.mechanism))


def _emit(arguments: argparse.Namespace, results: Sequence[AttackResult], skipped: Skipped, made: int) -> None:
    known = powers([*store.load_attacks(arguments.results)[0], *results])  # controls, shown or not
    rows = [
        {
            **each.model_dump(mode="json"),
            "path": store.path_of(arguments.results, each),
            "power": known[each.id].to_json() if each.id in known else None,
        }
        for each in results
    ]
    document = {"attack": arguments.attack, "made": made, "skipped": skipped, "results": rows}

    def show() -> None:
        emit_results(results, known)
        output.emit(f"{output.count(len(results), 'result')} in {arguments.results / store.ATTACKS}")

    output.answer(arguments, document, show)
