"""Parses ``vllm:PATH_OR_ID[@REVISION]?key=value&...``."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from dpicl.models.server_settings import drop_settings, parse_name

EXAMPLE = "vllm:PATH_OR_ID?tensor_parallel_size=2"
#: Settings that are in no name.
SPEED = ("tensor_parallel_size",)


class EngineSettings(BaseModel):
    """How vLLM reads a model. reference: its folder or hub id, with a revision. tensor_parallel_size: GPUs that share
    it. context: tokens that a prompt and its answer may have; None: as many as the model was made for."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reference: str
    tensor_parallel_size: int = Field(1, ge=1, le=1024)
    context: int | None = Field(None, ge=2, le=10_000_000)


def settings_of(rest: str) -> EngineSettings:
    """What follows ``vllm:``. Raises UsageError, with what to write, for anything that is not as it should be."""
    return parse_name(EngineSettings, rest, "vLLM", EXAMPLE)


def without_speed(rest: str) -> str:
    """What follows ``vllm:``, without the settings that are in no name."""
    return drop_settings(rest, SPEED)
