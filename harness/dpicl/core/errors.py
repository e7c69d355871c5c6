"""Errors that a user can fix.

Every error here carries one sentence that says what is wrong and what to do. The command line prints that sentence
and exits with code 2; library users catch :class:`DpiclError`.
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from dpicl.core.printable import shorten

#: Characters of a message that is shown.
_LONGEST = 10_000
#: What a plug-in may bring, as messages call it.
_PLUGGABLE = ("mechanism", "task", "attack", "model")


class DpiclError(Exception):
    """Base of all errors whose message tells the user what to do."""


class UsageError(DpiclError):
    """A flag, a suite or a name that makes no sense."""


class UnsupportedEvent(DpiclError):
    """A combination of events for which no theorem is implemented: no theorem, no epsilon."""


class AccountantsDisagree(DpiclError):
    """Two accountants differ by more than 1% on the same event."""


class BudgetExceeded(DpiclError):
    """A charge that would pass the budget; raised before any noise is drawn."""


class PromptTooLong(DpiclError):
    """A prompt that does not fit into the model's context; nothing is truncated silently."""


class ModelError(DpiclError):
    """A model that is missing, damaged, or answers with numbers that are not finite."""


class DataError(DpiclError):
    """A data set that is missing, malformed or too small."""


class ResultError(DpiclError):
    """A result file or folder that cannot be read or written."""


class PluginError(DpiclError):
    """A plugin that cannot be imported or does not hold what it must."""


class Concealed(DpiclError):
    """Code that holds private records failed, with secure noise: its message is not shown."""


def one_line(error: BaseException, most: int = _LONGEST) -> str:
    """What an error says, in one line of at most so many characters; also of one whose text cannot be had. Long names,
    which come from input, are cut in the middle."""
    try:
        text = shorten(" ".join(str(error).split()))
    except BaseException:  # its own __str__ fails
        text = "its message cannot be read"
    return text if len(text) <= most else f"{text[:most]} ..."


def place_of(error: BaseException) -> str:
    """'FILE, line N': where an error was raised."""
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"{Path(last.filename).name}, line {last.lineno}"


def unknown_name(kind: str, name: str, choices: Iterable[str]) -> UsageError:
    """A UsageError for an unknown name, with the closest known one and all of them."""
    known = sorted(choices)
    begun = sorted((choice for choice in known if choice.startswith(name)), key=len)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.65 if len(name) < 5 else 0.75)
    close = begun[:1] if len(name.strip("-")) > 1 and begun else near
    hint = f" Did you mean '{close[0]}'?" if close else ""
    known_names = (
        " One of your own comes with `--plugin FILE_OR_FOLDER`."
        if kind in _PLUGGABLE and not hint
        else ""
    )
    return UsageError(
        f"Unknown {kind} '{name}'.{hint}{known_names} Known: {', '.join(known) or 'none'}."
    )


def require_known(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    """Raises `unknown_name` for the first of the names that is not known."""
    for name in names:
        if name not in known:
            raise unknown_name(kind, name, known)


def refuse(options: Mapping[str, object], sentence: str) -> None:
    """Raises UsageError with the sentence about the flag of the first of these options that has a value."""
    for name, value in options.items():
        if value:
            raise UsageError(sentence.format(f"--{name.replace('_', '-')}"))
