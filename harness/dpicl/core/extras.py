"""Imports optional packages, and names the extra of the wheel that installs a missing one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from dpicl.core.errors import UsageError

#: Extra of pyproject.toml -> what is imported of it.
EXTRAS = {
    "run": (
        *(
            "accelerate",
            "datasets",
            "gguf",
            "huggingface_hub",
            "lm_eval",
            "nltk",
            "openpyxl",
            "rouge_score",
        ),
        *("safetensors", "sklearn", "tokenizers", "torch", "tqdm", "transformers"),
    ),
    "board": ("pandas", "pyarrow", "vl_convert"),
    "embeddings": ("sentence_transformers",),
    "server": ("httpx",),
    "vllm": ("vllm",),
    "wandb": ("wandb",),
    "ray": ("ray",),
}


def install(package: str) -> str:
    """The command that installs an importable package."""
    extra = next((name for name, packages in EXTRAS.items() if package in packages), None)
    return f"pip install 'dpicl-bench[{extra}]'" if extra else f"pip install {package}"


def require_installed(package: str) -> None:
    """Raises UsageError, with the command that installs it, where a package of an extra is missing."""
    if find_spec(package) is None:
        raise _missing_error(package)


@contextmanager
def require_extras() -> Iterator[None]:
    """Raises UsageError, with the command that installs it, where a package of an extra is missing in the block."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if not any(package in packages for packages in EXTRAS.values()):
            raise
        raise _missing_error(package) from error


def _missing_error(package: str) -> UsageError:
    return UsageError(f"{package} is not installed; run `{install(package)}`.")
