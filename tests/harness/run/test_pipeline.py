"""One cell: what it costs, what it writes, what it refuses to write."""

import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from dp_accounting import dp_event as dp

from dpicl.accounting import accountants
from dpicl.accounting.events import from_json
from dpicl.core.cell import Cell
from dpicl.core.errors import BudgetExceeded, PluginError
from dpicl.core.vocabulary import ReleasedPrompt
from dpicl.evaluation.lm_eval_bridge import Evaluation
from dpicl.mechanism.bases import Context, Demonstration, DemonstrationMechanism, Knob, Sizes
from dpicl.mechanism.options import resolve_options
from dpicl.mechanism.registry import Registered, load_mechanisms
from dpicl.privacy.private_set import PrivateSet
from dpicl.results.schema import SuiteReference, to_text
from dpicl.run.pipeline import run_cell
from dpicl.run.workbench import LoadedCell, Skipped, Workbench

SUITE = SuiteReference(name="small", version=1, hash="0" * 64)
MECHANISMS = load_mechanisms()
SMALL = {
    "tang": {"slots": 4, "examples_per_slot": 1, "tokens": 3, "top_k": 10},
    "pta": {"slots": 4, "examples_per_slot": 1, "tokens": 3},
    "prism": {"prompts": 8, "tokens": 3},
}


class Bench(Workbench):
    """A workbench whose evaluation is two documents, the first right, and remembers what it was shown."""

    shown: tuple[Sequence[Demonstration], ...] = ()

    def evaluate(
        self, loaded: LoadedCell, prompt: ReleasedPrompt, answers: Any, phase: Any = None
    ) -> Evaluation:
        self.shown += (prompt.demonstrations,)
        with phase("evaluate"):
            return Evaluation(
                ["d0", "d1"],
                {
                    "acc": [1.0, 0.0],
                    "acc_logistic": [0.0, 0.0],
                },
            )


def make_cell(
    mechanism: str = "tang", mechanisms: dict[str, Registered] = MECHANISMS, **changes: Any
) -> Cell:
    task = changes.get("task", "agnews")
    settings: dict[str, Any] = {
        "suite": "small", "suite_version": 1, "task": task, "task_version": 1, "source": "synthetic",
        "mechanism": mechanism, "label": mechanism, "model": "sim", "epsilon": 2.0, "delta": 1e-5, "seed": 0,
        "shots": 3, "test_records": 10, "train_records": 60, "noise": "seeded", "mode": "proved",
        "options": resolve_options(mechanisms[mechanism].cls, task, SMALL.get(mechanism, {})),
    }  # fmt: skip
    fixed = {"zero_shot": 0.0, "real_demonstrations": math.inf}
    return Cell(
        **{
            **settings,
            **({"epsilon": fixed[mechanism]} if mechanism in fixed else {}),
            **changes,
        }
    )


@pytest.fixture
def bench(own_cache) -> Bench:
    return Bench(MECHANISMS)


def test_every_seed_draws_private_records_for_all_mechanisms(bench):
    whole = bench.task(make_cell())
    cells = [
        make_cell(name, seed=seed, private_share=0.5) for seed in (0, 1) for name in ("tang", "pta")
    ]
    drawn = [bench.task(cell) for cell in cells]
    assert drawn[0] is drawn[1] and drawn[2] is drawn[3]
    assert set(drawn[0].train) < set(whole.train)
    assert set(drawn[0].train) != set(drawn[2].train)
    assert {task.fingerprint for task in drawn} == {whole.fingerprint}
    assert [dict(task.group_sizes) for task in drawn] == [dict.fromkeys(whole.labels, 30)] * 4
    results = [run_cell(cell, SUITE, bench) for cell in cells[1:3]]
    assert {tuple(r.manifest.data.sizes.values()) for r in results} == {(30,) * 4}
    assert results[0].privacy.epsilon_proved <= 2


@pytest.mark.parametrize("mechanism", ["tang", "pta", "prism"])
def test_a_private_cell_has_a_proved_epsilon_within_its_target(bench, mechanism):
    result = run_cell(make_cell(mechanism), SUITE, bench)
    privacy = result.privacy
    assert 0.9 * 2 < privacy.epsilon_proved <= 2
    assert accountants.epsilon(from_json(privacy.event), 1e-5).upper == privacy.epsilon_proved
    assert privacy.knob is not None
    assert privacy.knob.value > 0
    assert privacy.queries is None
    assert len(result.released) == result.released_count == 3
    assert {d.label for d in result.released} <= {"World", "Sports", "Business", "Technology"}
    assert result.scores["acc"].value == 0.5
    assert result.documents["acc"].ids == ["d0", "d1"]
    assert set(result.cost.seconds) == {"load", "calibrate", "release", "account", "evaluate"}
    assert result.cost.tokens_read > 0
    assert result.manifest.data.sizes == dict.fromkeys(
        ["Business", "Sports", "Technology", "World"], 60
    )


@pytest.mark.parametrize("mechanism", ["real_demonstrations", "tang"])
def test_without_noise_no_text_is_in_the_result(bench, mechanism):
    cell = make_cell(mechanism, epsilon=math.inf)
    result = run_cell(cell, SUITE, bench)
    assert math.isinf(result.privacy.epsilon_proved)
    assert result.privacy.knob is None or result.privacy.knob.value == 0
    assert result.released == []
    assert result.released_count == 3
    text = to_text(result)
    assert platform.node() not in text or len(platform.node()) < 4
    task = bench.task(cell)
    assert all(record.text not in text for record in task.train)
    assert all(record.text not in text for record in task.test)
    assert len(bench.shown[0]) == 3


@dataclass(frozen=True)
class Greedy(DemonstrationMechanism):
    """Does more than its `events` declare, in one way or the other."""

    name = "greedy"
    knob: ClassVar[Knob | None] = Knob("noise_multiplier", low=0.1, high=1000.0, non_private=0.0)
    way: str = "reveal"

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return dp.GaussianDpEvent(knob)

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        if self.way == "reveal":
            private.reveal()
        else:
            private.poisson_slots(10, 2, partition="World", releases=dp.GaussianDpEvent(0.01))
        return [Demonstration("text", label, 1) for label in context.shots]


@dataclass(frozen=True)
class Picky(Greedy):
    """Cannot do classification."""

    name = "picky"

    def skip(self, task: Any) -> str | None:
        return "it needs a task with summaries"


MINE = {**MECHANISMS, "greedy": Registered(Greedy, "test"), "picky": Registered(Picky, "test")}


@pytest.mark.parametrize("way", ["reveal", "sample"])
def test_a_mechanism_that_takes_too_much_gives_no_result(own_cache, way):
    bench = Bench(MINE)
    with pytest.raises(BudgetExceeded):
        run_cell(make_cell("greedy", MINE, options={"way": way}), SUITE, bench)
    assert bench.shown == ()


def test_a_mechanism_says_why_it_skips_before_a_model_is_loaded(own_cache):
    with pytest.raises(Skipped, match="summaries"):
        run_cell(make_cell("picky", MINE, model="no such model"), SUITE, Bench(MINE))


def test_a_knobless_mechanism_must_cost_zero_or_infinity():
    from dpicl.mechanism.options import fixed_epsilon

    class Odd(Greedy):
        name = "odd"
        knob = None

        def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
            return dp.GaussianDpEvent(1.0)

    with pytest.raises(PluginError, match="no knob"):
        fixed_epsilon(Odd())


def test_the_workbench_loads_a_task_and_a_model_once(own_cache):
    bench = Workbench(MECHANISMS, keep_tasks=2)
    cells = [make_cell(task="agnews", test_records=n) for n in (5, 6, 7)]
    assert bench.task(cells[0]) is bench.task(
        cells[0].model_copy(update={"seed": 9, "epsilon": 1.0})
    )
    first = bench.task(cells[0])
    for cell in cells[1:]:
        bench.task(cell)
    assert bench.task(cells[0]) is not first  # two are kept
    assert bench.model("sim") is bench.model("sim")
