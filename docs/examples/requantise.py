"""Writes the embedded model with its weights rounded to a number of bits: python requantise.py BITS FOLDER"""

import shutil
import sys

import torch
from safetensors.torch import load_file, save_file

from dpicl.models.embedded import cached_model


def round_weights(weights: torch.Tensor, bits: int) -> torch.Tensor:
    groups = weights.reshape(-1, 32)
    scale = groups.abs().amax(dim=1, keepdim=True).clamp_min(1e-12) / (2 ** (bits - 1) - 1)
    return ((groups / scale).round() * scale).reshape(weights.shape)


bits, folder = int(sys.argv[1]), sys.argv[2]
shutil.copytree(cached_model(), folder)
tensors = load_file(f"{folder}/model.safetensors")
new = {
    name: round_weights(value, bits) if value.ndim == 2 else value
    for name, value in tensors.items()
}
save_file(new, f"{folder}/model.safetensors", metadata={"format": "pt"})
