"""``hf:PATH_OR_ID[@REVISION]``: any causal model from a folder or from the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer

from harness.errors import ModelError
from harness.models.base import ModelIdentity
from harness.models.transformers import TransformersLM
from harness.models.weights import dtype_name, folder_sha256, preferred_dtype, reason


def load_huggingface(
    reference: str, device: str, dtype: torch.dtype | None, trust_remote_code: bool = False
) -> TransformersLM:
    """The model of a folder or hub id, with an optional ``@REVISION``.

    Code that a repository brings with it runs only with ``trust_remote_code``. Raises ModelError, in one sentence, when
    the model or its tokenizer cannot be loaded.
    """
    source, revision = _split(reference)
    if source.startswith(("/", "./", "../", "~")) and not Path(source).is_dir():
        raise ModelError(f"There is no folder {source}; give one with config.json, weights and tokenizer.")
    dtype = dtype or preferred_dtype(device)
    options: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code}
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=dtype, **options)
    except (OSError, ValueError, ImportError, KeyError, RuntimeError, TypeError, SafetensorError) as error:
        raise ModelError(_explain(source, revision, error)) from error
    if tokenizer.eos_token_id is None:
        raise ModelError(f"The tokenizer of {source} has no EOS token; choose a model that has one.")
    model.to(device)
    folder = Path(source)
    identity = ModelIdentity(
        name=f"hf:{folder.name if folder.is_dir() else source}",
        sha256=folder_sha256(folder) if folder.is_dir() else None,
        revision=getattr(model.config, "_commit_hash", None) or revision,
        dtype=dtype_name(dtype),
        device=device,
        parameters=model.num_parameters(),
    )
    return TransformersLM(model, tokenizer, identity)


def _split(reference: str) -> tuple[str, str | None]:
    """(path or id, revision); a folder whose name has an @ in it is a folder."""
    if Path(reference).expanduser().is_dir():
        return str(Path(reference).expanduser()), None
    source, _, revision = reference.partition("@")
    return source, revision or None


def _explain(source: str, revision: str | None, error: Exception) -> str:
    """One sentence on why a model cannot be loaded and what to do."""
    if isinstance(error, ValueError) and "trust_remote_code" in str(error):
        return f"The model {source} brings code of its own; read it, then pass --trust-remote-code to run it."
    at = f" at revision {revision}" if revision else ""
    return (
        f"The model {source}{at} cannot be loaded ({reason(error)}); give a folder with config.json, weights and"
        " tokenizer, or the id of a causal model that the Hugging Face hub serves to this machine."
    )
