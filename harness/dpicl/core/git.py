"""The only place that starts git: on the checkout that this code runs from, which is named outright.

git takes its settings from the repository that it finds, and a folder that somebody sent can be one. So git never looks
for a repository here, whatever the working folder is; settings of machine and user, and GIT_* variables, stay outside,
and nothing is fetched.
"""

from __future__ import annotations

import os
import subprocess

from dpicl.core.paths import CLONE, PACKAGE

#: The checkout that this code runs from, where it runs from one.
CHECKOUT = CLONE or PACKAGE
#: Seconds that one call may take.
SECONDS = 10.0

_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "HOME": os.devnull,
    "LC_ALL": "C",
}


def has_repository() -> bool:
    """Whether this code runs from a checkout, rather than from an installed package."""
    return (CHECKOUT / ".git").exists()


def git(*words: str) -> bytes | None:
    """The standard output of one git command on the project's repository; None without git, and where it fails or does
    not end."""
    place = [f"--git-dir={CHECKOUT / '.git'}", f"--work-tree={CHECKOUT}", "--no-pager"]
    # without relative folders: the working folder may be one that was sent
    path = os.pathsep.join(filter(os.path.isabs, os.environ.get("PATH", os.defpath).split(os.pathsep)))
    try:
        done = subprocess.run(
            ["git", *place, *words],
            cwd=CHECKOUT,
            env={**_ENVIRONMENT, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
