"""Texts that a BERT reads packed into passes of few constant shapes: each gets the bits that it has in one by itself.

sentence-transformers reads a text alone in products of as many rows as it has tokens: fetching the weights takes much
of the time, and Python a good part of the rest. Here texts stand one after the other in a pass, as rows of a language
model do (`dpicl.models.reading`); attention and pooling are computed text by text, in the text's own shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import BertModel
from transformers.modeling_utils import AttentionInterface

from dpicl.models import pass_shapes
from dpicl.models.reading import SHAPES, shape_of

#: What transformers calls this way to attend.
NAME = "dpicl_packed_texts"
#: The most tokens of a pass, and the sizes that it may have.
PASS = 512
SIZES = tuple(size for size in SHAPES if size <= PASS)
#: What a coordinate may differ by from that of sentence-transformers, whose passes have other sizes.
TOLERANCE = 1e-5
#: Numbers of words of the texts that are watched, and which of them share a pass: passes have every shape.
WATCHED = (1, 20, 40, 30, 130, 300)
GROUPS = ([0], [1], [2], [2, 3], [5], [5, 2], [5, 4, 3, 2, 1, 0])

#: (begin, end) of a text in a pass.
Span = tuple[int, int]


class PackedTexts:
    """Reads texts for a model of sentence-transformers on a CPU. products: the block in which it multiplies."""

    def __init__(self, model: Any, products: Callable[[], AbstractContextManager[None]]) -> None:
        self._model, self._products = model, products
        self._shapes: tuple[int, ...] = SIZES

    @torch.inference_mode()
    def read(self, texts: Sequence[str]) -> np.ndarray:
        """float32[n, d] for n texts."""
        longest = self._model.max_seq_length
        tokens = self._model.tokenizer(list(texts), truncation=True, max_length=longest, verbose=False)["input_ids"]
        return np.concatenate([row for together in _passes(tokens, self._shapes[-1]) for row in self._pass(together)])

    def holds(self, alone: Callable[[Sequence[str]], np.ndarray]) -> bool:
        """Whether a text gets the bits that it has by itself wherever it stands in passes of all sizes, and up to
        rounding what ``alone``, of sentence-transformers, makes of it. Chooses the sizes before.

        Measured in a fraction of a second. False, or some error, for models that cannot be read so.
        """
        model, longest = self._model[0].auto_model, self._model.max_seq_length
        if not isinstance(model, BertModel) or model.device.type != "cpu" or longest is None or longest > PASS:
            return False
        known = pass_shapes.classes(pass_shapes.probes(model, model.modules()), SIZES)
        self._shapes = pass_shapes.cheapest(known, SIZES, longest)
        if not self._shapes:
            return False
        texts = [" ".join(f"word {at}" for at in range(count // 2 + 1)) for count in WATCHED]
        expected = np.concatenate([self.read([text]) for text in texts])
        theirs = np.concatenate([alone([text]) for text in texts])
        same = all(np.array_equal(self.read([texts[at] for at in group]), expected[group]) for group in GROUPS)
        return same and np.allclose(expected, theirs, rtol=0, atol=TOLERANCE)

    def _pass(self, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """float32[1, d] for each of some texts, whose tokens fit into a pass."""
        ends = np.cumsum([len(row) for row in rows]).tolist()
        spans = list(zip([0, *ends], ends, strict=False))
        fill = [0] * (shape_of(ends[-1], self._shapes) - ends[-1])
        tokens = torch.tensor([[*(token for row in rows for token in row), *fill]])
        positions = torch.tensor([[*(at for row in rows for at in range(len(row))), *fill]])
        bert, *others = self._model
        config = bert.auto_model.config
        before, config._attn_implementation_internal = config._attn_implementation_internal, NAME
        try:
            with self._products():
                read = bert.auto_model(input_ids=tokens, position_ids=positions, spans=spans).last_hidden_state
        finally:
            config._attn_implementation_internal = before
        return [_after(others, read[:, begin:end]) for begin, end in spans]


def _after(modules: Iterable[Any], tokens: torch.Tensor) -> np.ndarray:
    """float32[1, d]: what the modules after the BERT make of one text's tokens [1, n, d]."""
    found = {"token_embeddings": tokens, "attention_mask": torch.ones(tokens.shape[:2], dtype=torch.long)}
    for module in modules:
        found = module(found)
    return found["sentence_embedding"].numpy()


def _passes(rows: Sequence[Sequence[int]], most: int) -> Iterator[list[Sequence[int]]]:
    together: list[Sequence[int]] = []
    for row in rows:
        if together and sum(map(len, together)) + len(row) > most:
            yield together
            together = []
        together.append(row)
    if together:
        yield together


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    *,
    spans: Sequence[Span],
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """The attention of one layer, [1, T, heads, d], of texts that see themselves; what fills the pass gets zeros.

    query, key, value: [1, heads, T, d].
    """
    result = value.new_zeros(1, query.shape[2], query.shape[1], value.shape[3])
    for begin, end in spans:
        asks, keys, values = (each[:, :, begin:end] for each in (query, key, value))
        result[:, begin:end] = scaled_dot_product_attention(asks, keys, values, scale=scaling).transpose(1, 2)
    return result, None


AttentionInterface.register(NAME, _attend)
