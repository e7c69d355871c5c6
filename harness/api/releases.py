"""`dpicl.release`, `dpicl.answer` and `dpicl.budget`: one release from private records of the user's own, for use."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from dpicl.harness import models
from dpicl.harness.api.given import Given, GivenMechanism, given_mechanism
from dpicl.harness.api.values import (
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
    checked,
    several,
)
from dpicl.harness.core.cell import ReleaseConfig
from dpicl.harness.core.errors import Concealed, ResultError, UsageError, require_known
from dpicl.harness.core.files import put_whole
from dpicl.harness.core.vocabulary import Query
from dpicl.harness.data.task import PublicTask, Task
from dpicl.harness.mechanism.bases import Mechanism
from dpicl.harness.mechanism.options import build, resolve_options
from dpicl.harness.mechanism.outputs import skip_reason
from dpicl.harness.run import budget as budgets
from dpicl.harness.run.budget import ChargeTo
from dpicl.harness.run.card import card, card_json, card_markdown
from dpicl.harness.run.formats import answered_text, check_format, released_text
from dpicl.harness.run.own import OwnRecords, declared_sizes, load_own, queries_of, query_of
from dpicl.harness.run.pipeline import manifest_of
from dpicl.harness.run.releasing import Release
from dpicl.harness.run.releasing import release as make_release
from dpicl.harness.run.suite import Noise

NOISES: tuple[Noise, ...] = ("secure", "seeded")


@dataclass(frozen=True)
class PrivateRelease:
    """What came out of one release, and its privacy card (a dictionary, as the card's JSON file has it)."""

    card: Mapping[str, Any]
    task: PublicTask = field(repr=False)
    made: Release = field(repr=False)
    queries: Sequence[Query] = field(default=(), repr=False)

    @property
    def demonstrations(self) -> list[dict[str, str]]:
        """{"text", "label"} of each released demonstration."""
        return [{"text": each.text, "label": each.label} for each in self.made.demonstrations]

    @property
    def instruction(self) -> str | None:
        """The instruction that was released, if one was."""
        return self.made.prompt.instruction

    @property
    def answers(self) -> dict[str, str]:
        """Id of the query -> its answer; empty for demonstrations."""
        return dict(self.made.answers or {})

    def text(self, format: str = "jsonl") -> str:
        """The content of a file: "jsonl", or for demonstrations "prompt" and "chat"."""
        if self.made.answers is not None:
            return answered_text(self.queries, self.made.answers)
        return released_text(self.made.prompt, self.task, format)

    def save(self, out: Path | str, format: str = "jsonl") -> list[Path]:
        """Writes the file, and its card beside it as Markdown and JSON; returns the paths. Raises UsageError for a file
        that is there already, ResultError where it cannot be written."""
        paths = _places(Path(out))
        contents = (lambda: self.text(format), lambda: card_markdown(self.card), lambda: card_json(self.card))
        for path, content in zip(paths, contents, strict=True):
            try:
                put_whole(path, content())  # what was paid for comes first
            except OSError as error:
                raise ResultError(
                    f"{path} cannot be written ({error.strerror}); fix that, or save it elsewhere."
                ) from error
        return paths


class UnsavedRelease(ResultError):
    """A release that was made, paid for, and could not be written: it is in `release`."""

    def __init__(self, said: str, release: PrivateRelease) -> None:
        super().__init__(said)
        self.release = release


@checked
def release(
    mechanism: Annotated[GivenMechanism, as_it_is],
    *,
    data: Annotated[Path | str, as_it_is],
    labels: Annotated[Sequence[str] | Mapping[str, str] | None, as_it_is] = None,
    task: MaybeText = None,
    model: Text = "embedded",
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    size: DeclaredSizes = None,
    shots: Shots = 4,
    text_field: MaybeText = None,
    label_field: MaybeText = None,
    text_is: Text = "text",
    public: MaybePath = None,
    private_set: MaybeText = None,
    total_epsilon: MaybeEpsilon = None,
    noise: Text = "secure",
    seed: Seed = 0,
    options: Options = None,
    plugins: Paths = (),
    out: MaybePath = None,
    format: Text = "jsonl",
) -> PrivateRelease:
    """Demonstrations (or an instruction) from the private records of a file, once, charged to their budget.

    data: CSV, JSON Lines, JSON or Parquet, all of it private. labels: of a classification (a list, or a dictionary from
        those in the file to better words); or task: a known task with its prompts.
    size: declared private records of each class, one number or by label, which secure noise needs. text_field,
        label_field: of a row. text_is: what a text is, such as "support ticket". public: a file with records that
        everybody may know, for tasks that need some.
    private_set, total_epsilon: the name of the set that is charged, and what all of its releases may add up to.
    noise: "seeded" is for trying on public records: not private, and nothing is charged.
    out: a file for what is released, with its card beside it. format: of that file: jsonl, prompt or chat.
    Raises UsageError for what does not fit, BudgetExceeded where the set's limit would be passed, UnsavedRelease where
    what was released cannot be written.
    """
    own = OwnRecords(_labels(labels), task, text_field, label_field, text_is)
    config = _config(epsilon, delta, noise, seed, shots=shots)
    given = _given(mechanism, plugins, ("demonstrations",), "answers queries; use `dpicl answer` (dpicl.answer)")
    job = _Job.checked(given, own, model, config, size, options)
    check_format(format, job.asked)
    made = job.run(Path(data), public, _payer(private_set, data, total_epsilon), out=out)
    return _saved(made, out, format)


@checked
def answer(
    mechanism: Annotated[GivenMechanism, as_it_is],
    *,
    data: Annotated[Path | str, as_it_is],
    queries: Annotated[Path | str | Sequence[str], as_it_is],
    labels: Annotated[Sequence[str] | Mapping[str, str] | None, as_it_is] = None,
    task: MaybeText = None,
    model: Text = "embedded",
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6,
    size: DeclaredSizes = None,
    text_field: MaybeText = None,
    label_field: MaybeText = None,
    text_is: Text = "text",
    public: MaybePath = None,
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
        as public. An answer mechanism pays for each; a prepared one releases once and answers them all.
    Everything else is as for `release`.
    """
    own = OwnRecords(_labels(labels), task, text_field, label_field, text_is)
    config = _config(epsilon, delta, noise, seed)
    said = "releases demonstrations, which answer any query; use `dpicl release` (dpicl.release)"
    given = _given(mechanism, plugins, ("answers", "prepared"), said)
    job = _Job.checked(given, own, model, config, size, options)
    asked = _queries(queries, own)
    made = job.run(Path(data), public, _payer(private_set, data, total_epsilon), asked, out=out)
    return _saved(made, out, "jsonl")


@checked
def budget(private_set: MaybeText = None) -> list[dict[str, Any]]:
    """What the releases of every private set of this machine (or of one) cost together, as `dpicl budget --json` says.

    Raises UsageError for a set that is not known, ResultError for a ledger that is damaged.
    """
    found = {ledger.name: budgets.document(ledger, stands) for ledger, stands in budgets.standings()}
    if private_set is None:
        return list(found.values())
    require_known("private set", [private_set], found)
    return [found[private_set]]


@dataclass(frozen=True)
class _Job:
    """What was asked for, checked as far as it can be without a private record. asked: the task without records."""

    given: Given
    mechanism: Mechanism
    options: Mapping[str, Any]
    own: OwnRecords
    model: str
    config: ReleaseConfig
    sizes: dict[str, int] | None
    asked: PublicTask

    @classmethod
    def checked(
        cls,
        given: Given,
        own: OwnRecords,
        model: str,
        config: ReleaseConfig,
        size: Any,
        options: Mapping[str, Any] | None,
    ) -> _Job:
        """Raises UsageError for what does not fit."""
        task = own.config()
        sizes = declared_sizes(size, task)
        if config.secure and sizes is None:
            raise UsageError(
                "Say how many private records a class has, by a number that everybody may know (a round one; no count"
                " of this file, which would tell about it): --size 100, or --size LABEL=100 for each label."
            )
        asked = Task.of_records(task, (), sizes or {}).public_view()
        resolved = resolve_options(given.cls, asked.name, {**given.options, **(options or {})})
        mechanism = build(given.cls, resolved)
        if reason := skip_reason(mechanism, asked):
            raise UsageError(f"{mechanism.name} cannot do this task: {reason}.")
        return cls(given, mechanism, resolved, own, model, config, sizes, asked)

    def run(
        self,
        data: Path,
        public: Path | str | None,
        payer: ChargeTo,
        queries: Sequence[Query] = (),
        *,
        out: Path | str | None,
    ) -> PrivateRelease:
        """Loads records and model, and releases. The place of the output, and with secure noise the whole release but
        without a record, are tried before anything is charged: what fails then says why; later it costs its epsilon."""
        if out is not None:
            _try(Path(out))
        task = load_own(self.own, data, self.sizes, self.config.secure, None if public is None else Path(public))
        model = models.load(self.model, dtype="float32" if self.config.secure else None)
        manifest = manifest_of(task, model, self.config.secure, self.given.registered.plugin_hash)

        def released(task: Task, config: ReleaseConfig) -> PrivateRelease:
            made = make_release(self.mechanism, task, model, config, queries, charge_to=payer)
            return PrivateRelease(
                card(self.mechanism, self.options, task, made, manifest, config), task.public_view(), made, queries
            )

        if self.config.secure:
            settings = {"noise": "seeded", "delta": self.config.accounted_delta}
            rehearsal = released(replace(task, train=()), self.config.model_copy(update=settings))
            for write in (rehearsal.text, lambda: card_markdown(rehearsal.card), lambda: card_json(rehearsal.card)):
                write()
        try:
            return released(task, self.config)
        except Concealed as error:
            raise Concealed(f"{error} What it may have cost stays on the budget.") from None


def _given(mechanism: GivenMechanism, plugins: Any, kinds: Sequence[str], otherwise: str) -> Given:
    found = given_mechanism(mechanism, several(plugins))
    if found.cls.kind not in kinds:
        raise UsageError(f"{found.name} {otherwise}.")
    return found


def _config(epsilon: float, delta: float, noise: str, seed: int, shots: int = 4) -> ReleaseConfig:
    require_known("noise", [noise], NOISES)
    if math.isinf(epsilon):
        raise UsageError("A release at epsilon = inf is not private: it publishes the records; give a finite epsilon.")
    return ReleaseConfig(epsilon=epsilon, delta=delta, seed=seed, shots=shots, noise=noise)  # type: ignore[arg-type]


def _payer(private_set: str | None, data: Path | str, total_epsilon: float | None) -> ChargeTo:
    default = re.sub(r"[^A-Za-z0-9_.-]", "_", Path(data).stem).lstrip("_.-")[:80] or "records"
    return ChargeTo(private_set, default, total_epsilon)


def _queries(given: Any, own: OwnRecords) -> list[Query]:
    """Raises UsageError for what are no queries, and DataError for a file of none."""
    if isinstance(given, str | Path):
        return queries_of(Path(given), own)
    texts = several(given)
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise UsageError("answer: 'queries' must be a file, or a list of texts.")
    return [query_of(str(number), text) for number, text in enumerate(texts, start=1)]


def _labels(given: Any) -> dict[str, str]:
    """Label as a file has it -> label word."""
    if given is None:
        return {}
    labels = dict(given) if isinstance(given, Mapping) else {word: word for word in several(given)}
    if not all(isinstance(word, str) for pair in labels.items() for word in pair):
        raise UsageError("'labels' must be texts: a list of them, or a dictionary from those in the file to others.")
    return labels


def _places(out: Path) -> list[Path]:
    """The file, and the two of its card. Raises UsageError for what is no file's name, and for one that is there: a
    release is not made twice."""
    if not out.name or "\0" in str(out):
        raise UsageError(f"'{out}' is no name of a file; give another --out.")
    paths = [out, out.with_name(f"{out.stem}.card.md"), out.with_name(f"{out.stem}.card.json")]
    try:
        there = next((path for path in paths if path.exists() or path.is_symlink()), None)
    except OSError as error:  # too long a name, a folder that may not be entered
        raise UsageError(f"{out} cannot be written ({error.strerror}); give another --out.") from error
    if there is not None:
        raise UsageError(f"{there} is there already and stays as it is; give another --out.")
    return paths


def _try(out: Path) -> None:
    """Raises UsageError where the output could not be written after the records have paid for it."""
    paths = _places(out)
    try:
        for path in paths:
            put_whole(path, "")
    except OSError as error:
        raise UsageError(
            f"{out} cannot be written ({error.strerror}); give another --out. Nothing was charged."
        ) from error
    finally:
        for path in paths:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def _saved(made: PrivateRelease, out: Path | str | None, format: str) -> PrivateRelease:
    try:
        if out is not None:
            made.save(out, format)
    except (ResultError, UsageError) as error:
        raise UnsavedRelease(f"{error} What was released, and paid for, is not lost.", made) from error
    return made
