"""How well the release distributions of token mechanisms predict held-out real texts, at several epsilons.

Log-loss and hit rate (dpicl.harness.evaluation.log_loss) of a test record that is cut to T tokens: what the mechanism
would release after the tokens before. A greedy mechanism is better by hit rate than by log-loss.

Every text has one Poisson sample of records, for all its tokens, mechanisms and epsilons: a record's coin is the same
wherever it is flipped, so mechanisms of the same rate see the same records, and those of a smaller rate some of them. A
token's distribution given its sample is the mechanism's own, so a mean over texts is one over samples too. Noise is
integrated out (dpicl.harness.evaluation.teaching); public randomness that a mechanism uses (hot_pate) is drawn.

This reads private records outside of any ledger, for nothing. It is a diagnostic on public benchmark data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from dpicl.harness.core.errors import UsageError
from dpicl.harness.core.seeds import PublicStreams, Streams, streams
from dpicl.harness.core.vocabulary import Record, Report, Sizes, silent
from dpicl.harness.data.task import NEUTRAL_LABEL, Task
from dpicl.harness.evaluation.log_loss import RowScores, TextScore, text_score
from dpicl.harness.evaluation.taught_model import TaughtModel
from dpicl.harness.evaluation.teaching import NotTaught, Teacher, taught_chances
from dpicl.harness.mechanism.bases import Context, DemonstrationMechanism, Mechanism
from dpicl.harness.mechanism.generation import public_log_probs, taught
from dpicl.harness.mechanism.outputs import named_failure, skip_reason
from dpicl.harness.models.base import ChatPrompt, LanguageModel
from dpicl.harness.models.embeddings import embed_alone
from dpicl.harness.privacy.calibration import Calibration
from dpicl.harness.privacy.ledger import Ledger
from dpicl.harness.privacy.private_set import PrivateSet
from dpicl.harness.privacy.release_hooks import observing
from dpicl.harness.run.releasing import calibrated, sizes_of

#: Tokens of a text that are looked at, where nobody says.
TOKENS: Final = 20
#: What a diagnosis is, wherever it is shown.
OUTSIDE: Final = (
    "a diagnostic on public benchmark data: it reads private records outside of any ledger, and proves nothing"
)

#: Row, epsilon, the row of its public prompt, knob.
_Key = tuple[str, float, str, float | None]


@dataclass(frozen=True)
class DiagnosisSettings:
    """texts: held-out records. tokens: T (None: 20, or fewer where a mechanism writes fewer). draws: of public
    randomness, where a mechanism uses any. shots: of the release whose noise is looked at. seed: of texts, samples and
    draws."""

    texts: int = 32
    tokens: int | None = None
    draws: int = 32
    shots: int = 4
    delta: float = 1e-5
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("texts", 2), ("draws", 2), ("tokens", 1), ("shots", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"A diagnosis needs {name} of at least {least}, not {value}.")


@dataclass(frozen=True)
class Diagnosed:
    """What was found on so many texts, of so many tokens at most: public prompts first, then rows at every epsilon.

    left_out: row -> why it cannot be diagnosed.
    """

    scored: Sequence[RowScores]
    texts: int
    tokens: int
    left_out: Mapping[str, str]


def diagnosed(
    rows: Mapping[str, Mechanism],
    task: Task,
    model: LanguageModel,
    epsilons: Sequence[float],
    settings: DiagnosisSettings,
    *,
    leave_out: bool = False,
    report: Report = silent,
) -> Diagnosed:
    """Every row at every epsilon and at infinity, and the public prompts of all rows.

    rows: name -> mechanism. leave_out: whether rows that release no text token by token are left out, as long as there
    are others. Raises UsageError for such a row otherwise, for more tokens than a row releases, and where the task has
    too few texts.
    """
    left_out = {name: why for name, row in rows.items() if (why := _refusal(row, task))}
    kept = {name: row for name, row in rows.items() if isinstance(row, DemonstrationMechanism) and name not in left_out}
    _require_rows(kept, left_out, leave_out)
    lengths = {name: own for name, row in kept.items() if isinstance(own := getattr(row, "tokens", None), int)}
    tokens = settings.tokens or min([TOKENS, *lengths.values()])
    if short := [name for name, own in lengths.items() if own < tokens]:
        raise UsageError(f"{short[0]} releases texts of at most {lengths[short[0]]} tokens; look at fewer of each.")
    taught_model = TaughtModel(model)
    work = _Work(task, taught_model, settings, tokens, tuple(dict.fromkeys([*epsilons, math.inf])))
    found: dict[_Key, list[TextScore]] = {}
    for number, record in enumerate(work.texts):
        scores: dict[_Key, TextScore] = {}
        taught_model.forget()
        for name, row in list(kept.items()):
            try:
                scores |= work.scores(name, row, record, number)
            except NotTaught as error:
                left_out[name] = str(error)
                del kept[name]
                _require_rows(kept, left_out, leave_out)
            except UsageError as error:
                raise UsageError(f"{name} cannot be diagnosed: {str(error).rstrip('.')}.") from error
        for key, score in scores.items():
            found.setdefault(key, []).append(score)
        report(number + 1, len(work.texts), "texts")
    scored = [RowScores.of(*key, own) for key, own in found.items() if key[0] not in left_out]
    scored.sort(key=lambda own: own.epsilon > 0)
    return Diagnosed(scored, len(work.texts), tokens, left_out)


def _refusal(row: Mechanism, task: Task) -> str | None:
    """Why there is nothing to look at, as far as that shows before the mechanism runs."""
    if not isinstance(row, DemonstrationMechanism):
        return "it releases no demonstrations, and only their tokens have a distribution over texts"
    if row.knob is None:
        return "it adds no noise whatever epsilon is, so its texts have no release distribution"
    return named_failure(row, lambda: skip_reason(row, task.public_view()))


def _require_rows(kept: Mapping[str, Mechanism], left_out: Mapping[str, str], leave_out: bool) -> None:
    if left_out and not (leave_out and kept):
        name, why = next(iter(left_out.items()))
        raise UsageError(f"{name} cannot be diagnosed: {why.rstrip('.')}.")


class _Work:
    """Everything that rows are scored with."""

    def __init__(
        self, task: Task, model: TaughtModel, settings: DiagnosisSettings, tokens: int, epsilons: Sequence[float]
    ) -> None:
        self._task, self._view, self._model, self._settings = task, task.public_view(), model, settings
        self._tokens, self._epsilons = tokens, epsilons
        self._shots = task.plan_shots(settings.shots, streams(settings.seed).stream("shots"))
        self._calibrations: dict[tuple[str, float], Calibration] = {}
        self._sizes: dict[bool, Sizes] = {}

    @cached_property
    def texts(self) -> list[Record]:
        """Test records in random order, of the labels that the release has demonstrations of, cut where a released text
        would end. Raises UsageError for fewer than 2."""
        wanted = self._shots if self._task.partitioned else self._task.labels
        records = [self._ending(each) for each in self._task.test if not wanted or each.label in wanted]
        records = [each for each in records if each.text.strip()]
        if len(records) < 2:
            raise UsageError(f"Task {self._task.name} has {len(records)} test records to look at; load more of them.")
        order = streams(self._settings.seed).stream("diagnosis:texts").permutation(len(records))
        return [records[at] for at in order[: self._settings.texts].tolist()]

    def _ending(self, record: Record) -> Record:
        """The record as a released text: with its label where one is written for it."""
        continued = self._task.kind == "continuation"
        text = (self._task.whole(record) if continued else record.text).strip()
        ends = [at for stop in self._task.stop_strings if (at := text.find(stop)) >= 0]
        named = not continued and record.label in self._task.labels
        return Record(text[: min(ends)] if ends else text, record.label if named else NEUTRAL_LABEL)

    def scores(self, name: str, row: DemonstrationMechanism, record: Record, number: int) -> dict[_Key, TextScore]:
        """What one text says of the row at every epsilon, and of its public prompt."""
        style = str(getattr(row, "style", "completion"))
        prompt, tokens = self._tokenised(record, style)
        reference = f"public prompt ({style})"
        public = self._public(prompt, tokens)
        scores: dict[_Key, TextScore] = {(reference, 0.0, reference, None): text_score(public[None], public)}
        for epsilon in self._epsilons:
            found = self._calibrated(name, row, epsilon)
            chances = self._chances(row, found.knob_of(record.label), record.label, tokens, number)
            scores[name, epsilon, reference, found.knob] = text_score(chances, public)
        return scores

    def _calibrated(self, name: str, row: Mechanism, epsilon: float) -> Calibration:
        if (name, epsilon) not in self._calibrations:
            sizes = self._sizes_of(row)
            found = named_failure(row, lambda: calibrated(row, sizes, epsilon, self._settings.delta))
            self._calibrations[name, epsilon] = found
        return self._calibrations[name, epsilon]

    def _tokenised(self, record: Record, style: str) -> tuple[list[int], list[int]]:
        """The public prompt, and the first T tokens of the text as they follow it."""
        prompt, text = self._view.generation_prompt(record.label, (), style=style), record.text
        before = prompt.assistant_prefix if isinstance(prompt, ChatPrompt) else prompt
        if before and not before[-1].isspace() and before[-1] not in "\"'":
            text = " " + text
        whole = replace(prompt, assistant_prefix=before + text) if isinstance(prompt, ChatPrompt) else f"{prompt}{text}"
        asked, said = self._model.encode(prompt), self._model.encode(whole)
        tokens = said[len(asked) :] if said[: len(asked)] == asked else self._model.encode(text)
        return asked, tokens[: self._tokens]

    def _public(self, prompt: list[int], tokens: Sequence[int]) -> np.ndarray:
        """float64[T]: p0 of every token."""
        self._model.follow(Teacher(tokens, self._model.vocab_size))
        prompts = [[*prompt, *tokens[:at]] for at in range(len(tokens))]
        self._model.next_token_log_probs(prompts[:1])  # reads all of them
        rows = public_log_probs(self._model.next_token_log_probs(prompts).numpy(), self._model)
        return np.exp(rows[np.arange(len(tokens)), tokens])

    def _chances(
        self, row: DemonstrationMechanism, knob: float, label: str, tokens: Sequence[int], number: int
    ) -> np.ndarray:
        """float64[R, T]: the chance of every token, for each draw of public randomness; R = 1 where the mechanism uses
        none."""
        drawn: list[np.ndarray] = []
        while len(drawn) < self._settings.draws:
            randomness = _Watched(self._stream(f"draw {len(drawn)} of text {number}"))
            context = Context(self._view, self._model, (label,), knob, randomness, embed=embed_alone)

            def run(teacher: Teacher, context: Context = context) -> None:
                self._model.follow(teacher)
                with observing(teacher), taught(teacher):
                    named_failure(row, lambda: row.release(self._private_set(row, number), context))

            drawn.append(taught_chances(run, tokens, self._model.vocab_size))
            if not randomness.used:
                break
        return np.array(drawn)

    def _private_set(self, row: Mechanism, number: int) -> PrivateSet:
        """Outside of any ledger: what is charged to this one is nobody's budget."""
        randomness = self._stream(f"noise of text {number}")
        return PrivateSet(
            self._task.train,
            Ledger(None, math.inf),
            sizes=self._sizes_of(row).records,
            sampling=_OneSample(self._settings.seed, number),
            noise=randomness.source("noise"),
            embed=embed_alone,
        )

    def _sizes_of(self, row: Mechanism) -> Sizes:
        if row.by_label not in self._sizes:
            self._sizes[row.by_label] = sizes_of(row, self._task, self._shots, 1)
        return self._sizes[row.by_label]

    def _stream(self, name: str) -> Streams:
        return Streams(int(streams(self._settings.seed).stream(f"diagnosis: {name}").integers(2**53)))


class _OneSample:
    """Sampling randomness that gives the same coins whenever it is asked for as many: one sample for all tokens."""

    def __init__(self, seed: int, number: int) -> None:
        self._seed, self._number = seed, number

    def uniform(self, size: int) -> np.ndarray:
        """float64[size] in [0, 1). Places of sampled records are other numbers than coins, unless all are sampled."""
        return streams(self._seed).stream(f"diagnosis: sample {self._number} of {size}").random(size)


class _Watched(PublicStreams):
    """Public streams that know whether anything was drawn from them."""

    def __init__(self, streams: Streams) -> None:
        super().__init__(streams)
        given: list[tuple[np.random.Generator, object]] = []
        fresh = self._stream

        def stream(name: str) -> np.random.Generator:
            generator = fresh(name)
            given.append((generator, generator.bit_generator.state))
            return generator

        self._stream, self._given = stream, given

    @property
    def used(self) -> bool:
        return any(generator.bit_generator.state != before for generator, before in self._given)
