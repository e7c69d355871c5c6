"""No row changes a bit of another: whatever the others hold, how many they are, and how the passes are filled."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpicl import models
from dpicl.core.errors import PromptTooLong
from dpicl.core.together import run_together
from dpicl.models import pass_shapes
from dpicl.models.base import Prefix
from dpicl.models.pieces import PIECE
from dpicl.models.reading import SHAPES
from dpicl.models.transformers import TransformersLM
from tests.examples import examples
from tests.harness.models.tiny import save_tiny_llama, set_passes

TEXTS = [
    "",
    '"',
    '"Quoted first',
    "A new chip makes computers faster.",
    "é 漢字 🙂 ü",
    "\n\n \t",
    "Answer:",
    "Sports " * 20,
]
ENDINGS = ["Sports", " Business", '"', "é", " World World World"]
#: What ONEDNN_MAX_CPU_ISA may be -> a set of instructions that the processor must have for it.
ISAS = {
    "AVX2": "avx2",
    "AVX512_CORE": "avx512_f",
    "AVX512_CORE_BF16": "avx512_bf16",
    "AVX512_CORE_AMX": "amx_tile",
}
#: Tokens of a row that spans pieces.
LONG = PIECE + 44


@pytest.fixture(scope="module")
def lm(tmp_path_factory, session_cache):
    """A tiny Llama that reads rows of several pieces."""
    folder = save_tiny_llama(tmp_path_factory.mktemp("long-llama"), max_length=1024)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPICL_CACHE", str(session_cache))
        model = models.load(f"hf:{folder}", device="cpu", dtype="float32")
    assert isinstance(model, TransformersLM)
    if not model.identity.batch_invariant:
        pytest.skip("this machine rounds rows differently beside others")
    model.eos_token_id = -1
    return model


def long_row(seed: int, length: int = LONG) -> list[int]:
    return np.random.default_rng(seed).integers(4, 300, size=length).tolist()


def first_tokens(
    model: TransformersLM, rows: Sequence[list[int]], seeds: Sequence[int], prefix: Prefix | None
) -> Any:
    return list(model.next_token_log_probs(rows, prefix))


def later_tokens(
    model: TransformersLM, rows: Sequence[list[int]], seeds: Sequence[int], prefix: Prefix | None
) -> Any:
    decoder, steps = model.decoder(rows, prefix), []
    for token in (9, 200, 31):
        decoder.append(token)
        steps.append(decoder.log_probs)
    return [torch.stack([step[row] for step in steps]) for row in range(len(rows))]


def scores(
    model: TransformersLM, rows: Sequence[list[int]], seeds: Sequence[int], prefix: Prefix | None
) -> Any:
    endings = [model.encode(ending) for ending in ENDINGS]
    asked = [
        (row, endings[: 1 + seed % len(endings)]) for row, seed in zip(rows, seeds, strict=True)
    ]
    scored = model.score_endings(asked, prefix)
    assert model.score(asked, prefix) == [[each.log_prob for each in row] for row in scored]
    return scored


def greedy(
    model: TransformersLM, rows: Sequence[list[int]], seeds: Sequence[int], prefix: Prefix | None
) -> Any:
    return model.generate(rows, 6, ["zz"], prefix)


def sample(
    model: TransformersLM, rows: Sequence[list[int]], seeds: Sequence[int], prefix: Prefix | None
) -> Any:
    return model.generate(rows, 6, (), prefix, temperature=1.0, seeds=seeds)


WAYS = [first_tokens, later_tokens, scores, greedy, sample]


def is_same(one: Any, other: Any) -> bool:
    """To the last bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return bool(one == other)


def assert_alone(
    way: Callable[..., Any], model: TransformersLM, rows: Sequence[list[int]], prefix: Prefix | None
) -> None:
    """Each of the rows, asked among the others, is what it is alone."""
    seeds = [17 + row for row in range(len(rows))]
    among = way(model, rows, seeds, prefix)
    for row, seed, value in zip(rows, seeds, among, strict=True):
        (alone,) = way(model, [row], [seed], prefix)
        assert is_same(alone, value), (
            f"a row of {len(row)} tokens among {[len(other) for other in rows]}"
        )


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("prefixed", [False, True])
@settings(
    max_examples=examples(8),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_other_rows_change_no_bit(lm, way, prefixed, data):
    """The row that is watched keeps its bits when others are replaced, added, removed and change places."""
    begin = long_row(99, data.draw(st.sampled_from([0, 1, 30, PIECE + 3]))) if prefixed else []
    prefix = lm.prefix(begin) if prefixed else None
    texts = st.one_of(
        st.sampled_from(TEXTS).map(lm.encode),
        st.text(max_size=30).map(lm.encode),
        st.sampled_from([PIECE, PIECE + 1, LONG, 2 * PIECE]).map(partial(long_row, 3)),
        st.integers(1, 40).map(partial(long_row, 7)),
    )
    rows = st.lists(texts.map(lambda own: [*begin, *own]), max_size=5)
    watched, seed = [*begin, *data.draw(texts)], data.draw(st.integers(0, 10**6))
    (expected,) = way(lm, [watched], [seed], prefix)
    model = set_passes(
        lm, data.draw(st.sampled_from(SHAPES)), data.draw(st.sampled_from([1, 10**5, 10**9]))
    )
    model.eos_token_id = -1
    for _ in range(2):
        before, after = data.draw(rows), data.draw(rows)
        together_ = [*before, watched, *after]
        seeds = [seed if row == len(before) else row for row in range(len(together_))]
        assert is_same(way(model, together_, seeds, prefix)[len(before)], expected)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("memory", [1, 40_000, None])
def test_jobs_read_what_each_would_read_alone(lm, way, memory):
    """Among others that come, go and fail; with little memory, rows wait until others have been read."""
    model = set_passes(lm, 256, memory)
    model.eos_token_id = -1
    groups = [
        [long_row(10 * group + row, 1 + 97 * row) for row in range(group % 4)] for group in range(8)
    ]
    groups.append([long_row(1, 700), []])

    def job(number: int) -> Any:
        rows = groups[number]
        prefix = model.prefix(rows[-1][:50]) if number % 2 and rows else None
        with pytest.raises(PromptTooLong, match="does not fit") if number == 4 else nullcontext():
            model.next_token_log_probs([[5] * (1100 if number == 4 else 1)])
        return way(model, rows, range(len(rows)), prefix)

    found = run_together([partial(job, number) for number in range(len(groups))])
    for number, value in enumerate(found):
        for one, other in zip(value, job(number), strict=True):
            assert is_same(one, other)
    assert not model._passes.pending


class Failing:
    """The forward of a model that raises an error in some of its passes."""

    def __init__(self, model: TransformersLM, error: Exception, passes: set[int]) -> None:
        self.passes, self.error, self.count = passes, error, 0
        self._forward = model._passes._forward
        model._passes._forward = self

    def __call__(self, *arguments: torch.Tensor) -> torch.Tensor:
        self.count += 1
        if self.count in self.passes:
            self._forward(*arguments)  # what was placed in the keys and values by then stays there
            raise self.error
        return self._forward(*arguments)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("at", "error"),
    [
        ({1}, torch.OutOfMemoryError("CUDA out of memory")),
        ({1, 2}, MemoryError()),
        ({2, 3}, RuntimeError("DefaultCPUAllocator: can't allocate memory")),
    ],
    ids=["device", "python", "cpu"],
)
def test_a_pass_that_runs_out_of_memory_is_read_again_in_halves(lm, way, at, error):
    rows = [long_row(seed, length) for seed, length in enumerate((3, LONG, 40, 1, 600, 200, 17))]
    expected = way(lm, rows, range(7), None)
    model = set_passes(lm, 1024, 10**8)
    model.eos_token_id = -1
    failing = Failing(model, error, at)
    calls = [partial(way, model, [row], [number], None) for number, row in enumerate(rows)]
    for (one,), other in zip(run_together(calls), expected, strict=True):
        assert is_same(one, other)
    failed = len([number for number in at if number <= failing.count])
    assert failed
    assert model._passes.most == 1024 // 2**failed
    assert model.memory.limit == 10**8 // 2**failed
    assert not model._passes.pending


def test_a_machine_with_no_memory_is_an_error(
    lm,
):
    model = set_passes(lm, 1024)
    failing = Failing(model, MemoryError(), set(range(1, 100)))
    with pytest.raises(MemoryError):
        model.next_token_log_probs([[5, 6]])
    assert model._passes.most == PIECE
    failing.passes = set()
    assert is_same(model.next_token_log_probs([[5, 6]]), lm.next_token_log_probs([[5, 6]]))


def test_an_error_of_a_pass_fails_who_was_in_it(lm):
    model = set_passes(lm, 256)
    Failing(model, ValueError("broken pass"), {2})

    def job(seed: int) -> str:
        try:
            model.next_token_log_probs([long_row(seed, 200)])
        except ValueError as error:
            return str(error)
        return "read"

    assert run_together([partial(job, seed) for seed in range(4)]) == [
        "read",
        "broken pass",
        "read",
        "read",
    ]


def test_rows_wait_for_memory_and_it_is_given_back(lm):
    """Each row of 300 tokens keeps keys and values while it is read; there is room for those of two."""
    token = lm.memory.token
    model = set_passes(lm, 256, memory=700 * token)
    most = 0

    def watch(*arguments: torch.Tensor) -> torch.Tensor:
        nonlocal most
        most = max(most, model.memory.held)
        return forward(*arguments)

    forward, model._passes._forward = model._passes._forward, watch
    rows = [long_row(seed) for seed in range(8)]
    found = run_together([partial(model.next_token_log_probs, [row]) for row in rows])
    assert is_same(torch.cat(found), lm.next_token_log_probs(rows))
    assert 300 * token <= most <= 700 * token
    assert model.memory.held == 0


def test_a_job_that_was_ended_is_read_no_further(lm):
    model = set_passes(lm, 256)

    def fail() -> None:
        model.next_token_log_probs([[5]])
        raise KeyboardInterrupt

    rows = [long_row(seed, 200) for seed in range(5)]
    with pytest.raises(KeyboardInterrupt):
        run_together([fail, *(partial(model.next_token_log_probs, [row]) for row in rows)])
    read = model.usage.tokens_read
    assert read < 1000
    assert not model._passes.pending
    model.next_token_log_probs([[6, 7]])
    assert model.usage.tokens_read == read + 2


def load_embedded(name: str, dtype: str) -> TransformersLM:
    model = models.load(name, device="cpu", dtype=dtype)
    assert isinstance(model, TransformersLM)
    if not model.identity.batch_invariant:
        assert pass_shapes.choose(model.model) is None
        pytest.skip(
            "on this machine the bits of a line depend on its place, whatever the size of a pass"
        )
    model.eos_token_id = -1
    return model


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("prefixed", [False, True])
@pytest.mark.parametrize(
    ("name", "dtype"), [("embedded", "bfloat16"), ("embedded-float32", "float32")]
)
def test_rows_of_the_embedded_model_are_read_alone(name, dtype, way, prefixed):
    """As it was measured, all texts are."""
    model = load_embedded(name, dtype)
    begin = model.encode("Classify the news articles.\n\n") if prefixed else []
    rows = [[*begin, *model.encode(text)] for text in TEXTS]
    rows += [[*begin, *long_row(1)], [*begin, *long_row(2, 40)]]
    prefix = model.prefix(begin) if prefixed else None
    assert_alone(way, model, rows, prefix)
    assert_alone(way, set_passes(model, 256), rows[::-1], prefix)


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize(
    "isa", [isa for isa, needed in ISAS.items() if torch.cpu.get_capabilities().get(needed)]
)
def test_rows_are_read_alone_by_the_kernels_of_other_processors(isa, threads):
    """A test of this file in a process where oneDNN uses no other instructions; nothing may be skipped there."""
    chosen = "embedded_model_are_read_alone and first_tokens"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-m",
        "model",
        "-k",
        chosen,
        "-p",
        "no:cacheprovider",
        __file__,
    ]
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": isa, "OMP_NUM_THREADS": threads}
    made = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert made.returncode == 0 and "skipped" not in made.stdout, made.stdout[-4000:]
