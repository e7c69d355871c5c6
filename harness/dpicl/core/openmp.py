"""Keeps the threads of OpenMP, by which torch computes, from spinning while other programs want the processor.

At the end of every small operation a thread waits for the others by asking again and again. Where another program has
taken the core of one of them, all wait for a whole time slice of the system, at every operation. So a thread asks for a
short while only, and then sleeps; on an idle machine that while is longer than the others need.
"""

from __future__ import annotations

import os
import sys
import warnings

#: Environment variables that the OpenMP libraries of GNU and of Intel and LLVM read when torch loads them: how often a
#: thread asks before it sleeps, and for how many milliseconds.
WAITING = {"GOMP_SPINCOUNT": "10000", "KMP_BLOCKTIME": "1"}
#: The user's own choice, which stands.
POLICY = "OMP_WAIT_POLICY"


def limit_spinning() -> None:
    """Sets how long threads spin, in this process and its children, unless the user has. Warns where torch, which reads
    this when it is loaded, is loaded already and uses several threads."""
    if POLICY in os.environ or WAITING.keys() & os.environ.keys():
        return
    os.environ.update(WAITING)
    if "torch" in sys.modules and os.environ.get("OMP_NUM_THREADS") != "1":
        warnings.warn(
            "torch was imported before dpicl, so its threads spin while they wait, which is slow where other programs"
            " run; import dpicl first, or set GOMP_SPINCOUNT=10000 in the environment.",
            stacklevel=3,
        )
