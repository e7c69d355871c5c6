"""Cells: task x mechanism x model x epsilon x seed, the unit of work and of resume.

A cell's id is a hash over everything that determines its result. So a suite that is run again finds what it has done,
and anything that changes (an option, a prompt version, the number of test records) is another cell.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dp_accounting import dp_event as dp
from pydantic import (
    BaseModel,
    ConfigDict,
    PydanticUserError,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    model_serializer,
)

from dpicl.harness.core import json_text
from dpicl.harness.core.errors import PluginError, UsageError, told, unknown
from dpicl.harness.core.field_types import Count, Delta, Epsilon, Positive
from dpicl.harness.core.seeds import accounted_delta
from dpicl.harness.core.strict_yaml import Place
from dpicl.harness.mechanism.bases import AnswerMechanism, Mechanism, Sizes
from dpicl.harness.mechanism.registry import Registered
from dpicl.harness.run.suite import MechanismEntry, Mode, Noise, OptionChange, Options, Suite


class Cell(BaseModel):
    """One cell, complete: nothing else is needed to run it again.

    label: the row on the board. It names the cell but does not determine its result, so it is not part of the id.
    source: where the records really come from ('auto' is resolved). test_records, train_records (a class; extraction:
    in all): None means all. plugin: sha256 of the file of a mechanism that came with `--plugin`. queries: Q, how many
    queries the epsilon of an answer mechanism covers; None means as many as there are test records. sizes: n of every
    class ('' for a task without classes) as declared; None: counted.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")

    suite: str
    suite_version: int | str
    task: str
    task_version: int | str
    source: str
    mechanism: str
    label: str
    options: Options
    model: str
    epsilon: Epsilon
    delta: Delta
    seed: Count
    shots: Count
    test_records: Positive | None
    train_records: Positive | None
    noise: Noise
    mode: Mode
    plugin: str | None = None
    queries: Positive | None = None
    sizes: dict[str, Positive] | None = None

    @property
    def secure(self) -> bool:
        """Whether the records are private in earnest: nothing but what was paid for leaves the run."""
        return self.noise == "secure"

    @property
    def id(self) -> str:
        """16 hexadecimal digits of the sha256 over every field but the label (and `queries`, `sizes` where they are not
        set)."""
        content = self.model_dump(mode="json", exclude={"label"} if self.queries else {"label", "queries"})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @model_serializer(mode="wrap")
    def _without_unset(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """`sizes` is written where it is set, so that what was written before there were any stays as it is."""
        data: dict[str, Any] = write(self)
        if data.get("sizes") is None:
            data.pop("sizes", None)
        return data

    def __str__(self) -> str:
        return f"{self.label} on {self.task}, epsilon={self.epsilon:g}, seed {self.seed}, {self.model}"


@dataclass(frozen=True)
class TaskFacts:
    """What a cell needs to know of a task before its records are loaded: version, the source 'auto' stands for, and
    the classes that are groups of records of their own (none where all records are one group)."""

    version: int | str
    source: str
    classes: tuple[str, ...] = ()


def expand(
    suite: Suite,
    mechanisms: Mapping[str, Registered],
    tasks: Mapping[str, Callable[[str], TaskFacts]],
    options: Sequence[OptionChange] = (),
    reveal: bool = False,
) -> list[Cell]:
    """The cells of a suite, in the order in which they are run: by model, task, mechanism, epsilon, seed.

    mechanisms: the registry. tasks: known task -> a function from the wanted source to the task's facts. reveal:
        whether secure noise may stand beside epsilon = infinity, which publishes what follows from the records.
    Raises UsageError, with file and line where there is one, for unknown names, for options that do not fit, and for
    secure noise without declared sizes or at too small a delta.
    """
    _check_names(suite, mechanisms, tasks)
    try:
        accounted_delta(suite.delta, suite.noise)
    except UsageError as error:
        raise suite.error(("delta",), str(error)) from None
    _check_changes(suite, mechanisms, options)
    cells: list[Cell] = []
    for model in suite.models:
        for task in suite.tasks:
            facts = tasks[task](suite.source)
            sizes = declared_sizes(suite, task, facts.classes)
            for i, entry in enumerate(suite.mechanisms):
                cells += _cells_of(suite, i, entry, mechanisms[entry.name], task, facts, model, options, sizes, reveal)
    return cells


def declared_sizes(suite: Suite, task: str, classes: Sequence[str]) -> dict[str, int] | None:
    """n of every class ('' without classes) that the suite declares; None where it declares none.

    Raises UsageError for sizes that do not fit the classes, and for none with secure noise.
    """
    declared: int | dict[str, int] | None = suite.sizes.get(task)
    form = f"{{{task}: {{{', '.join(f'{label}: N' for label in classes)}}}}}" if classes else f"{{{task}: N}}"
    if declared is None:
        if suite.noise == "secure":
            raise suite.error(
                ("noise",),
                f"noise: secure needs the declared sizes of {task}, since counts of private records are private:"
                f" add `sizes: {form}` with numbers that everybody may know.",
            )
        return None
    if isinstance(declared, int):
        return dict.fromkeys(classes or [""], declared)
    if set(declared) != set(classes):
        raise suite.error(("sizes", task), f"the declared sizes do not fit the classes of {task}; write {form}.")
    return {label: declared[label] for label in classes}


def _cells_of(
    suite: Suite,
    position: int,
    entry: MechanismEntry,
    registered: Registered,
    task: str,
    facts: TaskFacts,
    model: str,
    changes: Sequence[OptionChange],
    sizes: dict[str, int] | None,
    reveal: bool,
) -> Iterator[Cell]:
    place: Place = ("mechanisms", position)
    wanted = {change.name: change.value for change in changes if _applies(change, entry, registered.cls)}
    given = {**entry.options, **entry.per_task.get(task, {}), **wanted}
    try:
        options = resolve_options(registered.cls, task, given)
        own_epsilon = fixed_epsilon(build(registered.cls, options))
        if suite.noise == "secure" and options.get("sampling_seed") is not None:
            raise UsageError("Option sampling_seed makes the sampling coins public; leave it out with noise: secure.")
    except UsageError as error:
        raise suite.error(place, str(error)) from None
    suffix = "".join(f"+{name}={value}" for name, value in sorted(wanted.items()))
    for epsilon in suite.epsilons if own_epsilon is None else [own_epsilon]:
        if suite.noise == "secure" and math.isinf(epsilon) and not reveal:
            raise suite.error(place, refusal(entry.row))
        for seed in suite.seeds:
            yield Cell(
                suite=suite.name,
                suite_version=suite.version,
                task=task,
                task_version=facts.version,
                source=facts.source,
                mechanism=entry.name,
                label=entry.row + suffix,
                options=options,
                model=model,
                epsilon=epsilon,
                delta=suite.delta,
                seed=seed,
                shots=suite.task_shots.get(task, suite.shots),
                test_records=suite.test_records,
                train_records=suite.train_records,
                noise=suite.noise,
                mode=suite.mode,
                plugin=registered.plugin_hash,
                queries=suite.queries if issubclass(registered.cls, AnswerMechanism) else None,
                sizes=sizes,
            )


def refusal(row: str) -> str:
    """Why a row at epsilon = infinity does not go with secure noise."""
    return (
        f"{row} at epsilon = inf would publish what follows from private records without any noise, and noise: secure"
        " keeps them private; leave it out, or give --reveal-records to `dpicl run` and `dpicl plan`."
    )


def option_types(cls: type[Mechanism]) -> dict[str, Any]:
    """Option name -> annotated type of every option (dataclass field) of a mechanism."""
    if not dataclasses.is_dataclass(cls):
        return {}
    try:
        hints = typing.get_type_hints(cls)
    except Exception as error:  # annotations are evaluated
        raise PluginError(
            f"Mechanism '{cls.name}' annotates an option with a type that is not imported: {told(error, 500)}."
        ) from error
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def resolve_options(cls: type[Mechanism], task: str, given: Options) -> Options:
    """Every option's value: the class's defaults, then the published ones of the task, then the given ones.

    Raises UsageError for an unknown option and for a value of the wrong type.
    """
    types = option_types(cls)
    values = {**cls.published.get(task, {}), **given}
    for name, value in values.items():
        if name not in types:
            raise unknown(f"option of {cls.name}", name, types)
        try:
            values[name] = _adapter(types[name]).validate_python(value)
        except ValidationError as error:
            message = error.errors()[0]["msg"]
            raise UsageError(
                f"Option {name} of {cls.name}: {message[0].lower()}{message[1:]}, not {value!r}."
            ) from None
        except PydanticUserError as error:
            raise PluginError(f"Option {name} of {cls.name} has a type that no suite can write; mend it.") from error
    instance = build(cls, values)
    try:
        plain: Options = json_text.loads(json.dumps({name: getattr(instance, name) for name in types}))
    except (TypeError, ValueError, RecursionError) as error:
        raise PluginError(f"Mechanism '{cls.name}' has an option that JSON cannot hold: {error}.") from error
    return plain


def sized_options(cls: type[Mechanism], task: str, sizes: Mapping[str, int], given: Mapping[str, Any]) -> Options:
    """As `resolve_options`, with ``sizes`` below the given ones, where the class has an option of that name that is a
    whole number (or None)."""
    types = option_types(cls)
    fitting = {name: value for name, value in sizes.items() if types.get(name) in (int, int | None)}
    return resolve_options(cls, task, {**fitting, **given})


@lru_cache(maxsize=64)
def _adapter(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(hint)


def build(cls: type[Mechanism], options: Options) -> Mechanism:
    """The mechanism with these options. Raises UsageError where the class refuses them."""
    try:
        return cls(**options)
    except (TypeError, ValueError) as error:
        raise UsageError(f"Mechanism '{cls.name}' refuses its options {options}: {told(error, 500)}.") from error


def fixed_epsilon(mechanism: Mechanism) -> float | None:
    """Epsilon of a mechanism without a knob (0 or infinity, by its events); None when there is a knob."""
    if mechanism.knob is not None:
        return None
    event = mechanism.events(0.0, Sizes(records={None: 1}, shots={None: 1}))
    if isinstance(event, dp.NoOpDpEvent):
        return 0.0
    if isinstance(event, dp.NonPrivateDpEvent):
        return math.inf
    raise PluginError(
        f"Mechanism '{mechanism.name}' has no knob, so its event must be NoOp or NonPrivate, not {event!r};"
        " give it a knob."
    )


def _applies(change: OptionChange, entry: MechanismEntry, cls: type[Mechanism]) -> bool:
    return change.target in (entry.row, entry.name) or (change.target is None and change.name in option_types(cls))


def _check_names(suite: Suite, mechanisms: Mapping[str, Any], tasks: Mapping[str, Any]) -> None:
    for i, task in enumerate(suite.tasks):
        if task not in tasks:
            raise suite.error(("tasks", i), str(unknown("task", task, tasks)))
    for key in ("task_shots", "sizes"):
        for task in getattr(suite, key):
            if task not in tasks:
                raise suite.error((key, task), str(unknown("task", task, tasks)))
    for i, entry in enumerate(suite.mechanisms):
        if entry.name not in mechanisms:
            raise suite.error(("mechanisms", i, "name"), str(unknown("mechanism", entry.name, mechanisms)))
        for task, given in entry.per_task.items():
            place: Place = ("mechanisms", i, "per_task", task)
            if task not in tasks:
                raise suite.error(place, str(unknown("task", task, tasks)))
            _check_option_names(suite, place, mechanisms[entry.name].cls, given)
        _check_option_names(suite, ("mechanisms", i, "options"), mechanisms[entry.name].cls, entry.options)


def _check_option_names(suite: Suite, place: Place, cls: type[Mechanism], given: Options) -> None:
    types = option_types(cls)
    for name in given:
        if name not in types:
            raise suite.error((*place, name), str(unknown(f"option of {cls.name}", name, types)))


def _check_changes(suite: Suite, mechanisms: Mapping[str, Registered], changes: Sequence[OptionChange]) -> None:
    for change in changes:
        if any(_applies(change, entry, mechanisms[entry.name].cls) for entry in suite.mechanisms):
            continue
        if change.target is not None:
            raise unknown("mechanism", change.target, (entry.row for entry in suite.mechanisms))
        choices = {name for entry in suite.mechanisms for name in option_types(mechanisms[entry.name].cls)}
        raise unknown("option", change.name, choices)
