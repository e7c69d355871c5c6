"""Whether a model of the Hugging Face hub is there, found out by one question and no retries."""

from __future__ import annotations

from pathlib import Path

from dpicl.core.errors import ModelError

#: Seconds that the hub may take to answer.
_SECONDS = 10.0


def asked(source: str, revision: str | None) -> bool:
    """Whether the hub serves a model to this machine; False: it does not answer, and the model is in its cache here.

    source: OWNER/NAME. Raises ModelError, in one sentence, for a model that is neither.
    """
    from huggingface_hub import hf_hub_url, try_to_load_from_cache
    from huggingface_hub.constants import HF_HUB_OFFLINE
    from huggingface_hub.utils import HFValidationError, build_hf_headers, get_session

    at = f" at revision {revision}" if revision else ""
    try:
        cached = isinstance(try_to_load_from_cache(source, "config.json", revision=revision), str)
        url = hf_hub_url(source, "config.json", revision=revision)
    except HFValidationError:
        raise ModelError(
            f"There is no folder {source}, and it is no id of the hub (OWNER/NAME); give one of the two."
        ) from None
    said = "HF_HUB_OFFLINE is set"
    if not HF_HUB_OFFLINE:
        try:
            status = (
                get_session().head(url, headers=build_hf_headers(), timeout=_SECONDS, follow_redirects=True).status_code
            )
        except Exception as error:  # of the network, whatever library it comes through
            said = f"the hub does not answer ({type(error).__name__})"
        else:
            if status < 400:
                return True
            if status in (401, 403, 404):
                raise ModelError(
                    f"The model {source}{at} is not on the hub, or not open to you (HTTP {status}); correct the name,"
                    " or log in with `hf auth login`."
                )
            said = f"the hub answers with HTTP {status}"
    if cached:
        return False
    raise ModelError(
        f"The model {source}{at} cannot be loaded: {said}, and no copy of it is in its cache on this machine. Give a"
        " folder with config.json, weights and tokenizer, or go online."
    )


def require_there(reference: str) -> None:
    """Raises ModelError where ``hf:reference`` names a folder that is none, or a model that the hub does not serve."""
    source, revision = split_reference(reference)
    if Path(source).is_dir():
        return
    if source.startswith(("/", "./", "../", "~")):
        raise ModelError(f"There is no folder {source}; give one with config.json, weights and tokenizer.")
    asked(source, revision)


def split_reference(reference: str) -> tuple[str, str | None]:
    """(path or id, revision); a folder whose name has an @ in it is a folder."""
    if Path(reference).expanduser().is_dir():
        return str(Path(reference).expanduser()), None
    source, _, revision = reference.partition("@")
    return source, revision or None
