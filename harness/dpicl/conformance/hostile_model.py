"""A hostile variant of the model ``sim``: its output jumps from prompt to prompt, and records can break it.

A mechanism's bounds must hold for every model, so the kit uses one whose output changes entirely when a record joins a
slot. Reproducible: an output is a function of the prompt.
"""

from __future__ import annotations

import hashlib
import itertools
import string
import zlib
from array import array
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch

from dpicl.core.together import take_turns
from dpicl.models.base import Broken, ChatPrompt, ModelIdentity, Prefix, ScoredEnding, Tokens
from dpicl.models.simulated import WORDS, SimulatedLM

#: A record that holds one of these makes the model answer its prompts with NaN, with infinities, with one token of
#: probability 1, with the end of the text, or (beside none of the others) with what follows from the last tokens alone,
#: so that all slots with such a record say the same.
NAN, INFINITE, CERTAIN, ENDING, ALIKE = "@nan@", "@inf@", "@one@", "@end@", "@all@"
_MARKERS = (NAN, INFINITE, CERTAIN, ENDING, ALIKE)
#: Standard deviation of what is added to the logits of the tokens at the end of the prompt, and of all others.
NEAR, FAR, REACH = 5.0, 2.5, 40
#: How many of the last tokens count after `ALIKE`.
_LAST = 8
#: A greedy text is at most SAID of the last HEARD words of the prompt: of the query, but each slot's own choice.
SAID, HEARD = 4, 60
#: The token of a line break: that of its byte.
_NEWLINE = 1 + ord("\n")
#: Sizes of caches, since many runs use the same prompts: encoded prompts and lines, and numbers in answers.
_KEPT, _KEPT_NUMBERS = 4096, 6_000_000
#: Size of the table of noise; the noise on the logits of a prompt begins at a place of its own in it.
_NOISE = 2**18


def is_marked(text: str) -> bool:
    """Whether the text holds a marker that changes how the model answers."""
    return any(marker in text for marker in _MARKERS)


class HostileModel(SimulatedLM):
    """Vocabulary and tokens of ``sim``, with so many invented words besides: four tokens each.

    Where several runs or shots are under way (dpicl.core.together), another one goes on at every call.
    """

    def __init__(self, words: int = 0) -> None:
        invented = map("".join, itertools.product("q", *[string.ascii_lowercase] * 3))
        super().__init__(words=[*WORDS, *itertools.islice(invented, words)])
        self.identity = ModelIdentity(
            "sim (hostile)", None, None, "float32", "cpu", 0, batch_invariant=True
        )
        self._encoded = lru_cache(_KEPT)(self._encode_lines)
        self._line = lru_cache(_KEPT)(super().encode)
        self._answers = lru_cache(min(_KEPT, _KEPT_NUMBERS // self.vocab_size))(self._answer)
        self._noise = np.random.default_rng(0).standard_normal(_NOISE)
        self._markers = {marker: _bytes(self.encode(marker)) for marker in _MARKERS}

    def encode(self, prompt: str | ChatPrompt) -> list[int]:
        return self._encoded(prompt).copy()

    def _encode_lines(self, prompt: str | ChatPrompt) -> list[int]:
        """Line by line, since prompts share the lines of records, and no token goes over the end of a line."""
        text = self.chat_text(prompt) if isinstance(prompt, ChatPrompt) else prompt
        first, *others = text.split("\n")
        tokens = self._line(first).copy()
        for line in others:
            tokens.append(_NEWLINE)
            tokens.extend(self._line(line))
        return tokens

    def next_token_log_probs(
        self,
        prompts: Sequence[Tokens],
        prefix: Prefix | None = None,
    ) -> torch.Tensor:
        take_turns()
        return super().next_token_log_probs(prompts, prefix)

    def score_endings(
        self, queries: Sequence[tuple[Tokens, Sequence[Tokens]]], prefix: Prefix | None = None
    ) -> list[list[ScoredEnding]]:
        """See LanguageModel. An ending is scored at once, by its first token and a number of its own: a class may have
        a dozen of tokens, and there are many slots."""
        take_turns()
        return [self._score(query, endings) for query, endings in queries]

    def _score(self, query: Tokens, endings: Sequence[Tokens]) -> list[ScoredEnding]:
        self._check_length(len(query) + max(map(len, endings)))
        markers, heard = self._hear(query)
        row = self._answers(markers, heard)
        seed = zlib.crc32(heard)
        likeliest = int(row.argmax())
        self._count(len(query) + sum(map(len, endings)))
        scored = []
        for ending in endings:
            first = ending[0]
            noise = self._noise[zlib.crc32(_bytes(ending), seed) % _NOISE]
            scored.append(ScoredEnding(float(row[first] - NEAR * abs(noise)), first == likeliest))
        return scored

    def _hear(self, prompt: Tokens) -> tuple[frozenset[str], bytes]:
        """The markers of a prompt, and what counts of it."""
        key = _bytes(prompt)
        markers = self._find_markers(key)
        return markers, key[-2 * _LAST :] if markers == {ALIKE} else key

    def generate(
        self,
        prompts: Sequence[Tokens],
        max_tokens: int,
        stop: Sequence[str] = (),
        prefix: Prefix | None = None,
        *,
        temperature: float = 0.0,
        seeds: Sequence[int] | None = None,
        broken: Broken = "raise",
    ) -> list[str]:
        """See LanguageModel. Greedy texts are words of the prompt, unless a marker says otherwise."""
        take_turns()
        texts = [""] * len(prompts)
        read = []
        for row, prompt in enumerate(prompts):
            if temperature == 0 and not self._find_markers(_bytes(prompt)):
                texts[row] = self._words(prompt, max_tokens, stop)
            else:
                read.append(row)
        written = super().generate(
            [prompts[row] for row in read],
            max_tokens,
            stop,
            prefix,
            temperature=temperature,
            seeds=None if seeds is None else [seeds[row] for row in read],
            broken=broken,
        )
        for row, text in zip(read, written, strict=True):
            texts[row] = text
        return texts

    def _words(self, prompt: Tokens, max_tokens: int, stop: Sequence[str]) -> str:
        """Some of the last words of the prompt, in an order of their own."""
        self._check_length(len(prompt) + max_tokens)
        heard = self.decode(prompt[-4 * HEARD :]).split()[-HEARD:]
        generator = np.random.default_rng(_seed(_bytes(prompt)))
        if not heard:
            return ""
        size = int(generator.integers(1, SAID + 1))
        text = " ".join(generator.choice(heard, size=size).tolist())
        ends = [text.find(end) for end in stop if end]
        return text[: min((place for place in ends if place >= 0), default=len(text))]

    def _find_markers(self, key: bytes) -> frozenset[str]:
        return frozenset(marker for marker, tokens in self._markers.items() if tokens in key)

    def log_probs_after(self, prompt: Tokens) -> np.ndarray:
        """float64[V] after one prompt."""
        return self._answers(*self._hear(prompt)).copy()

    def _answer(self, markers: frozenset[str], key: bytes) -> np.ndarray:
        prompt = array("H", key)
        if NAN in markers:
            return np.full(self.vocab_size, np.nan)
        logits = super().log_probs_after(prompt)
        if INFINITE in markers:
            logits[::3], logits[1::3] = np.inf, -np.inf
            return logits
        generator = np.random.default_rng(_seed(key))
        start = int(generator.integers(_NOISE - self.vocab_size))
        logits += FAR * self._noise[start : start + self.vocab_size]
        near = np.unique(np.array(prompt[-REACH:], dtype=np.int64))
        logits[near] += NEAR * generator.standard_normal(len(near))
        if CERTAIN in markers or ENDING in markers:
            certain = self.eos_token_id if ENDING in markers else int(logits.argmax())
            logits[:] = -np.inf
            logits[certain] = 0.0
            return logits
        logits -= logits.max()
        normalised: np.ndarray = logits - np.log(np.exp(logits).sum())
        return normalised


def _bytes(tokens: Tokens) -> bytes:
    return array("H", tokens).tobytes()


def _seed(key: bytes) -> int:
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "big")
