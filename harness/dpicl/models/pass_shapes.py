"""Chooses the batch sizes of a model's matrix products by measurement on this machine.

Libraries block a product by its number of lines (oneDNN on AMX cuts the inner dimension by it), so numbers of lines
fall into classes: inside one, a line of the result has the same bits wherever it stands and whatever the other lines
hold; between two it is rounded otherwise. A row keeps its bits where all passes have sizes of one class. A class of a
single size always exists, unless bits depend on the place of a line.

Only bits are measured, never time, and the cheapest class is found by counting: the choice is the same in every run.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.pytorch_utils import Conv1D

from dpicl.models.pieces import PIECE
from dpicl.models.products import linear_layers, use_products
from dpicl.models.reading import BETWEEN, OUTPUT_SHAPES, SHAPES, Shapes, shape_of

#: What a product costs besides its lines, in lines: the weights are fetched, and kernels started. It was 61 to 69 lines
#: for the embedded model in bfloat16 on an AMD EPYC.
FIXED = 64
#: The lines beside the measured one hold these numbers.
HOSTILE = (float("nan"), float("inf"), float("-inf"), 3e38, -3e38, 1e-38, 0.0)
#: So many rows of a layer's weights differ; then they are repeated.
_DIFFERENT = 256

#: Lines [n, k] -> [n, m].
Product = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class ProductProbe:
    """A product of a model, and a line [k] that gets other bits by any other order of summation."""

    product: Product
    line: torch.Tensor


def choose(model: Any) -> Shapes | None:
    """The cheapest shapes for a causal model of transformers; None where a line's bits depend on its place in all."""
    last = model.get_output_embeddings()
    rest = [module for module in model.modules() if module is not last]
    body = cheapest(classes(probes(model, rest), SHAPES), SHAPES, PIECE)
    output = cheapest(classes(probes(model, [last]), OUTPUT_SHAPES), OUTPUT_SHAPES)
    return Shapes(body, output) if body and output else None


def add_between(model: Any, shapes: Shapes) -> Shapes:
    """The chosen shapes, and sizes of passes between them at which a line has the same bits."""
    last = model.get_output_embeddings()
    measured = probes(model, [module for module in model.modules() if module is not last])
    first = shapes.body[0]
    (alike,) = (group for group in classes(measured, [first, *BETWEEN]) if first in group)
    largest = shapes.body[-1]
    added = {size for size in alike if size < largest}
    return Shapes(tuple(sorted({*shapes.body, *added})), shapes.output)


def choose_single(shapes: Shapes) -> Shapes:
    """One size for passes, and one for the output layer: the cheapest of these."""
    body, output = ([(each,) for each in sizes] for sizes in (shapes.body, shapes.output))
    return Shapes(cheapest(body, SHAPES, PIECE), cheapest(output, OUTPUT_SHAPES))


def classes(
    measured: Collection[ProductProbe],
    sizes: Iterable[int],
) -> list[tuple[int, ...]]:
    """Sizes in groups: inside one, every product gives a line the same bits at every place."""
    groups = defaultdict[tuple[bytes, ...], list[int]](list)
    for size in sizes:
        bits = []
        for probe in measured:
            if (pattern := bits_among(probe, size)) is None:
                break
            bits.append(pattern)
        else:
            groups[tuple(bits)].append(size)
    return [tuple(group) for group in groups.values()]


@torch.inference_mode()
def bits_among(probe: ProductProbe, size: int) -> bytes | None:
    """What the line becomes at each of so many places, beside NaN, infinities and huge numbers; None where its place or
    its neighbours change it."""
    results = []
    others = torch.tensor(HOSTILE, device=probe.line.device).to(probe.line.dtype)
    for first in (0, 1):
        lines = others[(torch.arange(size) + first) % len(others)][:, None].repeat(
            1, len(probe.line)
        )
        lines[first::2] = probe.line
        results.append(probe.product(lines)[first::2])
    bits = torch.cat(results).view(torch.uint8).cpu()
    return bits[0].numpy().tobytes() if bool((bits == bits[0]).all()) else None


def cheapest(
    groups: Iterable[tuple[int, ...]],
    demands: Sequence[int],
    least: int = 1,
) -> tuple[int, ...]:
    """The class that costs least, of those that hold a piece of ``least`` tokens; () where none does."""
    able = [group for group in groups if group[-1] >= least]
    return min(
        able,
        key=lambda group: (cost(group, demands), group),
        default=(),
    )


def cost(shapes: Sequence[int], demands: Sequence[int]) -> float:
    """How many times as much is multiplied with these shapes as where every demand (a number of lines) is one: mean."""
    shares = []
    for lines in demands:
        full, rest = divmod(lines, shapes[-1])
        taken = [shapes[-1]] * full + ([shape_of(rest, shapes)] if rest else [])
        shares.append((sum(taken) + FIXED * len(taken)) / (lines + FIXED))
    return sum(shares) / len(shares)


def probes(model: Any, modules: Iterable[torch.nn.Module]) -> list[ProductProbe]:
    """One for each kind of linear layer among some modules of a model: of one type, shape and layout in memory."""
    kinds = dict[Any, torch.nn.Linear | Conv1D]()
    for module in modules:
        if isinstance(module, torch.nn.Linear | Conv1D):
            kinds.setdefault(
                (type(module), module.weight.shape, module.weight.stride(), module.bias is None),
                module,
            )
    is_replaced = set(linear_layers(model))
    return [_probe(module, module in is_replaced) for module in kinds.values()]


def _probe(module: torch.nn.Linear | Conv1D, is_replaced: bool) -> ProductProbe:
    """The layer with other weights: numbers of many magnitudes that cancel out, so that the result is what rounding
    leaves, which nearly always changes with the order of summation."""
    linear = isinstance(module, torch.nn.Linear)
    outer, inner = module.weight.shape if linear else module.weight.T.shape
    random = torch.Generator().manual_seed(0)

    def wide(count: int, sign: float) -> torch.Tensor:
        half = torch.randn(count, inner // 2, generator=random)
        half *= (
            torch.randint(
                -4,
                5,
                half.shape,
                generator=random,
            )
            .float()
            .exp2()
        )
        return torch.cat([half, torch.zeros(count, inner % 2), sign * half.flip(1)], dim=1).to(
            module.weight
        )

    rows, (line,) = wide(min(outer, _DIFFERENT), -1), wide(1, 1)
    weight = torch.empty_like(module.weight)
    weight.copy_(
        rows[torch.arange(outer) % len(rows)] if linear else rows[torch.arange(outer) % len(rows)].T
    )
    twin = copy.copy(module)
    twin._parameters = {"weight": torch.nn.Parameter(weight, requires_grad=False), "bias": None}
    if module.bias is not None:
        twin._parameters["bias"] = torch.nn.Parameter(
            torch.zeros_like(module.bias), requires_grad=False
        )

    twins = [twin] if is_replaced and isinstance(twin, torch.nn.Linear) else []

    def product(lines: torch.Tensor) -> torch.Tensor:
        with use_products(twins):
            return twin(lines[None])[0]

    return ProductProbe(product, line)
