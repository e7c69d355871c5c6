"""Tokens of a model that a server runs: by its own tokenizer from a folder or hub, or asked of the server (llama.cpp).

A text that the server refuses to cut has no tokens: its prompt is then the public one or an empty one, and a private
text cannot make a run fail.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from dpicl.core.errors import ModelError
from dpicl.models.base import ChatPrompt
from dpicl.models.server_dialect import part, text, tokenizing
from dpicl.models.server_http import SMALL, Call
from dpicl.models.weights import reason

#: Texts whose tokens are kept.
_KEPT = 20_000
#: What a special token looks like.
_MARKUP = re.compile(r"^\s*[<\[].*[>\]]\s*$", re.DOTALL)

#: Asks the server: the answer, or None where it refuses this request.
Ask = Callable[[Call], Any]


class Tokens(ABC):
    """A tokenizer. lead: tokens that stand before every prompt (BOS); start: what an empty prompt is read as."""

    vocab_size: int
    eos_token_id: int
    lead: list[int]
    start: int

    @abstractmethod
    def encode(self, content: str) -> list[int]:
        """Tokens of a text, without any that the tokenizer adds."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Text of tokens, special ones left out."""

    @abstractmethod
    def chat(self, prompt: ChatPrompt) -> str:
        """The text of a chat turn. Raises ModelError without a chat template."""


class OwnTokens(Tokens):
    """The model's tokenizer from a folder or the Hugging Face hub; no code that comes with it is run."""

    def __init__(self, source: str) -> None:
        from transformers import AutoTokenizer

        from dpicl.models.transformers import leading_tokens

        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
            self.lead = leading_tokens(self.tokenizer)
        except Exception as error:  # whatever two libraries raise for a file that is damaged or missing
            raise ModelError(
                f"The tokenizer {source} cannot be loaded ({reason(error)}); give the folder or hub id of the model"
                " that the server runs."
            ) from error
        if self.tokenizer.eos_token_id is None:
            raise ModelError(f"The tokenizer {source} has no EOS token; give that of the model that the server runs.")
        self.vocab_size, self.eos_token_id = len(self.tokenizer), int(self.tokenizer.eos_token_id)
        self.start = self.lead[0] if self.lead else self.eos_token_id

    def encode(self, content: str) -> list[int]:
        return list(self.tokenizer(content, add_special_tokens=False, verbose=False)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def chat(self, prompt: ChatPrompt) -> str:
        if not self.tokenizer.chat_template:
            raise ModelError("The server's model has no chat template; use prompts of the style 'completion'.")
        turns = [{"role": "user", "content": prompt.user}]
        said = self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        return str(said) + prompt.assistant_prefix

    def texts(self) -> dict[str, int]:
        """Text of a token -> its id, where it stands for one alone."""
        found: dict[str, int] = {}
        twice: set[str] = set()
        for token, shown in enumerate(self.tokenizer.batch_decode([[at] for at in range(self.vocab_size)])):
            if shown in found:
                twice.add(shown)
            found[shown] = token
        return {shown: token for shown, token in found.items() if shown not in twice and "\ufffd" not in shown}


class LlamaCppTokens(Tokens):
    """The tokenizer of llama.cpp's server, asked over HTTP; what it said is kept. ask: see `Ask`."""

    def __init__(self, ask: Ask, vocab_size: int, props: Any) -> None:
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
