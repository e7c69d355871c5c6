"""Which reader a model of transformers gets, and whether its rows are read alone: measured on this machine, once.

Rows of random tokens are read one by one, and again among others in passes of every shape, at other places; a decoder's
next token too. Where every bit is the same, a row's bits depend on its own tokens alone, which is what the proofs of
private rows need (docs/accounting.md). The answers are also compared with transformers' own, beyond a sliding window
where there is one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
import transformers

from dpicl.harness.core import json_text
from dpicl.harness.core.files import put_whole
from dpicl.harness.core.paths import models_folder
from dpicl.harness.models.base import READING_VERSION, ModelIdentity
from dpicl.harness.models.reading import SHAPES
from dpicl.harness.models.transformers import CausalModel, PlainLM, TransformersLM, unsupported

#: Lengths of the rows that are watched: one token, odd ones, and more than a piece.
WATCHED = (1, 2, 17, 100, 300)
#: The most that the probabilities of all tokens together may differ from transformers' own, by number format.
TOLERANCE = {torch.float32: 1e-3}
ROUGH = 0.15
#: Numbers of one-token rows beside the watched ones: the output layer has each of its shapes.
_OTHERS = (0, 20, 50, 100)
#: Environment variables that decide how numbers are multiplied.
_SETS = re.compile(r"MKL_|(ONEDNN|DNNL)_(?!PRIMITIVE_CACHE)|NVIDIA_TF32|CUBLAS_|ATEN_CPU")
#: A window that is longer than this is not looked beyond.
LONGEST = 1200

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Measured:
    """alone: no row changed a bit of another. agrees: with what transformers itself reads."""

    alone: bool
    agrees: bool


def reader_of(model: Any, tokenizer: Any, identity: ModelIdentity, start_token: int | None = None) -> CausalModel:
    """The packed reader where it takes the model, and gives what transformers itself reads; else the plain one.

    The identity of what is returned says whether rows are read alone.
    """
    if not unsupported(model):
        packed = TransformersLM(model, tokenizer, identity, start_token)
        found = measured(packed)
        if found.agrees:
            packed.identity = replace(identity, rows_alone=found.alone)
            return packed
        _log.warning("%s is read one row a pass: packed rows give other numbers than transformers.", identity.name)
    return PlainLM(model, tokenizer, replace(identity, rows_alone=True), start_token)


def measured(model: TransformersLM) -> Measured:
    """What was found on this machine, now or before; nothing is kept for a model without a fingerprint."""
    identity = model.identity
    if not (identity.sha256 or identity.revision):
        return measure(model)
    device = torch.cuda.get_device_name(model.device) if model.device.type == "cuda" else torch.__config__.show()
    matters = [
        READING_VERSION,
        SHAPES,
        identity.sha256,
        identity.revision,
        identity.dtype,
        device,
        torch.get_num_threads(),
    ]
    versions = [torch.__version__, transformers.__version__, torch.backends.cpu.get_cpu_capability(), platform.node()]
    settings = [
        torch.get_float32_matmul_precision(),
        *sorted(f"{k}={v}" for k, v in os.environ.items() if _SETS.match(k)),
    ]
    key = hashlib.sha256(json.dumps([*matters, *versions, *settings]).encode()).hexdigest()[:32]
    path = models_folder() / "independence" / f"{key}.json"
    with suppress(OSError, ValueError, TypeError):
        return Measured(**json_text.read(path))
    found = measure(model)
    try:
        put_whole(path, json.dumps(asdict(found)))
    except OSError as error:
        _log.warning("What was measured of %s cannot be kept (%s).", identity.name, error.strerror)
    return found


def measure(model: TransformersLM) -> Measured:
    """Reads the rows in all ways; takes seconds."""
    random, longest = np.random.default_rng(0), model.max_length - model.lead_tokens - 1

    def row(length: int) -> list[int]:
        return random.integers(model.vocab_size, size=min(length, longest)).tolist()

    watched = [row(length) for length in WATCHED if length <= longest]
    alone = torch.cat([model.next_token_log_probs([own]) for own in watched])
    same = True
    shapes = [shape for shape in SHAPES if shape <= model.pass_tokens]
    for before, shape in zip((0, *shapes), shapes, strict=False):
        for group in _groups(watched, before):
            size = sum(len(watched[at]) for at in group)
            if size < shape:
                fill = [row(1 + length) for length in _split(int(random.integers(before, shape)) - size)]
                order = random.permutation(len(group) + len(fill))
                rows = [*(watched[at] for at in group), *fill]
                read = torch.empty(len(rows), model.vocab_size)
                read[order] = model.next_token_log_probs([rows[at] for at in order])
                same = same and bool((read[: len(group)] == alone[group]).all())
    singles = [model.decoder([own]) for own in watched]
    for single in singles:
        single.append(1)
    stepped = torch.cat([single.log_probs for single in singles])
    for others in _OTHERS:  # so many rows are predicted from at once
        fill = [row(1) for _ in range(others)]
        place = int(random.integers(others + 1))
        rows, mine = [*fill[:place], *watched, *fill[place:]], slice(place, place + len(watched))
        same = same and bool((model.next_token_log_probs(rows)[mine] == alone).all())
        together = model.decoder(rows)
        together.append(1)
        same = same and bool((together.log_probs[mine] == stepped).all())
    agrees = _agrees(model, row(_length(model)), [row(5), row(23)])
    model.usage.tokens_read = model.usage.forward_calls = 0
    return Measured(same, agrees)


def _groups(watched: Sequence[Sequence[int]], room: int) -> list[list[int]]:
    """Numbers of the rows that share a pass: all where there is room, else each has one of its own."""
    together = sum(map(len, watched)) < room
    return [list(range(len(watched)))] if together else [[at] for at in range(len(watched))]


def _split(tokens: int) -> list[int]:
    """Lengths of rows that fill up a pass: the longest first, so that few and many rows come up."""
    lengths = []
    while tokens > 1:
        lengths.append(max(1, tokens // 2 - 1))
        tokens -= lengths[-1] + 1
    return lengths


def _length(model: TransformersLM) -> int:
    window = getattr(model.model.config.get_text_config(decoder=True), "sliding_window", None) or 0
    return window + 40 if 0 < window <= LONGEST else 64


@torch.inference_mode()
def _agrees(model: TransformersLM, row: list[int], others: list[list[int]]) -> bool:
    """Among other rows, read as a whole and after a prefix of its own."""
    whole = torch.tensor([model._opened(row)], device=model.device)
    theirs = model.model(whole, use_cache=False).logits[0, -1].float().softmax(-1)
    rows, prefix = [others[0], row, *others[1:]], model.prefix(row[: len(row) // 2])
    most = TOLERANCE.get(model.model.dtype, ROUGH)
    return all(
        float((read[1].exp() - theirs.cpu()).abs().sum()) <= most
        for read in (model.next_token_log_probs(rows), model.next_token_log_probs(rows, prefix))
    )
