"""`dpicl calibrate`: the noise of a mechanism for a given epsilon."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from dpicl.harness.cli import output
from dpicl.harness.cli.arguments import (
    SOURCES,
    Subparsers,
    add_command,
    add_noise_flag,
    add_option_flag,
    add_plugin_flag,
    delta,
    epsilon,
    one_of,
    options_of,
    whole,
)

if TYPE_CHECKING:
    from dpicl.harness.core.vocabulary import Sizes
    from dpicl.harness.mechanism.bases import Mechanism


def add(subparsers: Subparsers) -> None:
    """Adds the command."""
    calibrate = add_command(
        subparsers,
        "calibrate",
        "the noise of a mechanism for a proved epsilon",
        "dpicl calibrate tang --task agnews --epsilon 1 --delta 1e-5 --size 30000",
        _calibrate,
    )
    calibrate.add_argument("mechanism", metavar="MECHANISM", help="see `dpicl list mechanisms`")
    calibrate.add_argument("--task", required=True, metavar="T", help="its published options are used")
    calibrate.add_argument("--epsilon", type=epsilon, required=True, metavar="E", help="target epsilon")
    calibrate.add_argument("--delta", type=delta, default=1e-5, metavar="D", help="delta (default: 1e-5)")
    calibrate.add_argument(
        "--size",
        type=whole(1),
        metavar="N",
        help="private records a class (answer mechanisms: in all; default: the task's own)",
    )
    add_noise_flag(calibrate)
    calibrate.add_argument("--shots", type=whole(1), default=4, metavar="K", help="demonstrations (default: 4)")
    calibrate.add_argument(
        "--queries", type=whole(1), metavar="Q", help="Q that the epsilon of an answer mechanism covers (default: 1)"
    )
    calibrate.add_argument(
        "--mode",
        type=one_of("mode", ("proved", "paper")),
        default="proved",
        metavar="proved|paper",
        help="proved (default), or the accounting of the authors",
    )
    calibrate.add_argument("--source", type=one_of("source", SOURCES), default="auto", metavar="|".join(SOURCES))
    add_option_flag(calibrate)
    add_plugin_flag(calibrate)


def _calibrate(arguments: argparse.Namespace) -> int:
    from dpicl.harness.core.errors import UsageError
    from dpicl.harness.core.seeds import accounted_delta
    from dpicl.harness.data.task import Task
    from dpicl.harness.mechanism.bases import AnswerMechanism
    from dpicl.harness.mechanism.options import build, resolve_options
    from dpicl.harness.mechanism.registry import find_mechanism, load_mechanisms
    from dpicl.harness.privacy.events import to_json
    from dpicl.harness.run.releasing import calibrated, per_query_epsilon

    cls = find_mechanism(arguments.mechanism, load_mechanisms(arguments.plugin))
    task = Task.without_records(arguments.task)
    options = resolve_options(cls, arguments.task, options_of(cls.name, arguments.option))
    mechanism = build(cls, options)
    if arguments.queries and not isinstance(mechanism, AnswerMechanism):
        raise UsageError(f"{cls.name} releases demonstrations for any number of queries; leave --queries out.")
    if reason := mechanism.skip(task):
        raise UsageError(f"{cls.name} cannot do {arguments.task}: {reason}.")
    if arguments.noise == "secure" and arguments.size is None:
        raise UsageError(
            "Secure noise needs a declared size, since counts of private records are private; give --size N."
        )
    at = accounted_delta(arguments.delta, arguments.noise)
    sizes = _sizes(arguments, mechanism)
    found = calibrated(mechanism, sizes, arguments.epsilon, at, arguments.mode)
    answer = {
        "mechanism": cls.name,
        "task": arguments.task,
        "options": options,
        "knob": mechanism.knob.name if mechanism.knob else None,
        "noise": found.knob,
        "epsilon": arguments.epsilon,
        "epsilon_upper": found.bounds.upper,
        "queries": sizes.queries,
        "epsilon_per_query": per_query_epsilon(mechanism, found.knob, sizes, found.delta),
        "delta": arguments.delta,
        "accounted_delta": found.delta,
        "neighbours": "add/remove one record",
        "mode": found.mode,
        "sizes": {name or "": n for name, n in sizes.records.items()},
        "shots": {name or "": n for name, n in sizes.shots.items()},
        "events": to_json(found.event),
        "accountants": found.bounds.accountants,
        "notes": list(found.bounds.notes),
    }
    if arguments.json:
        output.emit_json(answer)
    else:
        _show(answer, mechanism, sizes)
    return 0


def _sizes(arguments: argparse.Namespace, mechanism: Mechanism) -> Sizes:
    """Sizes of the task: with `--size` every used group has that many records and no data is loaded."""
    import numpy as np

    from dpicl.harness.core.vocabulary import Sizes
    from dpicl.harness.data.task import Task, load_config
    from dpicl.harness.mechanism.bases import AnswerMechanism

    if isinstance(mechanism, AnswerMechanism):
        records = arguments.size or len(Task.load(arguments.task, arguments.source, limit_test=1).train)
        return Sizes.of_queries(records, arguments.queries or 1)
    if arguments.size is None:
        task = Task.load(arguments.task, arguments.source, limit_test=1)
        return task.sizes(task.plan_shots(arguments.shots, np.random.default_rng(0)), arguments.queries)
    labels = list(load_config(arguments.task).get("doc_to_choice", ()))
    used: dict[str | None, int] = {}
    for i in range(arguments.shots):
        group = labels[i % len(labels)] if labels else None
        used[group] = used.get(group, 0) + 1
    return Sizes(dict.fromkeys(used, arguments.size), used, arguments.queries)


def _show(answer: dict[str, Any], mechanism: Mechanism, sizes: Sizes) -> None:
    proved = "proved" if answer["mode"] == "proved" else "by the authors' accounting"
    if answer["knob"] is None:
        output.emit(f"{answer['mechanism']} has no knob: epsilon = {answer['epsilon_upper']:g} whatever is asked.")
        return
    output.emit(
        f"{answer['mechanism']} on {answer['task']}: {answer['knob']} = {answer['noise']:.6g}"
        f" for epsilon = {answer['epsilon']:g} at delta = {answer['delta']:.3g}"
        f" ({proved}: {answer['epsilon_upper']:.4f}, neighbours: add or remove one record)"
    )
    output.emit(f"options: {' '.join(f'{name}={value}' for name, value in answer['options'].items())}")
    smallest = min(sizes.records.values())
    if answer["epsilon_per_query"] is not None:
        alone = f"one of them alone is proved to cost epsilon = {answer['epsilon_per_query']:.4f}"
        output.emit(f"records: {smallest}; queries: {sizes.queries}, {alone}")
    else:
        groups = f"{len(sizes.records)} groups, the smallest of {smallest}"
        output.emit(f"records: {groups}; shots: {sum(sizes.shots.values())}")
    for name, value in answer["accountants"].items():
        output.emit(f"  {name}: {value}")
    for note in answer["notes"]:
        output.emit(f"note: {note}")
