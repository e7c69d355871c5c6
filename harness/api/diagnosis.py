"""`dpicl.diagnose`: log-loss and hit rate of token mechanisms on held-out texts, and their paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, get_args

from dpicl.harness.api.given import GivenMechanism, entries_of, given_mechanism
from dpicl.harness.api.tables import ResultTable
from dpicl.harness.api.values import (
    Count,
    MaybeCount,
    MaybeDelta,
    MaybeEpsilons,
    MaybeShots,
    MaybeText,
    Options,
    Paths,
    Seed,
    Text,
    as_it_is,
    checked,
    several,
)
from dpicl.harness.core.cell import Cell
from dpicl.harness.core.errors import UsageError, require_known
from dpicl.harness.core.messages import count
from dpicl.harness.core.paths import find_suite
from dpicl.harness.core.plugins import Registered
from dpicl.harness.core.vocabulary import silent
from dpicl.harness.evaluation.log_loss import PairedDifference, RowScores, paired_differences
from dpicl.harness.mechanism.registry import load_mechanisms
from dpicl.harness.run.diagnosis import OUTSIDE, Diagnosed, DiagnosisSettings, diagnosed
from dpicl.harness.run.expand import expand
from dpicl.harness.run.progress import counting
from dpicl.harness.run.selection import check_models, task_facts
from dpicl.harness.run.suite import Changes, Noise, OptionChange, Source, Suite, changed, load_suite, made_suite
from dpicl.harness.run.workbench import Workbench

NOISES, SOURCES = get_args(Noise), get_args(Source)


class DiagnosisDifferences(ResultTable[PairedDifference]):
    """Differences first - second of two rows at one epsilon, over the same texts, with 95% intervals."""

    columns = {
        "epsilon": attrgetter("epsilon"),
        "first": attrgetter("first"),
        "second": attrgetter("second"),
        "log_loss": attrgetter("log_loss"),
        "log_loss_error": attrgetter("log_loss_error"),
        "log_loss_low": lambda item: item.log_loss_interval[0],
        "log_loss_high": lambda item: item.log_loss_interval[1],
        "hit_rate": attrgetter("hit_rate"),
        "hit_rate_error": attrgetter("hit_rate_error"),
        "hit_rate_low": lambda item: item.hit_rate_interval[0],
        "hit_rate_high": lambda item: item.hit_rate_interval[1],
    }


@dataclass(frozen=True, repr=False)
class Diagnosis(ResultTable[RowScores]):
    """Log-loss (nats a token, lower is better) and hit rate of every row at every epsilon: means over texts with their
    standard errors. At epsilon 0 there are the public prompts, at infinity the methods without noise.

    differences: between rows, paired over texts. setup: what was looked at.
    """

    differences: DiagnosisDifferences = field(default_factory=lambda: DiagnosisDifferences([]))
    setup: Mapping[str, Any] = field(default_factory=dict)

    columns = {
        "row": attrgetter("row"),
        "epsilon": attrgetter("epsilon"),
        "log_loss": lambda item: float(item.log_loss.mean()),
        "log_loss_error": lambda item: item.error("log_loss"),
        "hit_rate": lambda item: float(item.hit_rate.mean()),
        "hit_rate_error": lambda item: item.error("hit_rate"),
        "knob": attrgetter("knob"),
        "draws_error": lambda item: None if item.spread is None else list(item.spread),
    }

    def document(self) -> dict[str, Any]:
        """What `dpicl diagnose --json` prints; by_text: both measures of each text, in one order for all rows."""
        rows = [
            {**self.row(item), "by_text": {"log_loss": item.log_loss.tolist(), "hit_rate": item.hit_rate.tolist()}}
            for item in self.items
        ]
        differences = [asdict(item) for item in self.differences.items]
        return {**self.setup, "rows": rows, "differences": differences, "notes": list(self.notes)}


@checked
def diagnose(
    mechanism: Annotated[GivenMechanism | Sequence[GivenMechanism], as_it_is] = (),
    *,
    task: Text,
    epsilon: MaybeEpsilons = None,
    suite: MaybeText = None,
    texts: Count = 32,
    tokens: MaybeCount = None,
    draws: Count = 32,
    shots: MaybeShots = None,
    delta: MaybeDelta = None,
    model: MaybeText = None,
    source: MaybeText = None,
    seed: Seed = 0,
    noise: Text = "seeded",
    options: Options = None,
    plugins: Paths = (),
    progress: bool = True,
) -> Diagnosis:
    """How well the release distributions of token mechanisms predict test records, token by token.

    It reads private records outside of any ledger: a diagnostic on public benchmark data, never part of a release.

    mechanism: names, classes, instances or files of plug-ins; with a ``suite``, rows of it (none: all that release text
        token by token, with the suite's epsilons, delta, shots and options where these are not given).
    texts: test records of the labels that a release has demonstrations of. tokens: of each (None: 20, or fewer where a
        mechanism writes fewer). draws: of public randomness, where a mechanism uses any. options: of every mechanism
        that has them; 'tang.slots' is tang's alone.
    Raises UsageError for what does not fit, for mechanisms that release no text token by token, and for secure noise.
    """
    targets = None if epsilon is None else several(epsilon)
    made, mechanisms = _asked(mechanism, suite, task, targets, shots, delta, several(plugins))
    if "secure" in (noise, made.noise):
        raise UsageError(f"Secure noise keeps records private, and this is {OUTSIDE}; use it on public records alone.")
    require_known("noise", [noise], NOISES)
    changes: dict[str, Any] = {"models": [model or made.models[0]], "source": source or made.source, "seeds": [seed]}
    whole: dict[str, Any] = {
        "task_test_records": {},
        "task_seeds": {},
        "epsilon_seeds": {},
        "test_records": None,
        "queries": None,
    }
    made = made.model_copy(update={**changes, **whole})
    require_known("source", [made.source], SOURCES)
    check_models(made)
    cells = expand(made, mechanisms, task_facts(), _changes(options or {}))
    bench, first = Workbench(mechanisms), cells[0]
    settings = DiagnosisSettings(texts, tokens, draws, first.shots, first.delta, seed)
    found = diagnosed(
        {cell.label: bench.mechanism(cell) for cell in cells},
        bench.task(first),
        bench.model(first.model),
        made.epsilons,
        settings,
        leave_out=suite is not None and not several(mechanism),
        report=counting() if progress else silent,
    )
    return _table(found, first, settings)


def _asked(
    mechanism: GivenMechanism | Sequence[GivenMechanism],
    suite: str | None,
    task: str,
    epsilon: Sequence[float] | None,
    shots: int | None,
    delta: float | None,
    plugins: Sequence[Path],
) -> tuple[Suite, dict[str, Registered]]:
    """A suite of the one task and the wanted rows, and the registry."""
    own = {name: value for name, value in (("shots", shots), ("delta", delta)) if value is not None}
    wanted = several(mechanism)
    if suite is not None:
        if strange := [each for each in wanted if not isinstance(each, str)]:
            raise UsageError(f"With a suite mechanisms are names of its rows, not {strange[0]!r:.60}.")
        known = load_mechanisms(plugins)
        made = changed(load_suite(find_suite(suite)), Changes([task], wanted, epsilons=epsilon or ()), known)
        update: dict[str, Any] = {**own, **({"task_shots": {}} if shots is not None else {})}
        return made.model_copy(update=update), known
    if not wanted:
        raise UsageError("Name a mechanism, such as tang, or give a suite whose rows are wanted.")
    if epsilon is None:
        raise UsageError("Give an epsilon: the noise of a release is calibrated to it.")
    given = [given_mechanism(each, plugins) for each in wanted]
    entries = {"tasks": [task], "mechanisms": entries_of(given, {}), "epsilons": list(dict.fromkeys(epsilon))}
    made = made_suite({"name": "diagnosis", "version": 1, "models": ["embedded"], "seeds": [0], **entries, **own})
    files = list(dict.fromkeys([*plugins, *(each.plugin for each in given if each.plugin is not None)]))
    return made, load_mechanisms(files)


def _changes(options: Mapping[str, Any]) -> list[OptionChange]:
    """'slots' for every mechanism that has it, 'tang.slots' for one."""
    parts = [(*name.rpartition("."), value) for name, value in options.items()]
    return [OptionChange(owner or None, name, value) for owner, _, name, value in parts]


def _table(found: Diagnosed, cell: Cell, settings: DiagnosisSettings) -> Diagnosis:
    notes = [
        f"This is {OUTSIDE}.",
        "L = -mean log(.99 pi + .01 p0) over tokens, in nats; H = mean pi: pi is what a mechanism would release after"
        " the real tokens before, p0 the public prompt. Intervals (95%, bootstrap over texts) are not adjusted for how"
        " many differences there are.",
    ]
    if drawn := list(dict.fromkeys(row.row for row in found.scored if row.spread is not None)):
        notes.append(
            f"A mean over {count(settings.draws, 'draw')} of public randomness, others exact: {', '.join(drawn)}."
        )
    notes += [f"{name} is left out: {why}." for name, why in found.left_out.items()]
    setup = {"task": cell.task, "source": cell.source, "model": cell.model, "delta": cell.delta, "seed": settings.seed}
    counts = {"texts": found.texts, "tokens": found.tokens, "draws": settings.draws, "shots": settings.shots}
    differences = DiagnosisDifferences(paired_differences(found.scored, settings.seed))
    return Diagnosis(found.scored, tuple(notes), differences, {**setup, **counts})
