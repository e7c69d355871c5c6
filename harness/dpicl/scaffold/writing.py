"""Writes an example under a new name: what is called my_method, MyMethod ... there gets the user's name here."""

from __future__ import annotations

import importlib.util
import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dpicl.core.errors import UsageError

_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Example:
    """An example of this folder. stem: what it is called here. source: its file or folder."""

    stem: str
    source: str

    @property
    def path(self) -> Path:
        return _HERE / self.source


MECHANISMS = {
    "demonstrations": Example("my_method", "mechanism_demonstrations.py"),
    "answers": Example("my_method", "mechanism_answers.py"),
    "prepared": Example("my_method", "mechanism_prepared.py"),
}
ATTACK = Example("my_attack", "attack.py")
MODEL = Example("my_model", "model.py")
SUITE = Example("my_suite", "suite.yaml")
TASK = Example("my_task", "my_task")


def write_example(example: Example, kind: str, name: str, taken: Iterable[str], folder: Path) -> list[Path]:
    """Writes the example as ``folder/name`` with the suffix of its file; returns the paths, a task's folder first.

    kind: 'mechanism', 'attack' ..., for messages. taken: names of that kind that there are already.
    Raises UsageError for a name that cannot be used and where something is in the way; then nothing is written.
    """
    target = folder / f"{name}{example.path.suffix}"
    if "/" not in name and (target.exists() or target.is_symlink()):
        raise UsageError(f"{target} already exists and is not overwritten; choose another name or another --dir.")
    _check_name(kind, name, example)
    if name in set(taken):
        raise UsageError(f"The {kind} '{name}' exists already; choose another name.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not example.path.is_dir():
            _write(example, example.path, name, target)
            return [target]
        target.mkdir()
        files = sorted(path for path in example.path.iterdir() if path.is_file())
        for file in files:
            _write(example, file, name, target / file.name)
        return [target, *(target / file.name for file in files)]
    except OSError as error:
        raise UsageError(f"{target} cannot be written ({error.strerror}); choose another --dir.") from error


def class_name(name: str) -> str:
    """'noisy_vote' -> 'NoisyVote'."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _write(example: Example, source: Path, name: str, target: Path) -> None:
    text = source.read_text(encoding="utf-8")
    text = text.replace(example.stem, name).replace(class_name(example.stem), class_name(name))
    with target.open("x", encoding="utf-8") as file:  # never over a file that is there
        file.write(text)


def _check_name(kind: str, name: str, example: Example) -> None:
    """Raises UsageError for a name that would make no module, no class, or another one than it seems."""
    if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name) or not name[0].isalpha():
        raise UsageError(
            f"'{name}' cannot be the name of a {kind}: use a letter, then letters, digits and _, and no word of"
            " Python's own."
        )
    if example.path.suffix != ".py":
        return
    if importlib.util.find_spec(name) is not None:
        raise UsageError(f"'{name}' is the name of an installed Python module; choose another name for the {kind}.")
    if re.search(rf"\b{class_name(name)}\b", example.path.read_text(encoding="utf-8")):
        raise UsageError(f"The example uses the name {class_name(name)} itself; choose another name for the {kind}.")
