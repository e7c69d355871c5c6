"""Products of float32 matrices by oneDNN.

torch asks MKL for them, which uses half the width of a processor's vectors where Intel did not make it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch


def linear_layers(model: Any) -> list[torch.nn.Linear]:
    """The linear layers that `by_onednn` takes: those of float32 on a CPU, where this torch has oneDNN."""
    if model.device.type != "cpu" or model.dtype != torch.float32 or not torch.backends.mkldnn.is_available():
        return []
    return [module for module in model.modules() if type(module) is torch.nn.Linear]


@contextmanager
def by_onednn(layers: Sequence[torch.nn.Linear]) -> Iterator[None]:
    """Inside this block these layers are products of oneDNN."""
    for layer in layers:
        layer.__dict__["forward"] = partial(_product, layer)
    try:
        yield
    finally:
        for layer in layers:
            del layer.__dict__["forward"]


def _product(layer: torch.nn.Linear, inputs: torch.Tensor) -> torch.Tensor:
    return torch.ops.mkldnn._linear_pointwise(inputs, layer.weight, layer.bias, "none", [], "")
