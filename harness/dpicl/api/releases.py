"""`dpicl.release`, `dpicl.answer` and `dpicl.budget`: one release from private records of the user's own, for use."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast

from dpicl import models
from dpicl.api.values import (
    DeclaredSizes,
    Delta,
    Epsilon,
    MaybeEpsilon,
    MaybePath,
    MaybeText,
    Options,
    Paths,
    Seed,
    Shots,
    Text,
    as_it_is,
    as_list,
    check_arguments,
)
from dpicl.core.cell import Noise, ReleaseConfig
from dpicl.core.errors import UsageError, require_known
from dpicl.core.vocabulary import Query
from dpicl.data.in_memory import Table, as_table
from dpicl.mechanism.bases import PreparedMechanism
from dpicl.mechanism.given import Given, GivenMechanism, given_mechanism
from dpicl.mechanism.options import build, resolve_options
from dpicl.own import budget as budgets
from dpicl.own.budget import ChargeTo
from dpicl.own.job import ReleaseJob
from dpicl.own.records import OwnRecords, queries_of, query_of
from dpicl.own.released import PrivateRelease, check_format, save_release, try_places
from dpicl.own.state import answers_from, public_task, read_state, require_same

#: A file or a folder; a DataFrame, a dataset of `datasets`, a list of dictionaries or of (text, label).
Data = Any
NOISES: tuple[Noise, ...] = ("secure", "seeded")


@check_arguments
def release(
    mechanism: Annotated[GivenMechanism, as_it_is],
    *,
    data: Annotated[Data, as_it_is],
    labels: Annotated[Sequence[str] | Mapping[str, str] | None, as_it_is] = None,
    task: MaybeText = None,
    model: Text = "embedded",
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    allow_large_delta: Annotated[bool, as_it_is] = False,
    size: DeclaredSizes = None,
    shots: Shots = 4,
    text_field: MaybeText = None,
    label_field: MaybeText = None,
    text_is: Text = "text",
    public: Annotated[Data | None, as_it_is] = None,
    public_test: Annotated[Data | None, as_it_is] = None,
    private_set: MaybeText = None,
    total_epsilon: MaybeEpsilon = None,
    noise: Text = "secure",
    seed: Seed = 0,
    options: Options = None,
    plugins: Paths = (),
    out: MaybePath = None,
    format: MaybeText = None,
) -> PrivateRelease:
    """Demonstrations (or an instruction) from the private records of a file, once, charged to their budget.

    A prepared mechanism releases its state instead: `answer_from` answers any number of queries from it.

    data: CSV, JSON Lines, JSON, Excel, Parquet, a folder of `datasets`, or a DataFrame, a dataset, a list of rows: all
        of it private. labels: of a classification (a list, or a dictionary from
        those in the file to better words); or task: a known task with its prompts.
    allow_large_delta: whether delta may be above one over the declared number of records; the card then says so.
    size: declared private records of each class, one number or by label, which secure noise needs. text_field,
        label_field: of a row. text_is: what a text is, such as "support ticket". public: a file with records that
        everybody may know, for tasks that need some. public_test: public records on which the utility is measured
        before, at no cost in privacy: half of them stand in for the private ones, the others are asked about.
    private_set, total_epsilon: the name of the set that is charged, and what all of its releases may add up to.
    noise: "seeded" is for trying on public records: not private, and nothing is charged.
    out: a file for what is released, with its card beside it. format: of that file: jsonl (None), prompt or chat; a
        state has one of its own.
    Raises UsageError for what does not fit, BudgetExceeded where the set's limit would be passed, UnsavedRelease where
    what was released cannot be written.
    """
    own = OwnRecords(_labels_of(labels), task, text_field, label_field, text_is)
    config = _config_of(epsilon, delta, noise, seed, allow_large_delta, shots)
    kinds, said = ("demonstrations", "prepared"), "answers queries; use `dpicl answer` (dpicl.answer)"
    job = ReleaseJob.checked(_given_of(mechanism, plugins, kinds, said), own, model, config, size, options)
    if job.mechanism.reads_all and format is not None:
        raise UsageError(f"{job.mechanism.name} releases a state, and no texts; leave --format out.")
    check_format(format or "jsonl", job.asked)
    table = as_table(data)
    payer = _payer_of(private_set, table, total_epsilon)
    made = job.run(table, _maybe_table(public), payer, out=out, public_test=_maybe_table(public_test))
    return save_release(made, out, format or "jsonl")


@check_arguments
def answer(
    mechanism: Annotated[GivenMechanism, as_it_is],
    *,
    data: Annotated[Data, as_it_is],
    queries: Annotated[Path | str | Sequence[str], as_it_is],
    labels: Annotated[Sequence[str] | Mapping[str, str] | None, as_it_is] = None,
    task: MaybeText = None,
    model: Text = "embedded",
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    allow_large_delta: Annotated[bool, as_it_is] = False,
    size: DeclaredSizes = None,
    text_field: MaybeText = None,
    label_field: MaybeText = None,
    text_is: Text = "text",
    public: Annotated[Data | None, as_it_is] = None,
    public_test: Annotated[Data | None, as_it_is] = None,
    private_set: MaybeText = None,
    total_epsilon: MaybeEpsilon = None,
    noise: Text = "secure",
    seed: Seed = 0,
    options: Options = None,
    plugins: Paths = (),
    out: MaybePath = None,
) -> PrivateRelease:
    """Answers to queries from the private records of a file, charged to their budget: for all queries together.

    queries: a file (JSONL, CSV, TSV with the field of texts; .txt with one a line), or a list of texts. They are taken
        as public. An answer mechanism pays for each. A prepared one releases once and answers them all; to answer
        others later, `release` its state.
    Everything else is as for `release`.
    """
    own = OwnRecords(_labels_of(labels), task, text_field, label_field, text_is)
    config = _config_of(epsilon, delta, noise, seed, allow_large_delta)
    said = "releases demonstrations, which answer any query; use `dpicl release` (dpicl.release)"
    given = _given_of(mechanism, plugins, ("answers", "prepared"), said)
    job = ReleaseJob.checked(given, own, model, config, size, options)
    asked = _asked_queries(queries, own)
    table = as_table(data)
    payer = _payer_of(private_set, table, total_epsilon)
    made = job.run(table, _maybe_table(public), payer, asked, out=out, public_test=_maybe_table(public_test))
    return save_release(made, out)


@check_arguments
def answer_from(
    mechanism: Annotated[GivenMechanism, as_it_is],
    *,
    state: Annotated[Path | str, as_it_is],
    queries: Annotated[Path | str | Sequence[str], as_it_is],
    model: Text = "embedded",
    text_field: MaybeText = None,
    options: Options = None,
    plugins: Paths = (),
    out: MaybePath = None,
) -> PrivateRelease:
    """Answers to queries from a state that `release` wrote: post-processing, so nothing is charged, whatever is asked.

    state: the file. mechanism, options: those that it was made with; a file does not decide what is loaded.
    Everything else is as for `answer`. Raises UsageError for what does not fit, DataError for what is no state.
    """
    given = _given_of(mechanism, plugins, ("prepared",), "prepares nothing; give --data (dpicl.answer)")
    found = read_state(Path(state))
    task = public_task(found)
    resolved = resolve_options(given.cls, task.name, {**given.options, **(options or {})})
    built = cast(PreparedMechanism, build(given.cls, resolved))
    require_same(found, built, resolved)
    asked = _asked_queries(queries, replace(found.own, text_field=text_field))
    if out is not None:
        try_places(Path(out))
    lm = models.load(model)
    answers = answers_from(found, built, lm, asked)
    lm.verify_unchanged()
    return save_release(PrivateRelease(found.card, task, queries=asked, answers=answers), out)


@check_arguments
def budget(private_set: MaybeText = None) -> list[dict[str, Any]]:
    """What the releases of every private set of this machine (or of one) cost together, as `dpicl budget --json` says.

    Raises UsageError for a set that is not known, ResultError for a ledger that is damaged.
    """
    found = {ledger.name: budgets.document(ledger, stands) for ledger, stands in budgets.read_standings()}
    if private_set is None:
        return list(found.values())
    require_known("private set", [private_set], found)
    return [found[private_set]]


def _given_of(mechanism: GivenMechanism, plugins: Any, kinds: Sequence[str], otherwise: str) -> Given:
    found = given_mechanism(mechanism, as_list(plugins))
    if found.cls.kind not in kinds:
        raise UsageError(f"{found.name} {otherwise}.")
    return found


def _config_of(
    epsilon: float, delta: float, noise: str, seed: int, allow_large_delta: bool, shots: int = 4
) -> ReleaseConfig:
    require_known("noise", [noise], NOISES)
    if math.isinf(epsilon):
        raise UsageError("A release at epsilon = inf is not private: it publishes the records; give a finite epsilon.")
    own = {"seed": seed, "shots": shots, "noise": noise, "allow_large_delta": allow_large_delta}
    return ReleaseConfig(epsilon=epsilon, delta=delta, **own)  # type: ignore[arg-type]


def _maybe_table(data: Data | None) -> Table | None:
    return None if data is None else as_table(data)


def _payer_of(private_set: str | None, data: Table, total_epsilon: float | None) -> ChargeTo:
    default = re.sub(r"[^A-Za-z0-9_.-]", "_", data.stem).lstrip("_.-")[:80] or "records"
    return ChargeTo(private_set, default, total_epsilon)


def _asked_queries(given: Any, own: OwnRecords) -> list[Query]:
    """Raises UsageError for what are no queries, and DataError for a file of none."""
    if isinstance(given, str | Path):
        return queries_of(Path(given), own)
    texts = as_list(given)
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise UsageError("answer: 'queries' must be a file, or a list of texts.")
    return [query_of(str(number), text) for number, text in enumerate(texts, start=1)]


def _labels_of(given: Any) -> dict[str, str]:
    """Label as a file has it -> label word."""
    if given is None:
        return {}
    labels = dict(given) if isinstance(given, Mapping) else {word: word for word in as_list(given)}
    if not all(isinstance(word, str) for pair in labels.items() for word in pair):
        raise UsageError("'labels' must be texts: a list of them, or a dictionary from those in the file to others.")
    return labels
