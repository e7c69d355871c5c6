"""A released instruction takes the place of the task's own wherever a prompt is made, and is released text."""

import math
from dataclasses import dataclass
from typing import Any

import pytest

from dpicl.attacks.pii import Pii
from dpicl.attacks.targets import Target
from dpicl.conformance.bench import Run, set_up
from dpicl.core.cell import ReleaseConfig
from dpicl.core.errors import PluginError
from dpicl.core.plugins import Registered
from dpicl.core.vocabulary import Demonstration, Query, ReleasedPrompt
from dpicl.evaluation.lm_eval_bridge import evaluate
from dpicl.mechanism.outputs import check_prompt
from dpicl.releasing.release import release
from dpicl.results.schema import from_text, to_text
from dpicl.run.pipeline import run_cell
from dpicl.run.workbench import Workbench
from tests.harness.mechanism.test_outputs import OneDraw
from tests.harness.run.test_pipeline import SUITE, make_cell

OWN = "Sort the {{ news }} well.\n\n"


@dataclass(frozen=True)
class Instructs(OneDraw):
    """Releases an instruction, and the demonstrations of the plan where `shown`."""

    name = "instructs"
    shown: bool = False

    def release(self, private, context):
        demonstrations = super().release(private, context)
        return ReleasedPrompt(OWN, demonstrations if self.shown else ())


CONFIG = ReleaseConfig(epsilon=1.0, delta=1e-5, shots=2)


@pytest.mark.parametrize("shown", [False, True])
def test_the_instruction_is_read_in_place_of_the_tasks_own(agnews, sim, shown):
    outcome = release(Instructs(shown=shown), agnews, sim, CONFIG)
    assert outcome.prompt.instruction == OWN and len(outcome.demonstrations) == 2 * shown
    prefix = agnews.icl_prefix(outcome.demonstrations, outcome.prompt.instruction)
    assert prefix == OWN + agnews.icl_prefix(outcome.demonstrations).removeprefix(
        agnews.config.description
    )
    scored = evaluate(agnews, sim, outcome.demonstrations, instruction=outcome.prompt.instruction)
    assert (
        scored.scores["log_loss"]
        != evaluate(agnews, sim, outcome.demonstrations).scores["log_loss"]
    )


def test_attackers_ask_after_the_released_instruction(agnews, sim, monkeypatch):
    target = Target(Instructs(), agnews, sim, CONFIG)
    calls, score = list[Any](), type(sim).score

    def note_score(*words):
        calls.extend(words[1])
        return score(*words)

    monkeypatch.setattr(type(sim), "score", note_score)
    target.answers(
        lambda task: task,
        [
            Query("0", "one"),
            Query("1", "two"),
        ],
    )
    assert [tokens for tokens, _ in calls] == [
        sim.encode(OWN + agnews.query(text)) for text in ("one", "two")
    ]
    assert target.prompt().shown == [] and len(target.releases) == 1


def test_a_result_holds_it_and_counts_it_as_released(own_cache):
    bench = Workbench({"instructs": Registered(Instructs, "a test", None)})
    result = run_cell(make_cell("instructs", bench.mechanisms), SUITE, bench)
    assert result.instruction == OWN
    assert result.released == []
    assert result.released_count == 1
    assert result.texts == [OWN]
    again = from_text(to_text(result))
    assert again == result
    hidden = run_cell(make_cell("instructs", bench.mechanisms, epsilon=math.inf), SUITE, bench)
    assert hidden.instruction is None and hidden.released_count == 1
    assert '"instruction"' not in to_text(hidden)


def test_what_is_no_prompt_is_refused(sim):
    one = Demonstration("a text", "World")
    for prompt in (
        ReleasedPrompt(3),
        ReleasedPrompt(OWN, "text"),
        ReleasedPrompt(OWN, [OWN]),  # type: ignore[list-item]
        ReleasedPrompt(OWN, [one]),
        ReleasedPrompt(None),
        OWN,
    ):
        with pytest.raises(PluginError):
            check_prompt(Instructs(), prompt, ("World", "Sports"), sim)
    assert check_prompt(Instructs(), ReleasedPrompt("\ud800"), ("World",), sim).instruction == "?"
    assert (
        check_prompt(Instructs(), ReleasedPrompt(OWN, [one]), ("World",), sim)
        .demonstrations[0]
        .tokens
        > 0
    )


def test_the_conformance_kit_compares_instructions():
    bench = set_up(Instructs, "agnews", {}, 0)
    first = bench.run()
    second = bench.run(Run(noise=1))
    assert first.refused is None and first.error is None
    assert first.released == second.released
    assert [item[1] for item in first.released] == [OWN]


def test_personal_data_is_looked_for_in_the_instruction(agnews, sim):
    texts = Pii()._write(Target(Instructs(), agnews, sim, CONFIG))
    assert texts[0] == OWN and len(texts) == 4
