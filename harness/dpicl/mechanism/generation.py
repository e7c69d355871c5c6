"""Helpers of demonstration mechanisms: prompts of slots, public vocabularies, ends of texts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from dpicl.core.errors import ModelError, PromptTooLong, UsageError, require_known
from dpicl.core.vocabulary import Demonstration
from dpicl.data.task import STYLES, PublicTask, Record
from dpicl.models.base import LanguageModel, Prefix
from dpicl.privacy.private_set import PrivateRecord


class PromptWriter:
    """Writes the prompts that ask for one more text of a label: with the records of a slot, or with none (public).

    room: tokens that must stay free behind the prompt, for the text to come.
    record_tokens: see `cut_record`.
    Raises PromptTooLong when the public prompt and the text to come do not fit the model.
    """

    def __init__(
        self,
        task: PublicTask,
        model: LanguageModel,
        label: str,
        room: int,
        record_tokens: int | None,
        style: str,
    ) -> None:
        self._task, self._model, self._label, self._style = task, model, label, style
        self._record_tokens = record_tokens
        self._limit = model.max_length - model.lead_tokens - room
        self.public = self._encode(())
        if len(self.public) > self._limit:
            raise PromptTooLong(
                f"The public prompt of task {task.name} has {len(self.public)} tokens and {room} are to be written, but"
                f" model {model.identity.name} reads {model.max_length}; lower `tokens` or use another model."
            )

    @cached_property
    def prefix(self) -> Prefix:
        """The public prompt, read once where somebody wants it; every other prompt begins as it does."""
        return self._model.prefix(self.public)

    def private(self, slot: Sequence[PrivateRecord]) -> list[int]:
        """The slot's prompt; an empty slot answers with the public prompt.

        A slot that is too long for the model loses its last records until it fits: a function of this slot alone, so
        that no private record can make the run fail.
        """
        for number in range(len(slot), 0, -1):
            tokens = self._encode(slot[:number])
            if len(tokens) <= self._limit:
                return tokens
        return self.public

    def _encode(self, slot: Sequence[PrivateRecord]) -> list[int]:
        examples = [cut_record(record, self._model, self._record_tokens) for record in slot]
        return self._model.encode(
            self._task.generation_prompt(
                self._label,
                examples,
                style=self._style,
            )
        )


def cut_record(record: PrivateRecord, model: LanguageModel, tokens: int | None) -> Record:
    """The record with its first so many tokens (None: all). The cut looks at this record alone, so it changes no
    sensitivity."""
    text = record.text
    if tokens is not None and len(encoded := model.encode(text)) > tokens:
        text = model.decode(encoded[:tokens])
    return Record(text=text, label=record.label)


def draw_in_public(scores: np.ndarray, randomness: np.random.Generator) -> int:
    """A token drawn from softmax(scores), both public: scores are float64[V]."""
    return int((scores + randomness.gumbel(size=len(scores))).argmax())


class ReleasedText:
    """Tokens released so far, and whether the text has ended (post-processing of released tokens).

    A text ends at EOS or at the task's first stop string; blanks and line breaks before its first word end nothing.
    """

    def __init__(self, task: PublicTask, model: LanguageModel) -> None:
        self._task, self._model = task, model
        self.tokens: list[int] = []
        self.ended = False

    def append(self, token: int) -> None:
        self.tokens.append(token)
        text = self._model.decode(self.tokens).lstrip()
        self.ended = token == self._model.eos_token_id or self._cut_at_stop(text) != text

    def demonstration(self, label: str) -> Demonstration:
        """The text before the first stop string, without the quotation marks around it (Tang's post-processing)."""
        text = (
            self._cut_at_stop(self._model.decode(self.tokens).lstrip()).strip().strip('"').strip()
        )
        return Demonstration(text=text, label=label, tokens=len(self.tokens))

    def _cut_at_stop(self, text: str) -> str:
        ends = [at for stop in self._task.stop_strings if (at := text.find(stop)) >= 0]
        return text[: min(ends)] if ends else text


def public_log_probs(log_probs: object, model: LanguageModel) -> np.ndarray:
    """float64[..., V] of public prompts. Raises ModelError when they are not finite probabilities."""
    values = np.asarray(log_probs, dtype=np.float64)
    if (
        np.isnan(values).any()
        or np.isposinf(values).any()
        or not np.isfinite(values).any(axis=-1).all()
    ):
        raise ModelError(
            f"Model {model.identity.name} answers a public prompt with NaN or infinite probabilities; load it in"
            " float32 or check its weights."
        )
    return values


def public_vocabulary(
    public: np.ndarray,
    top_k: int | None,
    top_p: float | None,
) -> np.ndarray:
    """int64[K]: the token ids that a release is chosen from, by the public prompt's log-probabilities [V] alone.

    The top_k most likely tokens (None: all) that have any probability, of which top_p keeps the smallest head with at
    least that probability under the public prompt (PTA, algorithm 2). Ties go to the lower id. At least one is kept.
    """
    # others are what a model server leaves out
    possible = max(1, int(np.count_nonzero(public > -np.inf)))
    keep = possible if top_k is None else min(top_k, possible)
    likely = np.flatnonzero(public >= np.partition(public, -keep)[-keep])  # ties included
    order = likely[np.argsort(-public[likely], kind="stable")]
    if top_p is not None:
        mass = np.cumsum(np.exp(public[order]))
        keep = min(keep, int(np.searchsorted(mass, top_p)) + 1)
    return order[:keep]


def check_style(style: str) -> None:
    """Raises UsageError for a style in which no task has prompts."""
    require_known("prompt style", [style], STYLES)


def check_positive(**options: float | None) -> None:
    """Raises UsageError for an option that is not above 0 (None means 'not used')."""
    for name, value in options.items():
        if value is not None and not value > 0:
            raise UsageError(f"Option {name} must be above 0, not {value}.")


def label_endings(task: PublicTask, model: LanguageModel) -> list[list[int]]:
    """Tokens of each label word after a prompt, as lm-eval splits them: those of the whole behind the prompt's own.

    Where the tokens of one label begin those of another, as of '1' and '10', all go on with the token that ends a label
    in a prompt; without it the shorter one would always be at least as likely. Empty for tasks without labels to score.
    Raises UsageError for labels that are one to the model's tokenizer.
    """
    plain = _plain_endings(task, model)
    begun = _find_beginning(plain)
    return plain if begun is None else _ended(task, model, plain)


def ended_continuations(task: PublicTask, model: LanguageModel) -> dict[str, list[int]]:
    """What follows a prompt -> its tokens, with those of `label_endings`; empty where no label begins another one."""
    plain = _plain_endings(task, model)
    if _find_beginning(plain) is None:
        return {}
    continuations = [task.config.target_delimiter + label for label in task.labels]
    return dict(zip(continuations, _ended(task, model, plain), strict=True))


def _plain_endings(task: PublicTask, model: LanguageModel) -> list[list[int]]:
    if not task.chooses:
        return []
    base = task.query("")
    start = len(model.encode(base))
    return [
        model.encode(base + task.config.target_delimiter + label)[start:] for label in task.labels
    ]


def _ended(
    task: PublicTask,
    model: LanguageModel,
    plain: Sequence[Sequence[int]],
) -> list[list[int]]:
    base, config = task.query(""), task.config
    start = len(model.encode(base))
    ended = []
    for label, tokens in zip(task.labels, plain, strict=True):
        shown = model.encode(
            base + config.target_delimiter + label + config.fewshot_delimiter + base
        )
        ended.append(shown[start : start + len(tokens) + 1])
    if (pair := _find_beginning(ended)) is not None:
        first, second = (task.labels[at] for at in pair)
        raise UsageError(
            f"The model {model.identity.name} cannot tell the labels '{first[:60]}' and '{second[:60]}' apart: its"
            " tokenizer makes them one; rename one of them, or use another model."
        )
    return ended


def _find_beginning(endings: Sequence[Sequence[int]]) -> tuple[int, int] | None:
    """The places of an ending and of one that begins with it, if there are any: sorted, they are neighbours."""
    order = sorted(range(len(endings)), key=lambda at: tuple(endings[at]))
    for first, second in pairwise(order):
        if endings[second][: len(endings[first])] == endings[first]:
            return first, second
    return None
