"""What was written for W&B without a network: a file beside wandb's own folders, `dpicl-published.json`.

It makes publishing twice write once, also after `wandb sync` and `wandb clean`. Whoever removes it gets every run
written again, under the same ids.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from pathlib import Path

from dpicl.harness.core.files import write_whole
from dpicl.leaderboards.publish.base import SinkError

NAME = "dpicl-published.json"
_FORMAT = 1
#: How long another process may have the record before this one gives up.
WAIT_SECONDS = 60.0
_PAUSE_SECONDS = 0.2


class OfflineRecord:
    """Run ids with the folder that each was written to. One process at a time has it; another one waits for a while.

    wait_seconds: how long, before SinkError.
    """

    def __init__(self, runs: Path, wait_seconds: float = WAIT_SECONDS) -> None:
        self._runs = runs
        self._path = runs / NAME
        try:
            runs.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(runs / f".{NAME}.lock", os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise SinkError(f"Cannot write into {runs}: {error.strerror}; choose another folder with --dir.") from error
        self._acquire(wait_seconds)
        self._known = self._read()

    def holds(self, place: str, id: str) -> bool:
        """Whether the run was written for this project. place: entity and project."""
        return f"{place}/{id}" in self._known

    def add(self, place: str, id: str, folder: str) -> None:
        """Remembers a run that is whole. Raises ResultError when the disk does not take it."""
        self._known[f"{place}/{id}"] = folder
        document = {"format": _FORMAT, "runs": self._known}
        write_whole(self._path, json.dumps(document, indent=1, sort_keys=True) + "\n", self._runs)

    def folders(self, id: str) -> list[Path]:
        """wandb's offline folders of this id."""
        return sorted(self._runs.glob(f"offline-run-*-{id}"))

    def remove_unfinished(self, place: str, id: str) -> None:
        """Removes what a publication that was cut off left of a run; its content is in the results still."""
        kept = {folder for key, folder in self._known.items() if key.rpartition("/")[2] == id}
        for folder in self.folders(id):
            if folder.name not in kept:
                shutil.rmtree(folder)

    def mark_synced(self, id: str) -> None:
        """Marks a run that the server has as `wandb sync` does, which would else append its lines to it once more."""
        for folder in self.folders(id):
            (folder / f"run-{id}.wandb.synced").touch()

    def close(self) -> None:
        """Lets others have the record. May be called twice."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _acquire(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > end:
                    self.close()
                    raise SinkError(
                        f"Another process publishes into {self._runs}; wait until it is done, or choose another folder."
                    ) from None
                time.sleep(_PAUSE_SECONDS)

    def _read(self) -> dict[str, str]:
        try:
            document = json.loads(self._path.read_text(encoding="utf-8"))
            if document["format"] != _FORMAT:
                raise ValueError("another format")
            return {str(key): str(value) for key, value in document["runs"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self.close()
            raise SinkError(
                f"{self._path} is damaged; remove it, and every run will be written again under its old id."
            ) from error
