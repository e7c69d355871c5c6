"""Finds tasks and loads their files: ``<name>/task.yaml`` and the public lists beside it.

A task is a folder. The built-in ones are in ``tasks/``; others were given with `--plugin`, and their version ends in a
hash of their files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dpicl.core import plugins
from dpicl.core.errors import DataError, PluginError, require_known
from dpicl.core.files import content_of
from dpicl.core.paths import content_folder
from dpicl.data.task_file import TaskFile, read_task_file

#: The folder of the built-in tasks: lm-eval's `include_path`.
TASKS = content_folder("tasks")
#: Files of a task that decide what is asked and how it is scored. Records have a fingerprint of their own.
_HASHED = (".yaml", ".yml", ".txt", ".py")
_NOT_HASHED = ("suite.yaml",)


@dataclass(frozen=True)
class TaskFolder:
    """One task and where it came from. origin: 'built in', or a plugin folder."""

    path: Path
    origin: str

    @property
    def built_in(self) -> bool:
        return self.path.parent == TASKS

    @property
    def file_hash(self) -> str:
        """sha256 over names and contents of the files that decide what is asked and how it is scored."""
        return plugins.folder_hash(
            self.path, keep=lambda path: path.suffix in _HASHED and path.name not in _NOT_HASHED
        )


#: Task folders that were given with `--plugin`, by name.
_given: dict[str, TaskFolder] = {}


def task_folders() -> dict[str, TaskFolder]:
    """Every task by name: built-in ones and given folders."""
    folders = {
        path.parent.name: TaskFolder(path.parent, "built in") for path in TASKS.glob("*/task.yaml")
    }
    return dict(sorted({**folders, **_given}.items()))


def add_task_folder(path: Path) -> list[str]:
    """Makes the task of a folder, or of each folder in it, known in this process; returns their names.

    Raises PluginError where no task.yaml is, for a file that cannot be used, and for a name that is taken.
    """
    folders = task_folders()
    new = [TaskFolder(folder, f"plugin {path}") for folder in _folders_in(path.resolve())]
    if not new:
        raise PluginError(
            f"The folder {path} holds no task.yaml; give a task's folder, or one that holds such folders."
        )
    for folder in new:
        old = folders.setdefault(folder.path.name, folder)
        if old.path != folder.path:
            raise PluginError(
                f"Two tasks are called '{folder.path.name}': {old.origin} and {folder.origin}; rename one of them."
            )
        _read(folder.path, folder.file_hash)
    _given.update({folder.path.name: folder for folder in new})
    return [folder.path.name for folder in new]


def list_tasks() -> list[str]:
    """Names of all tasks, sorted."""
    return list(task_folders())


def load_config(name: str) -> TaskFile:
    """task.yaml of a task. The version of one that is not built in ends in the first 12 digits of the hash of its
    files. Raises UsageError for an unknown task."""
    config = _read_task_file(name)
    base = config.metadata.codes
    return config.place(config.path, base=_base_of(config, base)) if base else config


def _read_task_file(name: str) -> TaskFile:
    folder = folder_of(name)
    return _read(folder.path, "" if folder.built_in else folder.file_hash)


def _base_of(config: TaskFile, base: str) -> TaskFile:
    """The file of the task whose records a task of codes has. Raises UsageError for one that is not known, and
    DataError for one whose records cannot carry the codewords."""
    base_config, codewords = _read_task_file(base), config.classes
    fits = (
        not base_config.metadata.codes
        and len(base_config.classes) >= len(codewords)
        and not base_config.data.public
    )
    if not fits or {*base_config.classes, *base_config.data.local.labels} & {*codewords}:
        raise DataError(
            f"Task {config.metadata.name} cannot take its records from {base}: `codes` names a classification task with"
            " at least as many labels as there are codewords, none of them a codeword, and with no public records,"
            " which would tell them."
        )
    return base_config


@cache
def _read(folder: Path, file_hash: str) -> TaskFile:
    """The file of one version of a task; file_hash: '' for a built-in one, whose version is a number of its own."""
    place = (
        f"tasks/{folder.name}/task.yaml" if not file_hash else f"task.yaml of task {folder.name}"
    )
    path = folder / "task.yaml"
    config = read_task_file(_text(path, place), place, folder.name, built_in=not file_hash)
    config = config.place(path, _keywords(folder) if config.metadata.kind == "extraction" else ())
    return (
        config.change(version=f"{config.metadata.version}+{file_hash[:12]}")
        if file_hash
        else config
    )


def _keywords(folder: Path) -> tuple[str, ...]:
    """The phrases of keywords.txt, in file order. Raises DataError where there is none."""
    path = folder / "keywords.txt"
    if not path.is_file():
        raise DataError(
            f"Task {folder.name} has no keywords.txt; put the public list of phrases there, one a line."
        )
    lines = _text(path, f"keywords.txt of task {folder.name}").splitlines()
    keywords = tuple(line for line in lines if line.strip() and not line.startswith("#"))
    if not keywords or len(set(keywords)) < len(keywords):
        raise DataError(
            f"keywords.txt of task {folder.name} needs at least one phrase, and each of them once."
        )
    return keywords


def _text(path: Path, what: str) -> str:
    try:
        return content_of(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"The {what} cannot be read ({type(error).__name__}); repair it."
        ) from error


def folder_of(name: str) -> TaskFolder:
    """The folder of a task; a built-in one is found without a look at others. Raises UsageError."""
    if name.isidentifier() and (TASKS / name / "task.yaml").is_file():
        return TaskFolder(TASKS / name, "built in")
    folders = task_folders()
    require_known("task", [name], folders)
    return folders[name]


def _folders_in(path: Path) -> list[Path]:
    """The folder itself where it is a task, else the task folders in it."""
    if (path / "task.yaml").is_file():
        return [path]
    return sorted(file.parent for file in path.glob("*/task.yaml"))
