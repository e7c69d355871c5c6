"""Plugin files as modules: what they are called, and whether an error came out of one."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

#: What the module of a plugin file is called, before the start of its hash.
MODULE: Final = "dpicl_plugin_"


def place_in_plugin(error: BaseException) -> str:
    """'my_method.py, line 12': the innermost place in a plugin file that an error came through, or ""."""
    places = [
        f"{Path(frame.f_code.co_filename).name}, line {line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__", "")).startswith(MODULE)
    ]
    return places[-1] if places else ""
