"""Where a task's local records are: files that its task.yaml names, or those of its folder under $DPICL_DATA."""

from __future__ import annotations

import os
from pathlib import Path

from dpicl.core.errors import DataError
from dpicl.data.tables import SUFFIXES
from dpicl.data.task_file import SourceSpec

SPLITS = ("train", "test")
#: The file in which `DatasetDict.save_to_disk` lists its splits.
_SAVED = "dataset_dict.json"


def data_folder() -> Path | None:
    """The folder that $DPICL_DATA names, or None. Raises DataError when it names something that is no folder."""
    value = os.environ.get("DPICL_DATA", "")
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise DataError(
            f"DPICL_DATA={value} is not a folder ({folder.absolute()}); point it to one that holds TASK/train.jsonl, or"
            " unset it."
        )
    return folder


def has_local(spec: SourceSpec) -> bool:
    """Whether 'auto' means local files: task.yaml names some, or $DPICL_DATA has a folder of the task.

    Raises DataError where $DPICL_DATA is no folder, or holds tasks one level higher or lower than it should.
    """
    if spec.local.train:
        return True
    folder = data_folder()
    if folder is None or spec.local.missing:
        return False
    if _candidates(folder / spec.name, "train") or (folder / spec.name / _SAVED).is_file():
        return True
    _require_right_level(folder, spec.name)
    return False


def split_file(spec: SourceSpec, split: str) -> Path:
    """The file (or the folder that `datasets` saved) of a split. Raises DataError that says what is there instead."""
    if spec.local.missing:
        raise DataError(f"{spec.local.missing} Use `--source synthetic`, or another task.")
    if spec.local.train:
        given = spec.local.train if split == "train" else spec.local.test
        if not given or not Path(given).exists():
            said = f"names {given}, which is not there, for" if given else "names no file of"
            raise DataError(f"task.yaml of {spec.name} {said} the {split} records; correct metadata.data.local there.")
        return Path(given)
    folder = data_folder()
    if folder is None:
        raise DataError(
            f"DPICL_DATA is not set; point it to a folder that holds {spec.name}/train.jsonl and"
            f" {spec.name}/test.jsonl, or use `--source synthetic`."
        )
    own = folder.absolute() / spec.name
    found = _candidates(own, split)
    names = " and ".join(path.name for path in found)
    readable = [path for path in found if path.suffix.lower() in SUFFIXES or path.is_dir()]
    if len(readable) == 1:
        return readable[0]
    if readable:
        raise DataError(f"{own} holds {names}; keep one of them, since each may be the {split} records.")
    if (own / _SAVED).is_file():
        return own
    _require_right_level(folder, spec.name)
    raise DataError(
        f"DPICL_DATA={os.environ['DPICL_DATA']} holds no {spec.name}/{split}.jsonl ({own / f'{split}.jsonl'})"
        f"{f', but {names}, which is not read' if found else ''}; put the file there (or one that ends in"
        f" {', '.join(SUFFIXES[1:])}), or use `--source synthetic`."
    )


def files_of(path: Path) -> list[Path]:
    """The file itself, or the files of a folder, in the order of their names."""
    return sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]


def _candidates(folder: Path, split: str) -> list[Path]:
    """Whatever has the split's name and an ending, or is a folder of that name that `datasets` saved."""
    try:
        found = [path for path in folder.iterdir() if path.name.startswith(f"{split}.") and not path.is_dir()]
    except OSError:
        return []
    saved = folder / split
    return sorted(found) or ([saved] if (saved / "state.json").is_file() else [])


def _require_right_level(folder: Path, name: str) -> None:
    """Raises DataError where train records lie one level above or below $DPICL_DATA/TASK."""
    around = [folder, *sorted(folder.glob(f"*/{name}"))]
    if place := next((each for each in around if _candidates(each, "train")), None):
        raise DataError(
            f"DPICL_DATA={os.environ['DPICL_DATA']} must hold a folder {name} with the records of this task, and train"
            f" records lie in {place.absolute()}; set DPICL_DATA one level higher or lower, or move them to"
            f" {folder.absolute() / name}."
        )
