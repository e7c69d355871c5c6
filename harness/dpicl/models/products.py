"""Multiplies matrices with oneDNN or MKL, and limits oneDNN's cache of kernels.

For those of float32 torch asks MKL, which uses half the width of vectors of AVX-512 where Intel did not make the
processor; with AVX2 it uses all, and takes 0.85 to 0.95 of oneDNN's time (AMD EPYC).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import torch
from torch.nn.functional import linear

#: For how many shapes of products oneDNN keeps the code that it made, about 1 MB each; it reads this when it
#: multiplies first. A pass of rows has two for each of its rows that differ in length, and five of its own.
CODE_KEPT = 192
# its older name, which oneDNN reads where the new one is not set
if "DNNL_PRIMITIVE_CACHE_CAPACITY" not in os.environ:
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(CODE_KEPT))


@cache
def prefers_mkl() -> bool:
    """Whether products of float32 on this machine's CPU are MKL's."""
    return torch.backends.mkl.is_available() and torch.backends.cpu.get_cpu_capability() == "AVX2"


def linear_layers(model: Any) -> list[torch.nn.Linear]:
    """The linear layers that `use_products` takes: those of float32 on a CPU, where this torch has oneDNN."""
    if (
        model.device.type != "cpu"
        or model.dtype != torch.float32
        or not torch.backends.mkldnn.is_available()
    ):
        return []
    return [module for module in model.modules() if type(module) is torch.nn.Linear]


@contextmanager
def use_products(layers: Sequence[torch.nn.Linear]) -> Iterator[None]:
    """Inside this block these layers are products of oneDNN, or of MKL where the machine prefers it."""
    for layer in layers:
        layer.__dict__["forward"] = partial(_product, layer)
    try:
        yield
    finally:
        for layer in layers:
            del layer.__dict__["forward"]


def _product(layer: torch.nn.Linear, inputs: torch.Tensor) -> torch.Tensor:
    if prefers_mkl():
        return linear(inputs, layer.weight, layer.bias)
    return torch.ops.mkldnn._linear_pointwise(
        inputs,
        layer.weight,
        layer.bias,
        "none",
        [],
        "",
    )


@contextmanager
def split_products(
    layer: torch.nn.Module,
    lines: int,
    most: int,
) -> Iterator[None]:
    """Inside this block a layer that is given [1, lines, k] multiplies at most so many lines at once."""
    if lines <= most:
        yield
        return
    whole, before = layer.forward, layer.__dict__.get("forward")
    layer.__dict__["forward"] = lambda inputs: torch.cat(
        [whole(part) for part in inputs.split(most, dim=1)], dim=1
    )
    try:
        yield
    finally:
        del layer.__dict__["forward"]
        if before is not None:
            layer.__dict__["forward"] = before
