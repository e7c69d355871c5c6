"""Finds models in folders and on the Hugging Face hub, with one request and no retries, and identifies them."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from dpicl.core.errors import ModelError
from dpicl.core.files import folder_sha256, known_sha256

#: The settings of an adapter: it names a model in another folder, which nobody would see change.
ADAPTER = "adapter_config.json"


def _is_served(source: str, revision: str | None) -> bool:
    """Whether the hub serves a model to this machine; False: it does not answer, and the model is in its cache here.

    source: OWNER/NAME. Raises ModelError, in one sentence, for a model that is neither.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import (
        EntryNotFoundError,
        HFValidationError,
        RepositoryNotFoundError,
    )
    from huggingface_hub.errors import RevisionNotFoundError as NoRevision

    at = f" at revision {revision}" if revision else ""
    try:
        cached = isinstance(try_to_load_from_cache(source, "config.json", revision=revision), str)
        get_hf_file_metadata(hf_hub_url(source, "config.json", revision=revision))
        return True
    except HFValidationError:
        raise ModelError(
            f"There is no folder {source}, and it is not an id of the hub (OWNER/NAME); give one of the two."
        ) from None
    except (RepositoryNotFoundError, NoRevision, EntryNotFoundError):
        raise ModelError(
            f"The model {source}{at} is not on the hub, or not open to you; correct the name, or log in with `hf auth"
            " login`."
        ) from None
    except Exception as error:  # of the network, whatever library it comes through
        if cached:
            return False
        raise ModelError(
            f"The model {source}{at} cannot be loaded: the hub does not answer ({type(error).__name__}), and no copy of"
            " it is in its cache on this machine. Give a folder with config.json, weights and tokenizer, or go online."
        ) from None


def require_there(reference: str) -> bool:
    """Whether a folder or hub id is there, or else in the hub's cache alone. Raises ModelError where it is neither."""
    source, revision = split_reference(reference)
    if Path(source).is_dir():
        return True
    if source.startswith(("/", "./", "../", "~")):
        raise ModelError(
            f"There is no folder {source}; give one with config.json, weights and tokenizer."
        )
    return _is_served(source, revision)


def split_reference(reference: str) -> tuple[str, str | None]:
    """(path or id, revision); a folder whose name has an @ in it is a folder."""
    if Path(reference).expanduser().is_dir():
        return str(Path(reference).expanduser()), None
    source, _, revision = reference.partition("@")
    return source, revision or None


def identify_folder(folder: Path) -> str:
    """The sha256 of a model in a folder: every file may change its numbers. Raises ModelError."""
    try:
        return folder_sha256(folder)
    except OSError as error:
        raise ModelError(
            f"The model in {folder} cannot be read ({error.strerror}); see that it is all there."
        ) from None


def identify_weights(folder: Path) -> str | None:
    """What stood for a folder in older results: the sha256 of its weight file, or over a line for each of several;
    None without one. Raises OSError."""
    digests = {path.name: known_sha256(path) for path in sorted(folder.glob("*.safetensors"))}
    if len(digests) < 2:
        return next(iter(digests.values()), None)
    lines = "".join(f"{digest}  {name}\n" for name, digest in digests.items())
    return hashlib.sha256(lines.encode()).hexdigest()


def find_commit(source: str, revision: str | None) -> str | None:
    """The commit of a model of the hub that is read here where the hub is not asked; None where no copy is here."""
    if revision is not None and re.fullmatch("[0-9a-f]{40}", revision):
        return revision
    snapshot = find_snapshot(source, revision, "config.json")
    return None if snapshot is None else snapshot.name


def find_snapshot(source: str, revision: str | None, file: str) -> Path | None:
    """The folder of the hub's cache with the copy of a model that has this file, named by its commit; None without."""
    try:
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(source, file, revision=revision)
    except (ImportError, ValueError):  # not installed; no name of the hub's
        return None
    return Path(cached).parent if isinstance(cached, str) else None
