"""Tokenizers of models, and the first tokens of their prompts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from dpicl.core.errors import ModelError
from dpicl.models.base import ChatPrompt, LanguageModel, Tokens
from dpicl.models.weights import reason

#: Byte-level splitting by GPT-2's expression, as the rules of a tokenizer write it.
_GPT2_SPLITTERS = tuple(
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": trims, "use_regex": True}
    for trims in (True, False)
)


class Tokenizer:
    """A tokenizer of transformers with an EOS token. lead: tokens that stand before every prompt (BOS); start: what an
    empty prompt is read as, by default the BOS token, else EOS."""

    def __init__(self, tokenizer: Any, start: int | None = None) -> None:
        self.tokenizer = tokenizer
        self.lead = leading_tokens(tokenizer)
        self.vocab_size, self.eos_token_id = len(tokenizer), tokenizer.eos_token_id
        self.start = next(
            t for t in (start, tokenizer.bos_token_id, tokenizer.eos_token_id) if t is not None
        )

    def encode(self, content: str) -> list[int]:
        """Tokens of a text, without any that the tokenizer adds."""
        return list(self.tokenizer(content, add_special_tokens=False, verbose=False)["input_ids"])

    @cached_property
    def splits_at_blanks(self) -> bool:
        """Whether a text's tokens are those of its two parts wherever one ends in no white space and the other begins
        with a blank.

        So it is where words are split off by GPT-2's expression (and digits, one by one), in which a blank that follows
        no white space begins a word, and what comes before is decided without it. Other rules are not looked into.
        """
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is None:
            return False
        rules = json.loads(backend.to_str())
        splitter = rules["pre_tokenizer"] or {}
        steps = splitter.get("pretokenizers", [splitter])
        return (
            rules["normalizer"] is None
            and not rules["model"].get("dropout")
            and steps[-1] in _GPT2_SPLITTERS
            and all(step["type"] == "Digits" for step in steps[:-1])
            and not any(
                token["rstrip"] or any(map(str.isspace, token["content"]))
                for token in rules["added_tokens"]
            )
        )

    def decode(self, ids: Sequence[int]) -> str:
        """Text of tokens, special ones left out."""
        return str(
            self.tokenizer.decode(
                list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )

    def text_of(self, ids: Sequence[int]) -> str:
        """Text of a prompt's tokens, special ones included, without those that stand before every prompt."""
        lead = len(self.lead)
        rest = list(ids[lead:] if list(ids[:lead]) == self.lead else ids)
        return str(
            self.tokenizer.decode(
                rest, skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        )

    @property
    def digest(self) -> str:
        """sha256 over what decides which tokens a prompt has: the rules, the chat template, what begins a prompt."""
        rules = getattr(self.tokenizer, "backend_tokenizer", None)
        content = sorted(self.tokenizer.get_vocab().items()) if rules is None else rules.to_str()
        parts = [content, self.tokenizer.chat_template, self.lead, self.start, self.eos_token_id]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def chat(self, prompt: ChatPrompt) -> str:
        """The text of a chat turn. Raises ModelError without a chat template."""
        if not self.tokenizer.chat_template:
            raise ModelError(
                "The model has no chat template; use prompts of the style 'completion'."
            )
        turns = [{"role": "user", "content": prompt.user}]
        text = self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        return str(text) + prompt.assistant_prefix


class ByteTokenizer(Tokenizer):
    """Stands in for a tokenizer that nobody gave: a token is a byte of UTF-8. A byte-level or SentencePiece tokenizer
    makes no more tokens of a text, but for MARGIN (BOS, EOS, a blank that it puts first)."""

    MARGIN = 4

    def __init__(self) -> None:
        self.lead: list[int] = []
        self.start = ord("\n")
        self.vocab_size, self.eos_token_id = 257, 256

    @property
    def digest(self) -> str:
        return "bytes"

    def encode(self, content: str) -> list[int]:
        return list(content.encode("utf-8", errors="replace"))

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(token for token in ids if token < self.eos_token_id).decode(
            "utf-8", errors="ignore"
        )

    @property
    def splits_at_blanks(self) -> bool:
        return True

    def text_of(self, ids: Sequence[int]) -> str:
        return self.decode(ids)

    def chat(self, prompt: ChatPrompt) -> str:
        raise ModelError(
            "The chat template of this server's model is not known; use prompts of the style 'completion'."
        )


class TokenizedModel(LanguageModel):
    """A language model with a tokenizer."""

    _tokens: Tokenizer

    def encode(self, prompt: str | ChatPrompt) -> list[int]:
        """Tokens of a prompt; see LanguageModel. Raises ModelError for a ChatPrompt without a chat template."""
        return self._tokens.encode(
            self._tokens.chat(prompt) if isinstance(prompt, ChatPrompt) else prompt
        )

    @property
    def splits_at_blanks(self) -> bool:
        return self._tokens.splits_at_blanks

    def decode(self, tokens: Tokens) -> str:
        """Text of tokens, special tokens left out."""
        return self._tokens.decode([int(token) for token in tokens])

    def _tokenize_opening(self, prompt: Tokens, room: int = 0) -> list[int]:
        """The tokens that are read for a prompt: with BOS where the model wants one, never empty.

        Raises PromptTooLong when they and ``room`` more do not fit.
        """
        tokens, lead = [int(token) for token in prompt], self._tokens.lead
        if tokens[: len(lead)] != lead:
            tokens = [*lead, *tokens]
        self._check_length(len(tokens) + max(room, self.answer_room))
        return tokens or [self._tokens.start]


def load_tokenizer(name: str, revision: str | None = None) -> Tokenizer:
    """The tokenizer of a folder or hub id; no code that comes with it is run. Raises ModelError."""
    from transformers import AutoTokenizer

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(
            name, revision=revision, trust_remote_code=False
        )
        if tokenizer.eos_token_id is None:
            raise ValueError("it has no EOS token")
        return Tokenizer(tokenizer)
    except Exception as error:  # whatever two libraries raise for a file that is damaged or missing
        raise ModelError(
            f"The tokenizer {name} cannot be loaded ({reason(error)}); give the folder or hub id of the model that the"
            " server runs."
        ) from error


def leading_tokens(tokenizer: Any) -> list[int]:
    """[BOS] for tokenizers that put it before every text, else []."""
    tokens = tokenizer("a")["input_ids"]
    return [tokens[0]] if tokens and tokens[0] == tokenizer.bos_token_id else []
