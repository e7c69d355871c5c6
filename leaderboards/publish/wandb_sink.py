"""Weights & Biases: one run for each row and task, one for each board.

Offline every run is written, read back, and remembered in a record. Online the server is asked first what it has, and
asked again at the end whether everything arrived. Nothing is ever added to a run that is there: W&B appends the lines
of a second run with the same id to those of the first. The same content is skipped; other content has another id, and
so has a second attempt where the first was cut off. What they replace gets the tag `superseded`.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from dpicl.harness.core.paths import slug
from dpicl.leaderboards.publish.base import Outcome, Published, PublishedBoard, SinkError
from dpicl.leaderboards.publish.offline_record import OfflineRecord
from dpicl.leaderboards.publish.run_file import DamagedRunFile, read
from dpicl.leaderboards.publish.wandb_server import CONTENT_KEY, LINES_KEY, ROW_KEY, Found, Server, reason
from dpicl.leaderboards.publish.wandb_settings import Destination, limit_the_end, load_wandb, run_settings

#: How long wandb may take to have written an offline run: attempts, and seconds between them.
_READ_ATTEMPTS, _READ_PAUSE = 200, 0.05


class WandbSink:
    """Sends to one project. Holds the folder's record until `close`."""

    def __init__(self, to: Destination) -> None:
        self.to = to
        staging = _staging_folder(to.runs)
        self._record = OfflineRecord(to.runs)
        self._server = Server(to) if to.mode == "online" else None
        self._there: dict[str, Found] | None = None
        self._rows: dict[str, str] = {}
        self._sent: dict[str, str] = {}
        self._wrote = False
        self._data_folder = os.environ.get("WANDB_DATA_DIR")
        os.environ["WANDB_DATA_DIR"] = str(staging)

    @property
    def _place(self) -> str:
        return f"{self.to.entity or ''}/{self.to.project}"

    def send(self, published: Published) -> Outcome:
        """See `Sink`."""

        def fill(run: Any) -> None:
            # The summary is ours alone: else wandb adds the last line's values to it.
            run.define_metric("epsilon", summary="none")
            run.define_metric("*", step_metric="epsilon", summary="none")
            for row in published.rows:
                run.log(dict(row))
            run.summary.update({**published.summary, LINES_KEY: len(published.rows)})

        return self._send(published, len(published.rows), fill)

    def send_board(self, board: PublishedBoard) -> Outcome:
        """See `Sink`."""
        wandb = load_wandb()
        name = slug(f"{board.config['suite']}-{board.config['model']}").replace("=", "_").replace("+", "_")

        def fill(run: Any) -> None:
            files = {"results": board.files, "board": {"board.json": json.dumps(board.document, indent=1)}}
            for kind, contents in files.items():
                artifact = wandb.Artifact(f"{name}-{kind}", type=kind, metadata={"suite": board.config["suite"]})
                for path, text in contents.items():
                    with artifact.new_file(path, encoding="utf-8") as file:
                        file.write(text)
                logged = run.log_artifact(artifact, aliases=["latest", board.alias])
                if self._server is not None:
                    logged.wait(timeout=int(self.to.end_seconds))  # raises where it was not taken
            table = wandb.Table(columns=list(board.columns), data=[list(row) for row in board.rows])
            run.log({"board": table})
            run.summary.update({"rows": len(board.rows), "result_files": len(board.files), LINES_KEY: 1})

        return self._send(board, 1, fill)

    def close(self) -> list[str]:
        """See `Sink`."""
        try:
            if self._server is None:
                return self._offline_advice()
            there = self._server.wait_for(self._sent.values()) if self._sent else self._runs_there()
            for found in there.values():
                if found.complete:
                    self._record.mark_synced(found.id)
            changed = self._server.mark_superseded(there, self._rows)
            return (
                [f"The tag `superseded` was changed on {changed} runs, for rows with newer results."] if changed else []
            )
        finally:
            self.abandon()

    def abandon(self) -> None:
        """See `Sink`. May be called twice."""
        self._record.close()
        limit_the_end(self.to.end_seconds)
        if self._data_folder is None:
            os.environ.pop("WANDB_DATA_DIR", None)
        else:
            os.environ["WANDB_DATA_DIR"] = self._data_folder

    def _send(self, thing: Published | PublishedBoard, lines: int, fill: Callable[[Any], None]) -> Outcome:
        if self._server is None:
            return self._send_offline(thing, lines, fill)
        there = self._runs_there()
        own = [found for found in there.values() if (found.row, found.content) == (thing.row, thing.content)]
        complete = next((found.id for found in own if found.complete), None)
        if thing.row in self._sent or complete is not None:
            self._rows[thing.row] = self._sent.get(thing.row) or str(complete)
            return "unchanged"
        attempts = (f"{thing.id}-{number}" if number > 1 else thing.id for number in count(1))
        id = next(id for id in attempts if id not in there)
        self._write(thing, id, fill)
        self._sent[thing.row] = self._rows[thing.row] = id
        return "sent"

    def _send_offline(self, thing: Published | PublishedBoard, lines: int, fill: Callable[[Any], None]) -> Outcome:
        if self._record.holds(self._place, thing.id):
            return "unchanged"
        self._record.remove_unfinished(self._place, thing.id)
        self._write(thing, thing.id, fill)
        self._record.add(self._place, thing.id, self._read_back(thing.id, lines).name)
        self._wrote = True
        return "sent"

    def _runs_there(self) -> dict[str, Found]:
        if self._there is None:
            assert self._server is not None
            self._there = self._server.runs()
        return self._there

    def _write(self, thing: Published | PublishedBoard, id: str, fill: Callable[[Any], None]) -> None:
        """One run from beginning to end. wandb raises errors of many kinds; each means that the run did not arrive."""
        wandb = load_wandb()
        try:
            run = wandb.init(
                project=self.to.project,
                entity=self.to.entity,
                id=id,
                name=thing.name,
                group=thing.group,
                job_type=thing.job_type,
                tags=list(thing.tags),
                config={**thing.config, ROW_KEY: thing.row, CONTENT_KEY: thing.content},
                mode=self.to.mode,
                dir=str(self.to.folder.resolve()),  # wandb's process may have been started elsewhere
                reinit="finish_previous",
                settings=run_settings(self.to),
            )
            try:
                fill(run)
            except BaseException:
                with suppress(Exception):  # the first error is the one that tells
                    run.finish(exit_code=1)
                raise
            run.finish()
        except Exception as error:
            raise SinkError(f"W&B did not take '{thing.name}': {reason(error)}.") from error

    def _read_back(self, id: str, lines: int) -> Path:
        """The run's folder, once its file holds everything: wandb writes on after `finish`, and hides a full disk."""
        problem = "there is none"
        for attempt in range(_READ_ATTEMPTS):
            time.sleep(_READ_PAUSE if attempt else 0)
            for folder in self._record.folders(id):
                try:
                    found = read(folder / f"run-{id}.wandb")
                except (OSError, DamagedRunFile) as error:
                    problem = reason(error)
                    continue
                if found.finished and len(found.history) == lines:
                    return folder
                problem = f"it has {len(found.history)} of {lines} lines"
        raise SinkError(
            f"The run file {id} under {self.to.runs} is not complete ({problem}); is the disk full? What is missing is"
            " written again when you publish again."
        )

    def _offline_advice(self) -> list[str]:
        if not self._wrote:
            return []
        return [
            f"Nothing was sent yet; when there is a network and a key, run `wandb sync {self.to.runs}/offline-run-*`."
        ]


def _staging_folder(runs: Path) -> Path:
    """Where wandb copies the files of artifacts, one folder for each folder of runs; made, and this user's alone.

    An artifact's manifest, which goes to the server, names the path of every copy. So the path tells nothing: neither
    the user's home nor the folder of the runs. Copies of offline runs are needed until `wandb sync`.
    """
    digest = hashlib.sha256(f"{os.getuid()} {runs.resolve()}".encode()).hexdigest()[:12]
    shared = Path("/var/tmp")
    folder = (shared if shared.is_dir() else Path(tempfile.gettempdir())) / f"dpicl-published-{digest}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise SinkError(f"{folder} belongs to somebody else; publish with another --dir.")
    except OSError as error:
        raise SinkError(f"Cannot write into {folder}: {error.strerror}; wandb stages artifacts there.") from error
    return folder
