"""Names of a submission's files and folders, which must do no harm on any system."""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import packages_distributions
from pathlib import Path

#: Names of teams and methods, which are folders and parts of a row's name on every system.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
#: Files that Python, pytest and pip run because they are there.
_RUN_UNASKED = ("sitecustomize", "usercustomize", "conftest", "setup")


def is_name(name: str) -> bool:
    """Whether it may name a team or a method."""
    return _NAME.fullmatch(name) is not None and not is_reserved(name)


def is_reserved(name: str) -> bool:
    """Whether Windows has a device of this name, so that no checkout there could hold the file."""
    return _RESERVED.fullmatch(name) is not None


def shadows(stem: str, folder: Path) -> bool:
    """Whether STEM.py in a folder hides a module of Python or an installed package where the folder is on the path, or
    is run by tools unasked. Imports nothing; what the folder holds does not count."""
    if stem in sys.stdlib_module_names or stem in _RUN_UNASKED or stem.startswith("__"):
        return True
    sent = {os.path.realpath(folder), os.getcwd()}
    places = [place for place in sys.path if os.path.isabs(place) and os.path.realpath(place) not in sent]
    found = PathFinder.find_spec(stem, places)
    return stem in _installed() or (found is not None and found.origin is not None)


@cache
def _installed() -> frozenset[str]:
    return frozenset(packages_distributions())
