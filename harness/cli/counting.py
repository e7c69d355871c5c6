"""How far one long step has come, on stderr: a line that is rewritten on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

#: Where stderr is no terminal, a line at most this often.
_QUIET_SECONDS = 30.0


def counting() -> Callable[[int, int, str], None]:
    """A function of (done, total, unit)."""
    terminal, last = sys.stderr.isatty(), [time.monotonic()]

    def report(done: int, total: int, unit: str) -> None:
        now = time.monotonic()
        if terminal:
            sys.stderr.write(f"\r\033[K{done}/{total} {unit}{'' if done < total else chr(13) + chr(27) + '[K'}")
        elif now - last[0] >= _QUIET_SECONDS:
            last[0] = now
            sys.stderr.write(f"dpicl: {done}/{total} {unit}\n")
        sys.stderr.flush()

    return report
