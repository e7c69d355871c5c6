"""Locates suites, the results folder and caches, and makes the file names of models and labels."""

from __future__ import annotations

import hashlib
import os
import re
from functools import lru_cache
from pathlib import Path

from dpicl.core.errors import UsageError, unknown_name

#: The package.
PACKAGE = Path(__file__).resolve().parents[1]
#: The clone that this code runs from; None where it was installed.
CLONE = (
    PACKAGE.parents[1] if (PACKAGE.parents[1] / "mechanisms" / "zero_shot.py").is_file() else None
)
#: Where `dpicl run` writes unless `--results` says otherwise, under the current folder.
DEFAULT_RESULTS = Path("results")
#: Beside a file that is no result: it is moved into the first, and not read again; the second is of earlier versions.
QUARANTINE = ("quarantine", "set_aside")


def shipped_suites() -> dict[str, Path]:
    """Bare name -> file of every suite that ships with the package."""
    return {
        path.stem: path
        for path in sorted(content_folder("suites").glob("*.yaml"))
        if "." not in path.stem
    }


def content_folder(name: str) -> Path:
    """Where the shipped "mechanisms", "tasks" or "suites" are: in a clone beside the package, else inside it."""
    if CLONE is None:
        return PACKAGE / name
    return CLONE / ("leaderboards/suites" if name == "suites" else name)


def find_suite(name: str) -> Path:
    """The file of a suite: a path, or the bare name of a shipped one. Raises UsageError when there is none."""
    path = Path(name)
    if path.is_file():
        return path
    shipped = shipped_suites()
    if name in shipped:
        return shipped[name]
    if path.is_dir():
        raise UsageError(
            f"{name} is a folder; give the path of a suite file in it, or one of: {', '.join(shipped)}."
        )
    if path.suffix in (".yaml", ".yml") or len(path.parts) > 1:
        raise UsageError(
            f"There is no suite file {name}; give the path of a YAML file, or one of: {', '.join(shipped)}."
        )
    raise unknown_name("suite", name, shipped)


def real_path(path: Path) -> Path:
    """Where links lead; those that lead in a circle as far as they do, where `Path.resolve` has an error of its own."""
    return Path(os.path.realpath(path))


@lru_cache(maxsize=1024)
def slug(name: str) -> str:
    """A name as one part of a path; a name that must be changed for that gets a short hash, so that no two collide.

    So do names that readers of results give a meaning to: `QUARANTINE`, and what ends like a file.
    """
    plain = re.sub(r"[^A-Za-z0-9._=+-]", "_", name).lstrip(".") or "_"
    has_meaning = plain.lower() in QUARANTINE or plain.lower().endswith(".json")
    if plain == name and not has_meaning:
        return plain
    return f"{plain[:80]}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def user_cache() -> Path:
    """The user's folder for caches of all programs: ``$XDG_CACHE_HOME``, or ``~/.cache``."""
    folder = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # the specification ignores a relative one
    return folder if folder.is_absolute() else Path.home() / ".cache"


def cache_folder() -> Path:
    """The folder for everything that can be computed again: ``$DPICL_CACHE``, or ``dpicl`` in `user_cache`."""
    chosen = os.environ.get("DPICL_CACHE")
    return Path(chosen).expanduser() if chosen else user_cache() / "dpicl"


def models_folder() -> Path:
    """The folder of converted weights, of running conversions and of what killed ones left."""
    return cache_folder() / "models"


def private_folder() -> Path:
    """The folder for what must never leave this machine (a secret key, budgets, which private set a result was made
    from). Its owner alone may read it.

    ``$DPICL_CACHE/private``, or ``~/.local/share/dpicl/private`` whatever the XDG variables say: a budget must not
    begin anew because a variable changed. Where the budgets of earlier versions are, in ``~/.cache``, they stay.
    Raises UsageError where both folders are in use, and where one cannot be read.
    """
    if chosen := os.environ.get("DPICL_CACHE"):
        return Path(chosen).expanduser() / "private"
    folders = [
        folder
        for folder in _home_private_folders()
        if list_budgets(folder) or (folder / "key").exists()
    ]
    if len(folders) > 1:
        raise UsageError(
            f"Both {folders[0]} and {folders[1]} hold budgets of private sets, and only one folder can"
            " count; move away the one whose records nobody will release from again."
        )
    return folders[0] if folders else _home_private_folders()[0]


def uncounted_budgets() -> list[Path]:
    """Folders in the home folder with budgets that are not counted, since DPICL_CACHE names another folder."""
    return [
        folder
        for folder in _home_private_folders()
        if folder != private_folder() and list_budgets(folder)
    ]


def list_budgets(folder: Path) -> list[Path]:
    """The ledgers in a private folder. Raises UsageError for one that is there and cannot be read: budgets that cannot
    be seen are not taken for none."""
    try:
        names = sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UsageError(
            f"{folder} may hold budgets and cannot be read ({error.strerror}); fix its rights."
        ) from error
    return [
        folder / name for name in names if name.startswith("budget-") and name.endswith(".jsonl")
    ]


def _home_private_folders() -> list[Path]:
    return [Path.home() / parent / "dpicl" / "private" for parent in (".local/share", ".cache")]
