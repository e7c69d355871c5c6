"""`dpicl ginc prepare`: trains the model of the task ginc."""

from __future__ import annotations

from typing import Annotated, Literal

from dpicl import models
from dpicl.api.parameters import Flag, verb
from dpicl.cli.output import Answer
from dpicl.core.files import file_sha256
from dpicl.models.ginc import prepared


@verb("dpicl ginc prepare --size small")
def ginc(
    step: Literal["prepare"],
    *,
    size: Literal["small", "4", "12", "16"] = "small",
    device: Annotated[str | None, Flag(metavar="D")] = None,
) -> Answer:
    """Trains the model of the task ginc.

    step: train the model.
    size: of the model (default: small).
    device: cpu, cuda or cuda:N (default: the GPU where there is one).
    """
    folder = prepared(size, models.device_of(device), train=True)
    digest = file_sha256(folder / "model.safetensors")
    return Answer({"size": size, "folder": folder, "sha256": digest}, [str(folder), f"sha256 {digest}"])
