"""What a mechanism needs of a model, and what a model server gives: a run that cannot be done is refused before any
record is read."""

from __future__ import annotations

from dpicl.data.task import PublicTask
from dpicl.mechanism.bases import Mechanism
from dpicl.models.base import LanguageModel

_WORDS = {"log-probabilities": "log-probabilities", "candidates": "log-probabilities of a public set of tokens"}


def unmet_needs(mechanism: Mechanism, task: PublicTask, model: LanguageModel) -> str | None:
    """Why a mechanism, or its evaluation, cannot be run on this model, in a sentence; None where it can."""
    server, need = model.server, mechanism.needed(task)
    if server is None or need in ("nothing", "texts"):
        return None
    if server.candidates or (need == "log-probabilities" and server.top_tokens):
        return None
    gives = f"gives those of its {server.top_tokens} likeliest tokens only" if server.top_tokens else "gives texts only"
    return (
        f"{mechanism.name} on {task.name} needs {_WORDS[need]}, and the server of {model.identity.name} ({server.kind})"
        f" {gives}; choose another mechanism, or a server that lists token ids (docs/servers.md)."
    )
