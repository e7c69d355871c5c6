"""The sink for Weights & Biases: one run for each row and board, under an id that says what it stands for.

Publishing again updates the same run: its summary and tables are then those of the newest results.
"""

from __future__ import annotations

import io
import json
import shutil
import time
from typing import Any, Final

from dpicl.core.messages import count
from dpicl.core.paths import slug
from dpicl.leaderboards.publish.payload import Published, PublishedBoard, content_hash
from dpicl.leaderboards.publish.wandb_settings import (
    ASK_SECONDS,
    END_SECONDS,
    Destination,
    SinkError,
    load_wandb,
    reason,
    run_settings,
    stage_files,
)

#: Key of a run's summary that is sent last: the hash of what was sent.
CONTENT_KEY: Final = "published_content"


class Sink:
    """One W&B project, online or offline. sent: run id -> hash of the content that this object has sent."""

    def __init__(self, to: Destination) -> None:
        self.to = to
        self.sent: dict[str, str] = {}
        self._wandb = load_wandb()
        self._folder = to.folder / "wandb"
        self._online = to.mode == "online"

    def run_id(self, thing: Published | PublishedBoard) -> str:
        """16 hexadecimal digits: what the run stands for, and where."""
        return content_hash({"row": thing.row, "entity": self.to.entity, "project": self.to.project})[:16]

    def send(self, thing: Published | PublishedBoard) -> None:
        """Creates or updates the run of a row or a board. Raises SinkError when it was not taken."""
        id = self.run_id(thing)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for older in self._folder.glob(f"offline-run-*-{id}"):  # `wandb sync` would send it after this one
                shutil.rmtree(older)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise SinkError(f"Cannot write into {self._folder} ({why}); choose another folder with --dir.") from error
        try:
            self._write(thing, id)
        except Exception as error:  # wandb raises errors of many kinds; each means that the run did not arrive
            raise SinkError(f"W&B did not take '{thing.name}': {reason(error)}.") from error
        self.sent[id] = thing.content

    def close(self) -> list[str]:
        """What a reader can do next, in sentences.

        Online, asks the server whether everything arrived (SinkError if not), since wandb may end a run whose data it
        could not deliver.
        """
        if not self._online:
            later = f"when there is a network and a key, run `wandb sync {self._folder}/offline-run-*`."
            return [f"Nothing was sent yet; {later}"] if self.sent else []
        end = time.monotonic() + ASK_SECONDS
        while lacking := set(self.sent) - self._arrived():
            if time.monotonic() > end:
                sent = count(len(self.sent), "run")
                raise SinkError(f"W&B took the data but shows {len(lacking)} of {sent} incomplete.")
            time.sleep(1)
        return []

    def _arrived(self) -> set[str]:
        try:
            self._wandb.setup(settings=run_settings(self.to.address))
            api = self._wandb.Api(timeout=int(ASK_SECONDS))
            found = api.runs(f"{self.to.entity or api.default_entity}/{self.to.project}", per_page=200, lazy=False)
            shown = {run.id: run.summary_metrics.get(CONTENT_KEY) for run in found if run.state == "finished"}
        except Exception as error:
            raise SinkError(f"W&B did not say what it has: {reason(error)}.") from error
        return {id for id, content in self.sent.items() if shown.get(id) == content}

    def _write(self, thing: Published | PublishedBoard, id: str) -> None:
        stage_files(self._folder)
        with self._wandb.init(
            project=self.to.project,
            entity=self.to.entity,
            id=id,
            name=thing.name,
            group=thing.group,
            job_type=thing.job_type,
            tags=list(thing.tags),
            config=dict(thing.config),
            resume="allow" if self._online else None,
            mode=self.to.mode,
            dir=str(self.to.folder.resolve()),  # wandb's process may have been started elsewhere
            reinit="finish_previous",
            settings=run_settings(self.to.address),
        ) as run:
            run.define_metric("*", summary="none")  # the summary is ours alone: else wandb adds the last values to it
            if isinstance(thing, PublishedBoard):
                self._log_artifacts(run, thing)
                from matplotlib.image import imread

                pictures = {name: (imread(io.BytesIO(png)) * 255).astype("uint8") for name, png in thing.charts.items()}
                charts = {f"scores/{name}": self._wandb.Image(picture) for name, picture in pictures.items()}
                heads, seeds = thing.seeds
                run.log({**charts, "board": self._table(thing.columns, thing.rows), "seeds": self._table(heads, seeds)})
                summary: dict[str, Any] = {"rows": len(thing.rows), "result_files": len(thing.files)}
            else:
                names = list(dict.fromkeys(name for line in thing.rows for name in line))
                run.log({"epsilons": self._table(names, [[line.get(name) for name in names] for line in thing.rows])})
                summary = dict(thing.summary)
            run.summary.update({**summary, CONTENT_KEY: thing.content})

    def _table(self, columns: Any, rows: Any) -> Any:
        return self._wandb.Table(columns=[*columns], data=[[*row] for row in rows])

    def _log_artifacts(self, run: Any, board: PublishedBoard) -> None:
        name = slug(f"{board.config['suite']}-{board.config['model']}").replace("=", "_").replace("+", "_")
        contents = {"results": board.files, "board": {"board.json": json.dumps(board.document, indent=1)}}
        for kind, files in contents.items():
            artifact = self._wandb.Artifact(f"{name}-{kind}", type=kind, metadata={"suite": board.config["suite"]})
            for path, text in files.items():
                with artifact.new_file(path, encoding="utf-8") as file:
                    file.write(text)
            logged = run.log_artifact(artifact, aliases=["latest", board.alias])
            if self._online:
                logged.wait(timeout=int(END_SECONDS))  # raises where it was not taken
