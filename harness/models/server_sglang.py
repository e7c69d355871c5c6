"""SGLang: `POST /generate` with `input_ids`, `top_logprobs_num`, `token_ids_logprob`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpicl.harness.models.server_answers import LogProbs, log_probs, part, require, text
from dpicl.harness.models.server_dialect import LETTERS, Ask, Dialect, Prompt, Writing, columns, tokenizing
from dpicl.harness.models.server_http import Call


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
            values, ids = columns(part(answer, "meta_info", name, 0), 0, 1)
            return require(log_probs(ids, values, self.vocab_size, entries), listed)

        said: LogProbs = await ask(Call("/generate", self._body(prompt, body), largest, read))
        return said

    async def text(self, ask: Ask, prompt: Prompt, how: Writing) -> str:
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
            return text(part(answer, "text"), LETTERS * how.max_tokens)

        said: str = await ask(Call("/generate", self._body(prompt, {"sampling_params": sampling}), read=read))
        return said

    def tokenize(self, content: str) -> Call | None:
        return tokenizing({"prompt": content, "add_special_tokens": False}, content, self.vocab_size)

    def _body(self, prompt: Prompt, body: Mapping[str, Any]) -> dict[str, Any]:
        return {"input_ids": self._content(prompt), "stream": False, **body}
