"""`vllm:PATH`: what is requested of vLLM, and what is made of its answers; test_vllm.py has the real one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dpicl import models
from dpicl.core.errors import ModelError, PromptTooLong, UsageError
from dpicl.core.together import run_together
from dpicl.models import vllm_engine
from dpicl.models.base import NOT_FINITE, BrokenText, Usage
from dpicl.models.tokenizers import load_tokenizer
from dpicl.models.transformers import TransformersLM
from dpicl.models.vllm_engine import Engine, VllmLM, are_rows_alone
from tests.harness.models.tiny import assert_reads_alike


class Flat(SimpleNamespace):
    """vLLM's FlatLogprobs. places: of how many tokens they are."""

    token_ids: list[int]
    logprobs: list[float]
    places: int = 1

    def __len__(self) -> int:
        return self.places


class ScriptedLLM:
    """Answers as vLLM's `LLM` does, with the numbers of a model of this process.

    calls: the prompts and parameters of each `generate`. alter: changes each answer. drift: what a row's numbers are
    moved by for each prompt before it in its call. tail: what it then writes besides.
    """

    def __init__(self, model: TransformersLM) -> None:
        self.model, self.calls = model, list[tuple[list[Any], list[Any]]]()
        self.alter: Callable[[list[int], Any], None] = lambda prompt, output: None
        self.drift, self.tail = 0.0, ""

    def generate(self, prompts: list[Any], parameters: list[Any], use_tqdm: bool) -> list[Any]:
        assert use_tqdm is False
        self.calls.append((prompts, parameters))
        outputs = []
        for at, (prompt, want) in enumerate(zip(prompts, parameters, strict=True)):
            output = self._answer(prompt["prompt_token_ids"], want, self.drift * at)
            self.alter(prompt["prompt_token_ids"], output)
            outputs.append(output)
        return outputs

    def _answer(self, prompt: list[int], want: Any, drift: float) -> Any:
        if want.max_tokens > 1:
            text = self.model.generate([prompt], want.max_tokens, want.stop)[0] + self.tail * (
                drift > 0
            )
            flat = Flat(token_ids=[1], logprobs=[-0.5], places=want.max_tokens)
        else:
            row = self.model.next_token_log_probs([prompt])[0] - drift
            listed = getattr(want, "logprob_token_ids", None)
            count = (
                len(row)
                if getattr(want, "logprobs", None) == -1
                else getattr(want, "logprobs", None)
            )
            tokens = [
                int(row.argmax()),
                *(row.argsort(descending=True).tolist()[:count] if listed is None else listed),
            ]
            text, flat = "", Flat(token_ids=tokens, logprobs=row[tokens].tolist())
        completion = SimpleNamespace(text=text, logprobs=flat)
        return SimpleNamespace(prompt_token_ids=prompt, outputs=[completion])


@pytest.fixture
def llm(tiny):
    return ScriptedLLM(tiny)


@pytest.fixture
def model(llm, tiny, tiny_folder):
    usage = Usage()
    engine = Engine(llm, SimpleNamespace, tiny.vocab_size, usage)
    return VllmLM(engine, usage, load_tokenizer(str(tiny_folder)), tiny.identity, tiny.max_length)


def test_it_reads_as_the_same_model_does(model, tiny):
    prompts = [tiny.encode(text) or [5] for text in ("Article: A new", "Answer", "the team won")]
    assert_reads_alike(model, tiny, prompts)
    best = int(tiny.next_token_log_probs(prompts)[0].argmax())
    ((first, other),) = model.score_endings([(prompts[0], [[best], [best - 1]])])
    assert first.greedy and not other.greedy
    with pytest.raises(PromptTooLong):
        model.next_token_log_probs([[5] * tiny.max_length])


def test_rows_of_all_jobs_are_one_call_and_private_sets_salted(model, llm):
    def list_alone(prompt: list[int]) -> torch.Tensor:
        with model.isolated_cache():
            return model.listed_log_probs([prompt], [5, 6])

    jobs: list[Callable[[], object]] = [partial(list_alone, [5, at]) for at in range(6)]
    jobs += [partial(model.likeliest_log_probs, [[6, at]], 3) for at in range(6)]
    jobs += [partial(model.generate, [[7, at]], 4) for at in range(6)]
    run_together(jobs)
    kinds = [{tuple(sorted(vars(each))) for each in parameters} for _, parameters in llm.calls]
    assert [len(prompts) for prompts, _ in llm.calls] == [6, 6, 6] and all(
        len(kind) == 1 for kind in kinds
    )
    salts = [{prompt["cache_salt"] for prompt in prompts} for prompts, _ in llm.calls]
    assert (
        len(salts[0]) == 6
        and salts[1] == salts[2] == {model.public_salt}
        and model.public_salt not in salts[0]
    )


def test_whole_vocabularies_are_read_in_portions(model, llm, monkeypatch):
    monkeypatch.setattr(vllm_engine, "MOST_NUMBERS", 2 * model.vocab_size)
    model.next_token_log_probs([[5, at] for at in range(5)])
    assert [len(prompts) for prompts, _ in llm.calls] == [2, 2, 1]


def _first(output: Any) -> Flat:
    flat: Flat = output.outputs[0].logprobs
    return flat


UNSOUND: dict[str, Callable[[Any], Any]] = {
    "fewer tokens": lambda output: (_first(output).token_ids.pop(), _first(output).logprobs.pop()),
    "not a number": lambda output: _first(output).logprobs.__setitem__(-1, math.nan),
    "above 0": lambda output: _first(output).logprobs.__setitem__(-1, 0.7),
    "another id": lambda output: _first(output).token_ids.__setitem__(-1, 9),
    "two places": lambda output: setattr(_first(output), "places", 2),
    "another prompt": lambda output: output.prompt_token_ids.append(3) or None,
    "two texts": lambda output: output.outputs.append(output.outputs[0]),
}


@pytest.mark.parametrize("what", UNSOUND)
def test_an_unsound_answer_is_none_and_for_public_prompts_fatal(what, model, llm):
    bad = [5, 7]

    def spoil(prompt: list[int], output: Any) -> None:
        if prompt[-2:] == bad:
            output.prompt_token_ids = list(prompt)
            UNSOUND[what](output)

    expected, llm.alter = model.listed_log_probs([[5, 6]], [7, 8]), spoil
    rows = model.listed_log_probs([[5, 6], bad], [7, 8])
    assert torch.equal(rows[:1], expected) and rows[1].isnan().all()
    assert sum(model.usage.failures.values()) == 1
    bad = model.encode(vllm_engine.PUBLIC)[-2:]
    with pytest.raises(ModelError, match="no sound answer to a public prompt"):
        model.listed_log_probs([bad], [7, 8])


def test_a_text_of_numbers_that_are_not_finite_is_broken(model, llm):
    def spoil(prompt: list[int], output: Any) -> None:
        if prompt[-1] == 7:
            _first(output).logprobs = [math.nan]

    llm.alter = spoil
    good, bad = model.generate([[5, 6], [5, 7]], 4, broken="empty")
    assert not isinstance(good, BrokenText) and isinstance(bad, BrokenText)
    assert model.usage.failures == {NOT_FINITE: 1}
    with pytest.raises(ModelError, match="not finite"):
        model.generate([[5, 7]], 4)


def test_a_failure_of_the_engine_shows_nothing_that_was_read(model, monkeypatch):
    def fail(*words: object, **more: object) -> None:
        raise ValueError("the private text 123")

    monkeypatch.setattr(ScriptedLLM, "generate", fail)
    with pytest.raises(
        ModelError, match=r"vLLM failed while it read prompts \(ValueError\)"
    ) as caught:
        model.listed_log_probs([[5, 6]], [7])
    assert "123" not in str(caught.value) and caught.value.__cause__ is None


def test_rows_count_as_alone_only_where_no_neighbour_moves_a_bit(model, llm):
    assert are_rows_alone(model, 64)
    assert (
        max(sum(len(prompt["prompt_token_ids"]) for prompt in prompts) for prompts, _ in llm.calls)
        >= 128
    )
    llm.drift = 1e-6
    assert not are_rows_alone(model, 64)
    llm.drift, llm.tail = 1e-30, "!"  # no number moves
    assert not are_rows_alone(model, 64)


def test_names_hold_what_changes_numbers_and_pins_the_folder(
    tiny_folder,
):
    name = f"vllm:{tiny_folder}"
    assert models.identify(name) == models.identify(f"hf:{tiny_folder}") is not None
    assert models.identify(f"{name}?context=64&tensor_parallel_size=2") == models.identify(name)
    assert models.name_in_results(f"{name}?tensor_parallel_size=2") == name
    assert (
        models.name_in_results(f"{name}?tensor_parallel_size=2&context=64") == f"{name}?context=64"
    )


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("tensor_parallel_size=0", "tensor_parallel_size of vLLM"), ("gpus=2", "setting of vLLM"),
        ("context=many", "context of vLLM"), ("context=9&context=9", "once"), ("context", "key=value"),
    ],
)  # fmt: skip
def test_senseless_settings_are_refused_before_loading(query, words):
    with pytest.raises(UsageError, match=words):
        models.require_sound(f"vllm:somewhere?{query}")


def test_without_vllm_one_sentence_says_what_to_install(monkeypatch, tiny_folder):
    monkeypatch.setattr("dpicl.core.extras.find_spec", lambda package: None)
    calls: Sequence[Callable[[str], object]] = (models.load, models.require_there)
    for call in calls:
        with pytest.raises(
            UsageError, match=r"^vllm is not installed; run `pip install 'dpicl-bench\[vllm\]'`\.$"
        ):
            call(f"vllm:{tiny_folder}")


def test_a_single_gpu_is_not_chosen_by_device(tiny_folder):
    with pytest.raises(UsageError, match="CUDA_VISIBLE_DEVICES"):
        vllm_engine.load_vllm(str(tiny_folder), "cuda:1", None)
