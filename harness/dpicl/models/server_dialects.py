"""How model servers are asked, and how their answers are read: llama.cpp's, and OpenAI's completions with what vLLM
adds to them. Nothing here knows of privacy.

Answers are read with distrust: every number has its type and its range, or the answer counts as damaged. A ValueError
says so; its text is ours, and never the server's.
"""

from __future__ import annotations

import math
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpicl.models.base import ChatPrompt
from dpicl.models.server_http import SMALL, Call
from dpicl.models.server_settings import ServerKind
from dpicl.models.tokenizers import Tokenizer

#: What rounding may add to a log-probability, which is 0 at most, and to the sum of probabilities.
ROUNDING = 1e-2
MASS = 1.1
#: Lower ones are written as this: vLLM's for minus infinity, which JSON has not.
LOWEST = -9999.0
#: Bytes of one listed token, and characters of its text, at most.
_ENTRY, LETTERS = 400, 200
#: Texts whose tokens are kept.
_KEPT = 20_000
#: What a special token looks like.
_MARKUP = re.compile(r"^\s*[<\[].*[>\]]\s*$", re.DOTALL)


class LogProbs(NamedTuple):
    """Tokens int64[k], each once, and their natural-log probabilities float64[k]."""

    tokens: np.ndarray
    values: np.ndarray

    def of(self, token: int, vocab_size: int) -> float:
        """Of one token. One that is not listed has an even share of the mass that is left, and no more than any that
        is: a function of this answer alone."""
        found = np.flatnonzero(self.tokens == token)
        if len(found):
            return float(self.values[found[0]])
        left = max(1.0 - float(np.exp(self.values).sum()), math.exp(LOWEST / 100))
        share = math.log(left / max(1, vocab_size - len(self.tokens)))
        return min(share, float(self.values.min(initial=0.0)))

    def likeliest(self, count: int) -> LogProbs:
        """Of so many tokens at most."""
        order = np.argsort(-self.values, kind="stable")[:count]
        return LogProbs(self.tokens[order], self.values[order])

    @property
    def best(self) -> int:
        """The likeliest token; of equal ones the lowest."""
        return int(self.tokens[self.values == self.values.max()].min())


def part(answer: Any, *path: str | int) -> Any:
    """What stands in an answer at keys and list positions. Raises ValueError where it does not."""
    for step in path:
        found: Any = None
        if isinstance(step, str):
            found = answer.get(step) if type(answer) is dict else None
        elif type(answer) is list and step < len(answer):
            found = answer[step]
        if found is None:
            raise ValueError("a part is missing")
        answer = found
    return answer


def text(value: Any, most: int) -> str:
    """A text of at most so many characters, which UTF-8 can write."""
    if type(value) is not str or len(value) > most:
        raise ValueError("no text, or too long a one")
    value.encode()
    return value


def whole(value: Any, most: int) -> int:
    """A whole number from 0 to ``most``."""
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError("no whole number, or one out of range")
    return value


def tokens(value: Any, vocab_size: int, most: int) -> list[int]:
    """At most so many token ids."""
    if type(value) is not list or len(value) > most:
        raise ValueError("no list of tokens, or too long a one")
    return [whole(token, vocab_size - 1) for token in value]


def log_probs(ids: Sequence[Any], values: Sequence[Any], vocab_size: int, most: int) -> LogProbs:
    """Log-probabilities of at most so many tokens.

    Ids from ``vocab_size`` on (rows that pad the output layer) are left out. Raises ValueError for anything that is no
    token or no number, above 0, twice there, or together more than one.
    """
    if not 0 < len(ids) <= most or set(map(type, ids)) != {int} or not set(map(type, values)) <= {int, float}:
        raise ValueError("no tokens with their log-probabilities")
    if min(ids) < 0 or max(ids) >= 2**31 or not all(abs(value) < 1e300 for value in values):
        raise ValueError("a number is out of range")
    tokens, found = np.array(ids, dtype=np.int64), np.array(values, dtype=np.float64)
    if not np.isfinite(found).all() or found.max() > ROUNDING or len(np.unique(tokens)) < len(tokens):
        raise ValueError("a log-probability is above 0, or no number, or a token is there twice")
    found = found.clip(LOWEST, 0.0)
    if np.exp(found).sum() > MASS:
        raise ValueError("probabilities are more than one together")
    inside = tokens < vocab_size
    if not inside.any():
        raise ValueError("no token of the vocabulary")
    return LogProbs(tokens[inside], found[inside])


def joined(parts: Sequence[LogProbs | None]) -> LogProbs | None:
    """Several answers about one prompt as one; None where one is missing."""
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        return None
    tokens = np.concatenate([part.tokens for part in found])
    _, first = np.unique(tokens, return_index=True)
    return LogProbs(tokens[first], np.concatenate([part.values for part in found])[first])


def before(text: str, ends: Sequence[str]) -> str:
    """The text before the first of these."""
    found = [at for at in map(text.find, ends) if at >= 0]
    return text[: min(found)] if found else text


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


class Dialect(ABC):
    """How one kind of server is asked.

    model: the id of the model. vocab_size: tokens from this id on are left out.
    """

    kind: ClassVar[ServerKind]
    #: How many of the likeliest tokens to try to get, from the most on; -1 stands for all of them.
    tops: ClassVar[Sequence[int]]
    #: How many ids a request may list; 0 for none.
    lists: ClassVar[int] = 0
    #: Whether it can be told not to use what it kept of other prompts.
    can_forget: ClassVar[bool] = False

    def __init__(self, model: str, vocab_size: int) -> None:
        self.model, self.vocab_size = model, vocab_size

    @abstractmethod
    async def log_probs(self, ask: Ask, prompt: Prompt, top: int, listed: Sequence[int] = ()) -> LogProbs:
        """Of the ``top`` likeliest next tokens (-1: all); where some are ``listed``, of these at least."""

    @abstractmethod
    async def text(self, ask: Ask, prompt: Prompt, how: Writing) -> str:
        """What the model writes."""

    def tokenize(self, content: str) -> Call | None:
        """Asks for the tokens of a text without any that are added; None where the server cannot be asked."""
        return None

    def _listing(self, top: int, listed: Sequence[int] = ()) -> tuple[int, int]:
        """(most tokens of an answer, most bytes): what was asked for, and the token that was drawn."""
        entries = (2 * self.vocab_size if top < 0 else top) + len(listed) + 2
        return entries, SMALL + _ENTRY * entries

    def _log_probs(self, ids: Sequence[Any], values: Sequence[Any], most: int, listed: Sequence[int] = ()) -> LogProbs:
        """`log_probs`. Raises ValueError where a token that was listed is missing."""
        found = log_probs(ids, values, self.vocab_size, most)
        if not np.isin(listed, found.tokens).all():
            raise ValueError("a token that was asked for is missing")
        return found


def tokenizing(body: Mapping[str, Any], content: str, vocab_size: int) -> Call:
    """Asks `/tokenize` for the tokens of a text."""
    most = len(content.encode()) + 8
    return Call("/tokenize", body, SMALL, lambda answer: tokens(part(answer, "tokens"), vocab_size, most))


def columns(entries: Any, *names: str | int) -> list[list[Any]]:
    """What every entry of a list has under each of the names. Raises ValueError."""
    if type(entries) is not list:
        raise ValueError("no list")
    try:
        return [[entry[name] for entry in entries] for name in names]
    except (TypeError, KeyError, IndexError):
        raise ValueError("an entry lacks a part") from None


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
    can_forget = True
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

    async def text(self, ask: Ask, prompt: Prompt, how: Writing) -> str:
        body = {
            "n_predict": how.max_tokens,
            "temperature": how.temperature,
            "samplers": ["temperature"],
            "seed": how.seed,
            "stop": list(how.stop),
        }

        def read(answer: Any) -> str:
            self._require_whole(answer)
            return text(part(answer, "content"), LETTERS * how.max_tokens)

        said: str = await ask(Call("/completion", self._body(prompt, body), read=read))
        return said

    def tokenize(self, content: str) -> Call:
        return tokenizing({"content": content, "add_special": False, "parse_special": True}, content, self.vocab_size)

    def _likeliest(self, prompt: Prompt, top: int) -> Call:
        count = self.vocab_size if top < 0 else top
        body = {"n_predict": 1, "n_probs": count, "temperature": 0.0, "logit_bias": [[self.forced, 1e4]]}
        entries, largest = self._listing(top)

        def read(answer: Any) -> LogProbs:
            self._require_whole(answer)
            ids, values = columns(part(answer, "completion_probabilities", 0, "top_logprobs"), "id", "logprob")
            return self._log_probs(ids, values, entries)

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
            ids, values = columns(part(answer, "completion_probabilities", 0, "top_probs"), "id", "prob")
            if not all(type(value) in (int, float) and 0 <= value <= 1 + 1e-6 for value in values):
                raise ValueError("no probabilities")
            with np.errstate(divide="ignore"):
                logs = np.log(np.array(values, dtype=np.float64)).clip(LOWEST, 0.0)
            return self._log_probs(ids, logs.tolist(), entries, listed)

        return Call("/completion", self._body(prompt, body), largest, read)

    def _require_whole(self, answer: Any) -> None:
        """Raises ValueError where the prompt was cut."""
        if type(answer) is dict and answer.get("truncated") not in (None, False):
            raise ValueError("the prompt was cut")

    def _body(self, prompt: Prompt, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"prompt": list(prompt.tokens), "cache_prompt": prompt.salt is not None, "stream": False, **body}


class OpenAI(Dialect):
    """Any server with the completions of OpenAI: `POST /v1/completions` with `logprobs`, whose tokens are texts; only
    those of one token count."""

    kind: ClassVar[ServerKind] = "openai"
    tops: ClassVar[Sequence[int]] = (128, 20, 10, 5, 1)
    #: Text of a token -> its id, where it stands for one alone.
    texts: Mapping[str, int] = {}
    #: How many of the likeliest tokens are asked for at least: none of the first few may have a text of its own.
    least: int = 0

    async def log_probs(self, ask: Ask, prompt: Prompt, top: int, listed: Sequence[int] = ()) -> LogProbs:
        asked = max(top, self.least) if top > 0 else top
        body = {"max_tokens": 1, "temperature": 0.0, "logprobs": 1 if listed else asked, **self._extra(prompt, listed)}
        entries, largest = self._listing(asked, listed)

        def read(answer: Any) -> LogProbs:
            found = part(answer, "choices", 0, "logprobs", "top_logprobs", 0)
            if type(found) is not dict:
                raise ValueError("no log-probabilities")
            known = {name: token for name in found if (token := self._token(name)) is not None}
            values = [found[name] for name in known]
            own = self._log_probs(list(known.values()), values, entries, listed)
            return own.likeliest(top) if self.least else own

        said: LogProbs = await ask(Call("/v1/completions", self._body(prompt, body), largest, read))
        return said

    async def text(self, ask: Ask, prompt: Prompt, how: Writing) -> str:
        body = {
            "max_tokens": how.max_tokens,
            "temperature": how.temperature,
            "seed": how.seed,
            "stop": list(how.stop[:4]),  # OpenAI takes no more; the text is cut again when it is here
            **self._extra(prompt, ()),
        }

        def read(answer: Any) -> str:
            return text(part(answer, "choices", 0, "text"), LETTERS * how.max_tokens)

        said: str = await ask(Call("/v1/completions", self._body(prompt, body), read=read))
        return said

    def _token(self, name: str) -> int | None:
        """The token of a name in an answer; None for one that stands for several, or for none."""
        return self.texts.get(name)

    def _extra(self, prompt: Prompt, listed: Sequence[int]) -> dict[str, Any]:
        """What this kind of server takes besides."""
        return {}

    def _body(self, prompt: Prompt, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"model": self.model, "prompt": list(prompt.tokens), "stream": False, **body}


class VLLM(OpenAI):
    """vLLM: OpenAI's completions with token ids, `logprobs` (-1: all, where the server was started with `--max-logprobs
    -1`), `logprob_token_ids` and `cache_salt`. Where ids are listed, they take the place of the likeliest ones."""

    kind = "vllm"
    tops = (-1, 1024, 256, 128, 64, 20, 5)
    lists = 128
    can_forget = True

    def tokenize(self, content: str) -> Call:
        body = {"model": self.model, "prompt": content, "add_special_tokens": False}
        return tokenizing(body, content, self.vocab_size)

    def _token(self, name: str) -> int | None:
        kind, _, number = name.partition(":")
        if kind != "token_id" or not (number.isascii() and number.isdecimal()) or len(number) > 9:
            raise ValueError("no token id")
        return int(number)

    def _extra(self, prompt: Prompt, listed: Sequence[int]) -> dict[str, Any]:
        extra: dict[str, Any] = {"add_special_tokens": False, "return_tokens_as_token_ids": True}
        extra |= {"top_p": 1.0, "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}  # not the model's own defaults
        if prompt.salt != "":
            extra["cache_salt"] = prompt.salt or secrets.token_urlsafe(32)  # a salt of its own finds nothing
        return {**extra, "logprob_token_ids": list(listed)} if listed else extra


#: How each kind of server is asked.
DIALECTS: Mapping[str, type[Dialect]] = {one.kind: one for one in (LlamaCpp, VLLM, OpenAI)}


class LlamaCppTokenizer(Tokenizer):
    """The tokenizer of llama.cpp's server, asked over HTTP; what it said is kept. ask: gives the answer, None where the
    server refuses the request: such a text has no tokens, so its prompt is the public one or an empty one, and a
    private text cannot make a run fail."""

    def __init__(self, ask: Callable[[Call], Any], vocab_size: int, props: Any) -> None:
        self.vocab_size = vocab_size
        self.ask = ask
        self.encode_kept = lru_cache(_KEPT)(self._encoded)
        self._shown = lru_cache(_KEPT)(self._detokenized)
        self._special = lru_cache(_KEPT)(self._is_special)
        self._templated = lru_cache(_KEPT)(self._chat)
        plain, whole = self._encoded("a"), self._encoded("a", special=True)
        self.lead = list(whole[: len(whole) - len(plain)]) if whole[-len(plain) :] == plain else []
        end = self._encoded(text(part(props, "eos_token"), 1000))
        begin = self._encoded(text(part(props, "bos_token"), 1000)) if props.get("bos_token") else ()
        if len(end) != 1:
            raise ValueError("no end of text")
        self.eos_token_id = end[0]
        self.start = self.lead[0] if self.lead else (begin or end)[0]

    def encode(self, content: str) -> list[int]:
        content = content.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        return list(self.encode_kept(content))

    def decode(self, ids: Sequence[int]) -> str:
        return self._shown(tuple(token for token in ids if not self._special(token)))

    def chat(self, prompt: ChatPrompt) -> str:
        return self._templated(prompt.user) + prompt.assistant_prefix

    def _encoded(self, content: str, special: bool = False, parse: bool = True) -> tuple[int, ...]:
        body = {"content": content, "add_special": special, "parse_special": parse}
        return tuple(self.ask(tokenizing(body, content, self.vocab_size)) or ())

    def _detokenized(self, ids: tuple[int, ...]) -> str:
        most = 200 * len(ids)
        found = self.ask(
            Call("/detokenize", {"tokens": list(ids)}, SMALL, lambda answer: text(part(answer, "content"), most))
        )
        return str(found or "")

    def _is_special(self, token: int) -> bool:
        """Whether a token stands for no text: its own text is cut into others where markup is not read as such."""
        if token == self.eos_token_id:
            return True
        shown = self._shown((token,))
        return not shown or (bool(_MARKUP.match(shown)) and self._encoded(shown, parse=False) != (token,))

    def _chat(self, user: str) -> str:
        body = {"messages": [{"role": "user", "content": user}]}
        most = 10 * len(user) + 100_000
        found = self.ask(Call("/apply-template", body, SMALL, lambda answer: text(part(answer, "prompt"), most)))
        return str(found or "")
