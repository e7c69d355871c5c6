"""The only place that starts git: on the project's own checkout, and with nothing that a sender could have configured.

git runs programs that its settings name: hooks, file-system monitors, filters, transports. It takes its settings from
the repository that it finds, and a folder that somebody sent can be one (`.git`, or the plain files HEAD, objects and
refs). So git never looks for a repository here: the one of the checkout that this code runs from is named outright, and
git runs in that folder whatever the working folder is. The settings of the machine and the user, and every GIT_*
variable, stay outside; no transport is allowed, so nothing that is missing is fetched; what the checkout's own settings
(which are its owner's; a pull request cannot bring them) could start is switched off as well.

A `.gitattributes` that a pull request brings can name a filter or a diff driver, but only settings say what these run.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from dpicl.core.errors import DpiclError
from dpicl.core.paths import CLONE, PACKAGE

#: The checkout that this code runs from, where it runs from one.
CHECKOUT = CLONE or PACKAGE
#: Seconds that one call may take.
SECONDS = 60.0

_SETTINGS_TEXT = """
    core.alternateRefsCommand= core.askPass= core.attributesFile=/dev/null core.editor=false
    core.excludesFile=/dev/null core.fsmonitor=false core.gitProxy= core.hooksPath=/dev/null core.pager=cat
    core.sshCommand=false credential.helper= diff.external= diff.ignoreSubmodules=all gpg.program=false
    log.showSignature=false maintenance.auto=false protocol.allow=never safe.bareRepository=explicit
    submodule.recurse=false
"""
_SETTINGS = tuple(_SETTINGS_TEXT.split())
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "",  # an empty list: none, whatever protocol.<name>.allow says
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "HOME": os.devnull,
    "LC_ALL": "C",
    "XDG_CONFIG_HOME": os.devnull,
}


class GitError(DpiclError):
    """git is missing, or does not answer."""


def has_repository() -> bool:
    """Whether this code runs from a checkout, rather than from an installed package."""
    return (CHECKOUT / ".git").exists()


def git(*words: str, seconds: float = SECONDS) -> bytes:
    """The standard output of one git command on the project's repository. Raises GitError."""
    path = _path()
    program = shutil.which("git", path=path)
    if program is None:
        raise GitError("There is no git on PATH; install it, or give an earlier copy with --base DIR.")
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    place = [f"--git-dir={CHECKOUT / '.git'}", f"--work-tree={CHECKOUT}", "--no-pager"]
    try:
        done = subprocess.run(
            [program, *place, *settings, *words],
            cwd=CHECKOUT,
            env={**_ENVIRONMENT, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise GitError(f"git {words[0]} did not end within {seconds:g} s; look at the repository by hand.") from None
    except OSError as error:
        raise GitError(f"git cannot be started: {error.strerror}; fix that.") from error
    if done.returncode:
        said = " ".join(done.stderr.decode("utf-8", "replace").split())[:200]
        raise GitError(f"git {words[0]} fails on the project's repository: {said or 'no message'}; fix that.")
    return done.stdout


def _path() -> str:
    """PATH without relative folders: the working folder may be one that was sent."""
    given = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in given if os.path.isabs(folder))
