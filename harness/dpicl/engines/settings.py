"""The engines, and what each of them may be asked for."""

from __future__ import annotations

from dataclasses import dataclass, fields

from dpicl.core.errors import UsageError, require_known

ENGINES = ("inline", "local", "ray")
#: Setting -> the engines that have it.
_ENGINES_OF = dict.fromkeys(("address", "cpus", "gpus"), ("ray",))


@dataclass(frozen=True)
class EngineSettings:
    """What an engine is asked for besides its number of workers; None leaves the choice to it.

    address: of a Ray cluster. cpus, gpus: of each worker.
    """

    address: str | None = None
    cpus: int | None = None
    gpus: int | None = None

    def check(self, engine: str) -> None:
        """Raises UsageError for an engine that there is not, and for a setting that it does not have."""
        if engine == "slurm":
            raise UsageError("Slurm runs a job array of shards: `dpicl slurm SUITE` prints its script.")
        require_known("engine", [engine], ENGINES)
        for name in (field.name for field in fields(self) if getattr(self, field.name) is not None):
            if engine not in _ENGINES_OF[name]:
                raise UsageError(
                    f"--{name} goes with --engine {' or '.join(_ENGINES_OF[name])}, not with '{engine}'; leave it out."
                )
