"""Writes an example under a new name in the place of my_method, MyMethod or my_task."""

from __future__ import annotations

import importlib.util
import keyword
import re
from collections.abc import Iterable
from pathlib import Path

from dpicl.core.errors import UsageError

_HERE = Path(__file__).resolve().parent
#: Kind of mechanism, or 'task' -> the file or folder with the example.
EXAMPLES = {kind: _HERE / f"mechanism_{kind}.py" for kind in ("demonstrations", "answers")} | {
    "task": _HERE / "my_task"
}


def write_example(example: Path, name: str, taken: Iterable[str], folder: Path) -> list[Path]:
    """Writes the example as ``folder/name`` with the suffix of its file; returns the paths, a task's folder first.

    taken: names that there are already. Raises UsageError for a name that cannot be used and where something is in the
    way; then nothing is written.
    """
    target, kind = folder / f"{name}{example.suffix}", "task" if example.is_dir() else "mechanism"
    if "/" not in name and (target.exists() or target.is_symlink()):
        raise UsageError(
            f"{target} already exists and is not overwritten; choose another name or another --dir."
        )
    _check_name(kind, name, example)
    if name in set(taken):
        raise UsageError(f"The {kind} '{name}' exists already; choose another name.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not example.is_dir():
            _write(example, name, target)
            return [target]
        target.mkdir()
        files = sorted(path for path in example.iterdir() if path.is_file())
        for file in files:
            _write(file, name, target / file.name)
        return [target, *(target / file.name for file in files)]
    except OSError as error:
        raise UsageError(
            f"{target} cannot be written ({error.strerror}); choose another --dir."
        ) from error


def class_name(name: str) -> str:
    """'noisy_vote' -> 'NoisyVote'."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _write(source: Path, name: str, target: Path) -> None:
    text = re.sub("my_method|my_task", name, source.read_text(encoding="utf-8")).replace(
        "MyMethod", class_name(name)
    )
    with target.open("x", encoding="utf-8") as file:  # never over a file that is there
        file.write(text)


def _check_name(kind: str, name: str, example: Path) -> None:
    """Raises UsageError for a name that would make no module, no class, or another one than it seems."""
    if (
        not (name.isascii() and name.isidentifier())
        or keyword.iskeyword(name)
        or not name[0].isalpha()
    ):
        raise UsageError(
            f"'{name}' cannot be the name of a {kind}: use a letter, then letters, digits and _, and no word of"
            " Python's own."
        )
    if example.suffix != ".py":
        return
    if importlib.util.find_spec(name) is not None:
        raise UsageError(
            f"'{name}' is the name of an installed Python module; choose another name for the {kind}."
        )
    if re.search(rf"\b{class_name(name)}\b", example.read_text(encoding="utf-8")):
        raise UsageError(
            f"The example uses the name {class_name(name)} itself; choose another name for the {kind}."
        )
