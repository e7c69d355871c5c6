"""Adapters: for some linear layers a product of two small matrices, which is added to the weights of a model.

`benchmarks/symbol_tuning.py` trains one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from dpicl.core.errors import ModelError
from dpicl.models.weights import reason


@torch.no_grad()
def merge(model: Any, adapter: Path) -> None:
    """Adds an adapter to a model's weights (float32). Raises ModelError for one that does not fit."""
    tensors = load_file(adapter)
    for name in sorted({name.rpartition(".")[0] for name in tensors}):
        try:
            weight = model.model.get_submodule(name).weight
            weight += tensors[f"{name}.up"].float() @ tensors[f"{name}.down"].float()
        except (AttributeError, KeyError, RuntimeError) as error:
            raise ModelError(
                f"The adapter {adapter.name} does not fit the model: {reason(error)}."
            ) from error
