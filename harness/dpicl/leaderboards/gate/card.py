"""Reads submission.yaml, the card of a submission, and writes a first draft of it.

Reading a card runs nothing: YAML tags that stand for Python objects, aliases (they can grow without limit) and unknown
keys are errors with file and line. A new card and README are to be filled in; the gate refuses what still says TODO.
Names must do no harm on any system.
"""

from __future__ import annotations

import os
import re
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from pydantic import ValidationError

from dpicl.core.errors import UsageError
from dpicl.core.files import write_whole
from dpicl.core.plain_words import explanation
from dpicl.core.strict_yaml import read
from dpicl.leaderboards.model.submissions import Card
from dpicl.plan.suite import Suite

CARD, README = "submission.yaml", "README.md"
#: Names of teams and methods, which are folders and parts of a row's name on every system.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
#: Files that Python, pytest and pip run because they are there.
_RUN_UNASKED = ("sitecustomize", "usercustomize", "conftest", "setup")
#: What a new card and README say.
_NEW = {CARD: "new_card.txt", README: "new_readme.txt"}


def read_card(path: Path) -> Card:
    """Reads a card. Raises UsageError that names file, line and key for anything that is not as it should be."""
    document = read(path)
    if not isinstance(document.data, dict):
        raise document.error(
            (), "a card is a set of keys; `dpicl submit --new TEAM/METHOD` writes one to fill in."
        )
    try:
        card = Card.model_validate(document.data)
    except ValidationError as error:
        raise document.error(*explanation(error, Card)) from None
    places: set[tuple[str, float]] = set()
    for number, score in enumerate(card.reported):
        place = (score.task, score.epsilon)
        if place in places:
            problem = f"{score.task} at epsilon {score.epsilon:g} is reported twice; keep one."
            raise document.error(("reported", number), problem)
        places.add(place)
    return card


def is_name(name: str) -> bool:
    """Whether it may name a team or a method."""
    return _NAME.fullmatch(name) is not None and not is_reserved(name)


def is_reserved(name: str) -> bool:
    """Whether Windows has a device of this name, so that no checkout there could hold the file."""
    return _RESERVED.fullmatch(name) is not None


def is_shadowing(stem: str, folder: Path) -> bool:
    """Whether STEM.py in a folder hides a module of Python or an installed package where the folder is on the path, or
    is run by tools unasked. Imports nothing; what the folder holds does not count."""
    if stem in sys.stdlib_module_names or stem in _RUN_UNASKED or stem.startswith("__"):
        return True
    sent = {os.path.realpath(folder), os.getcwd()}
    places = [
        place for place in sys.path if os.path.isabs(place) and os.path.realpath(place) not in sent
    ]
    specs = [PathFinder.find_spec(stem, places)]
    for finder in sys.meta_path:
        if getattr(finder, "__module__", "").startswith("__editable__"):
            specs.append(finder.find_spec(stem, None))
    return any(
        spec is not None and (spec.origin is not None or _is_installed(spec)) for spec in specs
    )


def _is_installed(spec: ModuleSpec) -> bool:
    """Whether a package without a file of its own is an installed one, and no folder beside something."""
    places = map(Path, spec.submodule_search_locations or ())
    return any({"site-packages", "dist-packages"} & {*place.parts} for place in places)


def begin(root: Path, name: str, suite: Suite, year: int) -> list[Path]:
    """Writes <team>/<method>/submission.yaml, for this suite, and README.md below the root; returns both.

    Raises UsageError for a bad name, and where there is a submission already.
    """
    team, _, method = name.partition("/")
    if not is_name(team) or not is_name(method):
        raise UsageError(
            f"'{name}' is not of the form TEAM/METHOD; both have at most 40 lower-case letters, digits, '-' and '_'."
        )
    folder = root / team / method
    if is_shadowing(method, folder):
        raise UsageError(
            f"{method}.py would have the name of a module of Python or of a package; choose another name."
        )
    if (folder / CARD).exists():
        raise UsageError(f"{folder / CARD} already exists; choose another name, or edit it.")
    for file, template in _NEW.items():
        text = Path(__file__).with_name(template).read_text(encoding="utf-8")
        text = text.format(
            team=team, method=method, suite=suite.name, version=suite.version, year=year
        )
        write_whole(folder / file, text, root)
    return [folder / file for file in _NEW]
