"""Calls git, always on the checkout of this code and nowhere else.

git takes its settings from the repository that it finds, and a folder that somebody sent can be one. So git never looks
for a repository here, whatever the working folder and GIT_* variables are.
"""

from __future__ import annotations

import os
import subprocess

from dpicl.core.paths import CLONE, PACKAGE

#: The checkout that this code runs from, where it runs from one.
CHECKOUT = CLONE or PACKAGE


def has_repository() -> bool:
    """Whether this code runs from a checkout, rather than from an installed package."""
    return (CHECKOUT / ".git").exists()


def git(*words: str) -> bytes | None:
    """The standard output of one git command on the project's repository; None without git, and where it fails or does
    not end."""
    place = [f"--git-dir={CHECKOUT / '.git'}", f"--work-tree={CHECKOUT}", "--no-optional-locks"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", *place, *words],
            cwd=CHECKOUT,
            env=env,
            capture_output=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
