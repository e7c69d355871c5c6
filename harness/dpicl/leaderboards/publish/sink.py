"""Sends runs to Weights & Biases, each under an id that follows from its content.

Publishing again updates the same run: its summary and table are then those of the newest results. wandb is told to
collect nothing of its own (docs/releases.md says what it sends all the same), and never waits for ever.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from dpicl.core.errors import DpiclError
from dpicl.core.extras import require_extras
from dpicl.core.messages import count, message
from dpicl.leaderboards.publish.runs import Published, content_hash
from dpicl.models.server_settings import is_loopback

DEFAULT_PROJECT: Final = "dpicl-bench"
#: Runs after which it is said how many were sent.
EVERY: Final = 20
#: Key of a run's summary that is sent last: the hash of what was sent.
CONTENT_KEY: Final = "published_content"
#: Seconds: to begin a run, to end one, and for one request to the server.
BEGIN_SECONDS, END_SECONDS, ASK_SECONDS = 30.0, 60.0, 15.0
#: Where wandb copies the files of tables, which are needed until `wandb sync`. A table's manifest tells the server this
#: path, so it names no home and no folder of runs.
STAGED: Final = Path("/var/tmp") / f"dpicl-published-{os.getuid()}"


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
    folder: Path
    address: str | None = None

    @property
    def mode(self) -> Literal["online", "offline"]:
        return "online" if self.address else "offline"


def load_wandb() -> ModuleType:
    """wandb, quiet and without error reports, and with the settings of environment and home."""
    os.environ |= {"WANDB_ERROR_REPORTING": "false", "WANDB_SILENT": "true"}
    with require_extras():
        import wandb
    _load_settings()
    return wandb


@cache
def _load_settings() -> None:
    """Makes wandb read its settings, which it does once a process, where there is no `wandb/settings`: such a file of
    the working folder may have come with results, and can name the server that gets the key, a proxy, or no TLS."""
    from wandb.sdk import wandb_setup

    here = Path.cwd()
    with chdir("/"):
        wandb_setup.singleton().settings.root_dir = str(here)


def destination(
    project: str | None,
    entity: str | None,
    mode: str | None,
    folder: Path | None,
) -> Destination:
    """The flags; where they are missing, wandb's own variables (WANDB_PROJECT, _ENTITY, _MODE, _DIR) and its settings.

    mode: without a flag or WANDB_MODE, online where an API key is configured; nothing is sent in any mode but online.
    Raises SinkError for online without a key.
    """
    mode = mode or os.environ.get("WANDB_MODE") or ""
    return Destination(
        project=project or os.environ.get("WANDB_PROJECT") or DEFAULT_PROJECT,
        entity=entity or os.environ.get("WANDB_ENTITY") or None,
        folder=folder or Path(os.environ.get("WANDB_DIR") or "."),
        address=_address(mode) if mode in ("", "online", "run") else None,
    )


def _address(mode: str) -> str | None:
    """The server that gets the key and the runs; None without a key for it, unless the mode says online."""
    settings = load_wandb().setup().settings
    from wandb.errors import AuthenticationError
    from wandb.sdk.lib import wbauth

    address = os.environ.get("WANDB_BASE_URL") or str(settings.base_url)
    parts = urlsplit(address)
    if "@" in parts.netloc or (parts.scheme != "https" and not is_loopback(address)):
        raise SinkError(
            f"W&B's server {parts.scheme}://{parts.hostname} (WANDB_BASE_URL, or the settings in your home) would get"
            " the API key over a connection that others can read; use https, without a user in it."
        )
    try:
        if wbauth.authenticate_session(
            host=address, source="dpicl", prompt=False, update_session=False
        ):
            return address
    except AuthenticationError as error:
        raise SinkError(f"W&B's API key cannot be used: {reason(error)}.") from error
    if mode:
        raise SinkError(
            "There is no API key for W&B; run `wandb login` or set WANDB_API_KEY, or publish offline."
        )
    return None


def _run_settings(address: str | None) -> Any:
    """The settings of every run: it tells nothing about the machine, its user or the program.

    address: of the server, whatever wandb has read elsewhere; None offline.
    """
    hidden = (
        "disable_code",
        "disable_git",
        "disable_job_creation",
        "x_disable_machine_info",
        "x_disable_meta",
    )
    return load_wandb().Settings(
        **({"base_url": address} if address else {}),
        **dict.fromkeys((*hidden, "x_disable_stats", "silent", "finish_timeout_raises"), True),
        **dict.fromkeys(("save_code", "symlink", "x_save_requirements"), False),
        host="",
        console="off",
        program="dpicl",
        init_timeout=BEGIN_SECONDS,
        finish_timeout=END_SECONDS,
        login_timeout=1.0,
        x_graphql_retry_max=2,
        x_graphql_timeout_seconds=ASK_SECONDS,
    )


class Sink:
    """One W&B project, online or offline. sent: run id -> hash of what was sent."""

    def __init__(self, to: Destination) -> None:
        self.to = to
        self.sent: dict[str, str] = {}
        self._wandb = load_wandb()
        self._folder = to.folder / "wandb"

    def run_id(self, run: Published) -> str:
        """16 hexadecimal digits: what the run stands for, and where."""
        where = {"entity": self.to.entity, "project": self.to.project}
        return content_hash({"row": content_hash(run.stands_for)[:16], **where})[:16]

    def publish(self, runs: Sequence[Published]) -> None:
        """Creates or updates these runs. Raises SinkError."""
        for number, run in enumerate(runs, 1):
            id = self.run_id(run)
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                for older in self._folder.glob(
                    f"offline-run-*-{id}"
                ):  # `wandb sync` would send it after this one
                    shutil.rmtree(older)
            except OSError as error:
                why = f"Cannot write into {self._folder} ({error.strerror}); use another folder with --dir."
                raise SinkError(why) from error
            try:
                self._write(run, id)
            except (
                Exception
            ) as error:  # wandb raises errors of many kinds; each means that the run did not arrive
                raise SinkError(f"W&B did not take '{run.name}': {reason(error)}.") from error
            self.sent[id] = run.content
            if number % EVERY == 0 and number < len(runs):
                message(f"W&B: {number} of {count(len(runs), 'run')}.")

    def close(self) -> list[str]:
        """What a reader can do next, in sentences. Online, asks the server whether everything arrived, since wandb may
        end a run whose data it could not deliver. Raises SinkError where it did not."""
        if self.to.mode == "offline":
            later = (
                f"when there is a network and a key, run `wandb sync {self._folder}/offline-run-*`."
            )
            return [f"Nothing was sent yet; {later}"] if self.sent else []
        end = time.monotonic() + ASK_SECONDS
        while lacking := self.sent.items() - self._read_arrived().items():
            if time.monotonic() > end:
                sent = count(len(self.sent), "run")
                raise SinkError(f"W&B took the data but shows {len(lacking)} of {sent} incomplete.")
            time.sleep(1)
        return []

    def _read_arrived(self) -> dict[str, Any]:
        """Run id -> content of every finished run of the project."""
        try:
            self._wandb.setup(settings=_run_settings(self.to.address))
            api = self._wandb.Api(timeout=int(ASK_SECONDS))
            project = f"{self.to.entity or api.default_entity}/{self.to.project}"
            runs = api.runs(project, per_page=200, lazy=False)
            finished = (run for run in runs if run.state == "finished")
            return {run.id: run.summary_metrics.get(CONTENT_KEY) for run in finished}
        except Exception as error:
            raise SinkError(f"W&B did not say what it has: {reason(error)}.") from error

    def _write(self, published: Published, id: str) -> None:
        STAGED.mkdir(mode=0o700, exist_ok=True)
        if STAGED.is_symlink() or STAGED.stat().st_uid != os.getuid():
            raise SinkError(
                f"{STAGED}, where wandb keeps the files of tables, belongs to another user; remove it."
            )
        os.environ["WANDB_DATA_DIR"] = str(STAGED)
        with self._wandb.init(
            project=self.to.project,
            entity=self.to.entity,
            id=id,
            name=published.name,
            tags=list(published.tags),
            notes=published.notes,
            group=published.group,
            job_type=published.job_type,
            config=dict(published.config),
            resume="allow" if self.to.mode == "online" else None,
            mode=self.to.mode,
            dir=str(self.to.folder.resolve()),  # wandb's process may have been started elsewhere
            reinit="finish_previous",
            settings=_run_settings(self.to.address),
        ) as run:
            axis = published.axis
            run.define_metric(axis, hidden=True, summary="none")
            run.define_metric(
                "*", step_metric=axis, summary="none"
            )  # the summary is ours alone: else wandb adds the last values to it
            for point in published.curve:
                run.log(dict(point))
            if lines := published.table:
                names = list(dict.fromkeys(name for line in lines for name in line))
                data = [[line.get(name) for name in names] for line in lines]
                name = "board" if published.job_type == "board" else "texts"
                run.log({name: self._wandb.Table(columns=names, data=data)})
            run.summary.update({**published.summary, CONTENT_KEY: published.content})
