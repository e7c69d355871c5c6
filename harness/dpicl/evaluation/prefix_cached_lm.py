"""``PrefixCachedLM``: lm-eval's Hugging Face model, with what the contexts share read once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lm_eval.models.huggingface import HFLM

from dpicl.evaluation.request_scoring import PrefixScoring, refuse_unsupported
from dpicl.models.base import ModelIdentity
from dpicl.models.transformers import TransformersLM
from dpicl.models.weights import dtype_name

#: Characters at the end of a context that are encoded again: an added token of a tokenizer is not longer.
TAIL = 100


class EncodedContext:
    """A text that many continuations follow: its last words are encoded with each of them, the rest once.

    tokens: of the text. encode: tokens of any text, with those that a tokenizer puts around it. A tokenizer cuts a text
    into words first and looks at each by itself, so what follows may change no more than the last words. Where these
    words are not encoded by themselves as they are within the text, all of it is encoded with every continuation.
    """

    def __init__(self, text: str, tokenizer: Any, encode: Callable[[str], list[int]]) -> None:
        self.text, self.tokens = text, encode(text)
        self._tokenizer, self._encode = tokenizer, encode
        self._tail = self._last_words() if tokenizer.is_fast else None
        last = self._words(self._tail or "")
        self._head = self.tokens[: len(self.tokens) - len(last)]
        if self._head + last != self.tokens:
            self._tail = None

    def followed_by(self, continuation: str) -> list[int]:
        """Tokens of the text and what follows it."""
        if self._tail is None:
            return self._encode(self.text + continuation)
        return self._head + self._words(self._tail + continuation)

    def _words(self, text: str) -> list[int]:
        return self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]

    def _last_words(self) -> str | None:
        """The end of the text, from a word that what follows cannot change; None where it is short or has no words."""
        end = self.text[-2 * TAIL :]
        found = self._tokenizer(end, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        words, ends = found.word_ids(), [end for _, end in found["offset_mapping"]]
        new = (at for at in range(1, len(words)) if words[at] != words[at - 1] and (words[at] or 0) > 1)
        cut = max((ends[at - 1] for at in new if ends[at - 1] <= len(end) - TAIL), default=None)
        return None if cut is None else end[cut:]


class PrefixCachedLM(PrefixScoring, HFLM):
    """A drop-in for lm-eval's `HFLM`: the same log-probabilities, without reading the shared prefix for every request.

    pretrained: a TransformersLM, or whatever HFLM takes (a folder, a hub id, a transformers model); keyword arguments
    are HFLM's. Differences, on purpose: a context that is too long raises PromptTooLong instead of losing its left end,
    and generation is greedy only. Raises UsageError in several processes.
    """

    def __init__(self, pretrained: Any, **kwargs: Any) -> None:
        if isinstance(pretrained, TransformersLM):
            super().__init__(pretrained=pretrained.model, tokenizer=pretrained.tokenizer, backend="causal", **kwargs)
            self.reader = pretrained
        else:
            super().__init__(pretrained=pretrained, **kwargs)
            self.reader = TransformersLM(self.model, self.tokenizer, self._identity(pretrained))
        refuse_unsupported(self, ())
        self.reader.max_length = min(self.reader.max_length, self.max_length)
        self._context = EncodedContext("", self.tokenizer, self.tok_encode)

    def _encode_pair(self, context: str, continuation: str) -> tuple[list[int], list[int]]:
        """As lm-eval's own, with what is the same for all continuations of a context encoded once."""
        text = context.rstrip()
        if text != self._context.text:
            self._context = EncodedContext(text, self.tokenizer, self.tok_encode)
        whole = self._context.followed_by(context[len(text) :] + continuation)
        return self._context.tokens, whole[len(self._context.tokens) :]

    def get_model_info(self) -> dict[str, Any]:
        """What pins the model down, from its own identity: lm-eval would ask the Hugging Face hub over the network."""
        identity = self.reader.identity
        return {
            "model_num_parameters": identity.parameters,
            "model_dtype": identity.dtype,
            "model_revision": identity.revision or "",
            "model_sha": identity.sha256 or "",
        }

    def _identity(self, pretrained: Any) -> ModelIdentity:
        return ModelIdentity(
            name=pretrained if isinstance(pretrained, str) else type(self.model).__name__,
            sha256=None,
            revision=getattr(self.model.config, "_commit_hash", None),
            dtype=dtype_name(self.model.dtype),
            device=str(self.model.device),
            parameters=self.model.num_parameters(),
        )
