"""trackio: the same runs in a dashboard on this machine, an SQLite file a project.

Lines are written by trackio's own storage class, all lines of a run and its config in one transaction: so a run is
there as a whole or not at all, no thread or process is left behind, and nothing asks Hugging Face for a user's name, as
`trackio.init` does. A run that is there is left alone; other content of the same row takes its place.
"""

from __future__ import annotations

import os
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpicl.harness.core.errors import UsageError
from dpicl.leaderboards.publish.base import Outcome, Published, PublishedBoard, SinkError
from dpicl.leaderboards.publish.wandb_settings import DEFAULT_PROJECT


class TrackioSink:
    """One project of the dashboard. folder: None for TRACKIO_DIR, or trackio's own."""

    def __init__(self, project: str | None, folder: Path | None) -> None:
        self.project = project or DEFAULT_PROJECT
        self._folder_asked = folder
        self._storage = _storage(folder)
        self.folder = Path(str(self._storage.get_project_db_path(self.project))).parent
        try:
            self._storage.validate_project_name(self.project)
            self.folder.mkdir(parents=True, exist_ok=True)
            self._there = self._runs()
        except ValueError as error:
            raise UsageError(f"trackio does not take the project name '{self.project}': {error}") from error
        except Exception as error:
            raise self._failed(error) from error

    def send(self, published: Published) -> Outcome:
        """See `Sink`. The summary stands in the run's config, since trackio has no other place for it."""
        config = {**published.config, "summary": dict(published.summary)}
        return self._write(published, config, [dict(row) for row in published.rows])

    def send_board(self, board: PublishedBoard) -> Outcome:
        """See `Sink`. The table is one line; result files stay where they are."""
        table = [dict(zip(board.columns, row, strict=True)) for row in board.rows]
        return self._write(board, dict(board.config), [{"board": {"_type": "trackio.table", "_value": table}}])

    def close(self) -> list[str]:
        """See `Sink`."""
        folder = "" if self._folder_asked is None else f"TRACKIO_DIR={shlex.quote(str(self.folder))} "
        return [f"Look at it with `{folder}trackio show --project {shlex.quote(self.project)}`."]

    def abandon(self) -> None:
        """See `Sink`. Nothing is held."""

    def _write(self, thing: Published | PublishedBoard, config: dict[str, Any], lines: list[dict[str, Any]]) -> Outcome:
        known = {**config, "_Group": thing.group, "_Created": datetime.now(UTC).isoformat(), "_Username": None}
        known |= {"job_type": thing.job_type, "tags": list(thing.tags), "published_content": thing.content}
        older = {id: name for id, name in self._there.items() if id.rpartition("-")[0] == thing.row and id != thing.id}
        is_new = thing.id not in self._there
        try:
            if is_new:
                self._storage.bulk_log(
                    self.project,
                    self._name(thing),
                    lines,
                    config=known,
                    run_id=thing.id,
                    log_ids=[f"{thing.id}-{i}" for i in range(len(lines))],
                )
            for id, name in older.items():
                self._storage.delete_run(self.project, name, run_id=id)
            if is_new or older:
                self._there = self._runs()
        except Exception as error:
            raise self._failed(error) from error
        if thing.id not in self._there:
            raise SinkError(f"trackio did not keep '{thing.name}'.")
        return "sent" if is_new else "unchanged"

    def _name(self, thing: Published | PublishedBoard) -> str:
        """A name that no other run of the project has: suites share row names, and trackio shows runs by name."""
        return f"{thing.name} [{thing.group}]" if thing.job_type != "board" else thing.name

    def _runs(self) -> dict[str, str]:
        """Run id -> name."""
        records = self._storage.get_run_records(self.project)
        return {str(record["id"]): str(record["name"]) for record in records if record["id"] is not None}

    def _failed(self, error: Exception) -> SinkError:
        if isinstance(error, OSError):
            return SinkError(f"Cannot write into {self.folder}: {error.strerror}; choose another folder with --dir.")
        text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        return SinkError(f"trackio did not take it under {self.folder}: {text[:200]}.")


def _storage(folder: Path | None) -> Any:
    """trackio's storage, on a folder. Raises UsageError where trackio is not installed, or looks elsewhere already."""
    if folder is not None:
        os.environ["TRACKIO_DIR"] = str(folder.resolve())
    try:
        from trackio import sqlite_storage, utils
    except ModuleNotFoundError:
        raise UsageError("trackio is not installed; run `pip install 'dpicl-bench[trackio]'`.") from None
    if folder is not None and Path(utils.TRACKIO_DIR).resolve() != folder.resolve():
        raise UsageError(f"trackio is in use on {utils.TRACKIO_DIR} already; publish to {folder} in a new process.")
    return sqlite_storage.SQLiteStorage
