"""One sink for Weights & Biases and trackio: `init` a run, `log` its lines, `finish`.

The id of a run is what it stands for and a hash of its content: the same content is sent once, other content is another
run. A W&B server says which runs are complete, and a run that was interrupted resumes at its next line. On this machine
(W&B offline, trackio) a file beside the runs lists those that are complete; the others are written again.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal, Self

from filelock import FileLock, Timeout

from dpicl.harness.core import json_text
from dpicl.harness.core.files import write_whole
from dpicl.harness.core.messages import count
from dpicl.harness.core.paths import slug
from dpicl.leaderboards.publish.payload import Published, PublishedBoard
from dpicl.leaderboards.publish.wandb_settings import (
    ASK_SECONDS,
    DEFAULT_PROJECT,
    END_SECONDS,
    Destination,
    SinkError,
    load,
    load_wandb,
    reason,
    run_settings,
    stage_files,
)

Outcome = Literal["sent", "unchanged"]
#: Lists the complete runs on this machine, in their folder.
RECORD: Final = "dpicl-published.json"
#: Tag of a run whose row has been published again with other content.
SUPERSEDED: Final = "superseded"
#: Keys of a run's config: what it stands for, and the hash of what was sent. Of its summary, sent last: its lines.
ROW_KEY, CONTENT_KEY, LINES_KEY = "published_row", "published_content", "published_lines"
#: Seconds to wait for another publication into the same folder.
WAIT_SECONDS = 60.0


class Sink:
    """One project of a tracker. module: wandb or trackio. folder: of the runs on this machine, and of their record."""

    name: str
    #: Whether charts are sent as images; trackio gives each file a random name, and draws bars itself.
    pictures = False

    def __init__(self, module: ModuleType, project: str, folder: Path) -> None:
        self.module = module
        self.project = project
        self.folder = folder
        self._lock = FileLock(folder / f".{RECORD}.lock", timeout=WAIT_SECONDS)
        self._recorded: dict[str, str] = {}
        self._whole: set[str] = set()
        self._rows: dict[str, str] = {}
        self._sent: set[str] = set()

    @contextmanager
    def opened(self) -> Iterator[Self]:
        """Locks the folder against other publications, and finds out what is there. Raises SinkError."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            held = self._lock.acquire()
        except OSError as error:
            problem = f"Cannot write into {self.folder} ({error.strerror})"
            if isinstance(error, Timeout):
                problem = f"Another process publishes into {self.folder}; wait until it is done"
            raise SinkError(f"{problem}, or choose another folder with --dir.") from error
        with held:
            self._recorded = self._read_record()
            self._whole = self._find()
            yield self

    def send(self, thing: Published | PublishedBoard) -> Outcome:
        """Sends a row or a board that is not there yet. Raises SinkError when it was not taken."""
        self._rows[thing.row] = thing.id
        if thing.id in self._whole:
            return "unchanged"
        try:
            self._write(thing)
        except Exception as error:  # trackers raise errors of many kinds; each means that the run did not arrive
            raise SinkError(f"{self.name} did not take '{thing.name}': {reason(error)}.") from error
        self._whole.add(thing.id)
        self._sent.add(thing.id)
        return "sent"

    def close(self) -> list[str]:
        """Marks what was replaced, and says in sentences what a reader can do next. Raises SinkError."""
        raise NotImplementedError

    def _find(self) -> set[str]:
        """The ids of the complete runs."""
        raise NotImplementedError

    def _write(self, thing: Published | PublishedBoard) -> None:
        raise NotImplementedError

    def _log(self, run: Any, thing: Published | PublishedBoard) -> int:
        """Logs the lines of a row, or all that a board shows; how many. A resumed run ignores the steps that it has."""
        if isinstance(thing, Published):
            lines: list[dict[str, Any]] = [dict(row) for row in thing.rows]
        else:
            heads, seeds = thing.seeds
            charts = thing.charts if self.pictures else {}
            from matplotlib.image import imread

            pictures = {name: (imread(io.BytesIO(png)) * 255).astype("uint8") for name, png in charts.items()}
            line = {f"scores/{name}": self.module.Image(picture) for name, picture in pictures.items()}
            line["board"] = self.module.Table(columns=[*thing.columns], data=[[*row] for row in thing.rows])
            lines = [{**line, "seeds": self.module.Table(columns=[*heads], data=[[*row] for row in seeds])}]
        for step, line in enumerate(lines):
            run.log(line, step=step)
        return len(lines)

    def _read_record(self) -> dict[str, str]:
        path = self.folder / RECORD
        try:
            return {str(key): str(where) for key, where in json_text.read(path)["runs"].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise SinkError(f"{path} is damaged; remove it, and every run will be written again.") from error

    def _remember(self, key: str, where: str) -> None:
        """Records a complete run. Raises ResultError when the file cannot be written."""
        self._recorded[key] = where
        text = json.dumps({"format": 1, "runs": self._recorded}, indent=1, sort_keys=True)
        write_whole(self.folder / RECORD, text + "\n", self.folder)


class WandbSink(Sink):
    """Weights & Biases, online or offline."""

    name = "W&B"
    pictures = True

    def __init__(self, to: Destination) -> None:
        super().__init__(load_wandb(), to.project, to.folder / "wandb")
        self.to = to
        self._online = to.mode == "online"
        self._place = f"{to.entity or ''}/{to.project}"
        self._there: dict[str, Any] = {}

    def close(self) -> list[str]:
        """See `Sink`. Online, the runs that stand for the same rows with other content get a tag, and only those."""
        if not self._online:
            later = f"when there is a network and a key, run `wandb sync {self.folder}/offline-run-*`."
            return [f"Nothing was sent yet; {later}"] if self._sent else []
        end, changed = time.monotonic() + ASK_SECONDS, 0
        while lacking := self._sent - self._find():  # wandb may end a run whose data it could not deliver
            if time.monotonic() > end:
                raise SinkError(
                    f"W&B took the data but shows {len(lacking)} of {count(len(self._sent), 'run')} incomplete."
                )
            time.sleep(1)
        try:
            for id, run in self._there.items():
                current = self._rows.get(run.config[ROW_KEY], id)
                if (SUPERSEDED in run.tags) != (current != id):
                    kept = [tag for tag in run.tags if tag != SUPERSEDED]
                    run.tags = kept if current == id else [*kept, SUPERSEDED]
                    run.update()
                    changed += 1
        except Exception as error:
            raise SinkError(f"W&B did not take a tag: {reason(error)}.") from error
        return (
            [f"The tag `superseded` was changed on {count(changed, 'run')}, for rows with newer results."]
            if changed
            else []
        )

    def send(self, thing: Published | PublishedBoard) -> Outcome:
        """See `Sink`. What the server has is marked on this machine as `wandb sync` does, which would append it."""
        outcome = super().send(thing)
        for folder in self._folders(thing.id) if self._online else ():
            (folder / f"run-{thing.id}.wandb.synced").touch()
        return outcome

    def _find(self) -> set[str]:
        if not self._online:
            places = (key.rpartition("/") for key in self._recorded)
            return {id for place, _, id in places if place == self._place}
        try:
            self.module.setup(settings=run_settings())
            api = self.module.Api(timeout=int(ASK_SECONDS))
            found = api.runs(f"{self.to.entity or api.default_entity}/{self.project}", per_page=200, lazy=False)
            self._there = {run.id: run for run in found if ROW_KEY in run.config}
        except Exception as error:
            if "Could not find project" not in str(error):
                raise SinkError(f"W&B did not say what it has: {reason(error)}.") from error
        runs = self._there.values()
        return {run.id for run in runs if run.state == "finished" and LINES_KEY in run.summary_metrics}

    def _write(self, thing: Published | PublishedBoard) -> None:
        if not self._online:
            for folder in self._folders(thing.id):  # of a publication that was cut off
                if folder.name not in self._recorded.values():
                    shutil.rmtree(folder)
        with self.module.init(
            project=self.project,
            entity=self.to.entity,
            id=thing.id,
            name=thing.name,
            group=thing.group,
            job_type=thing.job_type,
            tags=list(thing.tags),
            config={**thing.config, ROW_KEY: thing.row, CONTENT_KEY: thing.content},
            mode=self.to.mode,
            dir=str(self.to.folder.resolve()),  # wandb's process may have been started elsewhere
            resume="allow" if self._online else None,
            reinit="finish_previous",
            settings=run_settings(),
        ) as run:
            if isinstance(thing, Published):  # the summary is ours alone: else wandb adds the last line's values to it
                run.define_metric("epsilon", summary="none")
                run.define_metric("*", step_metric="epsilon", summary="none")
                summary = thing.summary
            else:
                self._log_artifacts(run, thing)
                summary = {"rows": len(thing.rows), "result_files": len(thing.files)}
            run.summary.update({**summary, LINES_KEY: self._log(run, thing)})
            where = Path(run.dir).parent.name
        if not self._online:
            self._remember(f"{self._place}/{thing.id}", where)

    def _log_artifacts(self, run: Any, board: PublishedBoard) -> None:
        stage_files(self.folder)
        name = slug(f"{board.config['suite']}-{board.config['model']}").replace("=", "_").replace("+", "_")
        contents = {"results": board.files, "board": {"board.json": json.dumps(board.document, indent=1)}}
        for kind, files in contents.items():
            artifact = self.module.Artifact(f"{name}-{kind}", type=kind, metadata={"suite": board.config["suite"]})
            for path, text in files.items():
                with artifact.new_file(path, encoding="utf-8") as file:
                    file.write(text)
            logged = run.log_artifact(artifact, aliases=["latest", board.alias])
            if self._online:
                logged.wait(timeout=int(END_SECONDS))  # raises where it was not taken

    def _folders(self, id: str) -> list[Path]:
        return sorted(self.folder.glob(f"offline-run-*-{id}"))


class TrackioSink(Sink):
    """A dashboard on this machine. folder: None for TRACKIO_DIR, or trackio's own."""

    name = "trackio"

    def __init__(self, project: str | None, folder: Path | None) -> None:
        trackio = _load_trackio(folder)
        super().__init__(trackio, project or DEFAULT_PROJECT, Path(trackio.TRACKIO_DIR))
        self._named = folder is not None

    def close(self) -> list[str]:
        """See `Sink`. What was replaced is deleted."""
        for id, run in self._runs().items():
            if self._rows.get(id.partition("-")[0], id) != id:
                run.delete()
        variable = f"TRACKIO_DIR={shlex.quote(str(self.folder))} " if self._named else ""
        return [f"Look at it with `{variable}trackio show --project {shlex.quote(self.project)}`."]

    def _find(self) -> set[str]:
        return {id for id in self._runs() if f"{self.project}/{id}" in self._recorded}

    def _runs(self) -> dict[str, Any]:
        """The runs that we wrote by id, which is the last word of their name: trackio knows runs by name."""
        try:
            return {str(run.name).rpartition(" ")[2]: run for run in self.module.Api().runs(self.project)}
        except ValueError:  # there is no such project yet
            return {}

    def _write(self, thing: Published | PublishedBoard) -> None:
        """Raises RuntimeError for what trackio only warns of: it goes on where it cannot write."""
        if (cut_off := self._runs().get(thing.id)) is not None:
            cut_off.delete()
        more: dict[str, Any] = {ROW_KEY: thing.row, CONTENT_KEY: thing.content}
        more |= {"job_type": thing.job_type, "tags": list(thing.tags)}
        if isinstance(thing, Published):
            more["summary"] = dict(thing.summary)
        name = f"{thing.name} {thing.id}"
        with redirect_stdout(io.StringIO()), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            run = self.module.init(
                project=self.project,
                name=name,
                group=thing.group,
                config={**thing.config, **more},
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )
            self._log(run, thing)
            self.module.finish()
        problems = [str(one.message) for one in said if issubclass(one.category, UserWarning)]
        if problems or thing.id not in self._runs():
            raise RuntimeError(problems[0] if problems else "it is not in its database")
        self._remember(f"{self.project}/{thing.id}", name)


def _load_trackio(folder: Path | None) -> ModuleType:
    """trackio on a folder, which it reads once a process. Raises UsageError where it is not installed.

    The dashboard is on this machine, whatever variables say of spaces and servers, and Hugging Face is never asked who
    the user is.
    """
    if folder is not None:
        os.environ["TRACKIO_DIR"] = str(folder.resolve())
    for variable in ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"):
        os.environ.pop(variable, None)
    trackio = load("trackio", "dpicl-bench[trackio]")
    from huggingface_hub import constants

    constants.HF_HUB_OFFLINE = True
    return trackio
