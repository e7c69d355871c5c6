"""Asks the model for answer mechanisms, through slots of private records and in public, and caches its outputs.

Every output is a function of its own slot and of public things, to the last bit (`dpicl.models.reading`), so
all slots are read together. The examples of a slot are read once for all prompts that show them. A slot that makes the
model fail abstains (a row of NaN, or an empty text). That is remembered for one release and never kept: the model, or
its server, may answer the next time.

The public prompts of all queries are read first of all (`read_public`). So whether some slot is empty, which is
private, does not decide whether a failure of the model shows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from dpicl.core.output_cache import OutputCache, key_of
from dpicl.core.together import run_together
from dpicl.core.vocabulary import Query
from dpicl.data.task import PublicTask
from dpicl.evaluation import contextual_calibration as calibration
from dpicl.mechanism.bases import Reader, Slot
from dpicl.models.base import (
    READING_VERSION,
    Broken,
    BrokenText,
    LanguageModel,
    Prefix,
    not_finite_error,
)
from dpicl.privacy.sampling_schemes import SlotScheme
from dpicl.releasing.prompts import SlotPrompts

#: Further prompts, written only when they are needed.
Prompts = Callable[[], Sequence[str]]


def _nothing() -> list[str]:
    return []


class SlotReader(Reader):
    """Asks one model for one cell; outputs are kept in ``cache`` by a hash of what was sent.

    scheme: how records are sampled into slots. Where all queries see the same slots, a slot is asked for all of
        ``queries`` at once.
    """

    def __init__(
        self,
        task: PublicTask,
        model: LanguageModel,
        cache: OutputCache,
        scheme: SlotScheme,
        queries: Sequence[Query],
        record_tokens: int | None = None,
    ) -> None:
        self._task, self._model, self._cache = task, model, cache
        self._texts = tuple(query.text for query in queries)
        self._single = scheme.single
        self._prompts = SlotPrompts(task, model, scheme.shown, record_tokens)
        identity = model.identity
        self._identity = (
            identity.name,
            identity.sha256,
            identity.revision,
            identity.dtype,
            identity.device,
            identity.arithmetic,
            READING_VERSION,
        )
        self._absent = dict[bytes, Any]()
        self._instruction: Prefix | None = None
        self._limits = (self._prompts.room, task.config.generation_kwargs.until)

    def read_public(self) -> None:
        texts = [*self._texts, *(self._task.content_free if self._prompts.endings else ())]
        prompts = [self._prompts.public(text) for text in dict.fromkeys(texts)]
        if not self._prompts.endings:
            self.write(prompts)
        elif not np.isfinite(self._scores(prompts)).all():
            raise not_finite_error(self._model.identity.name)

    def label_scores(
        self,
        query: Query,
        slots: Sequence[Slot],
        *,
        calibrated: bool,
    ) -> np.ndarray:
        blank = self._task.content_free if calibrated else ()
        scores = run_together(
            [
                partial(
                    self._label_row,
                    slot,
                    query.text,
                    blank,
                )
                for slot in slots
            ]
        )
        rows = np.array(scores).reshape(len(slots), len(self._prompts.endings))
        rows[~np.isfinite(rows).all(axis=1)] = np.nan
        return rows

    def texts(self, query: Query, slots: Sequence[Slot]) -> list[str]:
        calls = [
            partial(
                self._greedy,
                [self._prompts.of(slot, query.text)],
                "empty",
                slot,
                self._list_companions(slot),
            )
            for slot in slots
        ]
        return [text for (text,) in run_together(calls)]

    def public_texts(self, query: Query, slots: Sequence[Slot]) -> list[str]:
        return self._greedy([self._prompts.of(slot, query.text) for slot in slots], "raise")

    def candidates(self, query: Query, count: int, temperature: float) -> list[str]:
        prompt = self._prompts.public(query.text)
        names = [f"{query.id}/{i}" for i in range(1, count)]
        seeds = [
            int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big") for name in names
        ]
        keys = [
            key_of(
                self._identity,
                "sample",
                prompt,
                self._limits,
                temperature,
                seed,
            )
            for seed in seeds
        ]
        texts_by_key = self._find_kept(keys)
        missing = [i for i, key in enumerate(keys) if key not in texts_by_key]
        if missing:
            prompts = [self._model.encode(prompt)] * len(missing)
            written = self._model.generate(
                prompts, *self._limits, temperature=temperature, seeds=[seeds[i] for i in missing]
            )
            texts_by_key |= self._keep(
                {keys[i]: text.strip() for i, text in zip(missing, written, strict=True)}
            )
        return [*self.write([prompt]), *(texts_by_key[key] for key in keys)]

    def write(self, prompts: Sequence[str]) -> list[str]:
        return self._greedy([self._prompts.check(prompt) for prompt in prompts], "raise")

    def embed(self, texts: Sequence[str], name: str) -> np.ndarray:
        return embed_texts(
            texts,
            name,
            self._cache,
            self._model.identity.name,
            self._task.name,
        )

    def _list_companions(self, slot: Slot) -> Prompts:
        """What is read together with a prompt of the slot: its prompts for all queries that see the same slots.

        Not those that are the public prompt, because no record fits: they have been read.
        """

        def prompts() -> list[str]:
            pairs = (
                (self._prompts.of(slot, text), self._prompts.public(text)) for text in self._texts
            )
            return [prompt for prompt, public in pairs if prompt != public]

        return prompts if self._single else _nothing

    def _label_row(
        self,
        slot: Slot,
        text: str,
        blank: Sequence[str],
    ) -> np.ndarray:
        """float64[L] of one slot; see `label_scores`."""
        if self._prompts.of(slot, text) == self._prompts.public(text):
            slot = ()  # no record fits, so that what is read stays the same
        prompts = [self._prompts.of(slot, each) for each in (text, *blank)]
        scores, *content_free = self._scores(prompts, slot, self._list_companions(slot))
        row = np.array(scores)
        if content_free:
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                row -= np.log(calibration.content_free_probabilities(content_free))
        return row

    def _scores(
        self,
        prompts: Sequence[str],
        slot: Slot = (),
        others: Prompts = _nothing,
    ) -> list[list[float]]:
        """L log-probabilities of each prompt of a slot. ``others`` are read too, where one of these has to be."""
        examples = self._prompts.examples(slot)

        def score(texts: Sequence[str]) -> list[list[float]]:
            tokens = [self._model.encode(prompt) for prompt in texts]
            return self._model.score(
                [(row, self._prompts.endings) for row in tokens], self._begin(examples)
            )

        return self._ask("labels", prompts, others, (examples, self._prompts.endings), score)

    def _greedy(
        self,
        prompts: Sequence[str],
        broken: Broken,
        slot: Slot = (),
        others: Prompts = _nothing,
    ) -> list[str]:
        """The greedy answer to each prompt of a slot; broken: what becomes of one that makes the model fail."""
        examples = self._prompts.examples(slot)

        def generate(texts: Sequence[str]) -> list[str]:
            tokens = [self._model.encode(prompt) for prompt in texts]
            answers = self._model.generate(
                tokens,
                *self._limits,
                self._begin(examples),
                broken=broken,
            )
            return [
                BrokenText(text.strip()) if _is_absent(text) else text.strip() for text in answers
            ]

        # kept as "greedy" by versions that took failures for empty texts
        return self._ask("text", prompts, others, (examples, self._limits), generate)

    def _begin(self, examples: str) -> Prefix:
        """What every prompt of a slot begins with, read once: the instruction and the slot's examples."""
        instruction = self._prompts.examples(())
        if self._instruction is None:
            self._instruction = self._model.prefix(self._model.encode(instruction))
        if examples == instruction:
            return self._instruction
        tokens = self._model.encode(examples)
        return self._model.prefix(
            tokens[: self._model.max_length - self._model.lead_tokens], self._instruction
        )

    def _ask(
        self,
        name: str,
        prompts: Sequence[str],
        others: Prompts,
        settings: object,
        ask: Callable[[Sequence[str]], Sequence[Any]],
    ) -> list[Any]:
        """The model's output for each prompt, from the cache where it is there; else asked and kept. name: 'labels' or
        'text'. settings: all else that an output depends on besides its prompt."""

        def keys(texts: Sequence[str]) -> dict[str, bytes]:
            return {text: key_of(self._identity, name, text, settings) for text in texts}

        known = keys(prompts)
        answers = self._find_kept([*known.values()])
        if not answers.keys() >= set(known.values()):
            all_keys = known | keys(others())
            answers = self._find_kept([*all_keys.values()])
            missing = {text: key for text, key in all_keys.items() if key not in answers}
            answers |= self._keep(
                dict(
                    zip(
                        missing.values(),
                        ask(list(missing)),
                        strict=True,
                    )
                )
            )
        return [answers[known[prompt]] for prompt in prompts]

    def _find_kept(self, keys: Collection[bytes]) -> dict[bytes, Any]:
        stored = self._cache.get(self._model.identity.name, self._task.name, keys)
        # older versions kept such
        sound = {key: value for key, value in stored.items() if not _is_absent(value)}
        return sound | {key: self._absent[key] for key in keys if key in self._absent}

    def _keep(self, new: Mapping[bytes, Any]) -> Mapping[bytes, Any]:
        absent = {key: value for key, value in new.items() if _is_absent(value)}
        self._absent |= absent
        answers = {key: value for key, value in new.items() if key not in absent}
        self._cache.put(self._model.identity.name, self._task.name, answers)
        return new


def _is_absent(value: str | list[float]) -> bool:
    """Whether an output is no answer of the model."""
    return isinstance(value, BrokenText) if isinstance(value, str) else not np.isfinite(value).all()


def embed_texts(
    texts: Sequence[str],
    name: str,
    cache: OutputCache,
    model: str,
    task: str,
) -> np.ndarray:
    """float64[n, d] by the embedding model of that name, each text alone and once; model, task: what the cache notes
    beside them. Raises ModelError for a model that cannot be loaded."""
    from dpicl.models.embeddings import load_embeddings

    embeddings = load_embeddings(name)
    identity = (READING_VERSION, embeddings.name, embeddings.sha256, embeddings.arithmetic)
    keys = {text: key_of("embedding", *identity, text) for text in texts}
    stored = cache.get(model, task, keys.values())
    rows = {
        text: stored[key]
        for text, key in keys.items()
        if key in stored and _is_embedding(text, stored[key])
    }
    missing = [text for text in keys if text not in rows]
    if missing:
        new = dict(zip(missing, embeddings.encode_alone(missing).tolist(), strict=True))
        cache.put(
            model,
            task,
            {keys[text]: row for text, row in new.items() if _is_embedding(text, row)},
        )
        rows |= new
    return np.array([rows[text] for text in texts], dtype=np.float64).reshape(
        len(texts), embeddings.dimension
    )


def _is_embedding(text: str, row: Sequence[float]) -> bool:
    """Whether a row is what a model made of the text: the zero vector of one that is not blank is its failure."""
    return any(row) or not text.strip()
