"""Chooses the reader of a transformers model, and measures once whether its rows are independent of each other.

First the sizes of passes are chosen (`dpicl.models.pass_shapes`). Then rows of random tokens are read one by
one, and again among others in passes of every size: at other places, beside copies of one row in all places that are
left, and beside rows that are NaN and infinite; a decoder's next token too. Where every bit is the same, a row's bits
depend on its own tokens alone, which is what the proofs of private rows need (docs/accounting.md). The answers are
also compared with transformers' own, beyond a sliding window where there is one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
import transformers

from dpicl.core import json_text
from dpicl.core.files import put_whole
from dpicl.core.paths import models_folder
from dpicl.models import attention, pass_shapes, products
from dpicl.models.base import READING_VERSION, LanguageModel, ModelIdentity, Usage
from dpicl.models.reading import BETWEEN, OUTPUT_SHAPES, SHAPES, Shapes
from dpicl.models.transformers import CausalModel, PlainLM, TransformersLM, explain_unsupported

#: Lengths of the rows that are watched: one token, odd ones, and more than a piece.
WATCHED = (1, 2, 17, 100, 300)
#: The most that the probabilities of all tokens together may differ from transformers' own, by number format.
TOLERANCE = {torch.float32: 1e-3}
ROUGH = 0.15
#: Numbers of one-token rows beside the watched ones: the output layer has each of its shapes.
_OTHERS = (0, 20, 50, 100)
#: A pass is filled up with so many copies of a row at most, as one predicts after `MOST_PREDICTED` rows at most.
_COPIES = 56
#: Environment variables that decide how numbers are multiplied.
_SETS = re.compile(r"MKL_|(ONEDNN|DNNL)_(?!PRIMITIVE_CACHE)|NVIDIA_TF32|CUBLAS_|TRITON_|ATEN_CPU")
#: A token that follows the rows.
_NEXT = 1
#: A window that is longer than this is not looked beyond.
LONGEST = 1200

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Measured:
    """alone: no row changed a bit of another. agrees: with what transformers itself reads. bits: sha256 over what the
    watched rows gave; readers that differ in it round differently. body, output: see `Shapes`."""

    alone: bool
    agrees: bool
    bits: str
    body: list[int]
    output: list[int]

    @property
    def shapes(self) -> Shapes:
        return Shapes(tuple(self.body), tuple(self.output))


def reader_of(
    model: Any,
    tokenizer: Any,
    identity: ModelIdentity,
    start_token: int | None = None,
) -> CausalModel:
    """The packed reader where it takes the model, and gives what transformers itself reads; else the plain one.

    The identity of what is returned says whether rows are read alone, and by which arithmetic.
    """
    if not explain_unsupported(model):
        packed = TransformersLM(model, tokenizer, identity, start_token)
        measured = find_measured(packed)
        if measured.agrees:
            packed.read_in(measured.shapes)
            packed.identity = replace(
                identity, batch_invariant=measured.alone, arithmetic=measured.bits
            )
            return packed
        _log.warning(
            "%s is read one row a pass: packed rows give other numbers than transformers.",
            identity.name,
        )
    plain = PlainLM(model, tokenizer, identity, start_token)
    bits = digest(plain.next_token_log_probs(draw_watched(plain)))
    plain.usage = Usage()
    plain.identity = replace(identity, batch_invariant=True, arithmetic=bits)
    return plain


def find_measured(model: TransformersLM) -> Measured:
    """What was found on this machine, now or before; nothing is kept for a model without a fingerprint."""
    identity = model.identity
    if not (identity.sha256 or identity.revision):
        return measure(model)
    cuda = model.device.type == "cuda"
    device = (
        [
            torch.cuda.get_device_name(model.device),
            getattr(attention.kernels(), "VERSION", None),
        ]
        if cuda
        else [torch.__config__.show(), {**torch.cpu.get_capabilities()}]
    )
    matters = [
        READING_VERSION,
        identity.sha256,
        identity.revision,
        identity.dtype,
        device,
        torch.get_num_threads(),
        BETWEEN,
    ]
    versions = [
        torch.__version__,
        transformers.__version__,
        torch.backends.cpu.get_cpu_capability(),
        platform.node(),
    ]
    settings = [
        torch.get_float32_matmul_precision(),
        *sorted(f"{k}={v}" for k, v in os.environ.items() if _SETS.match(k)),
        # it was oneDNN before
        *(["MKL"] if products.linear_layers(model.model) and products.prefers_mkl() else []),
    ]
    key = hashlib.sha256(json.dumps([*matters, *versions, *settings]).encode()).hexdigest()[:32]
    path = models_folder() / "independence" / f"{key}.json"
    with suppress(OSError, ValueError, TypeError):
        return _require_sound(Measured(**json_text.read(path)))
    measured = measure(model)
    try:
        put_whole(path, json.dumps(asdict(measured)))
    except OSError as error:
        _log.warning("What was measured of %s cannot be kept (%s).", identity.name, error.strerror)
    return measured


def _require_sound(measured: Measured) -> Measured:
    """Raises ValueError for sizes that no passes have."""
    known_sizes = {*SHAPES, *BETWEEN}, {*OUTPUT_SHAPES}
    for sizes, known in zip((measured.body, measured.output), known_sizes, strict=True):
        if not sizes or sorted(known.intersection(sizes)) != sizes:
            raise ValueError("no sizes of passes")
    return measured


def measure(model: TransformersLM) -> Measured:
    """Chooses the sizes of passes, and reads the rows in all ways: with fewer sizes, and at last with one, where
    several do not hold what their products promised. Takes seconds."""
    chosen = pass_shapes.choose(model.model)
    candidates = [Shapes()]
    if chosen is not None:
        finer = pass_shapes.add_between(model.model, chosen)
        candidates = [finer, chosen, pass_shapes.choose_single(chosen)]
    for shapes in dict.fromkeys(candidates):
        model.read_in(shapes)
        alone, bits = _read_alone(model)
        if alone:
            break
    random = np.random.default_rng(1)
    agrees = _is_consistent(
        model,
        draw_row(model, random, _length(model)),
        [draw_row(model, random, 5), draw_row(model, random, 23)],
    )
    model.usage.tokens_read = model.usage.forward_calls = 0
    return Measured(
        alone and chosen is not None,
        agrees,
        bits,
        [*shapes.body],
        [*shapes.output],
    )


def _read_alone(model: TransformersLM) -> tuple[bool, str]:
    """Whether no row changes a bit of another in passes of the model's sizes; and sha256 over what the rows gave.

    All layers read the watched rows by themselves and together. The many other passes go through the first layers alone
    (`_first_layers`), and through the output layer: which kernels run, and in which shapes, depends on the kind of a
    layer, and layers of a kind are alike in everything but the values of their weights. A layer in which the place of a
    row or its neighbours matter is one of a kind that is among the first, and there it meets what is worse than any
    values that a later layer could get: copies in all places, NaN, infinities and huge numbers.
    """
    watched = draw_watched(model)
    alone = read_each_alone(model, watched)
    same = torch.equal(_read(model, watched), alone)
    known = {_NEXT, *model._tokenize_opening([]), *(token for row in watched for token in row)}
    spoilt = next(token for token in range(model.vocab_size) if token not in known)
    with _first_layers(model.model), _hostile(model.model, spoilt):
        firsts = read_each_alone(model, watched)
        for rows in _companies(model, watched, [spoilt]):
            places = [at for at, row in enumerate(rows) if row in watched]
            expected = firsts[:, [watched.index(rows[at]) for at in places]]
            same = same and torch.equal(_read(model, rows)[:, places], expected)
    return same, digest(alone)


def _read(model: LanguageModel, rows: Sequence[list[int]]) -> torch.Tensor:
    """float32[2, B, V]: what follows each row, and what follows it and one token more."""
    decoder = model.decoder(rows)
    decoder.append(_NEXT)
    return torch.stack([model.next_token_log_probs(rows), decoder.log_probs])


def read_each_alone(model: LanguageModel, rows: Sequence[list[int]]) -> torch.Tensor:
    """float32[2, B, V]: the same of rows that are read by themselves."""
    return torch.cat([_read(model, [row]) for row in rows], dim=1)


@contextmanager
def _first_layers(model: Any) -> Iterator[None]:
    """Inside this block the model ends after the layer, the second at least, with which each kind of layer was there.

    A kind is: the types of a layer's modules, their settings, and shapes, number formats and alignment of the weights.
    Nothing is left out of a model whose layers are not one list.
    """
    count = model.config.get_text_config(decoder=True).num_hidden_layers
    firsts = [
        (owner, name, child)
        for owner in model.modules()
        for name, child in owner.named_children()
        if isinstance(child, torch.nn.ModuleList) and len(child) == count
    ]
    if len(firsts) != 1:
        yield
        return
    owner, name, layers = firsts[0]
    kinds = [_kind(layer) for layer in layers]
    needed = max(2, *(1 + kinds.index(kind) for kind in kinds))
    setattr(owner, name, torch.nn.ModuleList([*layers][:needed]))
    try:
        yield
    finally:
        setattr(owner, name, layers)


def _kind(layer: torch.nn.Module) -> list[Any]:
    settings = [
        (type(module), name, value)
        for module in layer.modules()
        for name, value in {"": None, **vars(module)}.items()
        if name != "layer_idx" and (value is None or isinstance(value, int | float | str))
    ]
    weights = [
        (each.shape, each.stride(), each.dtype, each.data_ptr() % 64) for each in layer.parameters()
    ]
    return [settings, weights]


def _companies(
    model: TransformersLM,
    watched: Sequence[list[int]],
    spoilt: list[int],
) -> Iterator[list[list[int]]]:
    """Rows that are read together.

    In passes of each size, what shares one stands first or last, and the rest are copies of a row and spoilt rows. Then
    there are so many rows of one token that the output layer has each of its sizes.
    """
    random, lead, first = np.random.default_rng(2), model.lead_tokens, True
    for before, shape in zip(
        (0, *model.shapes.body),
        model.shapes.body,
        strict=False,
    ):
        for group in _groups([len(row) + lead for row in watched], shape):
            mine = [watched[at] for at in group]
            free = int(random.integers(min(16, (shape - before) // 2)))
            room = shape - free - sum(len(row) + lead for row in mine)
            unit = next(
                (row for row in watched if room <= _COPIES * (len(row) + 1 + 2 * lead)), watched[0]
            )
            fill = [unit, spoilt] * (max(0, room) // (len(unit) + 1 + 2 * lead))
            yield [*mine, *fill] if first else [*fill[::-1], *mine]
            first = not first
    for others in _OTHERS:
        fill = [draw_row(model, random, 1) for _ in range(others)]
        place = int(random.integers(others + 1))
        read = watched[:3] if others else watched
        yield [*fill[:place], *read, *fill[place:]]


def draw_row(
    model: LanguageModel,
    random: np.random.Generator,
    length: int,
) -> list[int]:
    """Random tokens, so many as fit."""
    return random.integers(model.vocab_size, size=min(length, _longest(model))).tolist()


def _longest(model: LanguageModel) -> int:
    return model.max_length - model.lead_tokens - 1


def draw_watched(model: LanguageModel) -> list[list[int]]:
    """The rows that are watched."""
    random = np.random.default_rng(0)
    return [draw_row(model, random, length) for length in WATCHED if length <= _longest(model)]


def digest(log_probs: torch.Tensor) -> str:
    """Stands for the bits of log-probabilities."""
    return hashlib.sha256(log_probs.contiguous().numpy().tobytes()).hexdigest()[:16]


def _groups(lengths: Sequence[int], room: int) -> list[list[int]]:
    """Numbers of the rows that share a pass of so many tokens, as many as fit; one that fits in none is left out."""
    groups, left = [list[int]()], room
    for at in sorted(
        (at for at, length in enumerate(lengths) if length <= room), key=lengths.__getitem__
    ):
        if lengths[at] > left:
            groups.append([])
            left = room
        groups[-1].append(at)
        left -= lengths[at]
    return groups


@contextmanager
def _hostile(model: Any, token: int) -> Iterator[None]:
    """Inside this block one token is embedded as NaN, infinities and huge numbers, in turn."""

    def spoil(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        places = (inputs[0] == token).nonzero(as_tuple=True)
        numbers = torch.tensor(pass_shapes.HOSTILE, device=output.device).to(output.dtype)
        output = output.clone()
        output[places] = numbers[torch.arange(len(places[0])) % len(numbers)][:, None]
        return output

    handle = model.get_input_embeddings().register_forward_hook(spoil)
    try:
        yield
    finally:
        handle.remove()


def _length(model: TransformersLM) -> int:
    window = getattr(model.model.config.get_text_config(decoder=True), "sliding_window", None) or 0
    return window + 40 if 0 < window <= LONGEST else 64


@torch.inference_mode()
def _is_consistent(
    model: TransformersLM,
    row: list[int],
    others: list[list[int]],
) -> bool:
    """Among other rows, read as a whole and after a prefix of its own."""
    whole = torch.tensor([model._tokenize_opening(row)], device=model.device)
    theirs = model.model(whole, use_cache=False).logits[0, -1].float().softmax(-1)
    rows = [others[0], row, *others[1:]]
    prefix = model.prefix(row[: len(row) // 2])
    most = TOLERANCE.get(model.model.dtype, ROUGH)
    return all(
        float((read[1].exp() - theirs.cpu()).abs().sum()) <= most
        for read in (model.next_token_log_probs(rows), model.next_token_log_probs(rows, prefix))
    )
