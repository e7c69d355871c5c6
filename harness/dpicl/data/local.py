"""Where a task's local records are: files that its task.yaml names, or those of its folder under $DPICL_DATA."""

from __future__ import annotations

import os
from pathlib import Path

from dpicl.core.errors import DataError
from dpicl.data.reading import SourceSpec
from dpicl.data.tables import SUFFIXES

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
        what = "a file" if folder.is_file() else "nothing that is there"
        raise DataError(
            f"DPICL_DATA={value} does not name a folder, but {what} ({folder.absolute()}); point it to one that holds"
            " TASK/train.jsonl, or unset it."
        )
    return folder


def has_local(spec: SourceSpec) -> bool:
    """Whether 'auto' means local files: task.yaml names some, or $DPICL_DATA has a folder of the task.

    Raises DataError where $DPICL_DATA is no folder, or holds tasks one level higher or lower than it should.
    """
    if "train" in spec.local:
        return True
    folder = data_folder()
    if folder is None or "missing" in spec.local:
        return False
    if _candidates(folder / spec.name, "train") or (folder / spec.name / _SAVED).is_file():
        return True
    if said := _one_off(folder, spec.name):
        raise DataError(said)
    return False


def split_file(spec: SourceSpec, split: str) -> Path:
    """The file (or the folder that `datasets` saved) of a split. Raises DataError that says what is there instead."""
    if "missing" in spec.local:
        raise DataError(f"{spec.local['missing']} Use `--source synthetic`, or another task.")
    if "train" in spec.local:
        return _named(spec, split)
    folder = data_folder()
    wanted = f"{spec.name}/{split}.jsonl"
    if folder is None:
        raise DataError(
            f"DPICL_DATA is not set; point it to a folder that holds {spec.name}/train.jsonl and"
            f" {spec.name}/test.jsonl, or use `--source synthetic`."
        )
    own = folder.absolute() / spec.name
    found = _candidates(own, split)
    readable = [path for path in found if path.suffix.lower() in SUFFIXES]
    if len(readable) == 1:
        return readable[0]
    if len(readable) > 1:
        names = " and ".join(path.name for path in readable)
        raise DataError(f"{own} holds {names}; keep one of them, since each may be the {split} records.")
    if (own / _SAVED).is_file():
        return own
    if said := _one_off(folder, spec.name):
        raise DataError(said)
    where = f"DPICL_DATA={os.environ['DPICL_DATA']} holds no {wanted} ({own / wanted.partition('/')[2]})"
    if found:
        names = " and ".join(path.name for path in found)
        raise DataError(f"{where}, but {names}, which is not read; unpack it, or save it as {', '.join(SUFFIXES)}.")
    raise DataError(
        f"{where}; put the file there (or one that ends in {', '.join(SUFFIXES[1:])}), or use `--source synthetic`."
    )


def files_of(path: Path) -> list[Path]:
    """The file itself, or the files of a folder, in the order of their names."""
    return sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]


def _named(spec: SourceSpec, split: str) -> Path:
    given = spec.local.get(split)
    if given is None:
        raise DataError(
            f"The file of task {spec.name} names no {split} records; add `{split}: FILE` under metadata.data.local in"
            " its task.yaml."
        )
    path = Path(given)
    if not path.exists():
        raise DataError(f"There is no {path}, which task.yaml of {spec.name} names as its {split} records; correct it.")
    return path


def _candidates(folder: Path, split: str) -> list[Path]:
    """Whatever has the split's name and an ending, or is a folder of that name that `datasets` saved."""
    try:
        found = [path for path in folder.iterdir() if path.name.startswith(f"{split}.") and not path.is_dir()]
    except OSError:
        return []
    saved = folder / split
    return sorted(found) or ([saved] if (saved / "state.json").is_file() else [])


def _one_off(folder: Path, name: str) -> str:
    """What to say where the records lie one level higher or lower than $DPICL_DATA/TASK, or ""."""
    value, full = os.environ.get("DPICL_DATA", ""), folder.absolute()
    if any(path.suffix.lower() in SUFFIXES for path in _candidates(folder, "train")):
        way = f"set DPICL_DATA={full.parent}" if full.name == name else f"move them to {full / name}"
        return f"DPICL_DATA={value} holds train and test records itself, and not in a folder {name}; {way}."
    below = sorted(path.parent.parent for path in folder.glob(f"*/{name}/train.*"))
    if below and not (folder / name).is_dir():
        return (
            f"DPICL_DATA={value} holds no {name}, but {below[0].absolute()} does; set DPICL_DATA={below[0].absolute()}."
        )
    inner = folder / name / name
    if _candidates(inner, "train"):
        return f"The records of {name} lie one level too deep, in {inner.absolute()}; move them to {full / name}."
    return ""
