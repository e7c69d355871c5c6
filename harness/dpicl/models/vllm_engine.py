"""``vllm:PATH_OR_ID[@REVISION]``: a causal model that vLLM reads in this process.

The rows of all jobs that wait are one `generate` of token ids. vLLM's sampler V1 loses tokens where requests for the
likeliest tokens and for listed ones share a batch, so one call has one kind of them. Its prefix cache is salted by
private set. An answer that is not what was requested, or not a number, is no answer: the slot abstains, and the run
ends where a public prompt gets none either.

Rows are batch-invariant where vLLM has that mode for the device (``VLLM_BATCH_INVARIANT``) and `are_rows_alone` finds
it so; else they are "proved up to rounding".
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

import numpy as np
import torch
from safetensors import safe_open

from dpicl.core.errors import ModelError, UsageError
from dpicl.core.extras import require_extras
from dpicl.core.together import Service, ServiceRequest, wait_for
from dpicl.models.base import NOT_FINITE, ModelIdentity, Usage, not_finite_error
from dpicl.models.hub import (
    find_commit,
    find_snapshot,
    identify_folder,
    require_there,
    split_reference,
)
from dpicl.models.huggingface import check_folder
from dpicl.models.listing import Listing, ListingModel, LogProbs, Unsound, Wanted, Writing
from dpicl.models.pieces import memory_limit
from dpicl.models.readers import WATCHED, digest, draw_row, draw_watched, read_each_alone
from dpicl.models.tokenizers import Tokenizer, load_tokenizer
from dpicl.models.vllm_settings import EngineSettings, settings_of
from dpicl.models.weights import dtype_name, preferred_dtype, reason

#: What the environment says when vLLM is imported. Nothing is sent to its makers, stdout is for answers, and the engine
#: is in this process.
FORCED = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}
#: The same where the user has not set it. vLLM would bind the threads of this process to cores.
PREFERRED = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
INVARIANT = "VLLM_BATCH_INVARIANT"
#: The lowest compute capability of a CUDA device for which vLLM has batch-invariant kernels.
CAPABILITY = (8, 0)
#: How many ids a request may list.
MOST_LISTED = 128
#: Log-probabilities of one call, at most: vLLM makes a Python object of each.
MOST_NUMBERS = 2**20
#: A public prompt, to which there must be an answer.
PUBLIC = "The capital of France is"
#: Tokens of the texts that are compared where rows are read alone and together.
WRITTEN = 8


@dataclass(eq=False)
class PromptsRequest(ServiceRequest):
    """Prompts of one salt that a caller waits for, each with what is wanted of it.

    answers: LogProbs or a text for each, or Unsound. left: how many are not read yet.
    """

    prompts: Sequence[list[int]] = ()
    requests: Sequence[Wanted] = ()
    salt: str = ""
    answers: list[Any] = field(default_factory=list)
    left: int = 0


class Engine(Service):
    """Reads the prompts of all that wait, those of one kind of request in one call.

    llm: vLLM's `LLM`. sampling: its class `SamplingParams`. vocab_size: of the model's output layer.
    """

    def __init__(self, llm: Any, sampling: Any, vocab_size: int, usage: Usage) -> None:
        self.llm, self._sampling, self.vocab_size, self._usage = llm, sampling, vocab_size, usage
        self._waiting: list[tuple[PromptsRequest, int]] = []

    @property
    def pending(self) -> bool:
        self._waiting = [row for row in self._waiting if not row[0].done]
        return bool(self._waiting)

    def submit(self, request: PromptsRequest) -> None:
        count = len(request.prompts)
        request.answers, request.left, request.done = [None] * count, count, count == 0
        self._waiting += [(request, at) for at in range(count)]

    def serve(self) -> None:
        if not self.pending:
            return
        rows = self._take_kind()
        prompts = [
            {"prompt_token_ids": request.prompts[at], "cache_salt": request.salt}
            for request, at in rows
        ]
        parameters = [self._parameters(request.requests[at]) for request, at in rows]
        try:
            outputs = self.llm.generate(prompts, parameters, use_tqdm=False)
        except Exception as error:  # its message may hold what was read
            failure = ModelError(
                f"vLLM failed while it read prompts ({type(error).__name__}); see what it logs."
            )
            for request, _ in rows:
                request.error, request.done = failure, True
            return
        self._usage.forward_calls += 1
        for (request, at), output in zip(rows, outputs, strict=True):
            self._usage.tokens_read += len(request.prompts[at])
            request.answers[at] = self._read(
                request.requests[at],
                len(request.prompts[at]),
                output,
            )
            request.left -= 1
            request.done = request.left == 0

    def _take_kind(self) -> list[tuple[PromptsRequest, int]]:
        """The first that waits and all others of its kind, as many as one call may have."""
        chosen = list[tuple[PromptsRequest, int]]()
        rest = list[tuple[PromptsRequest, int]]()
        numbers = 0
        for request, at in self._waiting:
            want = request.requests[at]
            kind = (type(want), isinstance(want, Listing) and bool(want.listed))
            count = self._count_numbers(want)
            if not chosen:
                first = kind
            if not chosen or (kind == first and numbers + count <= MOST_NUMBERS):
                chosen.append((request, at))
                numbers += count
            else:
                rest.append((request, at))
        self._waiting = rest
        return chosen

    def _count_numbers(self, want: Wanted) -> int:
        if isinstance(want, Writing):
            return want.max_tokens
        return len(want.listed) or (self.vocab_size if want.top < 0 else want.top)

    def _parameters(self, want: Wanted) -> Any:
        """vLLM's `SamplingParams`. Texts come with the log-probability of each token, which shows numbers that are not
        finite."""
        if isinstance(want, Writing):
            return self._sampling(
                **{**want._asdict(), "stop": list(want.stop)},
                logprobs=0,
                flat_logprobs=True,
            )
        listed = {"logprob_token_ids": list(want.listed)} if want.listed else {"logprobs": want.top}
        return self._sampling(
            max_tokens=1, temperature=0.0, detokenize=False, flat_logprobs=True, **listed
        )

    def _read(self, want: Wanted, length: int, output: Any) -> LogProbs | str | Unsound:
        try:
            if len(output.outputs) != 1 or len(output.prompt_token_ids) != length:
                raise Unsound("it is not the answer to one prompt of this length")
            (completion,) = output.outputs
            tokens, values = completion.logprobs.token_ids, completion.logprobs.logprobs
            if isinstance(want, Writing):
                if not torch.tensor(values).isfinite().all():
                    raise Unsound(NOT_FINITE)
                return str(completion.text)
            if len(completion.logprobs) != 1:
                raise Unsound("it lists tokens for more or fewer places than one")
            # the token that was drawn stands before all others
            drawn = 1 if tokens[0] in tokens[1:] else 0
            least = len(want.listed) or self._count_numbers(want)
            return LogProbs.from_answer(
                tokens[drawn:],
                values[drawn:],
                self.vocab_size,
                least,
                want.listed,
            )
        except Unsound as problem:
            return problem


class VllmLM(ListingModel):
    """A model that an engine of this process reads. window: tokens that a prompt and its answer may have."""

    most_listed, most_top, names_best = MOST_LISTED, -1, True

    def __init__(
        self,
        engine: Engine,
        usage: Usage,
        tokens: Tokenizer,
        identity: ModelIdentity,
        window: int,
    ) -> None:
        self.engine, self.usage, self._tokens, self.identity = engine, usage, tokens, identity
        self.vocab_size, self.eos_token_id = engine.vocab_size, tokens.eos_token_id
        self.max_length, self.lead_tokens = window, len(tokens.lead)
        self.public_salt = token_urlsafe(32)

    def _answers(
        self,
        prompts: Sequence[list[int]],
        requests: Sequence[Wanted],
        rows: Sequence[int],
    ) -> list[Any]:
        """What vLLM answers to each prompt; None where that is unsound. Raises ModelError where it answers a public
        prompt so, too."""
        answers = self._read(prompts, requests)
        failed = {at: answer for at, answer in enumerate(answers) if isinstance(answer, Unsound)}
        for want in {requests[at]: None for at in failed}:
            (public,) = self._read([self._tokenize_opening(self.encode(PUBLIC))], [want])
            if isinstance(public, Unsound):
                raise ModelError(
                    f"vLLM gives no sound answer to a public prompt with {self.identity.name}: {public}."
                )
        self.usage.failures.update(
            {rows[at]: str(answer) for at, answer in failed.items()}.values()
        )
        return [None if at in failed else answer for at, answer in enumerate(answers)]

    def _silence_error(self) -> ModelError:
        return not_finite_error(self.identity.name)

    def _read(
        self,
        prompts: Sequence[list[int]],
        requests: Sequence[Wanted],
    ) -> list[Any]:
        request = PromptsRequest(prompts=prompts, requests=requests, salt=self._salt)
        wait_for(self.engine, request)
        return request.answers


def load_vllm(rest: str, device: str, dtype: torch.dtype | None) -> VllmLM:
    """The model of a folder or hub id, with an optional ``@REVISION`` and `EngineSettings`.

    Raises UsageError where vLLM is not installed or reads on another device, and ModelError for a model that it cannot
    load.
    """
    settings = settings_of(rest)
    source, revision = split_reference(settings.reference)
    folder, sha256 = Path(source), None
    there = require_there(settings.reference)
    if folder.is_dir():
        check_folder(folder)
        # before it is read: what is edited meanwhile is another model
        sha256 = identify_folder(folder)
    dtype = dtype or preferred_dtype(device)
    path, version = (
        (source, revision)
        if there
        else (
            str(find_snapshot(source, revision, "config.json")),
            None,
        )
    )
    llm, sampling = _start(settings, path, version, device, dtype)
    usage, tokens = Usage(), load_tokenizer(path, version)
    vocab_size = int(llm.model_config.get_vocab_size())
    identity = ModelIdentity(
        name=f"vllm:{folder.name if folder.is_dir() else source}",
        sha256=sha256,
        revision=None if sha256 else find_commit(source, revision) or revision,
        dtype=dtype_name(dtype),
        device=device,
        parameters=_count_parameters(
            folder if sha256 else find_snapshot(source, revision, "config.json")
        ),
    )
    engine = Engine(llm, sampling, vocab_size, usage)
    model = VllmLM(engine, usage, tokens, identity, int(llm.model_config.max_model_len))
    invariant = device == "cuda" and os.environ.get(INVARIANT) == "1"
    alone = invariant and are_rows_alone(model, _pass_size(llm))
    bits = digest(read_each_alone(model, draw_watched(model)))
    usage.tokens_read = usage.forward_calls = 0
    model.identity = replace(identity, batch_invariant=alone, arithmetic=bits)
    return model


def are_rows_alone(model: VllmLM, most: int) -> bool:
    """Whether no row changes a bit of another: the rows that are watched in `readers`, read by themselves, again from
    the prefix cache, together, and among so many others that a pass ends inside rows; and whether the texts that follow
    them stay the same.

    most: tokens of a pass.
    """
    listed = range(0, model.vocab_size, 1 + model.vocab_size // MOST_LISTED)
    watched, random = draw_watched(model), np.random.default_rng(1)

    def read(rows: Sequence[list[int]]) -> torch.Tensor:
        with model.isolated_cache():
            return model.listed_log_probs(rows, listed)

    alone = torch.cat([read([row]) for row in watched])
    with model.isolated_cache():
        first, again = (model.listed_log_probs(watched, listed) for _ in range(2))
    same = torch.equal(first, alone) and torch.equal(again, alone)
    texts = [model.generate([row], WRITTEN)[0] for row in watched]
    for tokens in (50, most // 2, 2 * most):
        others = list[list[int]]()
        while sum(map(len, others)) < tokens:
            others.append(draw_row(model, random, WATCHED[len(others) % len(WATCHED)]))
        half = len(others) // 2
        rows = read([*others[:half], *watched, *others[half:]])
        same = same and torch.equal(rows[half : half + len(watched)], alone)
        written = model.generate([*watched, *others[: len(watched)]], WRITTEN)
        same = same and written[: len(watched)] == texts
    return same


def _start(
    settings: EngineSettings,
    source: str,
    revision: str | None,
    device: str,
    dtype: torch.dtype,
) -> Any:
    """(vLLM's LLM with the model, its class SamplingParams)."""
    if device not in ("cpu", "cuda"):
        raise UsageError(
            f"vLLM chooses its GPUs itself, not {device}; set CUDA_VISIBLE_DEVICES, and leave --device out."
        )
    os.environ.update(FORCED)
    for name, value in PREFERRED.items():
        os.environ.setdefault(name, value)
    if device == "cuda" and torch.cuda.get_device_capability() >= CAPABILITY:
        os.environ.setdefault(INVARIANT, "1")
    with require_extras():
        import vllm
        from vllm.platforms import current_platform
    if current_platform.device_type != device:
        raise UsageError(
            f"This vLLM reads on {current_platform.device_type or 'no device'}, and not on {device}; leave --device"
            " out, or install the vLLM of your device."
        )
    options: dict[str, Any] = {"enforce_eager": True} if device == "cpu" else {}
    if device == "cpu" or "DPICL_MEMORY" in os.environ:
        options["kv_cache_memory_bytes"] = memory_limit()
    if device == "cpu":
        torch._dynamo.config.disable = (
            True  # vLLM compiles small functions, for which a machine needs a C++ compiler
        )
    try:
        llm = vllm.LLM(
            source,
            revision=revision,
            tokenizer_revision=revision,
            dtype=dtype_name(dtype),
            load_format="safetensors",
            trust_remote_code=False,
            tensor_parallel_size=settings.tensor_parallel_size,
            max_model_len=settings.context,
            max_logprobs=-1,
            generation_config="vllm",
            use_tqdm_on_load=False,
            **options,
        )
    except Exception as error:
        # whatever it and torch raise for a model or a machine that does not fit
        raise ModelError(
            f"vLLM cannot load {source} ({reason(error)}); where its context is too long for the memory, name a shorter"
            f" one (vllm:{settings.reference}?context=N), and where vLLM has no batch-invariant kernels for it set"
            f" {INVARIANT}=0."
        ) from error
    return llm, vllm.SamplingParams


def _pass_size(llm: Any) -> int:
    """How many tokens a pass has at most."""
    return int(llm.llm_engine.vllm_config.scheduler_config.max_num_batched_tokens)


def _count_parameters(folder: Path | None) -> int:
    """Numbers in a folder's weights; 0 without one."""
    count = 0
    for path in sorted(folder.glob("*.safetensors")) if folder else ():
        with safe_open(path, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118
                count += torch.Size(tensors.get_slice(name).get_shape()).numel()
    return count
