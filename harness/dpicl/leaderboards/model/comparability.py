"""Conditions under which results may be compared, by name, and those that each purpose requires.

Results share a section of a board where their `Group` is equal, a table where `TASK` is, a row where `ROW` is; two
sides of `dpicl compare` must agree in `PAIR`, a submission with the results of record in `REFERENCE`, an attack with
the row that it is about in what `attack_identity` lists.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter, itemgetter

from dpicl.attacks.results import AttackResult
from dpicl.core.cell import Cell, Options
from dpicl.core.vocabulary import is_simulated
from dpicl.data.task_file import NOT_EVERYWHERE
from dpicl.models.server_settings import without_address
from dpicl.plan.suite import Suite
from dpicl.results.schema import Result

ZERO_SHOT = "zero_shot"
REAL_DATA = "real_demonstrations"
#: The two reference baselines.
BASELINES = (ZERO_SHOT, REAL_DATA)


@lru_cache(maxsize=64)
def sort_ids(
    ids: tuple[str, ...],
) -> tuple[tuple[str, ...], Callable[[Sequence[float]], Sequence[float]]]:
    """Ids in their order, and what brings their outcomes into it; results of one task share it."""
    if len(ids) < 2:
        return ids, tuple
    reorder = itemgetter(*sorted(range(len(ids)), key=ids.__getitem__))
    return reorder(ids), reorder


def _test_ids(result: Result, metric: str) -> tuple[str, ...]:
    """The ids of a metric's test records in their order; their number where each seed draws its own, since those follow
    from the records and the seed."""
    ids = tuple(result.documents[metric].ids)
    return (
        (f"{len(ids)} drawn by the seed",) if result.cell.fresh_test_records else sort_ids(ids)[0]
    )


def _list_shared(result: Result, metrics: Iterable[str]) -> tuple[str, ...]:
    """The metrics that every result of a task has: others are of demonstrations only and missing in old files, and
    count where they are the main metric."""
    return tuple(
        sorted(name for name in metrics if name not in NOT_EVERYWHERE or name == result.main_metric)
    )


def _metric_names(result: Result) -> Hashable:
    kinds = (result.scores, result.aggregates, result.skipped_metrics)
    return tuple(_list_shared(result, names) for names in kinds)


def _lower_metrics(result: Result) -> Hashable:
    """The metrics of which less is better."""
    shared = _list_shared(result, [*result.scores, *result.aggregates])
    return tuple(filter(result.lower_is_better, shared))


def _all_test_ids(result: Result) -> Hashable:
    return tuple(
        (metric, *_test_ids(result, metric)) for metric in _list_shared(result, result.documents)
    )


def _private_epsilon(mechanism: str, epsilon: float) -> float | None:
    return None if mechanism in BASELINES else epsilon


#: Name -> what must be equal.
_CONDITIONS: Mapping[str, Callable[[Result], Hashable]] = {
    "suite content": attrgetter("suite.hash"),
    "source of records": attrgetter("cell.source", "manifest.data.source"),
    "records": attrgetter("manifest.data.fingerprint"),
    "sizes of the private classes": lambda result: tuple(
        sorted(result.manifest.data.sizes.items())
    ),
    "records a class": attrgetter("cell.train_records"),
    "share of the private records": attrgetter("cell.private_share"),
    "number of test records": attrgetter("cell.test_records"),
    "task version": lambda result: str(result.cell.task_version),
    "prompts": attrgetter("manifest.prompts_hash"),
    "number of shots": attrgetter("cell.shots"),
    "metric": attrgetter("main_metric"),
    "direction of the metric": lambda result: result.lower_is_better(result.main_metric),
    "draw of the test records": attrgetter("cell.fresh_test_records"),
    "test records": lambda result: _test_ids(result, result.main_metric),
    "set of metrics": _metric_names,
    "directions of the metrics": _lower_metrics,
    "test records of every metric": _all_test_ids,
    "task": attrgetter("cell.task"),
    "mechanism": attrgetter("cell.mechanism"),
    "version of the mechanism": lambda result: result.manifest.mechanism_version or 1,
    "options": lambda result: json.dumps(result.cell.options, sort_keys=True),
    "plug-in file": attrgetter("cell.plugin"),
    "number of queries": attrgetter("cell.queries", "privacy.queries"),
    "ε": lambda result: _private_epsilon(result.cell.mechanism, result.cell.epsilon),
    "δ": attrgetter("cell.delta"),
    "model": attrgetter("manifest.model.name"),
    "model weights": attrgetter("manifest.model.pin"),
    "batch invariance": lambda result: result.manifest.model.batch_invariant is True,
}

TASK = (
    "task version",
    "records",
    "prompts",
    "number of shots",
    "records a class",
    "share of the private records",
    "number of test records",
    "draw of the test records",
    "metric",
    "direction of the metric",
    "test records",
)
#: What headroom must share with the rows that it is measured for: all of `TASK` but the test records.
READER = ("task version", "prompts", "number of shots", "records a class", "metric")
ROW = ("mechanism", "version of the mechanism", "options", "plug-in file", "number of queries")
REFERENCE = (
    "suite content",
    "task version",
    "source of records",
    "records",
    "sizes of the private classes",
    "prompts",
    "model weights",
    "metric",
    "set of metrics",
    "directions of the metrics",
    "test records of every metric",
)
#: What an attack shares with the row that it is about.
ATTACK = (
    "mechanism",
    "task",
    "model",
    "ε",
    "plug-in file",
    "task version",
    "source of records",
    "batch invariance",
    "model weights",
    "δ",
)
_DATA = "give both runs the same records (`--source`, DPICL_DATA)"
_SUITE = "run both sides with the same suite file and the same flags"
_CODE = "run the base again with the code of the candidate"
#: Condition of a paired comparison -> what to do where it differs.
PAIR: Mapping[str, str] = {
    **dict.fromkeys(("source of records", "records"), _DATA),
    **dict.fromkeys(("task version", "prompts", "metric", "direction of the metric"), _CODE),
    **dict.fromkeys(("mechanism", "δ", "number of shots", "options", "number of queries"), _SUITE),
    **dict.fromkeys(("records a class", "share of the private records"), _SUITE),
    "test records": "run both sides on the same test records (`--limit`, DPICL_DATA)",
}


#: What the fields of a `Group` are.
GROUP = (
    "suite",
    "suite version",
    "suite content",
    "model",
    "model weights",
    "source of records",
    "δ",
    "rounding",
)


@dataclass(frozen=True)
class Group:
    """One suite version (hash of its content), one model (hash of its weights), one source of records, one delta.

    up_to_rounding: whether a row of the model may change how another is rounded, or nobody knows; such results are not
    ranked beside those that are proved to the last bit.
    asked: the suite as a command names it: its name, or the path of its file.
    """

    suite: str
    version: str
    suite_hash: str
    model: str
    weights: str | None
    source: str
    delta: float
    up_to_rounding: bool
    asked: str

    @property
    def simulated(self) -> bool:
        """Whether the model is the seeded fake one."""
        return is_simulated(self.model)

    def run_command(self, task: str, mechanism: str) -> str:
        """The command that produces the results of one mechanism on one task."""
        words = ["dpicl", "run", self.asked, "--task", task, "--mechanism", mechanism]
        words += ["--model", without_address(self.model), "--source", self.source]
        return shlex.join(words)


def group_of(result: Result, asked: str | None = None) -> Group:
    """The group of a result. asked: see `Group`; None stands for the suite's name."""
    return Group(
        suite=result.suite.name,
        version=str(result.suite.version),
        suite_hash=result.suite.hash,
        model=result.cell.model,
        weights=weights(result) or None,
        source=result.manifest.data.source,
        delta=result.cell.delta,
        up_to_rounding=result.manifest.model.batch_invariant is not True,
        asked=asked or result.suite.name,
    )


def value_of(result: Result, name: str) -> Hashable:
    """What a result has for a condition."""
    return _CONDITIONS[name](result)


def values_of(result: Result, names: Iterable[str]) -> tuple[Hashable, ...]:
    return tuple([_CONDITIONS[name](result) for name in names])


def list_differing(one: Result, other: Result, names: Iterable[str]) -> list[str]:
    """The conditions among these in which two results differ, in the given order."""
    return [name for name in names if value_of(one, name) != value_of(other, name)]


def attack_identity(result: AttackResult) -> dict[str, Hashable]:
    """What an attack must share with a row: the conditions of `ATTACK`."""
    subject, manifest = result.subject, result.manifest
    values = (
        subject.mechanism,
        subject.task,
        manifest.model.name,
        _private_epsilon(subject.mechanism, subject.epsilon),
        subject.plugin,
        str(subject.task_version),
        (subject.source, manifest.data.source),
        manifest.model.batch_invariant is True,
        weights(result),
        subject.delta,
    )
    return dict(zip(ATTACK, values, strict=True))


def weights(result: Result | AttackResult) -> str:
    """What pins the model down: `ModelIdentity.pin`."""
    return result.manifest.model.pin


class Admission:
    """Which results may stand on the board of a suite, which expands to these cells."""

    def __init__(self, suite: Suite, cells: Iterable[Cell]) -> None:
        self._suite = suite
        self._hash = suite.hash
        self._data: set[Hashable] = set()
        self._versions: dict[str, str] = {}
        self._rows: dict[Hashable, tuple[Options, str | None]] = {}
        for cell in cells:
            data = self._data_of(cell)
            self._data.add(data)
            self._versions[cell.task] = str(cell.task_version)
            self._rows.setdefault((data, cell.label), (cell.options, cell.plugin))

    def can_admit(self, result: Result) -> bool:
        """Whether a result has the suite's version, settings, shots, one of its models and its
        source (any, where the suite says auto: then the board has a section for each). A row of the suite must have the
        options that the suite gives it now; other rows (`--mechanism`, `--option`) may stand beside them.
        """
        cell = result.cell
        data = self._data_of(cell)
        if result.suite.hash != self._hash or data not in self._data:
            return False
        of_suite = self._rows.get((data, cell.label))
        if of_suite is None:
            return True
        options, plugin = of_suite
        # An option that a result lacks was added after it: `dpicl run` writes every option.
        return plugin == cell.plugin and cell.options.items() <= options.items()

    def is_current(self, result: Result) -> bool:
        """Whether it is of the present version of its task."""
        return self._versions.get(result.cell.task) == str(result.cell.task_version)

    def _data_of(self, cell: Cell) -> Hashable:
        """What a result must share with a cell of the suite."""
        source = None if self._suite.source == "auto" else cell.source
        counts = (
            cell.test_records,
            cell.train_records,
            cell.private_share,
            cell.fresh_test_records,
        )
        return cell.task, cell.model, cell.shots, source, counts, cell.metric
