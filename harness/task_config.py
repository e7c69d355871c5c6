"""The files of a task: ``tasks/<name>/task.yaml`` and the public lists beside it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from harness.data_sources import SourceSpec
from harness.errors import DataError, unknown

#: The folder of the built-in tasks: lm-eval's `include_path`.
TASKS = Path(__file__).resolve().parent.parent / "tasks"


def list_tasks() -> list[str]:
    """Names of the built-in tasks, sorted."""
    return sorted(path.parent.name for path in TASKS.glob("*/task.yaml"))


@cache
def load_config(name: str) -> Mapping[str, Any]:
    """tasks/<name>/task.yaml as a dict; `!function` values are their names. Raises UsageError for an unknown task."""
    path = TASKS / name / "task.yaml"
    if name not in list_tasks():
        raise unknown("task", name, list_tasks())
    config = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # a SafeLoader that knows !function
    missing = [key for key in ("task", "description", "doc_to_text", "metadata") if key not in config]
    if missing:
        raise DataError(f"tasks/{name}/task.yaml lacks {', '.join(missing)}; add it.")
    return {"target_delimiter": " ", "fewshot_delimiter": "\n\n", **config}


@cache
def keywords(name: str) -> tuple[str, ...]:
    """The public keyword list that ships with an extraction task, in file order."""
    lines = (TASKS / name / "keywords.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


def public_labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    """What a demonstration may be asked for: label words, public keywords, or the one label of a JSON task; () where
    the output of a record is text of its own (generation)."""
    match config["metadata"]["kind"]:
        case "classification":
            return tuple(config["doc_to_choice"])
        case "extraction":
            return keywords(config["metadata"]["name"])
        case "json":
            return (str(config["metadata"]["data"]["local"]["label"]),)
    return ()


def source_spec(config: Mapping[str, Any]) -> SourceSpec:
    """What the file says about the task's data."""
    data = config["metadata"]["data"]
    return SourceSpec(
        name=config["metadata"]["name"],
        labels=tuple(config.get("doc_to_choice", ())),
        local=data["local"],
        hub=data["hub"],
        synthetic=data["synthetic"],
        public=data.get("public", {}),
        max_words=data.get("max_words", {}),
        line_separator=data.get("line_separator", " "),
    )


class _Loader(yaml.SafeLoader):
    """Reads lm-eval's `!function module.name` as the string 'module.name'."""


_Loader.add_constructor("!function", lambda loader, node: str(node.value))
