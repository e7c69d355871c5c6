"""The settings of wandb: online or offline, what it must not collect, how long it may wait, where its files are."""

from __future__ import annotations

import hashlib
import importlib
import os
import tempfile
from contextlib import chdir
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from dpicl.core.errors import DpiclError, UsageError
from dpicl.models.server_settings import is_loopback

DEFAULT_PROJECT: Final = "dpicl-bench"
#: Seconds: to begin a run, to end one, and for one request to the server.
BEGIN_SECONDS, END_SECONDS, ASK_SECONDS = 30.0, 60.0, 15.0


class SinkError(DpiclError):
    """A tracker that rejected or lost what was sent. The results are untouched."""


def reason(error: BaseException) -> str:
    """An error of a tracker in one short line."""
    return " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__


@dataclass(frozen=True)
class Destination:
    """Where W&B's runs go. entity: None for the key's own. folder: wandb's files lie in its subfolder `wandb`. address:
    of the server that gets the key and the runs; None offline."""

    project: str
    entity: str | None
    mode: Literal["online", "offline"]
    folder: Path
    address: str | None = None

    @property
    def sentence(self) -> str:
        """What is said before anything is sent; "" where nothing will be."""
        return f"W&B: sending to {self.address}, project {self.project}." if self.address else ""


def load(module: str, wanted: str) -> ModuleType:
    """An optional package. Raises UsageError where it is not installed. wanted: what pip installs."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise UsageError(f"{module.partition('.')[0]} is not installed; run `pip install '{wanted}'`.") from None


def load_wandb() -> ModuleType:
    """wandb, quiet and without error reports, and with the settings of environment and home."""
    os.environ["WANDB_ERROR_REPORTING"] = "false"
    os.environ["WANDB_SILENT"] = "true"
    module = load("wandb", "wandb")
    _load_settings()
    return module


@cache
def _load_settings() -> None:
    """Makes wandb read its settings, which it does once a process, where there is no `wandb/settings`: such a file of
    the working folder may have come with results, and can name the server that gets the key, a proxy, or no TLS."""
    from wandb.sdk import wandb_setup

    here = Path.cwd()
    with chdir("/"):
        wandb_setup.singleton().settings.root_dir = str(here)


def _address() -> str:
    """The server that gets the key. Raises UsageError for one that anybody on the way could read along with."""
    from wandb.sdk import wandb_setup

    load_wandb()
    address = os.environ.get("WANDB_BASE_URL") or str(wandb_setup.singleton().settings.base_url)
    parts = urlsplit(address)
    if not parts.hostname or "@" in parts.netloc or (parts.scheme != "https" and not is_loopback(address)):
        raise UsageError(
            f"W&B's server {parts.scheme}://{parts.hostname} (WANDB_BASE_URL, or the settings in your home) would get"
            " the API key over a connection that others can read; use https, without a user in it."
        )
    os.environ["WANDB_BASE_URL"] = address  # reports and Weave have ways of their own to find it
    return address


def destination(project: str | None, entity: str | None, mode: str | None, folder: Path | None) -> Destination:
    """The flags; where they are missing, wandb's own variables (WANDB_PROJECT, _ENTITY, _MODE, _DIR) and its settings.

    mode: without a flag or WANDB_MODE, online where an API key is configured, else offline. Raises UsageError where
    W&B is switched off or the mode is none, SinkError for online without a key.
    """
    asked = mode or os.environ.get("WANDB_MODE") or ""
    asked = {"run": "online", "dryrun": "offline"}.get(asked, asked)
    if asked not in ("", "online", "offline"):
        raise UsageError(f"The mode of W&B is online or offline, not '{asked}' (flag or WANDB_MODE).")
    address = None if asked == "offline" else _address()
    keyed = address is not None and _has_key(address)
    if asked == "online" and not keyed:
        raise SinkError("There is no API key for W&B; run `wandb login` or set WANDB_API_KEY, or publish offline.")
    return Destination(
        project=project or os.environ.get("WANDB_PROJECT") or DEFAULT_PROJECT,
        entity=entity or os.environ.get("WANDB_ENTITY") or None,
        mode="online" if keyed else "offline",
        folder=folder or Path(os.environ.get("WANDB_DIR") or "."),
        address=address if keyed else None,
    )


def _has_key(host: str) -> bool:
    """Whether an API key is configured for a W&B server; asks neither the user nor the server."""
    from wandb.errors import AuthenticationError
    from wandb.sdk.lib import wbauth

    try:
        return wbauth.authenticate_session(host=host, source="dpicl", prompt=False, update_session=False) is not None
    except AuthenticationError as error:
        raise SinkError(f"W&B's API key cannot be used: {reason(error)}.") from error


def run_settings(address: str | None) -> Any:
    """The settings of every run: it tells nothing about the machine, its user or the program, and never waits for ever.

    address: of the server (`Destination`), whatever wandb has read elsewhere; None offline.

    docs/releases.md says what wandb sends all the same.
    """
    limits = {"retry_max": 2, "retry_wait_min_seconds": 0.5, "retry_wait_max_seconds": 2.0}
    limits["timeout_seconds"] = ASK_SECONDS
    parts = ("graphql", "file_stream", "file_transfer")
    place = {"base_url": address} if address else {}
    hidden = ("disable_code", "disable_git", "disable_job_creation", "x_disable_machine_info", "x_disable_meta")
    return load_wandb().Settings(
        **place,
        **{f"x_{part}_{name}": value for part in parts for name, value in limits.items()},
        **dict.fromkeys((*hidden, "x_disable_stats", "silent", "finish_timeout_raises"), True),
        **dict.fromkeys(("save_code", "symlink", "x_save_requirements"), False),
        **dict.fromkeys(("host", "run_notes"), ""),
        console="off",
        program="dpicl",
        init_timeout=BEGIN_SECONDS,
        finish_timeout=END_SECONDS,
        login_timeout=1.0,
    )


def stage_files(runs: Path) -> Path:
    """Makes wandb copy the files of artifacts into a folder for these runs, this user's alone. Raises SinkError.

    An artifact's manifest, which goes to the server, names the path of every copy. So the path tells nothing: neither
    the user's home nor the folder of the runs. Copies of offline runs are needed until `wandb sync`.
    """
    digest = hashlib.sha256(f"{os.getuid()} {runs.resolve()}".encode()).hexdigest()[:12]
    shared = Path("/var/tmp")
    folder = (shared if shared.is_dir() else Path(tempfile.gettempdir())) / f"dpicl-published-{digest}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise SinkError(f"{folder}, where wandb stages artifacts, belongs to somebody else; use another --dir")
    os.environ["WANDB_DATA_DIR"] = str(folder)
    return folder
