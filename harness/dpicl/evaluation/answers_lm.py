"""``AnswersLM``: released answers as a model of lm-evaluation-harness, which scores them like a language model's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NoReturn

from lm_eval.api.model import LM

from dpicl.core.errors import UsageError

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

#: Log-probability of a label that was not chosen: e^-1000 is 0 in float64, and the number stays finite in JSON.
NOT_CHOSEN = -1000.0


class AnswersLM(LM):
    """Says the answer to each document, by its id.

    A label that is the answer has log-probability 0, every other one NOT_CHOSEN. All labels of a content-free document,
    which nobody was asked about, get 0, so that contextual calibration changes nothing.
    """

    def __init__(self, answers: Mapping[str, str]) -> None:
        super().__init__()
        self._answers = answers

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = True) -> list[tuple[float, bool]]:
        """(0.0, True) for the released label of a document, (NOT_CHOSEN, False) for the others."""
        chosen = [
            bool(request.doc.get("content_free")) or self._answers[request.doc["id"]] == request.args[1].strip()
            for request in requests
        ]
        return [(0.0, True) if each else (NOT_CHOSEN, False) for each in chosen]

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = True) -> list[str]:
        """The released answer of each document, as it is."""
        return [self._answers[request.doc["id"]] for request in requests]

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = True) -> NoReturn:
        raise UsageError("Answers are to queries, and whole texts have none; choose another task.")
