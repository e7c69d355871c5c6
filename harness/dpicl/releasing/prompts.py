"""Builds the prompts of slots: lm-eval's few-shot prompt with a slot's records as its examples."""

from __future__ import annotations

from dpicl.core.errors import PromptTooLong
from dpicl.data.task import PublicTask
from dpicl.mechanism.bases import Slot
from dpicl.mechanism.generation import cut_record, label_endings
from dpicl.models.base import LanguageModel
from dpicl.privacy.private_set import PrivateRecord


class SlotPrompts:
    """Writes prompts as texts; an empty slot has the public prompt.

    shown: the most records of a slot that its prompt shows (None: all).
    record_tokens: see `dpicl.mechanism.generation.cut_record`.
    """

    def __init__(
        self,
        task: PublicTask,
        model: LanguageModel,
        shown: int | None,
        record_tokens: int | None,
    ) -> None:
        self._task, self._model, self._shown, self._record_tokens = (
            task,
            model,
            shown,
            record_tokens,
        )
        self.endings = label_endings(task, model)
        #: Tokens that must stay free behind a prompt: for the longest label, or for an answer.
        self.room = (
            max(map(len, self.endings))
            if self.endings
            else task.config.generation_kwargs.max_gen_toks
        )
        self._limit = model.max_length - model.lead_tokens - self.room
        self._public: dict[str, str] = {}
        self._written: dict[tuple[Slot, str], str] = {}

    def public(self, text: str) -> str:
        """The zero-shot prompt. Raises PromptTooLong when it and the answer do not fit the model."""
        if text not in self._public:
            self._public[text] = self.check(self._task.icl_prefix(()) + self._task.query(text))
        return self._public[text]

    def of(self, slot: Slot, text: str) -> str:
        """The slot's prompt for a query. One that is too long for the model loses its last records until it fits: a
        function of this slot alone, so that no private record can make the run fail."""
        shown = tuple(slot[: self._shown])
        if not shown:
            return self.public(text)
        if (shown, text) not in self._written:
            self._written[shown, text] = self._fit_records(shown, text)
        return self._written[shown, text]

    def examples(self, slot: Slot) -> str:
        """The instruction and what the slot shows: the beginning of all its prompts that fit."""
        shown = [
            cut_record(
                record,
                self._model,
                self._record_tokens,
            )
            for record in slot[: self._shown]
        ]
        return self._task.icl_prefix(shown)

    def check(self, prompt: str) -> str:
        """A public prompt that fits. Raises PromptTooLong."""
        length = len(self._model.encode(prompt))
        if length > self._limit:
            raise PromptTooLong(
                f"A public prompt of task {self._task.name} has {length} tokens and {self.room} may follow, but model"
                f" {self._model.identity.name} reads {self._model.max_length}; use a model that reads more, or fewer"
                " candidates."
            )
        return prompt

    def _fit_records(self, shown: tuple[PrivateRecord, ...], text: str) -> str:
        records = [cut_record(record, self._model, self._record_tokens) for record in shown]
        query = self._task.query(text)
        for number in range(len(records), 0, -1):
            prompt = self._task.icl_prefix(records[:number]) + query
            if len(self._model.encode(prompt)) <= self._limit:
                return prompt
        return self.public(text)
