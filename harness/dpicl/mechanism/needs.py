"""What a mechanism needs of a model, and what a model server gives: a run that cannot be done is refused before any
record is read."""

from __future__ import annotations

from dpicl.data.task import PublicTask
from dpicl.mechanism.bases import Mechanism, Needs
from dpicl.models.base import LanguageModel

#: From the least on; see `bases.Needs`.
_ORDER: tuple[Needs, ...] = ("nothing", "texts", "reader", "log-probabilities", "candidates")
_WORDS = {"log-probabilities": "log-probabilities", "candidates": "log-probabilities of a public set of tokens"}


def needed(mechanism: Mechanism, task: PublicTask) -> Needs:
    """What a run needs: the mechanism, and the evaluation of what it releases."""
    own = mechanism.needs
    if own == "reader":
        own = "log-probabilities" if task.chooses else "texts"
    if mechanism.releases_texts:
        evaluation: Needs = "log-probabilities" if task.chooses else "texts"
        return max(own, evaluation, key=_ORDER.index)
    return own


def unmet_needs(mechanism: Mechanism, task: PublicTask, model: LanguageModel) -> str | None:
    """Why a mechanism, or its evaluation, cannot be run on this model, in a sentence; None where it can."""
    server, need = model.server, needed(mechanism, task)
    if server is None or need in ("nothing", "texts"):
        return None
    if server.candidates or (need == "log-probabilities" and server.top_tokens):
        return None
    gives = f"gives those of its {server.top_tokens} likeliest tokens only" if server.top_tokens else "gives texts only"
    return (
        f"{mechanism.name} on {task.name} needs {_WORDS[need]}, and the server of {model.identity.name} ({server.kind})"
        f" {gives}; choose another mechanism, or a server that lists token ids (docs/servers.md)."
    )
