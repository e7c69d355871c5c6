"""How wandb is set up here: what it must not collect, how long it may wait, where its files are, online or offline.

Nothing about the machine, its user or the program may leave: no console, git, code, host, hardware, packages or command
line, and no error reports to wandb's own makers. What remains is in docs/publishing.md.
"""

from __future__ import annotations

import atexit
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal

import psutil

from dpicl.harness.core.errors import UsageError
from dpicl.leaderboards.publish.base import SinkError

Mode = Literal["online", "offline"]
_SERVICE: Final = "wandb-core"
DEFAULT_PROJECT: Final = "dpicl-bench"
#: Seconds: to begin a run, to end one, and to ask the server one question.
BEGIN_SECONDS, END_SECONDS, ASK_SECONDS = 30.0, 60.0, 30.0

_NOTHING_PRIVATE: Final[dict[str, Any]] = {
    "console": "off",
    "disable_code": True,
    "disable_git": True,
    "disable_job_creation": True,
    "save_code": False,
    "host": "",
    "program": "dpicl",
    "run_notes": "",
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
}
_NOTHING_FOREVER: Final[dict[str, Any]] = {
    "finish_timeout_raises": True,
    "login_timeout": 1.0,  # nobody is asked for a key
    **{f"x_{part}_retry_max": 2 for part in ("graphql", "file_stream", "file_transfer")},
    **{f"x_{part}_retry_wait_min_seconds": 0.5 for part in ("graphql", "file_stream", "file_transfer")},
    **{f"x_{part}_retry_wait_max_seconds": 2.0 for part in ("graphql", "file_stream", "file_transfer")},
    **{f"x_{part}_timeout_seconds": 15.0 for part in ("graphql", "file_stream", "file_transfer")},
}


@dataclass(frozen=True)
class Destination:
    """Where runs go. entity: None for the key's own. folder: wandb's files lie in its subfolder `wandb`."""

    project: str
    entity: str | None
    mode: Mode
    folder: Path
    begin_seconds: float = BEGIN_SECONDS
    end_seconds: float = END_SECONDS
    ask_seconds: float = ASK_SECONDS

    @property
    def runs(self) -> Path:
        """The folder of wandb's run folders."""
        return self.folder / "wandb"


def load_wandb() -> ModuleType:
    """The package, quiet and without error reports. Raises UsageError where it is not installed."""
    os.environ["WANDB_ERROR_REPORTING"] = "false"
    os.environ["WANDB_SILENT"] = "true"
    try:
        import wandb
    except ModuleNotFoundError:
        raise UsageError("wandb is not installed; run `pip install wandb`.") from None
    return wandb


def destination(project: str | None, entity: str | None, mode: str | None, folder: Path | None) -> Destination:
    """What flags leave open, from wandb's own variables (WANDB_PROJECT, _ENTITY, _MODE, _DIR) and its settings.

    mode: without a flag or WANDB_MODE, online where an API key is configured, else offline. Raises UsageError where
    W&B is switched off or the mode is none, SinkError for online without a key.
    """
    load_wandb()
    asked = mode or os.environ.get("WANDB_MODE") or ""
    asked = {"run": "online", "dryrun": "offline"}.get(asked, asked)
    if asked == "disabled":
        raise UsageError("WANDB_MODE is `disabled`, so nothing is published; unset it, or give a mode.")
    if asked not in ("", "online", "offline"):
        raise UsageError(f"The mode is online or offline, not '{asked}' (flag or WANDB_MODE).")
    keyed = asked != "offline" and has_key()
    if asked == "online" and not keyed:
        raise SinkError("There is no API key for W&B; run `wandb login` or set WANDB_API_KEY, or publish offline.")
    return Destination(
        project=project or os.environ.get("WANDB_PROJECT") or DEFAULT_PROJECT,
        entity=entity or os.environ.get("WANDB_ENTITY") or None,
        mode="online" if asked == "online" or (keyed and not asked) else "offline",
        folder=folder or Path(os.environ.get("WANDB_DIR") or "."),
    )


def has_key() -> bool:
    """Whether an API key is configured for the W&B server in use; asks neither the user nor the server."""
    from wandb.errors import AuthenticationError
    from wandb.sdk import wandb_setup
    from wandb.sdk.lib import wbauth

    host = os.environ.get("WANDB_BASE_URL") or wandb_setup.singleton().settings.base_url
    try:
        found = wbauth.authenticate_session(host=host, source="dpicl", prompt=False, update_session=False)
    except AuthenticationError as error:
        raise SinkError(f"W&B's API key cannot be used: {' '.join(str(error).split())}") from error
    return found is not None


def end_service_after(seconds: float) -> threading.Timer:
    """Kills wandb's service process when this time has passed; cancel the timer once it has ended by itself.

    `wandb.teardown`, which also runs when the program ends, waits for that process without a limit.
    """
    timer = threading.Timer(seconds, _kill_service)
    timer.daemon = True
    timer.start()
    return timer


def limit_the_end(seconds: float) -> None:
    """At the end of the program wandb's service has this long. To be called when it was used: last in, first out."""
    atexit.unregister(end_service_after)
    atexit.register(end_service_after, seconds)


def _kill_service() -> None:
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it may have ended meanwhile
            if child.name().startswith(_SERVICE):
                child.kill()


def run_settings(to: Destination) -> Any:
    """The settings of one run."""
    return load_wandb().Settings(
        **_NOTHING_PRIVATE,
        **_NOTHING_FOREVER,
        silent=True,
        symlink=False,
        init_timeout=to.begin_seconds,
        finish_timeout=to.end_seconds,
    )
