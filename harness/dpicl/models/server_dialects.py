"""How model servers are asked, and how their answers are read: llama.cpp's, and vLLM's, which are OpenAI's completions
with more. Nothing here knows of privacy.

Answers are read with distrust, by schemas: every number has its type and its range, or the answer counts as damaged. A
ValueError says so.
"""

from __future__ import annotations

import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from dpicl.models.server_http import SMALL, Call
from dpicl.models.server_settings import ServerKind

#: What rounding may add to a log-probability, which is 0 at most, and to the sum of probabilities.
ROUNDING = 1e-2
MASS = 1.1
#: Lower ones are written as this: vLLM's for minus infinity, which JSON has not.
LOWEST = -9999.0
#: Bytes of one listed token, and characters of its text, at most.
_ENTRY, LETTERS = 400, 200

_Token = Annotated[int, Field(ge=0, lt=2**31)]
_TokenName = Annotated[str, Field(pattern="^token_id:[0-9]{1,9}$")]
_Size = Annotated[int, Field(ge=1, le=10**7)]
_LogProb = Annotated[float, Field(le=ROUNDING, allow_inf_nan=False)]
_Probability = Annotated[float, Field(ge=0, le=1 + 1e-6)]


class _Answer(BaseModel):
    """Part of an answer; keys that nobody reads are left out."""

    model_config = ConfigDict(strict=True)


class _Likely(TypedDict):
    id: _Token
    logprob: _LogProb


class _Share(TypedDict):
    id: _Token
    prob: _Probability


class _Step(_Answer):
    top_logprobs: list[_Likely] = []
    top_probs: list[_Share] = []


class _LlamaCompletion(_Answer):
    """truncated: whether the prompt was cut."""

    text: Annotated[str, Field(alias="content")] = ""
    completion_probabilities: list[_Step] = []
    truncated: Literal[False] | None = None


class _TopLogProbs(_Answer):
    top_logprobs: Annotated[list[dict[_TokenName, _LogProb]], Field(min_length=1)]


class _Choice(_Answer):
    text: str
    logprobs: _TopLogProbs | None = None


class _Completion(_Answer):
    choices: Annotated[list[_Choice], Field(min_length=1)]


class _Tokens(_Answer):
    tokens: list[_Token]


class _Meta(_Answer):
    n_params: Annotated[int, Field(ge=0)] = 0


class ServedModel(_Answer):
    """A model in a server's list. owned_by: what the server calls itself. max_model_len: tokens that vLLM reads."""

    id: Annotated[str, Field(max_length=300)]
    owned_by: str = ""
    max_model_len: _Size | None = None
    meta: _Meta = _Meta()


class ModelList(_Answer):
    """The answer to /v1/models."""

    data: Annotated[list[ServedModel], Field(min_length=1)]


class _Generation(_Answer):
    n_ctx: _Size


class Props(_Answer):
    """The answer of llama.cpp to /props."""

    default_generation_settings: _Generation


class LogProbs(NamedTuple):
    """Tokens int64[k], each once, and their natural-log probabilities float64[k]."""

    tokens: np.ndarray
    values: np.ndarray

    @classmethod
    def sound(
        cls, ids: Sequence[int], values: Sequence[float], vocab_size: int, listed: Sequence[int] = ()
    ) -> LogProbs:
        """Those of an answer. Ids from ``vocab_size`` on (rows that pad the output layer) are left out.

        Raises ValueError for tokens that are there twice, together more than likely, or not all that were ``listed``.
        """
        tokens, found = np.array(ids, dtype=np.int64), np.array(values, dtype=np.float64).clip(LOWEST, 0.0)
        inside = tokens < vocab_size
        if len(np.unique(tokens)) < len(tokens) or np.exp(found).sum() > MASS or not inside.any():
            raise ValueError("a token is there twice, or none is, or probabilities are more than one together")
        if not np.isin(listed, tokens).all():
            raise ValueError("a token that was asked for is missing")
        return cls(tokens[inside], found[inside])

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


def joined(parts: Sequence[LogProbs | None]) -> LogProbs | None:
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
    salt: str | None = ""


@dataclass(frozen=True)
class Writing:
    """How a text is written: greedily at temperature 0."""

    max_tokens: int
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    seed: int = 0

    def checked(self, text: str) -> str:
        """The text up to the first word to stop at. Raises ValueError where it is longer than its tokens can be."""
        if len(text) > LETTERS * self.max_tokens:
            raise ValueError("too long a text")
        found = [at for at in map(text.find, self.stop) if at >= 0]
        return text[: min(found)] if found else text


class Dialect(ABC):
    """How one kind of server is asked.

    model: the id of the model. vocab_size: tokens from this id on are left out.
    """

    kind: ClassVar[ServerKind]
    #: How many of the likeliest tokens to try to get, from the most on; -1 stands for all of them.
    tops: ClassVar[Sequence[int]]
    #: How many ids a request may list.
    lists: ClassVar[int]
    #: What it calls the most tokens that are written, and what a request for a text says besides.
    most: ClassVar[str]
    writing: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, model: str, vocab_size: int) -> None:
        self.model, self.vocab_size = model, vocab_size

    @abstractmethod
    async def log_probs(self, ask: Ask, prompt: Prompt, top: int, listed: Sequence[int] = ()) -> LogProbs:
        """Of the ``top`` likeliest next tokens (-1: all); where some are ``listed``, of these at least."""

    async def text(self, ask: Ask, prompt: Prompt, how: Writing) -> str:
        """What the model writes."""
        sampled = {"temperature": how.temperature, "seed": how.seed, "stop": list(how.stop)}
        body = {self.most: how.max_tokens, **sampled, **self.writing}
        said: str = await ask(self._call(prompt, body, SMALL, lambda answer: how.checked(answer.text)))
        return said

    @abstractmethod
    def tokenize(self, content: str) -> Call:
        """Asks for the tokens of a text without any that are added."""

    @abstractmethod
    def _call(self, prompt: Prompt, body: Mapping[str, Any], largest: int, read: Callable[[Any], Any]) -> Call:
        """Asks for what follows a prompt. largest: bytes of the answer. read: what is made of it."""

    def _largest(self, top: int, listed: Sequence[int] = ()) -> int:
        """Bytes of an answer with what was asked for, and the token that was drawn."""
        return SMALL + _ENTRY * ((2 * self.vocab_size if top < 0 else top) + len(listed) + 2)


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

    forced: a token whose text is plain, which is drawn whenever log-probabilities are wanted.
    """

    kind = "llama.cpp"
    tops = (-1,)
    lists = 1024
    most, writing = "n_predict", {"samplers": ["temperature"]}
    forced: int = 0
    #: How many of the likeliest tokens are looked at first, and by how much listed ones are raised.
    _FIRST, _BIAS = 64, 100.0

    async def log_probs(self, ask: Ask, prompt: Prompt, top: int, listed: Sequence[int] = ()) -> LogProbs:
        first: LogProbs = await ask(self._likeliest(prompt, max(self._FIRST, top) if listed else top))
        rest = [token for token in listed if token not in first.tokens]
        if not rest:
            return first
        ratios: LogProbs = await ask(self._raised(prompt, [first.best, *rest]))
        values = ratios.values - ratios.of(first.best, self.vocab_size) + first.values.max()
        other = ratios.tokens != first.best
        return LogProbs(
            np.concatenate([first.tokens, ratios.tokens[other]]),
            np.concatenate([first.values, values[other].clip(LOWEST, 0.0)]),
        )

    def tokenize(self, content: str) -> Call:
        return tokenizing({"content": content, "add_special": False, "parse_special": True})

    def _likeliest(self, prompt: Prompt, top: int) -> Call:
        count = self.vocab_size if top < 0 else top
        body = {"n_predict": 1, "n_probs": count, "temperature": 0.0, "logit_bias": [[self.forced, 1e4]]}

        def read(answer: _LlamaCompletion) -> LogProbs:
            found = [each for step in answer.completion_probabilities[:1] for each in step.top_logprobs]
            return LogProbs.sound([own["id"] for own in found], [own["logprob"] for own in found], self.vocab_size)

        return self._call(prompt, body, self._largest(top), read)

    def _raised(self, prompt: Prompt, listed: Sequence[int]) -> Call:
        """Asks for the tokens' probabilities, up to a factor; as log-probabilities."""
        body = {
            "n_predict": 1,
            "n_probs": len(listed),
            "post_sampling_probs": True,
            "temperature": 1.0,
            "samplers": [],
            "logit_bias": [[token, self._BIAS] for token in listed],
        }

        def read(answer: _LlamaCompletion) -> LogProbs:
            found = [each for step in answer.completion_probabilities[:1] for each in step.top_probs]
            with np.errstate(divide="ignore"):
                values = np.log([own["prob"] for own in found]).tolist()
            return LogProbs.sound([own["id"] for own in found], values, self.vocab_size, listed)

        return self._call(prompt, body, self._largest(0, listed), read)

    def _call(self, prompt: Prompt, body: Mapping[str, Any], largest: int, read: Callable[[Any], Any]) -> Call:
        sent = {"prompt": list(prompt.tokens), "cache_prompt": prompt.salt is not None, "stream": False, **body}
        return Call("/completion", lambda content: read(_LlamaCompletion.model_validate_json(content)), sent, largest)


class VLLM(Dialect):
    """vLLM: OpenAI's completions, `POST /v1/completions`, with token ids, `logprobs` (-1: all, where the server was
    started with `--max-logprobs -1`), `logprob_token_ids` and `cache_salt`. Where ids are listed, they take the place
    of the likeliest ones."""

    kind = "vllm"
    tops = (-1, 1024, 256, 128, 64, 20, 5)
    lists = 128
    most = "max_tokens"

    async def log_probs(self, ask: Ask, prompt: Prompt, top: int, listed: Sequence[int] = ()) -> LogProbs:
        body: dict[str, Any] = {"max_tokens": 1, "temperature": 0.0, "logprobs": 1 if listed else top}
        if listed:
            body["logprob_token_ids"] = list(listed)

        def read(answer: _Choice) -> LogProbs:
            found = answer.logprobs.top_logprobs[0] if answer.logprobs else {}
            ids = [int(name.removeprefix("token_id:")) for name in found]
            return LogProbs.sound(ids, [*found.values()], self.vocab_size, listed)

        said: LogProbs = await ask(self._call(prompt, body, self._largest(top, listed), read))
        return said

    def tokenize(self, content: str) -> Call:
        return tokenizing({"model": self.model, "prompt": content, "add_special_tokens": False})

    def _call(self, prompt: Prompt, body: Mapping[str, Any], largest: int, read: Callable[[Any], Any]) -> Call:
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
        read_choice = lambda content: read(_Completion.model_validate_json(content).choices[0])  # noqa: E731
        return Call("/v1/completions", read_choice, sent, largest)


#: How each kind of server is asked.
DIALECTS: Mapping[str, type[Dialect]] = {one.kind: one for one in (LlamaCpp, VLLM)}
