"""Remembers on this machine which plug-in files passed `dpicl check`; results of a run state it.

A note is of one content of a file and of one version of the kit; neither an edited file nor an older kit counts.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from dpicl.core import json_text
from dpicl.core.files import write_whole
from dpicl.core.paths import cache_folder
from dpicl.core.plugins import folder_hash


def note(digest: str, passed: bool) -> None:
    """Notes what the whole kit said of a plug-in. digest: `Registered.plugin_hash`. Raises ResultError when the cache
    folder cannot be written."""
    write_whole(_file(digest), json.dumps({"kit": _kit(), "passed": passed}), cache_folder())


def has_passed(digest: str) -> bool:
    """Whether the whole kit, as it is now, passed a plug-in of this content on this machine."""
    try:
        noted = json_text.read(_file(digest), 1000)
    except (OSError, ValueError):
        return False  # never checked, or a damaged note
    return noted == {"kit": _kit(), "passed": True}


def _file(digest: str) -> Path:
    return cache_folder() / "checked" / f"{digest}.json"


@cache
def _kit() -> str:
    return folder_hash(Path(__file__).parents[1] / "conformance")
