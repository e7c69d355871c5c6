"""How requests of lm-eval are answered by a LanguageModel: everything that contexts share is read once.

``PrefixScoring`` is mixed into lm-eval model classes. It takes their requests as tokens, reads the longest common
prefix of all contexts once, groups endings by context, and scores them with the model's own `score`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

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
    if not pairs:
        return []
    groups: dict[tuple[int, ...], list[int]] = {}
    for index, (context, _) in enumerate(pairs):
        groups.setdefault(tuple(context), []).append(index)
    contexts = list(groups)
    shared = contexts[0][: common_prefix_length(contexts)]
    queries = [(context, [pairs[i][1] for i in members]) for context, members in groups.items()]
    scored = model.score_endings(queries, model.prefix(shared))
    result = [ScoredEnding(0.0, False)] * len(pairs)
    for members, row in zip(groups.values(), scored, strict=True):
        for index, ending in zip(members, row, strict=True):
            result[index] = ending
    if not all(math.isfinite(ending.log_prob) for ending in result):
        raise not_finite(model.identity.name)
    return result


class PrefixScoring(TemplateLM):
    """Answers lm-eval's requests with ``reader``. Subclasses bring the tokenizer (`tok_encode`) and set ``reader``."""

    reader: LanguageModel

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = True) -> list[tuple[float, bool]]:
        """(log-probability, greedy) of each request; the prefix is shared within a task."""
        return self._by_task(requests, lambda part: TemplateLM.loglikelihood(self, part, disable_tqdm=True))

    def _loglikelihood_tokens(
        self, requests: list[TokenRequest], disable_tqdm: bool = True, **kwargs: Any
    ) -> list[tuple[float, bool]]:
        scored = score_endings(self.reader, [(context, ending) for _, context, ending in requests])
        answers = [(ending.log_prob, ending.greedy) for ending in scored]
        for (texts, _, _), answer in zip(requests, answers, strict=True):
            self.cache_hook.add_partial("loglikelihood", texts, answer)
        return answers

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = True) -> list[str]:
        """Greedy text of each request. Raises UsageError for sampling options."""
        return self._by_task(requests, self._generate)

    def _generate(self, requests: list[Instance]) -> list[str]:
        answers = [""] * len(requests)
        options = [_generation_options(request.args[1]) for request in requests]
        order = sorted(range(len(requests)), key=lambda i: options[i])
        for (stop, max_tokens), members in groupby(order, key=lambda i: options[i]):
            indices = list(members)
            contexts = [self.tok_encode(requests[i].args[0]) for i in indices]
            shared = contexts[0][: common_prefix_length(contexts)]
            texts = self.reader.generate(contexts, max_tokens, stop, self.reader.prefix(shared))
            for i, text in zip(indices, texts, strict=True):
                answers[i] = text
                self.cache_hook.add_partial("generate_until", requests[i].args, text)
        return answers

    def _by_task(self, requests: list[Instance], answer: Any) -> list[Any]:
        """Answers the requests of one task together, and returns all answers in the order of the requests."""
        refuse_unsupported(self, requests)
        members: dict[Any, list[int]] = {}
        for index, request in enumerate(requests):
            members.setdefault(request.task_name, []).append(index)
        result: list[Any] = [None] * len(requests)
        for indices in members.values():
            for index, value in zip(indices, answer([requests[i] for i in indices]), strict=True):
                result[index] = value
        return result


def refuse_unsupported(model: Any, requests: Iterable[Instance]) -> None:
    """Raises UsageError for what would change results silently: repeated requests, several processes."""
    if model.world_size > 1:
        raise UsageError("Shared-prefix evaluation runs in one process; start lm-eval without accelerate or torchrun.")
    if any((request.repeats or 1) > 1 for request in requests):
        raise UsageError("Shared-prefix evaluation is greedy, so `repeats` above 1 changes nothing; set it to 1.")


def _generation_options(options: dict[str, Any]) -> tuple[tuple[str, ...], int]:
    """(stop strings, most new tokens) of lm-eval's generation_kwargs. Raises UsageError when they ask for sampling."""
    if options.get("do_sample") or options.get("temperature") or options.get("num_beams", 1) != 1:
        raise UsageError("Shared-prefix evaluation is greedy; set do_sample: false and temperature: 0 in the task.")
    until = options.get("until") or []
    stop = (until,) if isinstance(until, str) else tuple(until)
    return stop, int(options.get("max_gen_toks", options.get("max_new_tokens", MAX_NEW_TOKENS)))
