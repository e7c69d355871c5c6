"""The model ``dpicl`` of lm-evaluation-harness: any mechanism on any model, released when lm-eval first asks.

`dpicl lm-eval` starts lm-eval's own command with it. An answer mechanism becomes a `MechanismLM` (one release a
document); a demonstration mechanism releases once for each task, and the model then reads the demonstrations before
every query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from dpicl.core.cell import ReleaseConfig
from dpicl.core.errors import UsageError, unknown
from dpicl.core.output_cache import OutputCache, outputs_folder
from dpicl.core.vocabulary import Query
from dpicl.data.task import Task, list_tasks, load_config
from dpicl.evaluation.language_model_lm import LanguageModelLM
from dpicl.evaluation.mechanism_lm import MechanismLM, ReleasingLM
from dpicl.mechanism.options import build, resolve_options
from dpicl.mechanism.outputs import skip_reason
from dpicl.releasing.release import Release, release

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

    from dpicl.mechanism.bases import Mechanism
    from dpicl.models.base import LanguageModel

#: Its name in lm-eval.
NAME = "dpicl"


@dataclass
class MechanismRun:
    """One mechanism on one model, and what it has released so far, by lm-eval's name of the task.

    options: as in a suite, over the published ones of the task. source: of the records. size: the declared number of
    private records a class (without classes: in all); None: they are counted.
    """

    mechanism: type[Mechanism]
    model: LanguageModel
    config: ReleaseConfig
    source: str = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)
    size: int | None = None
    releases: dict[str, Release] = field(default_factory=dict)

    def release(self, lm_eval_name: str, queries: Sequence[Query] | None = None) -> Release:
        """Releases for one of our tasks. Raises UsageError for another task, and where the mechanism cannot do it."""
        names = {load_config(name).task: name for name in list_tasks()}
        if lm_eval_name not in names:
            raise unknown("task", lm_eval_name, names)
        name = names[lm_eval_name]
        mechanism = build(self.mechanism, resolve_options(self.mechanism, name, dict(self.options)))
        groups = load_config(name).classes or ("",)
        sizes = None if self.size is None else dict.fromkeys(groups, self.size)
        task = Task.load(name, self.source, sizes=sizes)
        if reason := skip_reason(mechanism, task.public_view()):
            raise UsageError(f"{mechanism.name} cannot do {name}: {reason}")
        self.releases[lm_eval_name] = made = release(
            mechanism,
            task,
            self.model,
            self.config,
            queries,
            outputs=lambda: OutputCache(outputs_folder()),
        )
        return made

    def respond(self, lm_eval_name: str, queries: Sequence[Query]) -> Mapping[str, str]:
        """The answers of an answer mechanism, or of a prepared one; see MechanismLM."""
        return self.release(lm_eval_name, queries).answers or {}

    def prefix(self, lm_eval_name: str) -> str:
        """Instruction and demonstrations before every query, as a demonstration mechanism released them."""
        prompt = self.release(lm_eval_name).prompt
        task = Task.without_records(lm_eval_name.removeprefix("dpicl_"))
        return task.icl_prefix(prompt.shown, prompt.instruction)


class DemonstrationLM(ReleasingLM):
    """A language model that reads released demonstrations before every query of lm-eval.

    prefix: lm-eval's name of a task -> what stands before the query instead of the task's description; asked once a
    task. Raises UsageError for a context that does not begin with the task's description.
    """

    def __init__(self, reader: LM, prefix: Callable[[str], str]) -> None:
        super().__init__()
        self._reader, self._prefix = reader, prefix
        self._prefixes: dict[str, str] = {}

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = True) -> list[tuple[float, bool]]:
        return self._reader.loglikelihood([self._shown(request) for request in requests])

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = True) -> list[str]:
        return self._reader.generate_until([self._shown(request) for request in requests])

    def _shown(self, request: Instance) -> Instance:
        name = str(request.task_name)
        if name not in self._prefixes:
            self._prefixes[name] = self._prefix(name)
        context, *rest = request.args
        description = load_config(name.removeprefix("dpicl_")).description
        if not context.startswith(description):
            raise UsageError(
                f"The context of {name} does not begin with the task's description; use --num_fewshot 0 and no chat"
                " template."
            )
        return replace(request, arguments=(self._prefixes[name] + context[len(description) :], *rest))


@register_model(NAME)
class DpiclModel(LM):
    """What lm-eval's own command makes of ``--model dpicl``. make: device -> the run that was asked for."""

    make: ClassVar[Callable[[str | None], MechanismRun]]

    @classmethod
    def create_from_arg_obj(cls, arg_dict: dict[str, Any], additional_config: dict[str, Any] | None = None) -> Any:
        """A MechanismLM or DemonstrationLM. additional_config: lm-eval's batch sizes (not used: slots make their own
        batches) and device."""
        return lm_of(cls.make((additional_config or {}).get("device")))

    def loglikelihood(self, requests: list[Instance]) -> Any:  # pragma: no cover - never instantiated
        raise NotImplementedError

    loglikelihood_rolling = generate_until = loglikelihood


def lm_of(run: MechanismRun) -> LM:
    texts = run.mechanism.releases_texts
    lm: LM = DemonstrationLM(LanguageModelLM(run.model), run.prefix) if texts else MechanismLM(run.respond)
    lm.get_model_info = lambda: _info(run)  # lm-eval puts it into its results after the evaluation
    return lm


def _info(run: MechanismRun) -> dict[str, Any]:
    return {
        "dpicl": {
            name: {
                "mechanism": run.mechanism.name,
                "epsilon_target": run.config.epsilon,
                "epsilon_proved": release.bounds.upper,
                "delta": run.config.delta,
                "queries": release.sizes.queries,
                "knob": release.calibration.knob,
            }
            for name, release in run.releases.items()
        }
    }
