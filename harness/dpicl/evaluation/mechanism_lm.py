"""``MechanismLM``: an answer mechanism as a model of lm-evaluation-harness. One release for each document.

All requests of one document (one a label, or one generation) are answered from the same release. What lm-eval could do
to spend a budget twice is refused: several processes, repeats, its own cache, rolling log-likelihoods.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from lm_eval.api.model import LM

from dpicl.core.errors import UsageError
from dpicl.core.vocabulary import Query

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

#: Answers the queries of one task, named as lm-eval names it: query id -> answer.
Respond = Callable[[str, Sequence[Query]], Mapping[str, str]]

#: Log-probability of a label that was not chosen: e^-1000 is 0 in float64, and the number stays finite in JSON.
NOT_CHOSEN = -1000.0


class ReleasingLM(LM):
    """A model of lm-eval that spends a budget. Raises UsageError in several processes, each of which would spend it
    again, for lm-eval's cache, and for log-likelihoods of whole texts, which have no query."""

    def __init__(self) -> None:
        super().__init__()
        if int(os.environ.get("WORLD_SIZE") or 1) > 1:  # torchrun or accelerate
            raise UsageError("Every process would spend the budget again; start lm-eval in one process (world size 1).")

    def set_cache_hook(self, cache_hook: Any) -> NoReturn:
        """Refused: lm-eval's cache knows neither seed nor epsilon."""
        raise UsageError("lm-eval's cache does not know epsilon or seed; leave --use_cache out.")

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = True) -> NoReturn:
        """Refused: a release answers a query."""
        raise UsageError("A release answers queries, and log-likelihoods of texts have none; choose another task.")


class MechanismLM(ReleasingLM):
    """Answers with what ``respond`` releases.

    A label that is the answer has log-probability 0, every other one NOT_CHOSEN. A content-free document is not asked:
    all its labels get 0, so that contextual calibration changes nothing after the release.
    Raises UsageError for everything that one release a document cannot serve.
    """

    def __init__(self, respond: Respond) -> None:
        super().__init__()
        self._respond = respond
        self._answers: dict[str, dict[str, str]] = {}

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = True) -> list[tuple[float, bool]]:
        """(0.0, True) for the released label of a document, (NOT_CHOSEN, False) for the others."""
        answers = self._answered(requests)
        result = []
        for request in requests:
            label = request.args[1].strip()
            chosen = _is_content_free(request) or answers[request.task_name][request.doc["id"]] == label
            result.append((0.0, True) if chosen else (NOT_CHOSEN, False))
        return result

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = True) -> list[str]:
        """The released answer of each document, as it is."""
        answers = self._answered(requests)
        return [answers[request.task_name][request.doc["id"]] for request in requests]

    def _answered(self, requests: Sequence[Instance]) -> dict[str, dict[str, str]]:
        """All answers by task and document id; documents that have none yet are answered together."""
        new: dict[str, dict[str, Query]] = {}
        for request in requests:
            if (request.repeats or 1) > 1:
                raise UsageError("Every repeat would be another release; set `repeats: 1` in the task.")
            if "id" not in request.doc or "text" not in request.doc:
                raise UsageError(
                    f"Task {request.task_name} is not one of this project: its documents have no id and text."
                )
            name, key = str(request.task_name), str(request.doc["id"])
            if not _is_content_free(request) and key not in self._answers.get(name, {}):
                new.setdefault(name, {})[key] = Query(key, str(request.doc["text"]))
        for name, queries in new.items():
            if name in self._answers:
                raise UsageError(
                    f"lm-eval asks task {name} for more documents after its budget was spent; evaluate it in one run."
                )
            self._answers[name] = dict(self._respond(name, list(queries.values())))
        return self._answers


def _is_content_free(request: Instance) -> bool:
    return bool(request.doc.get("content_free"))
