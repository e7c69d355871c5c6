"""Requests and responses of model servers: llama.cpp's, OpenAI's completions, and vLLM's, which extends these. Nothing
here knows of privacy.

Answers are read with distrust, by schemas: every number has its type and its range, or the answer counts as damaged. A
ValueError says so. An answer in good order that is not what was requested is Unsound.
"""

from __future__ import annotations

import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import AliasPath, BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from dpicl.models.server_http import LIKELIEST, LISTED, Call, Refused, Unsound
from dpicl.models.server_settings import ServerKind
from dpicl.models.tokenizers import Tokenizer

#: What rounding may add to a log-probability, which is 0 at most, and to the sum of probabilities.
ROUNDING = 1e-2
MASS = 1.1
#: Lower ones are written as this: vLLM's for minus infinity, which JSON has not.
LOWEST = -9999.0
#: Characters of a token, at most.
LETTERS = 200
#: Rows that pad an output layer behind the vocabulary, at most.
PADDING = 4096
#: How many words to stop at OpenAI's completions take.
MOST_STOPS = 4

_Token = Annotated[int, Field(ge=0, lt=2**31)]
_TokenName = Annotated[str, Field(pattern="^token_id:[0-9]{1,9}$")]
_Size = Annotated[int, Field(ge=1, lt=2**31)]
_LogProb = Annotated[float, Field(le=ROUNDING, allow_inf_nan=False)]
_Probability = Annotated[float, Field(ge=0, le=1 + 1e-6)]


class _Answer(BaseModel):
    """The part of an answer that is read."""

    model_config = ConfigDict(strict=True)


class _Likely(TypedDict):
    id: _Token
    logprob: _LogProb


class _Share(TypedDict):
    id: _Token
    prob: _Probability


class _LlamaCompletion(_Answer):
    """likely, shares: of the first token that was drawn. truncated: whether the prompt was cut. prompt_tokens: how many
    tokens of it were read."""

    model: str = ""
    text: str = Field("", validation_alias="content")
    likely: list[_Likely] = Field([], validation_alias=AliasPath("completion_probabilities", 0, "top_logprobs"))
    shares: list[_Share] = Field([], validation_alias=AliasPath("completion_probabilities", 0, "top_probs"))
    truncated: Literal[False] | None = None
    prompt_tokens: int | None = Field(None, validation_alias="tokens_evaluated")


class _Choice(_Answer):
    """likely: for each token that was drawn."""

    text: str
    likely: list[dict[_TokenName, _LogProb]] = Field([], validation_alias=AliasPath("logprobs", "top_logprobs"))


class _Completion(_Answer):
    model: str = ""
    choices: list[_Choice]
    prompt_tokens: int | None = Field(None, validation_alias=AliasPath("usage", "prompt_tokens"))

    @property
    def choice(self) -> _Choice:
        if len(self.choices) != 1:
            raise Unsound("it gives more or fewer choices than one")
        return self.choices[0]

    @property
    def text(self) -> str:
        return self.choice.text


class _Tokens(_Answer):
    tokens: list[_Token]


class ServedModel(_Answer):
    """A model in a server's list. owned_by: what the server calls itself. max_model_len: tokens that vLLM reads.
    parameters: 0 where it does not say."""

    id: Annotated[str, Field(max_length=300)]
    owned_by: str = ""
    max_model_len: _Size | None = None
    parameters: int = Field(0, ge=0, validation_alias=AliasPath("meta", "n_params"))


class ModelList(_Answer):
    """The answer to /v1/models."""

    data: Annotated[list[ServedModel], Field(min_length=1)]


class Props(_Answer):
    """The answer of llama.cpp to /props. context: tokens that it reads."""

    context: _Size = Field(validation_alias=AliasPath("default_generation_settings", "n_ctx"))
    version: str = Field("", validation_alias="build_info")


class Version(_Answer):
    """The answer of vLLM to /version."""

    version: str


class LogProbs(NamedTuple):
    """Tokens int64[k], each once, and their natural-log probabilities float64[k]."""

    tokens: np.ndarray
    values: np.ndarray

    @classmethod
    def from_answer(
        cls, pairs: Iterable[tuple[int, float]], vocab_size: int, least: int, listed: Sequence[int] = ()
    ) -> LogProbs:
        """The (id, value) of an answer. Ids of rows that pad the output layer (from ``vocab_size`` on) are left out.

        least: how many tokens there must be, the left-out ones included.
        Raises Unsound for fewer, tokens that are there twice or in no vocabulary, together more than likely, or not all
        that were ``listed``.
        """
        entries = [*pairs]
        tokens = np.array([token for token, _ in entries], dtype=np.int64)
        values = np.array([value for _, value in entries], dtype=np.float64).clip(LOWEST, 0.0)
        inside = tokens < vocab_size
        if len(tokens) < least or not inside.any():
            raise Unsound("it lists fewer tokens than requested")
        if not np.isin(listed, tokens).all():
            raise Unsound("it leaves out tokens that were requested by their ids")
        if len(np.unique(tokens)) < len(tokens) or tokens.max() >= vocab_size + PADDING:
            raise Unsound("it lists a token twice, or one that its vocabulary does not have")
        if np.exp(values).sum() > MASS:
            raise Unsound("its probabilities are more than one together")
        return cls(tokens[inside], values[inside])

    def of(self, token: int, vocab_size: int) -> float:
        """Of one token. One that is not listed has an even share of the mass that is left, and no more than any that
        is: a function of this answer alone."""
        found = np.flatnonzero(self.tokens == token)
        if len(found):
            return float(self.values[found[0]])
        left = max(1.0 - float(np.exp(self.values).sum()), math.exp(LOWEST / 100))
        share = math.log(left / max(1, vocab_size - len(self.tokens)))
        return min(share, float(self.values.min(initial=0.0)))

    @property
    def best(self) -> int:
        """The likeliest token; of equal ones the lowest."""
        return int(self.tokens[self.values == self.values.max()].min())


def join(parts: Sequence[LogProbs | None]) -> LogProbs | None:
    """Several answers about one prompt as one; None where one is missing."""
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        return None
    tokens = np.concatenate([part.tokens for part in found])
    _, first = np.unique(tokens, return_index=True)
    return LogProbs(tokens[first], np.concatenate([part.values for part in found])[first])


#: Sends a request and gives what its `read` makes of the answer.
Ask = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True)
class Prompt:
    """The tokens that are read. salt: of the prefix cache, where the server keeps prompts of different salts apart;
    None where nothing that was kept may be used."""

    tokens: Sequence[int]
    salt: str | None


class Dialect(ABC):
    """How one kind of server is asked.

    model: the id of the model. tokens: its tokenizer; ids from the vocabulary's size on are left out of answers.
    """

    kind: ClassVar[ServerKind]
    #: How many of the likeliest tokens to try to get where not all can be had, from the most on.
    tops: ClassVar[Sequence[int]] = (1024, 256, 128, 64, 20, 5)
    #: How many ids a request may list.
    lists: ClassVar[int]
    #: What a request for a text says besides.
    writing: ClassVar[Mapping[str, Any]] = {}
    #: The name that answers give their model, where that is known.
    answers_as: str | None = None

    def __init__(self, model: str, tokens: Tokenizer) -> None:
        self.model, self.tokens, self.vocab_size = model, tokens, tokens.vocab_size

    def tops_below(self, most: int | None) -> list[int]:
        """How many of the likeliest tokens to try to get, at ``most`` so many; at first all."""
        first = self.vocab_size if most is None else most
        return [first, *(top for top in self.tops if top < first)]

    @abstractmethod
    async def log_probs(self, ask: Ask, prompt: Prompt, top: int, listed: Sequence[int] = ()) -> LogProbs:
        """Of the ``top`` likeliest next tokens (-1: all); where some are ``listed``, of these at least."""

    async def text(self, ask: Ask, prompt: Prompt, settings: Mapping[str, Any]) -> str:
        """What the model writes, up to the first word to stop at. settings: max_tokens, temperature (0: greedily), seed
        and stop."""

        def read(answer: _LlamaCompletion | _Completion) -> str:
            if len(answer.text) > LETTERS * settings["max_tokens"]:
                raise ValueError("too long a text")
            return answer.text[: min((at for at in map(answer.text.find, settings["stop"]) if at >= 0), default=None)]

        said: str = await ask(self._call(prompt, {**settings, **self.writing}, read))
        return said

    def tokenize(self, content: str) -> Call:
        """Asks for the tokens of a text without any that are added."""
        return tokenizing({"model": self.model, "prompt": content, "add_special_tokens": False})

    @abstractmethod
    def _call(self, prompt: Prompt, body: Mapping[str, Any], read: Callable[[Any], Any]) -> Call:
        """Asks for ``max_tokens`` (of the body) tokens that follow a prompt. read: what is made of the answer."""

    def _require_same(self, answer: _LlamaCompletion | _Completion, prompt: Prompt | None) -> None:
        """Raises Unsound for the answer of another model than the first one's, or to a ``prompt`` of another length."""
        self.answers_as = self.answers_as or answer.model
        if answer.model and answer.model != self.answers_as:
            raise Unsound("it answers for another model")
        if prompt is not None and answer.prompt_tokens not in (None, len(prompt.tokens)):
            raise Unsound("it read more or fewer tokens than the prompt has")


def tokenizing(body: Mapping[str, Any]) -> Call:
    """Asks `/tokenize` for the tokens of a text."""
    return Call("/tokenize", lambda content: _Tokens.model_validate_json(content).tokens, body)


class LlamaCpp(Dialect):
    """llama.cpp's server: `POST /completion` with token ids.

    `n_probs` lists the likeliest tokens, from the raw logits; the token that is drawn is forced to a plain one
    (`logit_bias`, which leaves `n_probs` as it is), since nothing is listed for one that ends the text or is half of a
    character. Any other set of tokens is listed by raising all of them by the same bias (`post_sampling_probs`): their
    ratios are those of the model, and the likeliest token, which is among them, gives the scale. The whole vocabulary
    can be had too, at 100 bytes a token.
    """

    kind = "llama.cpp"
    lists = 1024
    writing = {"samplers": ["temperature"]}
    #: How many of the likeliest tokens are looked at first where some are listed, and by how much these are raised.
    _FIRST, _BIAS = 64, 100.0

    async def log_probs(self, ask: Ask, prompt: Prompt, top: int, listed: Sequence[int] = ()) -> LogProbs:
        count, least = (self._FIRST, 1) if listed else (self.vocab_size if top < 0 else top,) * 2
        first: LogProbs = await ask(self._likeliest(prompt, count, least))
        rest = [token for token in listed if token not in first.tokens]
        if not rest:
            return first
        ratios: LogProbs = await ask(self._ask_raised(prompt, [first.best, *rest]))
        values = ratios.values - ratios.of(first.best, self.vocab_size) + first.values.max()
        other = ratios.tokens != first.best
        return LogProbs(
            np.concatenate([first.tokens, ratios.tokens[other]]),
            np.concatenate([first.values, values[other].clip(LOWEST, 0.0)]),
        )

    def tokenize(self, content: str) -> Call:
        return tokenizing({"content": content, "add_special": False, "parse_special": True})

    def _likeliest(self, prompt: Prompt, count: int, least: int) -> Call:
        plain = next(iter(self.tokens.encode(" the")), 0)
        body = {"max_tokens": 1, "n_probs": count, "temperature": 0.0, "logit_bias": [[plain, 1e4]]}

        def read(answer: _LlamaCompletion) -> LogProbs:
            pairs = ((entry["id"], entry["logprob"]) for entry in answer.likely)
            return LogProbs.from_answer(pairs, self.vocab_size, min(least, self.vocab_size))

        return self._call(prompt, body, read)

    def _ask_raised(self, prompt: Prompt, listed: Sequence[int]) -> Call:
        """Asks for the tokens' probabilities, up to a factor; as log-probabilities."""
        body = {
            "max_tokens": 1,
            "n_probs": len(listed),
            "post_sampling_probs": True,
            "temperature": 1.0,
            "samplers": [],
            "logit_bias": [[token, self._BIAS] for token in listed],
        }

        def read(answer: _LlamaCompletion) -> LogProbs:
            with np.errstate(divide="ignore"):
                pairs = [(entry["id"], float(np.log(entry["prob"]))) for entry in answer.shares]
            return LogProbs.from_answer(pairs, self.vocab_size, len({*listed}), listed)

        return self._call(prompt, body, read)

    def _call(self, prompt: Prompt, body: Mapping[str, Any], read: Callable[[Any], Any]) -> Call:
        settings = {"n_predict": body["max_tokens"], "cache_prompt": prompt.salt is not None, "stream": False}
        sent = {"prompt": list(prompt.tokens), **settings, **body}
        whole = body.get("n_probs", 0) >= self.vocab_size

        def read_sound(content: bytes) -> Any:
            answer = _LlamaCompletion.model_validate_json(content)
            self._require_same(answer, prompt)
            return read(answer)

        return Call("/completion", read_sound, sent, whole)


class OpenAI(Dialect):
    """OpenAI's completions, `POST /v1/completions`, as any server has them: texts for texts. Where the model's
    tokenizer is not given, lengths are counted in bytes."""

    kind = "openai"
    tops = ()
    lists = 0

    async def log_probs(self, ask: Ask, prompt: Prompt, top: int, listed: Sequence[int] = ()) -> LogProbs:
        raise Refused("it is not asked for log-probabilities")

    def _call(self, prompt: Prompt, body: Mapping[str, Any], read: Callable[[Any], Any]) -> Call:
        sent = {"model": self.model, "prompt": self.tokens.text_of(prompt.tokens), "stream": False, **body}
        sent["stop"] = body["stop"][:MOST_STOPS] or None

        def read_sound(content: bytes) -> Any:
            answer = _Completion.model_validate_json(content)
            self._require_same(answer, None)
            return read(answer)

        return Call("/v1/completions", read_sound, sent)


class VLLM(Dialect):
    """vLLM: OpenAI's completions, `POST /v1/completions`, with token ids, `logprobs` (as many as the vocabulary has,
    where the server was started with `--max-logprobs -1`), `logprob_token_ids` and `cache_salt`. Where ids are listed,
    they take the place of the likeliest ones.

    In a batch of both kinds, vLLM 0.31 and 0.32 (sampler V1) answer requests for the likeliest tokens with two: the one
    that was drawn, and token 0 at -9999. So the two kinds are never on their way at the same time, and such an answer
    is Unsound.

    whole: what asks for all tokens: the vocabulary's size, or -1 where the output layer is larger (0.31 answers that
    with none).
    """

    kind = "vllm"
    lists = 128

    def __init__(self, model: str, tokens: Tokenizer) -> None:
        super().__init__(model, tokens)
        self.answers_as, self.whole = model, self.vocab_size

    async def log_probs(self, ask: Ask, prompt: Prompt, top: int, listed: Sequence[int] = ()) -> LogProbs:
        count = 1 if listed else self.whole if top < 0 else top
        body: dict[str, Any] = {"max_tokens": 1, "temperature": 0.0, "logprobs": count}
        if listed:
            body["logprob_token_ids"] = list(listed)
        least = self.vocab_size if count < 0 else min(count, self.vocab_size)

        def read(answer: _Completion) -> LogProbs:
            if len(answer.choice.likely) != 1:
                raise Unsound("it lists tokens for more or fewer places than one")
            pairs = [(int(name.removeprefix("token_id:")), value) for name, value in answer.choice.likely[0].items()]
            if any(value <= LOWEST for token, value in pairs if token < self.vocab_size):
                raise Unsound(f"it gives {LOWEST:g} in place of a log-probability")
            row = LogProbs.from_answer(pairs, self.vocab_size, least, listed)
            if top < 0 and len(row.tokens) < self.vocab_size:
                raise Unsound("it lists fewer tokens than requested")
            return row

        row: LogProbs = await ask(self._call(prompt, body, read))
        return row

    def _call(self, prompt: Prompt, body: Mapping[str, Any], read: Callable[[Any], Any]) -> Call:
        sent = {
            "model": self.model,
            "prompt": list(prompt.tokens),
            "stream": False,
            "add_special_tokens": False,
            "return_tokens_as_token_ids": True,
            **{"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},  # not the model's own defaults
            "cache_salt": prompt.salt or secrets.token_urlsafe(32),  # a salt of its own finds nothing
            **body,
        }
        count = body.get("logprobs")
        phase = "" if count is None else LISTED if "logprob_token_ids" in body else LIKELIEST

        def read_sound(content: bytes) -> Any:
            answer = _Completion.model_validate_json(content)
            self._require_same(answer, prompt)
            return read(answer)

        whole = count is not None and not 0 <= count < self.vocab_size
        return Call("/v1/completions", read_sound, sent, whole, phase)
