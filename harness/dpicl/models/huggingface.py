"""``hf:PATH_OR_ID[@REVISION]``: any causal model from a folder or from the Hugging Face hub.

A model is data: weights in safetensors, settings in JSON. Pickles, which run code when they are read, are refused, and
so is code that a repository brings with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from dpicl.core import json_text
from dpicl.core.errors import ModelError
from dpicl.core.files import content_of
from dpicl.models.base import ModelIdentity
from dpicl.models.hub import ADAPTER, identify_folder, require_there, split_reference
from dpicl.models.readers import reader_of
from dpicl.models.transformers import CausalModel
from dpicl.models.weights import dtype_name, preferred_dtype, reason

#: Files that Python's pickle reads.
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
#: Settings that transformers reads before it reads weights.
_SETTINGS = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
)
#: Largest size and number of layers that a config may ask for; a module is made for each before weights are read.
_LARGEST_SIZE, _MOST_LAYERS = 10**8, 1000


def load_huggingface(reference: str, device: str, dtype: torch.dtype | None) -> CausalModel:
    """The model of a folder or hub id, with an optional ``@REVISION``.

    Raises ModelError, in one sentence, when the model or its tokenizer cannot be loaded, or weights are missing.
    """
    source, revision = split_reference(reference)
    folder, there, sha256 = Path(source), require_there(reference), None
    if folder.is_dir():
        check_folder(folder)
        # before it is read: what is edited meanwhile is another model
        sha256 = identify_folder(folder)
    dtype = dtype or preferred_dtype(device)
    # where the hub does not answer, each file would be asked for again and again
    options: dict[str, Any] = {
        "revision": revision,
        "trust_remote_code": False,
        "local_files_only": not there,
    }
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            source, dtype=dtype, use_safetensors=True, output_loading_info=True, **options
        )
    except Exception as error:
        # whatever three libraries raise for a file that is damaged or made to be
        raise ModelError(_explain(source, revision, error)) from error
    model, info = loaded
    if lacking := sorted(info["missing_keys"]):
        raise ModelError(
            f"The weights of {source} lack {len(lacking)} tensors that config.json asks for ({lacking[0][:80]}), and"
            " random ones would take their place; get the whole model."
        )
    if tokenizer.eos_token_id is None:
        raise ModelError(
            f"The tokenizer of {source} has no EOS token; choose a model that has one."
        )
    model.to(device)
    identity = ModelIdentity(
        name=f"hf:{folder.name if folder.is_dir() else source}",
        sha256=sha256,
        revision=None if sha256 else getattr(model.config, "_commit_hash", None) or revision,
        dtype=dtype_name(dtype),
        device=device,
        parameters=model.num_parameters(),
    )
    return reader_of(model, tokenizer, identity)


def check_folder(folder: Path) -> None:
    """Raises ModelError for weights in pickle alone, an adapter, and settings that are no plain JSON of a sane size."""
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    if ADAPTER in names:
        raise ModelError(
            f"{folder} holds an adapter ({ADAPTER}), whose model lies elsewhere; merge the two"
            " (`merge_and_unload()`, `save_pretrained(FOLDER)`), and give that folder."
        )
    pickles = [name for name in names if Path(name).suffix in PICKLES or ".bin.index" in name]
    if pickles and not any(name.endswith(".safetensors") for name in names):
        raise ModelError(
            f"The weights in {folder} are pickles ({pickles[0]}), which run code when they are read; convert them to"
            " safetensors (`model.save_pretrained(FOLDER)` where you trust them), and give that folder."
        )
    _check_shards(folder, names)
    for name in _SETTINGS:
        try:
            settings = (
                json_text.loads(content_of(folder / name), plain=False) if name in names else {}
            )
        except (OSError, ValueError) as error:
            raise ModelError(f"{folder / name} is damaged: {error}; get it again.") from None
        if not isinstance(settings, dict):
            raise ModelError(f"{folder / name} is not a JSON object; download it again.")
        if name == "config.json" and (problem := _find_too_large(settings)):
            raise ModelError(
                f"{folder / name} asks for {problem}, which no model has; get it again."
            )


def _check_shards(folder: Path, names: Sequence[str]) -> None:
    """Raises ModelError for an index of weights that names a file elsewhere, or a hidden one: the model's identity is
    that of the folder's own files."""
    for name in names:
        if not name.endswith(".index.json"):
            continue
        try:
            index = json_text.loads(content_of(folder / name), plain=False)
            shards = set(index["weight_map"].values())
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise ModelError(f"{folder / name} is not an index of weights; get it again.") from None
        strange = [str(shard) for shard in shards if shard not in names]
        if strange:
            raise ModelError(
                f"{folder / name} names weights that are not beside it ({strange[0][:80]!r}); put all files of the"
                " model into one folder."
            )


def _find_too_large(settings: dict[str, Any]) -> str:
    """The first size of a config that would fill the memory, or ""; also of the text model inside another one."""
    for key, value in settings.items():
        if isinstance(value, dict) and (inner := _find_too_large(value)):
            return inner
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        most = _MOST_LAYERS if key.endswith("layers") or key == "n_layer" else _LARGEST_SIZE
        if (
            key.endswith(("_size", "_dim", "layers", "_heads", "n_layer", "n_embd", "_embeddings"))
            and value > most
        ):
            return f"{key} = {value:.4g}"
    return ""


def _explain(source: str, revision: str | None, error: Exception) -> str:
    """One sentence on why a model cannot be loaded and what to do."""
    if isinstance(error, ValueError) and "trust_remote_code" in str(error):
        return (
            f"The model {source} brings code of its own, which is not run; read it, and load the model in a file of"
            " your own that is given with --plugin (docs/add-a-task.md)."
        )
    if isinstance(error, OSError) and "safetensors" in str(error):
        return (
            f"The model {source} has no weights in safetensors; other formats are pickles, which run code when they are"
            " read, so convert them, or choose another model."
        )
    at = f" at revision {revision}" if revision else ""
    return (
        f"The model {source}{at} cannot be loaded ({reason(error)}); give a folder with config.json, weights and"
        " tokenizer, or the id of a causal model that the Hugging Face hub serves to this machine."
    )
