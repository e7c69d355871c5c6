"""The engines, and what each of them may be asked for."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from dpicl.core.errors import UsageError, require_known

ENGINES = ("inline", "local", "ray")


@dataclass(frozen=True)
class EngineSettings:
    """What Ray is asked for besides its number of workers; None leaves the choice to it.

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
        given = [name for name, value in asdict(self).items() if value is not None]
        if given and engine != "ray":
            raise UsageError(f"--{given[0]} goes with --engine ray, not with '{engine}'; leave it out.")
