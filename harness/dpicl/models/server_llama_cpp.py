"""llama.cpp's server: `POST /completion` with token ids.

`n_probs` lists the likeliest tokens, from the raw logits; the token that is drawn is forced to a plain one
(`logit_bias`, which leaves `n_probs` as it is), since nothing is listed for one that ends the text or is half of a
character. Any other set of tokens is listed by raising all of them by the same bias (`post_sampling_probs`): their
ratios are those of the model, and the likeliest token, which is among them, gives the scale. The whole vocabulary can
be had too, at 100 bytes a token.

A text that the server refuses to cut has no tokens: its prompt is then the public one or an empty one, and a private
text cannot make a run fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from dpicl.models.base import ChatPrompt
from dpicl.models.server_dialect import (
    LETTERS,
    LOWEST,
    Ask,
    Dialect,
    LogProbs,
    Prompt,
    Writing,
    columns,
    part,
    text,
    tokenizing,
)
from dpicl.models.server_http import SMALL, Call
from dpicl.models.tokenizers import Tokenizer

#: Texts whose tokens are kept.
_KEPT = 20_000
#: What a special token looks like.
_MARKUP = re.compile(r"^\s*[<\[].*[>\]]\s*$", re.DOTALL)


class LlamaCpp(Dialect):
    """llama.cpp's server. forced: a token whose text is plain, which is drawn whenever log-probabilities are wanted."""

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

    def _tokenizing(self, content: str) -> Mapping[str, Any]:
        return {"content": content, "add_special": False, "parse_special": True}

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
        self._same_model(answer)
        if type(answer) is dict and answer.get("truncated") not in (None, False):
            raise ValueError("the prompt was cut")

    def _body(self, prompt: Prompt, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"prompt": list(prompt.tokens), "cache_prompt": prompt.salt is not None, "stream": False, **body}


class LlamaCppTokenizer(Tokenizer):
    """The tokenizer of llama.cpp's server, asked over HTTP; what it said is kept. ask: gives the
    answer, None where the server refuses the request."""

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
