"""What is asked of each kind of server, and how its answer is read. A dialect knows no tokenizer and no privacy.

* llama.cpp (`LlamaCpp`): `POST /completion` with token ids. `n_probs` lists the likeliest tokens, from the raw logits;
  the token that is drawn is forced to a plain one (`logit_bias`, which leaves `n_probs` as it is), since nothing is
  listed for one that ends the text or is half of a character. Any other set of tokens is listed by raising all of them
  by the same bias (`post_sampling_probs`): their ratios are those of the model, and the likeliest token, which is among
  them, gives the scale. The whole vocabulary can be had too, at 100 bytes a token.
* vLLM (`VLLM`): `POST /v1/completions` with token ids, `logprobs` (-1: all, where the server was started with
  `--max-logprobs -1`), `logprob_token_ids`, `return_tokens_as_token_ids`, `cache_salt`.
* SGLang (`SGLang`): `POST /generate` with `input_ids`, `top_logprobs_num`, `token_ids_logprob`.
* OpenAI (`OpenAI`): `POST /v1/completions` with `logprobs`, whose tokens are texts; only those of one token count.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpicl.harness.core.errors import ModelError
from dpicl.harness.models.server_answers import LOWEST, LogProbs, log_probs, part, require, text, tokens
from dpicl.harness.models.server_http import SMALL, Call
from dpicl.harness.models.server_record import ServerKind

#: Bytes of one listed token, and characters of its text, at most.
_ENTRY, _LETTERS = 400, 200

#: Sends a request and gives what its `read` makes of the answer.
Ask = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True)
class Prompt:
    """The tokens that are read. salt: of the prefix cache, where the server keeps prompts of different salts apart."""

    tokens: Sequence[int]
    salt: str = ""


@dataclass(frozen=True)
class Generation:
    """How a text is written: greedily at temperature 0."""

    max_tokens: int
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    seed: int = 0


class Dialect(ABC):
    """How one kind of server is asked.

    model: the id of the model. vocab_size: tokens from this id on are left out. written: makes a text of tokens, for a
    server that takes no token ids; None: ids are sent.
    """

    kind: ClassVar[ServerKind]
    #: How many of the likeliest tokens to try to get, from the most on; -1 stands for all of them.
    tops: ClassVar[Sequence[int]]
    #: How many ids a request may list; 0 for none.
    lists: ClassVar[int] = 0
    written: Callable[[Sequence[int]], str] | None = None

    def __init__(self, model: str, vocab_size: int) -> None:
        self.model, self.vocab_size = model, vocab_size
        self._said: str | None = None

    @abstractmethod
    async def log_probs(self, ask: Ask, prompt: Prompt, top: int, listed: Sequence[int] = ()) -> LogProbs:
        """Of the ``top`` likeliest next tokens (-1: all); where some are ``listed``, of these at least."""

    @abstractmethod
    async def text(self, ask: Ask, prompt: Prompt, how: Generation) -> str:
        """What the model writes."""

    def tokenize(self, content: str) -> Call | None:
        """Asks for the tokens of a text without any that are added; None where the server cannot be asked."""
        return None

    def _content(self, prompt: Prompt) -> list[int] | str:
        return self.written(prompt.tokens) if self.written else list(prompt.tokens)

    def _listing(self, top: int, listed: Sequence[int] = ()) -> tuple[int, int]:
        """(most tokens of an answer, most bytes): what was asked for, and the token that was drawn."""
        entries = (2 * self.vocab_size if top < 0 else top) + len(listed) + 2
        return entries, SMALL + _ENTRY * entries

    def _same_model(self, answer: Any) -> None:
        """Raises ModelError where an answer says that it is from another model than the first one was."""
        said = answer.get("model") if type(answer) is dict else None
        if type(said) is str:
            self._said = self._said or said
            if said != self._said:
                raise ModelError("The model server answers for another model than before; start the run again.")


class LlamaCpp(Dialect):
    """llama.cpp's server. forced: a token whose text is plain, which is drawn whenever log-probabilities are wanted."""

    kind = "llama.cpp"
    tops = (-1,)
    lists = 1024
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

    async def text(self, ask: Ask, prompt: Prompt, how: Generation) -> str:
        body = {
            "n_predict": how.max_tokens,
            "temperature": how.temperature,
            "samplers": ["temperature"],
            "seed": how.seed,
            "stop": list(how.stop),
        }

        def read(answer: Any) -> str:
            self._require_whole(answer)
            return text(part(answer, "content"), _LETTERS * how.max_tokens)

        said: str = await ask(Call("/completion", self._body(prompt, body), read=read))
        return said

    def tokenize(self, content: str) -> Call | None:
        body = {"content": content, "add_special": False, "parse_special": True}
        return _tokenizing(body, content, self.vocab_size)

    def _likeliest(self, prompt: Prompt, top: int) -> Call:
        count = self.vocab_size if top < 0 else top
        body = {"n_predict": 1, "n_probs": count, "temperature": 0.0, "logit_bias": [[self.forced, 1e4]]}
        entries, largest = self._listing(top)

        def read(answer: Any) -> LogProbs:
            self._require_whole(answer)
            ids, values = _columns(part(answer, "completion_probabilities", 0, "top_logprobs"), "id", "logprob")
            return log_probs(ids, values, self.vocab_size, entries)

        return Call("/completion", self._body(prompt, body), largest, read)

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
        entries, largest = self._listing(0, listed)

        def read(answer: Any) -> LogProbs:
            self._require_whole(answer)
            ids, values = _columns(part(answer, "completion_probabilities", 0, "top_probs"), "id", "prob")
            if not all(type(value) in (int, float) and 0 <= value <= 1 + 1e-6 for value in values):
                raise ValueError("no probabilities")
            with np.errstate(divide="ignore"):
                logs = np.log(np.array(values, dtype=np.float64)).clip(LOWEST, 0.0)
            return require(log_probs(ids, logs.tolist(), self.vocab_size, entries), listed)

        return Call("/completion", self._body(prompt, body), largest, read)

    def _require_whole(self, answer: Any) -> None:
        """Raises ValueError where the prompt was cut."""
        self._same_model(answer)
        if type(answer) is dict and answer.get("truncated") not in (None, False):
            raise ValueError("the prompt was cut")

    def _body(self, prompt: Prompt, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"prompt": self._content(prompt), "cache_prompt": True, "stream": False, **body}


class OpenAI(Dialect):
    """Any server with the completions of OpenAI."""

    kind: ClassVar[ServerKind] = "openai"
    tops: ClassVar[Sequence[int]] = (128, 20, 10, 5, 1)
    #: Text of a token -> its id, where it stands for one alone.
    texts: Mapping[str, int] = {}

    async def log_probs(self, ask: Ask, prompt: Prompt, top: int, listed: Sequence[int] = ()) -> LogProbs:
        body = {"max_tokens": 1, "temperature": 0.0, "logprobs": 1 if listed else top, **self._extra(prompt, listed)}
        entries, largest = self._listing(top, listed)

        def read(answer: Any) -> LogProbs:
            self._same_model(answer)
            found = part(answer, "choices", 0, "logprobs", "top_logprobs", 0)
            if type(found) is not dict:
                raise ValueError("no log-probabilities")
            known = {name: token for name in found if (token := self._token(name)) is not None}
            values = [found[name] for name in known]
            return require(log_probs(list(known.values()), values, self.vocab_size, entries), listed)

        said: LogProbs = await ask(Call("/v1/completions", self._body(prompt, body), largest, read))
        return said

    async def text(self, ask: Ask, prompt: Prompt, how: Generation) -> str:
        body = {
            "max_tokens": how.max_tokens,
            "temperature": how.temperature,
            "seed": how.seed,
            "stop": list(how.stop[:4]),  # OpenAI takes no more; the text is cut again when it is here
            **self._extra(prompt, ()),
        }

        def read(answer: Any) -> str:
            self._same_model(answer)
            return text(part(answer, "choices", 0, "text"), _LETTERS * how.max_tokens)

        said: str = await ask(Call("/v1/completions", self._body(prompt, body), read=read))
        return said

    def _token(self, name: str) -> int | None:
        """The token of a name in an answer; None for one that stands for several, or for none."""
        return self.texts.get(name)

    def _extra(self, prompt: Prompt, listed: Sequence[int]) -> dict[str, Any]:
        """What this kind of server takes besides."""
        return {}

    def _body(self, prompt: Prompt, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"model": self.model, "prompt": self._content(prompt), "stream": False, **body}


class VLLM(OpenAI):
    """vLLM. Where ids are listed, they take the place of the likeliest ones."""

    kind = "vllm"
    tops = (-1, 1024, 256, 128, 64, 20, 5)
    lists = 128

    def tokenize(self, content: str) -> Call | None:
        body = {"model": self.model, "prompt": content, "add_special_tokens": False}
        return _tokenizing(body, content, self.vocab_size)

    def _token(self, name: str) -> int | None:
        kind, _, number = name.partition(":")
        if kind != "token_id" or not (number.isascii() and number.isdecimal()) or len(number) > 9:
            raise ValueError("no token id")
        return int(number)

    def _extra(self, prompt: Prompt, listed: Sequence[int]) -> dict[str, Any]:
        extra: dict[str, Any] = {"add_special_tokens": False, "return_tokens_as_token_ids": True}
        extra |= {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}  # not the model's own defaults
        if prompt.salt:
            extra["cache_salt"] = prompt.salt
        return {**extra, "logprob_token_ids": list(listed)} if listed else extra


class SGLang(Dialect):
    """SGLang's own interface."""

    kind = "sglang"
    tops = (-1, 1024, 128, 20, 5)
    lists = 128

    async def log_probs(self, ask: Ask, prompt: Prompt, top: int, listed: Sequence[int] = ()) -> LogProbs:
        entries, largest = self._listing(top, listed)
        body: dict[str, Any] = {
            "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
            "return_logprob": True,
            "logprob_start_len": -1,
            "top_logprobs_num": self.vocab_size if top < 0 else top,
        }
        if listed:
            body |= {"token_ids_logprob": list(listed), "top_logprobs_num": 1}

        def read(answer: Any) -> LogProbs:
            name = "output_token_ids_logprobs" if listed else "output_top_logprobs"
            values, ids = _columns(part(answer, "meta_info", name, 0), 0, 1)
            return require(log_probs(ids, values, self.vocab_size, entries), listed)

        said: LogProbs = await ask(Call("/generate", self._body(prompt, body), largest, read))
        return said

    async def text(self, ask: Ask, prompt: Prompt, how: Generation) -> str:
        sampling = {
            "max_new_tokens": how.max_tokens,
            "temperature": how.temperature,
            "stop": list(how.stop),
            "top_p": 1.0,
            "top_k": -1,
            "min_p": 0.0,
            "sampling_seed": how.seed,
        }

        def read(answer: Any) -> str:
            return text(part(answer, "text"), _LETTERS * how.max_tokens)

        said: str = await ask(Call("/generate", self._body(prompt, {"sampling_params": sampling}), read=read))
        return said

    def tokenize(self, content: str) -> Call | None:
        return _tokenizing({"prompt": content, "add_special_tokens": False}, content, self.vocab_size)

    def _body(self, prompt: Prompt, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"input_ids": self._content(prompt), "stream": False, **body}


def _tokenizing(body: Mapping[str, Any], content: str, vocab_size: int) -> Call:
    most = len(content.encode()) + 8
    return Call("/tokenize", body, SMALL, lambda answer: tokens(part(answer, "tokens"), vocab_size, most))


def _columns(entries: Any, *names: str | int) -> list[list[Any]]:
    """What every entry of a list has under each of the names. Raises ValueError."""
    if type(entries) is not list:
        raise ValueError("no list")
    try:
        return [[entry[name] for entry in entries] for name in names]
    except (TypeError, KeyError, IndexError):
        raise ValueError("an entry lacks a part") from None


DIALECTS: Mapping[str, type[Dialect]] = {one.kind: one for one in (LlamaCpp, VLLM, SGLang, OpenAI)}
