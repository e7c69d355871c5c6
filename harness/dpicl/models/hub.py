"""Checks whether a model of the Hugging Face hub is available, with one request and no retries."""

from __future__ import annotations

from pathlib import Path

from dpicl.core.errors import ModelError


def _is_served(source: str, revision: str | None) -> bool:
    """Whether the hub serves a model to this machine; False: it does not answer, and the model is in its cache here.

    source: OWNER/NAME. Raises ModelError, in one sentence, for a model that is neither.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError, HFValidationError, RepositoryNotFoundError
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
        raise ModelError(f"There is no folder {source}; give one with config.json, weights and tokenizer.")
    return _is_served(source, revision)


def split_reference(reference: str) -> tuple[str, str | None]:
    """(path or id, revision); a folder whose name has an @ in it is a folder."""
    if Path(reference).expanduser().is_dir():
        return str(Path(reference).expanduser()), None
    source, _, revision = reference.partition("@")
    return source, revision or None
