"""Models of lm-evaluation-harness: any LanguageModel, which reads shared contexts once, and released answers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from lm_eval.api.model import LM, TemplateLM

from dpicl.core.errors import UsageError
from dpicl.models.base import LanguageModel, Tokens, common_prefix_length, not_finite_error

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

#: One request of lm-eval's `_loglikelihood_tokens`: ((context, continuation), context tokens, continuation tokens).
TokenRequest = tuple[tuple[str, str], list[int], list[int]]
#: Log-probability of a label that was not chosen: e^-1000 is 0 in float64, and the number stays finite in JSON.
NOT_CHOSEN = -1000.0


class LanguageModelLM(TemplateLM):
    """The same log-probabilities as lm-eval's own `HFLM`, without reading the shared prefix for every request.

    A context that is too long raises PromptTooLong instead of losing its left end, and generation is greedy only.
    endings: continuation -> the tokens that are scored for it, where these are not its own alone
        (`dpicl.mechanism.generation.ended_continuations`).
    """

    def __init__(
        self,
        model: LanguageModel,
        endings: Mapping[str, Tokens] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self.reader = model
        self._endings = endings
        self._encode = lru_cache(maxsize=64)(model.encode)

    @property
    def eot_token_id(self) -> int:
        return self.reader.eos_token_id

    def tok_encode(
        self,
        string: str,
        add_special_tokens: bool | None = None,
        **kwargs: Any,
    ) -> list[int]:
        return self._encode(string)

    def _encode_pair(
        self,
        context: str,
        continuation: str,
    ) -> tuple[list[int], list[int]]:
        """The tokens of a context, and those that a continuation adds to them, which are its own where the tokenizer
        is known to split between the two: a context is not encoded again for each continuation."""
        is_split = continuation.startswith(" ") and not context[-1].isspace()
        if is_split and self.reader.splits_at_blanks:
            return self.tok_encode(context), self.tok_encode(continuation)
        shown, ending = super()._encode_pair(context, continuation)
        return shown, ending

    def loglikelihood(
        self,
        requests: list[Instance],
        disable_tqdm: bool = True,
    ) -> list[tuple[float, bool]]:
        """(log-probability, greedy) of each request, without lm-eval's progress bar."""
        return super().loglikelihood(requests, disable_tqdm=True)

    def _loglikelihood_tokens(
        self, requests: list[TokenRequest], **kwargs: Any
    ) -> list[tuple[float, bool]]:
        """Raises ModelError when a log-probability is not finite, PromptTooLong when a request does not fit."""
        endings = defaultdict[tuple[int, ...], list[Tokens]](list)
        for (_, continuation), context, ending in requests:
            endings[tuple(context)].append(self._endings.get(continuation, ending))
        scored = self.reader.score_endings(list(endings.items()), self._read_shared(list(endings)))
        scored_rows = {context: iter(row) for context, row in zip(endings, scored, strict=True)}
        result = [next(scored_rows[tuple(context)]) for _, context, _ in requests]
        if not all(math.isfinite(ending.log_prob) for ending in result):
            raise not_finite_error(self.reader.identity.name)
        return [(ending.log_prob, ending.greedy) for ending in result]

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = True) -> list[str]:
        """Greedy text of each request of one task. Raises UsageError where its generation_kwargs ask for sampling."""
        options = requests[0].args[1]
        contexts = [self.tok_encode(request.args[0]) for request in requests]
        if (
            options.get("do_sample")
            or options.get("temperature")
            or options.get("num_beams", 1) != 1
        ):
            raise UsageError(
                "Shared-prefix evaluation is greedy; set do_sample: false and temperature: 0 in the task."
            )
        stop, most = tuple(options.get("until", ())), options["max_gen_toks"]
        return self.reader.generate(contexts, most, stop, self._read_shared(contexts))

    def loglikelihood_rolling(
        self, requests: list[Instance], disable_tqdm: bool = True
    ) -> NoReturn:
        """Not possible: what is released stands before a query."""
        raise UsageError(
            "Log-likelihoods of whole texts have no query; use lm-eval's own model `hf` for such a task."
        )

    def _read_shared(self, contexts: Sequence[Tokens]) -> Any:
        """What all contexts begin with, read once."""
        return (
            self.reader.prefix(contexts[0][: common_prefix_length(contexts)]) if contexts else None
        )


class AnswersLM(LM):
    """Says the answer to each document, by its id.

    A label that is the answer has log-probability 0, every other one NOT_CHOSEN. All labels of a content-free document,
    which nobody was asked about, get 0, so that contextual calibration changes nothing.
    """

    def __init__(self, answers: Mapping[str, str]) -> None:
        super().__init__()
        self._answers = answers

    def loglikelihood(
        self,
        requests: list[Instance],
        disable_tqdm: bool = True,
    ) -> list[tuple[float, bool]]:
        """(0.0, True) for the released label of a document, (NOT_CHOSEN, False) for the others."""
        chosen = [
            bool(request.doc.get("content_free"))
            or self._answers[request.doc["id"]] == request.args[1].strip()
            for request in requests
        ]
        return [(0.0, True) if each else (NOT_CHOSEN, False) for each in chosen]

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = True) -> list[str]:
        """The released answer of each document, as it is."""
        return [self._answers[request.doc["id"]] for request in requests]

    def loglikelihood_rolling(
        self, requests: list[Instance], disable_tqdm: bool = True
    ) -> NoReturn:
        raise UsageError("Answers are to queries, and whole texts have none; choose another task.")
