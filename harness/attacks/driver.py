"""One attack on one mechanism at one epsilon: from its settings to its result.

The model is read once for all of them, and what slots answer is kept (dpicl.harness.run.output_cache). The private set,
and who is not in it, come from the task's train records by public coins (dpicl.harness.attacks.games).
"""

from __future__ import annotations

import dataclasses
import time
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from dpicl.harness.attacks.base import Attack, Report, Scene
from dpicl.harness.attacks.games import Game, deal
from dpicl.harness.attacks.results import AttackResult, Subject, attack_id
from dpicl.harness.attacks.targets import Target, target
from dpicl.harness.core.errors import ResultError, UsageError, unknown
from dpicl.harness.data.task import Record
from dpicl.harness.mechanism.bases import AnswerMechanism, Mechanism, Partition
from dpicl.harness.mechanism.registry import Registered, RegisteredAttack, find_mechanism
from dpicl.harness.run import manifest
from dpicl.harness.run.expand import build, fixed_epsilon, sized_options
from dpicl.harness.run.output_cache import OutputCache, outputs_folder
from dpicl.harness.run.releasing import Terms
from dpicl.harness.run.results import Cost, storable
from dpicl.harness.run.write_up import manifest_of, privacy_of

if TYPE_CHECKING:
    from dpicl.harness.data.task import Task
    from dpicl.harness.models.base import LanguageModel

#: Options of an attacked mechanism where the command does not say otherwise: sizes for which some dozens of members
#: suffice and that a processor can run. They stand in every result. T = 15 tokens: PRISM's attacks.
ANSWER_SIZES: Final[Mapping[str, int]] = {"slots": 8, "examples_per_slot": 2, "public_slots": 8, "candidates": 8}
DEMONSTRATION_SIZES: Final[Mapping[str, int]] = {"slots": 8, "examples_per_slot": 1, "prompts": 8, "tokens": 15}
#: Members, and others, where the command does not say otherwise (Bhusal et al. 2025: 50 and 50).
MEMBERS: Final = 50

#: The ends of the scale, which an attack is made on for comparison.
ENDS: Final = ("zero_shot", "real_demonstrations")

#: So far apart are the seeds of the scenes of one attack.
_NEXT_SCENE = 100_000


@dataclass(frozen=True)
class Setting:
    """What all attacks of one command share. shots: None for the attack's own number."""

    attack: Attack
    task: Task
    model: str
    delta: float = 1e-5
    seed: int = 0
    shots: int | None = None
    members: int = MEMBERS
    others: int = MEMBERS
    plugin: str | None = None


@dataclass(frozen=True)
class Job:
    """One attack to be made. Its id says whether its result is there."""

    setting: Setting
    mechanism: Mechanism
    subject: Subject

    @property
    def settings(self) -> dict[str, Any]:
        """The attack's options, how many others there are, and the hash of its file when it is a plugin."""
        attack: Any = self.setting.attack
        options = {each.name: getattr(attack, each.name) for each in dataclasses.fields(attack)}
        others = {"others": self.setting.others} if self.setting.attack.membership else {}
        return {**options, **others, **({"plugin": self.setting.plugin} if self.setting.plugin else {})}

    @property
    def id(self) -> str:
        attack = self.setting.attack
        return attack_id(attack.name, attack.access, self.settings, self.subject)

    def __str__(self) -> str:
        own = self.subject
        return f"{self.setting.attack.name} on {own.mechanism}, {own.task}, epsilon={own.epsilon:g}"


def attack_of(registered: RegisteredAttack, given: Mapping[str, Any]) -> Attack:
    """The attack with these options. Raises UsageError for an unknown option and for a value that does not fit."""
    cls = registered.cls
    own: Any = cls  # a dataclass, as the registry has seen to
    types, known = typing.get_type_hints(cls), [each.name for each in dataclasses.fields(own)]
    values = {}
    for name, value in given.items():
        if name not in known:
            raise unknown(f"option of {cls.name}", name, known)
        try:
            values[name] = TypeAdapter(types[name]).validate_python(value)
        except ValidationError as error:
            message = error.errors()[0]["msg"]
            raise UsageError(
                f"Option {name} of {cls.name}: {message[0].lower()}{message[1:]}, not {value!r}."
            ) from None
    return cls(**values)


def jobs_of(
    setting: Setting,
    mechanisms: Mapping[str, Registered],
    name: str,
    epsilons: Sequence[float],
    given: Mapping[str, Any],
) -> list[Job]:
    """The jobs for one mechanism: one for each epsilon, or one where its epsilon is fixed.

    Raises UsageError where the name or an option does not fit, or epsilons are missing.
    """
    cls = find_mechanism(name, dict(mechanisms))
    sizes = ANSWER_SIZES if issubclass(cls, AnswerMechanism) else DEMONSTRATION_SIZES
    options = sized_options(cls, setting.task.name, sizes, given)
    mechanism = build(cls, options)
    own = fixed_epsilon(mechanism)
    if own is None and not epsilons:
        raise UsageError(f"{name} needs an epsilon; add --epsilon E ('inf' for the method without noise).")
    common: dict[str, Any] = {
        "mechanism": name,
        "options": options,
        "plugin": mechanisms[name].plugin_hash,
        "task": setting.task.name,
        "task_version": setting.task.version,
        "source": setting.task.source,
        "model": setting.model,
        "delta": setting.delta,
        "seed": setting.seed,
        "shots": setting.shots or setting.attack.shots,
        "members": setting.members,
    }
    wanted = list(dict.fromkeys(epsilons)) if own is None else [own]
    return [Job(setting, mechanism, Subject(epsilon=epsilon, **common)) for epsilon in wanted]


class Attacker:
    """Makes attacks with one model, which is loaded before the first."""

    def __init__(self, model: str) -> None:
        self._name = model
        self._model: LanguageModel | None = None
        self._outputs: OutputCache | None = None

    @storable()
    def run(self, job: Job, report: Report = lambda *_: None) -> AttackResult:
        """Raises UsageError where the setting does not fit the task, and whatever a release may raise."""
        start = time.perf_counter()
        model = self._loaded()
        loaded = time.perf_counter()
        tokens = model.usage.tokens_read
        setting = job.setting
        finding = setting.attack.run(self._scene(job, model, report))
        if not finding.target.releases:
            raise ResultError(f"The attack {setting.attack.name} asked for no release; its result would say nothing.")
        release = finding.target.releases[0]
        seconds = {"load": round(loaded - start, 3), "attack": round(time.perf_counter() - loaded, 3)}
        return AttackResult(
            id=job.id,
            attack=setting.attack.name,
            access=setting.attack.access,
            settings=job.settings,
            subject=job.subject,
            privacy=privacy_of(job.mechanism, release, job.subject.epsilon, job.subject.delta, "proved"),
            bound=finding.bound,
            measures=dict(finding.measures),
            counts=dict(finding.counts),
            details=dict(finding.details),
            notes=list(finding.notes),
            manifest=manifest_of(finding.target.task, model),
            cost=Cost(
                seconds=seconds,
                tokens_read=model.usage.tokens_read - tokens,
                peak_memory_mb=manifest.peak_memory_mb(),
            ),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def _scene(self, job: Job, model: LanguageModel, report: Report, number: int = 0) -> Scene:
        setting, subject = job.setting, job.subject
        seed = subject.seed + _NEXT_SCENE * number
        others = setting.others if setting.attack.membership else 0
        game: Game = deal(setting.task, subject.members, others, subject.shots, seed)
        terms = Terms(subject.epsilon, subject.delta, seed, shots=subject.shots)

        def face(records: Sequence[Record], sizes: Mapping[Partition, int] | None = None) -> Target:
            return target(job.mechanism, setting.task, records, model, terms, self._cache, report, sizes)

        return Scene(
            task=setting.task,
            model=model,
            mechanism=job.mechanism,
            members=game.members,
            others=game.others,
            terms=terms,
            face=face,
            canaries=game.canaries,
            sizes=game.sizes,
            again=lambda at: self._scene(job, model, report, number + at),
            report=report,
        )

    def _loaded(self) -> LanguageModel:
        from dpicl.harness import models

        if self._model is None:
            self._model = models.load(self._name)
        return self._model

    def _cache(self) -> OutputCache:
        if self._outputs is None:
            self._outputs = OutputCache(outputs_folder())
        return self._outputs
