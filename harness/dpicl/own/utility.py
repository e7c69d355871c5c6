"""Estimates the utility of a release, by the same release from public records, at no privacy cost."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from dpicl.core.cell import ReleaseConfig
from dpicl.core.errors import DataError
from dpicl.core.messages import duration, names_text
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import (
    Demonstration,
    Query,
    Record,
    ReleasedPrompt,
    Report,
    report_nothing,
)
from dpicl.data.splits import deduplicate
from dpicl.data.task import PublicTask, Task
from dpicl.data.task_file import BY_EMBEDDING
from dpicl.evaluation.intervals import bootstrap_interval
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.options import build, resolve_options
from dpicl.mechanism.outputs import skip_reason
from dpicl.mechanism.registry import find_mechanism, load_mechanisms
from dpicl.models.base import LanguageModel
from dpicl.releasing.release import release
from dpicl.results.schema import Part

#: Most records that are asked about.
MOST_TESTED = 200
#: What a private method must beat: the instruction alone, texts that the model writes itself, and class names as texts,
#: without any record; and the words of a class, at the same ε.
CONTROLS = ("zero_shot", "public_demonstrations", "repeated_label", "topic_words")
#: Public records in the prompt as they are, which cost nothing.
RECORDS = "public records in the prompt"


class UtilityRow(Part):
    """name: of the mechanism, of a control, or `RECORDS`. low, high: 95% interval of the score, over test records."""

    name: str
    score: float
    low: float
    high: float


class Utility(Part):
    """trained_on: how many public records stood in for the private ones; tested: on how many others it was scored.
    rows: the mechanism, then the controls. not_better_than: those of the others over which the mechanism is
    not shown to be better: the 95% interval of the mean difference, over the same test records, is not above 0."""

    metric: str
    trained_on: int
    tested: int
    rows: list[UtilityRow]
    not_better_than: list[str] = []

    @property
    def sentence(self) -> str:
        rows = "; ".join(
            f"{row.name} {row.score:.3f} [{row.low:.3f}, {row.high:.3f}]" for row in self.rows
        )
        summary = f"{self.metric} on {self.tested} public records, made from {self.trained_on} others: {rows}."
        return f"{summary} {self.doubt}".rstrip()

    @property
    def doubt(self) -> str:
        """A sentence where a control may be as good, with those that score higher; else ''."""
        if not self.not_better_than:
            return ""
        first, *controls = self.rows
        others = names_text(self.not_better_than, "or")
        sentence = f"The utility of {first.name} is not shown to be better than that of {others}"
        higher = [row.name for row in controls if row.score > first.score]
        if higher:
            sentence += (
                f" ({names_text(higher)} {'scores' if len(higher) == 1 else 'score'} higher)"
            )
        return f"{sentence}."


def measure(
    mechanism: Mechanism,
    task: Task,
    records: Sequence[Record],
    model: LanguageModel,
    config: ReleaseConfig,
    queries: Sequence[Query] = (),
    tell: Callable[[str], None] = lambda line: None,
    report: Report = report_nothing,
) -> Utility:
    """Releases from one half of public records as it will be done from the private ones, and scores on the other half.

    task: with the declared sizes; its private records are not looked at. queries: those that will be answered; as many
    test records are, so that an answer costs the same. tell: is told each score and what is left.
    report: how far each release is.
    Raises DataError for fewer than four records, and what a release raises.
    """
    stand_in = _split(task, records, config, len(queries) or MOST_TESTED)
    settings = {"noise": "seeded", "delta": config.accounted_delta, "queries": len(queries) or None}
    public_config = config.model_copy(update=settings)
    compared = [mechanism, *_controls(mechanism, stand_in.public_view(), model)]
    outcomes: dict[str, list[float]] = {}
    begun = time.monotonic()
    for number, one in enumerate(compared, start=1):
        released = release(one, stand_in, model, public_config, report=report)
        outcomes[one.name] = _outcomes(stand_in, model, released.prompt, released.answers)
        taken = duration(time.monotonic() - begun)
        tell(
            f"measured {one.name}, {number} of {len(compared)}: {fmean(outcomes[one.name]):.3f}; {taken} so far"
        )
    if task.kind != "json":
        shown = ReleasedPrompt(None, _spread(stand_in.train, config))
        outcomes[RECORDS] = _outcomes(stand_in, model, shown, None)
    return Utility(
        metric=_metric_of(task),
        trained_on=len(stand_in.train),
        tested=len(stand_in.test),
        rows=[_row(name, values, config.seed) for name, values in outcomes.items()],
        not_better_than=_doubted(mechanism.name, outcomes, config.seed),
    )


def _split(task: Task, records: Sequence[Record], config: ReleaseConfig, most: int) -> Task:
    """The task with one half of public records in the place of the private ones, and at most so many of the other half
    as test records. Raises DataError for fewer than four records."""
    order = streams(config.seed).stream("public test").permutation(len(records))
    half = len(records) // 2
    first = [records[at] for at in order[:half]]
    second = [records[at] for at in order[half:][: min(MOST_TESTED, most)]]
    train, test, _ = deduplicate(first, second)
    if len(train) < 2 or len(test) < 2:
        raise DataError(
            "Utility is measured on four public records at least; give more of them with --public-test."
        )
    return replace(task, train=tuple(train), test=tuple(test), fingerprint="", dropped={})


def _controls(mechanism: Mechanism, task: PublicTask, model: LanguageModel) -> list[Mechanism]:
    """The controls that can do the task, without the mechanism itself."""
    controls = []
    for name in CONTROLS:
        cls = find_mechanism(name, load_mechanisms(()))
        control = build(cls, resolve_options(cls, task.name, {}))
        refused = skip_reason(control, task) or control.unmet_needs(task, model)
        if control.name != mechanism.name and not refused:
            controls.append(control)
    return controls


def _row(name: str, values: Sequence[float], seed: int) -> UtilityRow:
    low, high = bootstrap_interval(values, seed=seed)
    return UtilityRow(name=name, score=sum(values) / len(values), low=low, high=high)


def _doubted(name: str, outcomes: Mapping[str, Sequence[float]], seed: int) -> list[str]:
    """Those over which this one is not shown to be better. outcomes: of each, over the same test records."""
    doubted = []
    for other, values in outcomes.items():
        gain = [mine - theirs for mine, theirs in zip(outcomes[name], values, strict=True)]
        if other != name and bootstrap_interval(gain, seed=seed)[0] <= 0:
            doubted.append(other)
    return doubted


def _spread(records: Sequence[Record], config: ReleaseConfig) -> list[Demonstration]:
    """As many records as shots, of each label in turn, or as many of each as `label_shots` says."""
    counts: Counter[str] = Counter()
    turns = []
    most = dict(config.label_shots)
    for record in records:
        turn = counts[record.label]
        if not most or turn < most.get(record.label, 0):
            turns.append((turn, record))
        counts[record.label] += 1
    chosen = sorted(turns, key=lambda turn: turn[0])[: config.shots]
    return [Demonstration(record.text, record.label) for _, record in chosen]


def _metric_of(task: PublicTask) -> str:
    """The task's main metric; accuracy where that is of a classifier that is made of what was released."""
    return "acc" if task.main_metric in BY_EMBEDDING else task.main_metric


def _outcomes(
    task: Task, model: LanguageModel, prompt: ReleasedPrompt, answers: Mapping[str, str] | None
) -> list[float]:
    """The outcome of every test record. answers: to be scored in place of what the model says after the prompt."""
    from dpicl.evaluation import lm_eval_bridge, nearest  # load lm-eval, which takes seconds

    if answers is not None:
        scores = nearest.evaluate_answers(task, answers)
    else:
        scores = lm_eval_bridge.evaluate(task, model, prompt.shown, instruction=prompt.instruction)
    return list(scores.outcomes[_metric_of(task)])
