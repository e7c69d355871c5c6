"""`dpicl calibrate`: finds the noise of a mechanism for a given epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np

from dpicl.accounting.calibration import Calibration, slack_of
from dpicl.accounting.events import to_json
from dpicl.accounting.slack import explain_looseness
from dpicl.api import parameters as p
from dpicl.cli.account import run_accountants
from dpicl.cli.output import Answer
from dpicl.core.cell import large_delta
from dpicl.core.errors import UsageError, require_known
from dpicl.core.messages import round_down, show_rounded_up
from dpicl.core.seeds import accounted_delta
from dpicl.core.vocabulary import NEIGHBOURS, NEIGHBOURS_TEXT
from dpicl.data.task import Task, list_tasks, load_config
from dpicl.mechanism.bases import Mechanism, Sizes
from dpicl.mechanism.given import GivenMechanism, given_mechanism
from dpicl.mechanism.options import build, resolve_options
from dpicl.mechanism.outputs import name_failure, skip_reason
from dpicl.releasing.release import calibrate_mechanism, per_query_epsilon
from dpicl.tables.document import notes, text_table


def _answer(document: dict[str, Any], arguments: Mapping[str, Any]) -> Answer:
    proved = "proved" if document["mode"] == "proved" else "by the authors' accounting"
    if document["knob"] is None:
        cost = show_rounded_up(document["epsilon_upper"])
        return Answer(
            document,
            [f"{document['mechanism']} has no knob: epsilon = {cost} whatever the target."],
        )
    by_label, smallest = document["noise_by_label"], min(document["sizes"].values())
    upper = show_rounded_up(document["epsilon_upper"], 5)
    facts = {
        document["knob"]: f"{document['noise']:.6g}",
        "ε": f"{document['epsilon']:g} at δ = {document['delta']:.3g} ({proved}: {upper})",
        "neighbours": NEIGHBOURS_TEXT,
        "of each label": ", ".join(f"{label} {value:.6g}" for label, value in by_label.items()),
        "options": " ".join(f"{name}={value}" for name, value in document["options"].items()),
    }
    if len(set(by_label.values())) < 2:
        del facts["of each label"]
    if document["epsilon_per_query"] is not None:
        facts |= {"records": str(smallest), "queries": str(document["queries"])}
        facts["one query alone"] = (
            f"proved to cost epsilon = {show_rounded_up(document['epsilon_per_query'])}"
        )
    else:
        facts["records"] = f"{len(document['sizes'])} groups, the smallest of {smallest}"
        facts["shots"] = str(sum(document["shots"].values()))
    if document["slack"] is not None:
        lower = round_down(document["epsilon_upper"] / document["slack"])
        facts["slack"] = (
            f"{document['slack']:.3f} (some mechanism with these events costs epsilon = {lower})"
        )
    facts |= {f"  {name}": str(value) for name, value in document["accountants"].items()}
    table = text_table([document["mechanism"], f"on {document['task']}"], facts.items())
    return Answer(document, [table, *notes(document["notes"])])


@p.verb("dpicl calibrate tang --task agnews --epsilon 1 --delta 1e-5 --size 30000", answer=_answer)
def calibrate(
    mechanism: Annotated[GivenMechanism, p.OneMechanism],
    *,
    task: p.Task,
    epsilon: p.Epsilon,
    delta: p.Delta = 1e-5,
    size: p.Count | None = None,
    shots: p.Shots = 4,
    queries: Annotated[p.Count | None, p.Flag(metavar="Q")] = None,
    mode: Literal["proved", "paper"] = "proved",
    noise: p.Noise = "seeded",
    source: p.SourceName = "auto",
    options: p.Options | None = None,
    plugins: p.Plugins = (),
) -> dict[str, Any]:
    """The noise for which a mechanism's events are proved to cost at most epsilon, as `dpicl calibrate --json` says it.

    Raises UsageError for what does not fit.

    task: its published options are used.
    size: private records a class (answer mechanisms: in all; default: the task's own).
    queries: Q that the epsilon of an answer mechanism covers (default: 1).
    mode: proved (default), or the accounting of the authors.
    noise: secure: for private records, from the operating system's entropy; needs --size.
    """
    chosen = given_mechanism(mechanism, p.as_list(plugins))
    cls = chosen.cls
    require_known("task", [task], list_tasks())
    resolved = resolve_options(
        cls,
        task,
        {**chosen.options, **p.options_of(cls.name, options)},
    )
    built = build(cls, resolved)
    if queries and cls.query_budget(queries) is None:
        raise UsageError(
            f"The release of {cls.name} is for any number of queries; leave queries out."
        )
    if reason := skip_reason(built, Task.read_public(task)):
        raise UsageError(f"{cls.name} cannot do {task}: {reason}.")
    if noise == "secure" and size is None:
        raise UsageError(
            "Secure noise needs a declared size, since counts of private records are private; give a size."
        )
    sizes = _sizes(built, task, size, shots, queries, source)

    def solve() -> Calibration:
        with name_failure(built):
            return calibrate_mechanism(built, sizes, epsilon, accounted_delta(delta, noise), mode)

    calibration = run_accountants(solve)
    slack = (
        slack_of(calibration.event, calibration.delta, calibration.bounds.upper)
        if mode == "proved"
        else None
    )
    return {
        "mechanism": cls.name,
        "task": task,
        "options": resolved,
        "knob": built.knob.name if built.knob else None,
        "noise": calibration.knob,
        "noise_by_label": dict(calibration.by_label),
        "epsilon": epsilon,
        "epsilon_upper": calibration.bounds.upper,
        "slack": slack,
        "queries": sizes.queries,
        "epsilon_per_query": per_query_epsilon(built, calibration.knob, sizes, calibration.delta),
        "delta": delta,
        "accounted_delta": calibration.delta,
        "neighbours": NEIGHBOURS,
        "mode": calibration.mode,
        "sizes": {name or "": n for name, n in sizes.records.items()},
        "shots": {name or "": n for name, n in sizes.shots.items()},
        "events": to_json(calibration.event),
        "accountants": calibration.bounds.accountants,
        "notes": [
            *calibration.bounds.notes,
            *filter(
                None, [explain_looseness(slack), large_delta(delta, sum(sizes.records.values()))]
            ),
        ],
    }


def _sizes(
    mechanism: Mechanism,
    task: str,
    size: int | None,
    shots: int,
    queries: int | None,
    source: str,
) -> Sizes:
    """Sizes of the task; where a size is given, every group that is used has that many records and no data is read."""
    if size is None:
        loaded = Task.load(task, source, limit_test=1)
    else:
        config = load_config(task)
        groups = config.classes if mechanism.by_label else ()
        loaded = Task.from_records(config, (), dict.fromkeys(groups or [""], size))
    planned = mechanism.plan_shots(loaded.public_view(), shots, np.random.default_rng(0))
    return mechanism.public_sizes(loaded.keep_sizes(), planned, queries or 1)
