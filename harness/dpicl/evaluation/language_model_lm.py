"""``LanguageModelLM``: any LanguageModel as a model of lm-evaluation-harness, with what contexts share read once."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

from lm_eval.api.model import TemplateLM

from dpicl.core.errors import UsageError
from dpicl.models.base import LanguageModel, ScoredEnding, Tokens, common_prefix_length, not_finite

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

#: One request of lm-eval's `_loglikelihood_tokens`: ((context, continuation), context tokens, continuation tokens).
TokenRequest = tuple[tuple[str, str], list[int], list[int]]
#: lm-eval's default for `max_gen_toks`.
MAX_NEW_TOKENS = 256


def score_endings(model: LanguageModel, pairs: Sequence[tuple[Tokens, Tokens]]) -> list[ScoredEnding]:
    """Scores every (context, ending) pair, in order. Whether an ending is greedy is False where the model cannot say.

    Raises ModelError when a log-probability is not finite, PromptTooLong when a pair does not fit.
    """
    endings = defaultdict[tuple[int, ...], list[Tokens]](list)
    for context, ending in pairs:
        endings[tuple(context)].append(ending)
    contexts = list(endings)
    scored = model.score_endings(list(endings.items()), _shared(model, contexts))
    found = {context: iter(row) for context, row in zip(contexts, scored, strict=True)}
    result = [next(found[tuple(context)]) for context, _ in pairs]
    if not all(math.isfinite(ending.log_prob) for ending in result):
        raise not_finite(model.identity.name)
    return result


class LanguageModelLM(TemplateLM):
    """The same log-probabilities as lm-eval's own `HFLM`, without reading the shared prefix for every request.

    A context that is too long raises PromptTooLong instead of losing its left end, and generation is greedy only.
    """

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.reader = model
        self._encode = lru_cache(maxsize=64)(model.encode)

    @property
    def eot_token_id(self) -> int:
        return self.reader.eos_token_id

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        return self._encode(string)

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = True) -> list[tuple[float, bool]]:
        """(log-probability, greedy) of each request."""
        _refuse_repeats(requests)
        return TemplateLM.loglikelihood(self, requests, disable_tqdm=True)

    def _loglikelihood_tokens(self, requests: list[TokenRequest], **kwargs: Any) -> list[tuple[float, bool]]:
        scored = score_endings(self.reader, [(context, ending) for _, context, ending in requests])
        return [(ending.log_prob, ending.greedy) for ending in scored]

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = True) -> list[str]:
        """Greedy text of each request. Raises UsageError for sampling options."""
        _refuse_repeats(requests)
        contexts = [self.tok_encode(request.args[0]) for request in requests]
        options, prefix = [_generation_options(request.args[1]) for request in requests], _shared(self.reader, contexts)
        written = dict[int, str]()
        for stop, most in dict.fromkeys(options):
            places = [at for at, own in enumerate(options) if own == (stop, most)]
            texts = self.reader.generate([contexts[at] for at in places], most, stop, prefix)
            written |= dict(zip(places, texts, strict=True))
        return [written[at] for at in range(len(requests))]

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = True) -> NoReturn:
        """Not possible: what is released stands before a query."""
        raise UsageError("Log-likelihoods of whole texts have no query; use lm-eval's own model `hf` for such a task.")


def _shared(model: LanguageModel, contexts: Sequence[Tokens]) -> Any:
    """What all contexts begin with, read once."""
    return model.prefix(contexts[0][: common_prefix_length(contexts)]) if contexts else None


def _refuse_repeats(requests: Sequence[Instance]) -> None:
    if any((request.repeats or 1) > 1 for request in requests):
        raise UsageError("Shared-prefix evaluation is greedy, so `repeats` above 1 changes nothing; set it to 1.")


def _generation_options(options: dict[str, Any]) -> tuple[tuple[str, ...], int]:
    """(stop strings, most new tokens) of lm-eval's generation_kwargs. Raises UsageError when they ask for sampling."""
    if options.get("do_sample") or options.get("temperature") or options.get("num_beams", 1) != 1:
        raise UsageError("Shared-prefix evaluation is greedy; set do_sample: false and temperature: 0 in the task.")
    until = options.get("until") or []
    stop = (until,) if isinstance(until, str) else tuple(until)
    return stop, int(options.get("max_gen_toks", options.get("max_new_tokens", MAX_NEW_TOKENS)))
