"""Checks and copies what a mechanism returns: only plain text and public labels are scored and published.

A mechanism is somebody else's code. How many demonstrations there are, and of which labels, is public and was decided
before it ran, and so is what counts as a token; nothing of this is taken from what it returns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from dpicl.core.errors import DpiclError, PluginError, one_line, place_of
from dpicl.core.vocabulary import Demonstration, FinalPrompt, ReleasedPrompt
from dpicl.data.task import PublicTask
from dpicl.mechanism.bases import Mechanism, Prepared
from dpicl.models.base import LanguageModel


def check_prompt(
    mechanism: Mechanism,
    output: object,
    shots: Sequence[str],
    model: LanguageModel,
) -> ReleasedPrompt:
    """What a demonstration mechanism returns, as it is published.

    A mechanism with a knob returns one demonstration for each of ``shots``, with its label; none, where it releases an
    instruction. One without a knob (epsilon 0 or infinite) may return none, or other labels. tokens: counted here, of
    the text that is released. Raises PluginError.
    """
    written: object = output.instruction if isinstance(output, ReleasedPrompt) else None
    shown: object = output.demonstrations if isinstance(output, ReleasedPrompt) else output
    if not isinstance(shown, list | tuple) or not all(
        isinstance(each, Demonstration) for each in shown
    ):
        raise _fault(
            mechanism,
            f"returns {type(shown).__name__}",
            "return a list of Demonstration, or a ReleasedPrompt with one",
        )
    instruction = None if written is None else plain_text(written, mechanism)
    texts = [
        (plain_text(each.text, mechanism), plain_text(each.label, mechanism)) for each in shown
    ]
    alone = instruction is not None and not texts
    if mechanism.knob is not None and not alone and [label for _, label in texts] != list(shots):
        raise _fault(
            mechanism,
            f"returns {len(texts)} demonstrations whose labels are not the {len(shots)} of the plan",
            "return one for each entry of `context.shots`, in that order",
        )
    demonstrations = [
        Demonstration(
            text=text,
            label=label,
            tokens=len(model.encode(text)),
        )
        for text, label in texts
    ]
    return ReleasedPrompt(instruction, demonstrations)


def skip_reason(mechanism: Mechanism, task: PublicTask) -> str | None:
    """Why a mechanism cannot do a task, in its own words; None where it can. Raises PluginError."""
    reason: object = mechanism.skip(task)
    if reason is None or (isinstance(reason, str) and reason.strip()):
        return reason
    raise _fault(
        mechanism, f"answers {reason!r:.60} to `skip`", "return the reason as a text, or None"
    )


def check_answer(mechanism: Mechanism, output: object) -> str | FinalPrompt:
    """An answer, or the prompt that the model will answer. Raises PluginError."""
    if isinstance(output, FinalPrompt):
        return FinalPrompt(plain_text(output.prompt, mechanism))
    return plain_text(output, mechanism)


def check_prepared(mechanism: Mechanism, output: Prepared) -> Prepared:
    """What answers after a preparation. Raises PluginError for what cannot."""
    if not callable(getattr(output, "answer", None)):
        raise _fault(
            mechanism, f"prepares {type(output).__name__}", "return something with `answer(query)`"
        )
    return output


def check_state(mechanism: Mechanism, prepared: Prepared) -> dict[str, np.ndarray] | None:
    """What was prepared, as arrays that a file can hold: float64, finite. None where it cannot be saved.

    Raises PluginError for a state of anything else.
    """
    if not callable(state := getattr(prepared, "state", None)):
        return None
    output: object = state()
    if not isinstance(output, Mapping) or not all(isinstance(name, str) for name in output):
        raise _fault(
            mechanism, f"says {type(output).__name__} for its state", "return names and arrays"
        )
    arrays = {}
    for name, array in output.items():
        if (
            not isinstance(array, np.ndarray)
            or array.dtype.kind not in "fiu"
            or not np.isfinite(array).all()
        ):
            raise _fault(
                mechanism,
                f"has a state '{name:.40}' that is not an array of finite numbers",
                "return arrays",
            )
        arrays[name] = array.astype(np.float64)
    return arrays


def plain_text(output: object, mechanism: Mechanism) -> str:
    """The text as a str of Unicode that can be written to a file. Raises PluginError for anything but a str."""
    if not isinstance(output, str):
        raise _fault(
            mechanism,
            f"returns {type(output).__name__}",
            "return a str (an answer may be a FinalPrompt)",
        )
    return str.encode(output, "utf-8", "replace").decode()


def check_claim(mechanism: Mechanism, output: object) -> float | None:
    """What `paper_epsilon` says: None or a number of at least 0. Raises PluginError."""
    if output is None:
        return None
    if (
        not isinstance(output, int | float)
        or isinstance(output, bool)
        or math.isnan(output)
        or output < 0
    ):
        raise _fault(
            mechanism,
            f"claims epsilon = {output!r}",
            "return a number of at least 0, or None, in paper_epsilon",
        )
    return float(output)


def require_noise(mechanism: Mechanism, texts: Sequence[str], releases: int) -> None:
    """Raises PluginError where something was released at a finite epsilon though no noise was drawn for any of it."""
    if mechanism.knob is not None and releases == 0 and any(texts):
        raise _fault(
            mechanism,
            f"released {sum(map(bool, texts))} texts and drew no noise",
            "release through a primitive such as dpicl.GaussianSum, or with the permit that `sample.spend` gives",
        )


@contextmanager
def name_failure(mechanism: Mechanism) -> Iterator[None]:
    """Raises PluginError, with the place in the code, for an error of the mechanism's that is not our own; also where
    it would end the program. Ctrl-C alone passes."""
    try:
        yield
    except (DpiclError, KeyboardInterrupt):
        raise
    except BaseException as error:  # of somebody's mechanism: one cell ends, and the run goes on
        description = f"{type(error).__name__}: {one_line(error, 500)}"
        raise PluginError(
            f"Mechanism '{mechanism.name}' fails ({place_of(error)}): {description}"
        ) from error


def _fault(mechanism: Mechanism, what: str, instead: str) -> PluginError:
    return PluginError(f"Mechanism '{mechanism.name}' {what}; {instead}.")
