"""Servers with OpenAI's completions, and vLLM, which adds token ids to them.

* OpenAI: `POST /v1/completions` with `logprobs`, whose tokens are texts; only those of one token count.
* vLLM: the same with token ids, `logprobs` (-1: all, where the server was started with `--max-logprobs -1`),
  `logprob_token_ids`, `return_tokens_as_token_ids`, `cache_salt`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dpicl.models.server_dialect import LETTERS, Ask, Dialect, LogProbs, Prompt, Writing, part, text
from dpicl.models.server_http import Call
from dpicl.models.server_record import ServerKind


class OpenAI(Dialect):
    """Any server with the completions of OpenAI."""

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
            self._same_model(answer)
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
            self._same_model(answer)
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
    """vLLM. Where ids are listed, they take the place of the likeliest ones."""

    kind = "vllm"
    tops = (-1, 1024, 256, 128, 64, 20, 5)
    lists = 128
    can_forget = True

    def _tokenizing(self, content: str) -> Mapping[str, Any]:
        return {"model": self.model, "prompt": content, "add_special_tokens": False}

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
