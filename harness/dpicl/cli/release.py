"""`dpicl release` and `dpicl answer`: one release from a user's own private records.

What is released costs privacy, and is charged before it is made.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Unpack, cast

from pydantic import Field

from dpicl import models
from dpicl.api import parameters as p
from dpicl.cli import call, output
from dpicl.cli.output import Answer
from dpicl.core.cell import ReleaseConfig, large_delta
from dpicl.core.decoding import name_of
from dpicl.core.errors import ResultError, UsageError, refuse
from dpicl.core.field_types import Number, TargetDelta
from dpicl.core.field_types import Shots as AnyShots
from dpicl.core.messages import capitalize, count, message, show_rounded_up
from dpicl.core.paths import private_folder
from dpicl.core.vocabulary import Query
from dpicl.data.tables import as_table
from dpicl.engines.progress import Stages, repeat
from dpicl.mechanism.bases import DemonstrationMechanism, Mechanism, PreparedMechanism
from dpicl.mechanism.given import Given, GivenMechanism, given_mechanism
from dpicl.mechanism.options import build, resolve_options
from dpicl.mechanism.registry import load_mechanisms
from dpicl.own.budget import ChargeTo, read_sets
from dpicl.own.card import NOT_MEASURED, describe_proof, guarantee_of, unit_of_card
from dpicl.own.job import STAYS, ReleaseJob
from dpicl.own.records import OwnRecords, queries_of, query_of, require_different
from dpicl.own.released import PrivateRelease, UnsavedRelease, check_format, try_places
from dpicl.own.state import (
    OF_A_PROMPT,
    SavedState,
    answers_from,
    public_task,
    read_state,
    require_same,
)
from dpicl.own.utility import Utility

#: A file; in a program also a DataFrame, a dataset, a list of dictionaries or of (text, label).
Data = Any


class Own(p.OwnFile, total=False):
    """Private records of one's own, what they are, and what a release of them may cost."""

    data: Annotated[
        Data,
        p.Flag("CSV, JSON Lines, JSON, Excel or Parquet; all of it is private", metavar="FILE"),
    ]
    task: Annotated[p.Task, p.Flag("a known task with its labels and prompts, instead of --labels")]
    text_is: Annotated[
        str, p.Flag("what a text is, for prompts: 'support ticket'", metavar="WORDS")
    ]
    person_field: p.PersonField
    rows_per_person: p.RowsPerPerson
    per_record: Annotated[bool, p.Flag("the guarantee is for single records, whoever they are of")]
    public: Annotated[
        Data, p.Flag("records that everybody may know, where a task needs some", metavar="FILE")
    ]
    public_test: Annotated[
        Data,
        p.Flag(
            "public records like the private ones: measures the utility on them first, at no cost in privacy",
            metavar="FILE",
        ),
    ]
    measure_only: Annotated[
        bool,
        p.Flag(
            "stop after the utility is measured on --public-test: charges nothing, writes nothing"
        ),
    ]
    contact: Annotated[
        str, Field(max_length=200), p.Flag("who is to be asked, for the card", metavar="WHO")
    ]
    epsilon: Annotated[
        Number,
        Field(gt=0, allow_inf_nan=False),
        p.Flag("proved epsilon of this release", metavar="E"),
    ]
    delta: Annotated[p.Delta, p.Flag("delta (default: 1e-6)")]
    allow_large_delta: Annotated[
        bool,
        p.Flag(
            "release also where delta is above one over the declared number of records; the card says so"
        ),
    ]
    allow_unchecked: Annotated[
        bool,
        p.Flag(
            "release also with a plug-in that has not passed `dpicl check` here; the card says so first"
        ),
    ]
    size: p.DeclaredSizes
    model: p.Model
    options: p.Options
    plugins: p.Plugins
    total_epsilon: Annotated[
        Number,
        Field(gt=0, allow_inf_nan=False),
        p.Flag(
            "private records: refuse what would bring the sum over releases of one set above this; stays in force",
            metavar="E",
        ),
    ]
    total_delta: Annotated[
        TargetDelta,
        p.Flag(
            "the same of the sum of deltas (default: one over the declared number of records); stays in force",
            metavar="D",
        ),
    ]
    seed: p.Seed
    private_set: Annotated[
        str, p.Flag("name of the set that is charged (default: that of --data)", metavar="NAME")
    ]
    noise: Annotated[
        p.Noise, p.Flag("secure (default); seeded is for trying on public records, and not private")
    ]
    out: Annotated[
        p.OnePath,
        p.Flag("the released file; its card goes beside it (required, but with --measure-only)"),
    ]


#: Parameters that are tables, and those that are fields of `OwnRecords` and of `ReleaseConfig`.
_TABLES = ("data", "public", "public_test")
_OF_RECORDS = (
    *("task", "text_is", "text_field", "label_field", "output_field"),
    *("person_field", "rows_per_person", "per_record", "skip_invalid", "skip_other_labels"),
)
_OF_CONFIG = ("epsilon", "delta", "seed", "noise", "allow_large_delta")
#: What `answer` takes with a state; all else of `Own` is about private records.
_WITH_STATE = {
    *("model", "options", "plugins", "out"),
    *("text_field", "no_quoting", "no_header", "encoding", "delimiter"),
}


def _answer(release: PrivateRelease, arguments: Mapping[str, Any]) -> Answer:
    budgets = [each for each in read_sets() if each["private_set"] in release.charged_to]
    return Answer(
        {"out": arguments.get("out"), "card": release.card, "budgets": budgets},
        _show(release, arguments, budgets),
    )


def _show(
    release: PrivateRelease,
    arguments: Mapping[str, Any],
    budgets: Sequence[Mapping[str, Any]],
) -> Iterator[str]:
    card = release.card
    epsilon, delta = guarantee_of(card)
    if arguments.get("measure_only"):
        yield Utility.model_validate(card["utility"]).sentence
        yield (
            "Nothing was charged or written; the release, without --measure-only, would cost epsilon ="
            f" {show_rounded_up(epsilon)}."
        )
        if card["manifest"].get("plugin_checked") is False:
            yield f"{card['mechanism']} has not passed `dpicl check`, without which it releases nothing."
        return
    out = Path(arguments["out"])
    if card["warning"]:
        message(f"dpicl: {card['warning']}")
    if release.state is not None:
        what = f"The state of {card['mechanism']}"
    elif release.queries:
        what = count(len(release.answers), "answer")
    else:
        what = count(len(release.prompt.texts), "text")
    cost = f"epsilon = {show_rounded_up(epsilon)} {describe_proof(card)} at delta = {delta:g}"
    page = out.with_name(f"{out.stem}.card.md")
    yield f"{what} in {out}; {cost}, for {unit_of_card(card)}; card: {page}"

    yield from card.get("texts", ())
    if card["utility"] is None:
        yield f"{capitalize(NOT_MEASURED)}."
    if release.state is not None:
        command = _command_to_answer(arguments)
        yield f"It answers any number of queries at no further cost: {command}"
    if "state_sha256" in card:
        yield "Nothing was charged: the answers follow from what was released before."
    declared = sum(card["manifest"]["data"]["sizes"].values())
    for budget in budgets:
        yield from _show_budget(budget, declared)


def _command_to_answer(arguments: Mapping[str, Any]) -> str:
    """What answers from the state that a command with these arguments released."""
    options = arguments.get("options") or {}
    model = arguments.get("model") or "embedded"
    flags: dict[str, Sequence[object]] = {
        "--state": [arguments["out"]],
        "--queries": ["FILE"],
        "--option": [f"{name.rpartition('.')[2]}={value}" for name, value in options.items()],
        "--model": [] if model == "embedded" else [model],
        "--plugin": p.as_list(arguments.get("plugins", ())),
        "--out": ["FILE"],
    }
    words = ["dpicl", "answer", str(arguments["mechanism"])]
    for flag, values in flags.items():
        for value in values:
            words += [flag, str(value)]
    return shlex.join(words)


def _show_budget(budget: Mapping[str, Any], declared: int) -> Iterator[str]:
    """declared: number of records."""
    name, releases, delta = budget["private_set"], budget["releases"], budget["sum_delta"]
    of_epsilon, of_delta = (
        "" if budget[limit] is None else f" of {budget[limit]:g}"
        for limit in ("total_epsilon", "total_delta")
    )
    unit = "person" if budget["unit"] == "person" else "record"
    yield (
        f"Private set '{name}': {count(releases, 'release')}, epsilon in all ="
        f" {show_rounded_up(budget['sum_epsilon'])}{of_epsilon} (delta = {delta:g}{of_delta}), for a"
        f" {unit}. See: dpicl budget --private-set {name}"
    )
    if releases == 1:
        yield f"This budget is new; it is kept in {private_folder()}"
        return
    warning = large_delta(delta, declared)
    if warning:
        yield f"All releases of '{name}' together: {warning}."


@p.verb(
    "dpicl release tang --data tickets.csv --labels billing,technical,refund --size 100 --epsilon 1 --delta 1e-6 --out"
    " demos.jsonl\n"
    "dpicl release embedding_centroids --data tickets.csv --labels billing,technical,refund --size 100 --epsilon 1"
    " --delta 1e-6 --out desk.json",
    answer=_answer,
    needs=("data", "epsilon"),
)
def release(
    mechanism: Annotated[GivenMechanism, p.OneMechanism],
    *,
    shots: p.LabelShots | None = None,
    shots_per_label: Annotated[AnyShots, p.Flag("demonstrations of every label", metavar="K")]
    | None = None,
    format: Literal[
        "jsonl", "csv", "parquet", "hf", "prompt", "messages-openai", "messages-anthropic"
    ]
    | None = None,
    **arguments: Unpack[Own],
) -> PrivateRelease:
    """Demonstrations (or an instruction) from the private records of a file, once, charged to their budget.

    A prepared mechanism releases its state instead: `answer` answers any number of queries from it.

    Labels are those of a classification (a list, or a dictionary from those in the file to better words), unless a
    known task is named. Secure noise needs a declared size. Where they are left out, epsilon is 1 and delta 1e-6.
    Raises UsageError for what does not fit, BudgetExceeded where the set's limit would be passed, UnsavedRelease where
    what was released cannot be written.

    format: of the file: JSONL of texts and labels (default), a table (hf: a Hugging Face data set), a prompt, or the
        messages of a chat; what a prepared mechanism releases has a format of its own.
    """
    unfit = {"answers": "answers queries; use `dpicl answer`"}
    job = _job(mechanism, arguments, unfit, _Shots(shots, shots_per_label))
    if job.mechanism.reads_all and format is not None:
        raise UsageError(
            f"{job.mechanism.name} releases a state, and no texts; leave --format out."
        )
    check_format(format or "jsonl", job.task, job.records.form)
    return _save(job.run(), None if job.measure_only else job.out, format or "jsonl")


@p.verb(
    "dpicl answer embedding_centroids --data tickets.csv --labels billing,technical,refund --size 100 --queries new.txt"
    " --epsilon 1 --delta 1e-6 --out answers.jsonl\n"
    "dpicl answer --state desk.json --queries new.txt --out more.jsonl",
    answer=_answer,
)
def answer(
    mechanism: Annotated[GivenMechanism | None, p.OneMechanism] = None,
    *,
    queries: Annotated[Path | str | Sequence[str], p.Flag(metavar="FILE", check=p.queries_given)],
    state: p.OnePath | None = None,
    **arguments: Unpack[Own],
) -> PrivateRelease:
    """Answers to queries from the private records of a file, charged to their budget: for all queries together.

    An answer mechanism pays for each query (a program may give a list of texts). A prepared one releases once and
    answers them all; answers from the state that it released are post-processing, so nothing is charged. The mechanism
    is then the one that the state names, among those that are known here, and options are given as they were for the
    release: a file does not decide what is loaded.
    Everything else is as for `release`. Raises DataError for a file that is no state.

    queries: public texts: JSONL or a table with the text's field (and `id`), or .txt with one a line; a blank one is
        not asked and costs nothing: its answer is empty.
    state: what `dpicl release` wrote for a prepared mechanism, in place of --data and all that goes with it: costs
        nothing more.
    """
    if state is not None:
        return _answer_from(Path(state), mechanism, queries, arguments)
    needed = ("data", "epsilon") if call.COMMAND.get() else ("data",)
    if missing := [f"--{name}" for name in needed if arguments.get(name) is None]:
        raise UsageError(
            f"{' and '.join(missing)} must be given, to answer from private records; or --state FILE, to answer from"
            " what was released before."
        )
    if mechanism is None:
        raise UsageError(
            "MECHANISM must be given, to answer from private records; see `dpicl list mechanisms`."
        )
    unfit = (
        "releases demonstrations, which answer any query at no further cost; use `dpicl release`"
    )
    job = _job(mechanism, arguments, {"demonstrations": unfit})
    if isinstance(queries, Path):
        require_different({"--data": job.data, "--queries": queries})
    every = _read_queries(queries, job.records, job.tell)
    answered = replace(job, queries=[query for query in every if query.text]).run()
    return _save(answered.answer_all(every), None if job.measure_only else job.out)


def _answer_from(
    file: Path, mechanism: GivenMechanism | None, queries: Any, arguments: Own
) -> PrivateRelease:
    refuse(
        {name: value is not None for name, value in arguments.items() if name not in _WITH_STATE},
        "--state answers from what was released before, and reads no record; leave out {}.",
    )
    unfit = {
        "answers": "prepares nothing: it pays for each query, and needs --data",
        "demonstrations": f"releases demonstrations, and no state. {OF_A_PROMPT.removesuffix('.')}",
    }
    if call.COMMAND.get() and arguments.get("out") is None:
        raise UsageError("--out is missing: say where to write the answers.")
    saved = read_state(file)
    chosen = _given_of(mechanism or _maker_of(saved, arguments), arguments, unfit)
    task = public_task(saved)
    resolved = resolve_options(
        chosen.cls,
        task.name,
        {**chosen.options, **p.options_of(chosen.name, arguments.get("options"))},
    )
    built = cast(PreparedMechanism, build(chosen.cls, resolved))
    require_same(saved, built, resolved)
    words = replace(
        saved.own,
        text_field=arguments.get("text_field"),
        format=p.format_of(arguments),
    )
    every = _read_queries(queries, words, _tell())
    filled = [query for query in every if query.text]
    out = arguments.get("out")
    if out is not None:
        try_places(Path(out))
    stages = Stages(_tell())
    with repeat(stages.say_how_far):
        stages.begin("loading the model")
        lm = models.load(arguments.get("model") or "embedded")
        stages.begin("answering")
        answers = answers_from(saved, built, lm, filled, stages.report)
    return _save(PrivateRelease(saved.card, task, answers=answers).answer_all(every), out)


def _maker_of(saved: SavedState, arguments: Own) -> type[Mechanism]:
    """The mechanism that a state names, among those that are shipped or that the caller named: no file is loaded."""
    known = load_mechanisms(p.as_list(arguments.get("plugins") or ()))
    name = saved.file.card.mechanism
    if name not in known:
        raise UsageError(
            f"{saved.path} was made by '{name[:80]}', which is not known here; give its file as --plugin."
        )
    return known[name].cls


def _save(release: PrivateRelease, out: Path | str | None, format: str = "jsonl") -> PrivateRelease:
    """The release, written where ``out`` names a file. Raises UnsavedRelease for one that cannot be written, which a
    command puts on stdout: it was paid for."""
    try:
        if out is not None:
            release.save(out, format)
    except (ResultError, UsageError) as error:
        if call.COMMAND.get():
            output.emit([release.text(format)])
            output.emit_json(release.card)
        raise UnsavedRelease(
            f"{error} What was released, and paid for, is not lost.", release
        ) from error
    except KeyboardInterrupt as stop:
        stop.add_note(STAYS)
        raise
    release.finish()
    return release


class _Shots(NamedTuple):
    """How many demonstrations: in all, or by label; or of each label."""

    number: int | Mapping[str, int] | None = None
    per_label: int | None = None

    def of(self, job: ReleaseJob) -> ReleaseConfig:
        """The settings of a release with so many. Raises UsageError for what does not fit."""
        counts = self.number
        if self.per_label is not None:
            if counts is not None:
                raise UsageError("Give --shots or --shots-per-label, one of the two.")
            labels: Sequence[str] = job.task.labels if job.task.partitioned else ()
            if isinstance(job.mechanism, DemonstrationMechanism) and labels:
                labels = job.mechanism.shot_labels(job.task)
            counts = dict.fromkeys(labels, self.per_label)
            if not counts:
                raise UsageError(
                    "--shots-per-label is for texts with labels; give one number with --shots."
                )
        if counts is None or isinstance(counts, int):
            return job.config.model_copy(update={"shots": 4 if counts is None else counts})
        settings = {"shots": sum(counts.values()), "label_shots": tuple(counts.items())}
        return ReleaseConfig.model_validate({**job.config.model_dump(), **settings})


def _job(
    mechanism: GivenMechanism, arguments: Own, unfit: Mapping[str, str], shots: _Shots | None = None
) -> ReleaseJob:
    """What is to be released, checked before a record is read."""
    if arguments.get("data") is None:
        raise UsageError("A release needs --data, the file of private records.")
    if call.COMMAND.get() and arguments.get("out") is None and not arguments.get("measure_only"):
        raise UsageError(
            "--out is missing: say where to write what is released (only --measure-only writes nothing)."
        )
    source = _given_of(mechanism, arguments, unfit)
    data, public, test = (
        None if table is None else as_table(table) for table in map(arguments.get, _TABLES)
    )
    assert data is not None
    out = arguments.get("out")
    stem = name_of(data) if isinstance(data, Path) else "records"
    set_name = re.sub(r"[^A-Za-z0-9_.-]", "_", stem).lstrip("_.-")[:80] or "records"
    set_by_user = {name: value for name, value in arguments.items() if value is not None}

    def chosen_of(names: Iterable[str]) -> dict[str, Any]:
        return {name: set_by_user[name] for name in names if name in set_by_user}

    job = ReleaseJob(
        source=source,
        chosen=p.options_of(source.name, arguments.get("options")),
        records=OwnRecords(
            p.labels_of(arguments),
            format=p.format_of(arguments),
            form=p.form_of(arguments),
            **chosen_of(_OF_RECORDS),
        ),
        model=arguments.get("model") or "embedded",
        config=ReleaseConfig.model_validate(
            {"epsilon": 1.0, "delta": 1e-6, "noise": "secure"} | chosen_of(_OF_CONFIG)
        ),
        size=arguments.get("size"),
        data=data,
        public=public,
        public_test=test,
        payer=ChargeTo(
            arguments.get("private_set"),
            set_name,
            arguments.get("total_epsilon"),
            arguments.get("total_delta"),
        ),
        out=None if out is None else Path(out),
        tell=_tell(),
        **chosen_of(("allow_unchecked", "measure_only", "contact")),
    )
    if shots is not None:
        job = replace(job, config=shots.of(job))
    job.check()
    return job


def _given_of(mechanism: GivenMechanism, arguments: Own, unfit: Mapping[str, str]) -> Given:
    """unfit: kind of mechanism -> what is said of one that is not for this."""
    chosen = given_mechanism(mechanism, p.as_list(arguments.get("plugins") or ()))
    if (reason := unfit.get(str(chosen.cls.kind))) is not None:
        raise UsageError(f"{chosen.name} {reason}.")
    return chosen


def _tell() -> Callable[[str], None]:
    """What takes a line for each stage: also while private records are held, when code in this process is silenced."""
    return partial(message, stream=sys.stderr) if call.COMMAND.get() else lambda text: None


def _read_queries(
    source: Any,
    records: OwnRecords,
    tell: Callable[[str], None],
) -> list[Query]:
    """Raises DataError for a file without queries."""
    if isinstance(source, Path):
        queries = queries_of(source, records, tell)
    else:
        queries = [query_of(str(number), text) for number, text in enumerate(source, start=1)]
    if blank := sum(not query.text for query in queries):
        tell(
            f"{blank} of {len(queries)} queries have no text: they are not asked, and their answers are empty."
        )
    return queries
