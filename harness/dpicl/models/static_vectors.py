"""WordLlama's static word vectors: a text is the mean vector of its tokens, of length 1.

They read released texts (dpicl.evaluation.carried) and are no embedding model that a mechanism may name, so none can be
favoured by them. Weights and tokenizer come inside the PyPI wheel ``wordllama`` and are checked against their known
sha256; its code, which would look for files in the network, is not imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from dpicl.core.plugins import version_of
from dpicl.models.embeddings import EmbeddingModel

WHEEL = "wordllama"
VERSION = "0.4.0.post1"
INSTALL = f"pip install --no-deps {WHEEL}=={VERSION}"
_WEIGHTS = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
_TOKENIZER = "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"


class StaticVectors(EmbeddingModel):
    """256 dimensions of 32,000 tokens. Raises ModelError where the wheel is missing or holds other files."""

    name = WHEEL
    sha256 = _WEIGHTS

    def __init__(self) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        from dpicl.models.weights import find_in_wheel

        weights = find_in_wheel(WHEEL, ".safetensors", _WEIGHTS, INSTALL)
        (vectors,) = load_file(weights).values()
        self._vectors = vectors.astype(np.float64)
        self._tokenizer = Tokenizer.from_file(
            str(find_in_wheel(WHEEL, ".json", _TOKENIZER, INSTALL))
        )
        self.dimension = vectors.shape[1]

    def _raw(self, texts: Sequence[str]) -> np.ndarray:
        tokens = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return np.array([self._vectors[text.ids].mean(axis=0) for text in tokens])


@cache
def load_static_vectors() -> StaticVectors:
    """Loaded once a process."""
    return StaticVectors()


def list_known() -> list[dict[str, Any]]:
    """Whether they are there, in the form of dpicl.models.known."""
    about = "WordLlama's static vectors from the wheel wordllama, 256 dimensions"
    return [
        {
            "name": WHEEL,
            "about": about,
            "available": version_of(WHEEL) is not None,
            "get": INSTALL,
        }
    ]
