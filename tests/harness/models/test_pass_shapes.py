"""Sizes of passes are chosen by the bits of products: on kernels that behave as those of other processors do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch

from dpicl import models
from dpicl.models import pass_shapes, products, readers
from dpicl.models.pieces import PIECE
from dpicl.models.reading import SHAPES, Shapes
from dpicl.models.transformers import TransformersLM
from tests.harness.models.tiny import save_tiny_llama

#: As measured on an Intel with AMX in bfloat16.
AMX = ((16, 32, 768, 1024), (64, 128), (256,), (384, 512))

Kernel = Callable[[torch.nn.Linear, torch.Tensor], torch.Tensor]
product = products._product


def amx(lines: int) -> int:
    return next((at for at, sizes in enumerate(AMX) if lines in sizes), 4)


def class_apart(lines: int) -> int:
    return lines


def round_by_class(
    class_of: Callable[[int], int], layer: torch.nn.Linear, inputs: torch.Tensor
) -> torch.Tensor:
    """A product that is rounded otherwise in each class of numbers of lines."""
    return product(layer, inputs) * (1 + class_of(inputs.shape[-2]) * 2.0**-20)


def round_by_place(layer: torch.nn.Linear, inputs: torch.Tensor) -> torch.Tensor:
    """The last line is rounded otherwise."""
    found = product(layer, inputs)
    return torch.cat([found[..., :-1, :], found[..., -1:, :] * (1 + 2.0**-20)], dim=-2)


def test_classes_are_those_in_which_all_layers_agree():
    line = torch.linspace(-1, 1, 64)

    def drifting(from_: int, lines: torch.Tensor) -> torch.Tensor:
        return lines + float(len(lines) >= from_)

    probes = [pass_shapes.ProductProbe(partial(drifting, size), line) for size in (64, 512)]
    assert pass_shapes.classes(probes, SHAPES) == [(16, 32), (64, 128, 256, 384), (512, 768, 1024)]
    assert pass_shapes.classes(probes[:1], SHAPES) == [(16, 32), SHAPES[2:]]


def test_sizes_between_are_added_where_bits_are_the_same(tiny, monkeypatch):
    def below_600(lines: int) -> bool:
        return lines < 600

    monkeypatch.setattr(products, "_product", partial(round_by_class, below_600))
    chosen = Shapes((16, 256, 512), (64,))
    assert pass_shapes.add_between(tiny.model, chosen) == Shapes(
        (16, 48, 96, 192, 256, 320, 448, 512), (64,)
    )


def test_a_class_that_holds_no_piece_is_not_chosen():
    assert pass_shapes.cheapest([(16, 32, 64, 128), (1024,)], SHAPES, PIECE) == (1024,)
    assert pass_shapes.cheapest([(16, 32, 64, 128)], SHAPES, PIECE) == ()


@pytest.mark.parametrize(
    ("kernel", "shapes"),
    [
        (partial(round_by_class, amx), Shapes((256,), (64, 128))),
        (partial(round_by_class, class_apart), Shapes((256,), (64,))),
        (round_by_place, None),
    ],
    ids=["AMX", "each size its own", "by place"],
)
def test_a_model_is_read_alone_wherever_places_do_not_matter(
    kernel,
    shapes,
    tmp_path,
    monkeypatch,
):
    """From the products of such a processor to the identity; with all sizes at once its rows change each other.

    The place that matters is the last one of a product, which mostly holds padding: only the products themselves tell.
    """
    monkeypatch.setenv("DPICL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(products, "_product", kernel)
    model = models.load(
        f"hf:{save_tiny_llama(tmp_path / 'llama', max_length=640)}", device="cpu", dtype="float32"
    )
    assert isinstance(model, TransformersLM)
    alone = shapes is not None
    assert model.identity.batch_invariant is alone
    assert model.shapes == (shapes or Shapes())
    rows = [[5], [7] * 40, list(range(4, 250)), [9, 8], *([3, at] for at in range(30))]
    single = torch.cat([model.next_token_log_probs([row]) for row in rows])
    assert not alone or torch.equal(model.next_token_log_probs(rows), single)
    model.read_in(Shapes())
    assert not (alone and readers._read_alone(model)[0])
    before = model.identity.arithmetic
    monkeypatch.undo()
    monkeypatch.setenv("DPICL_CACHE", str(tmp_path / "other"))
    here = models.load(
        f"hf:{tmp_path / 'llama'}", device="cpu", dtype="float32"
    ).identity.arithmetic
    assert (here != before) is alone
