"""Marks rows with what weakens their proved ε or makes them controls, by rules over their results.

`is_up_to_rounding` and `is_vouched` are the rules; everything that shows a row shows its marks.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpicl.accounting.bounds import LARGEST
from dpicl.results.schema import Result


@dataclass(frozen=True)
class Mark:
    """sign: beside the row's name. name: in a few words. why: what it means, as the end of a sentence."""

    sign: str
    name: str
    why: str


ROUNDING = Mark(
    "≈",
    "proved up to rounding",
    "one record may change how the model rounds the prompts of other slots, and the proof leaves that out"
    " (docs/accounting.md, floating point)",
)
NOT_CHECKED = Mark(
    "‡",
    "plug-in, not checked",
    "the mechanism's file had not passed `dpicl check` when it ran, so how far its ledger can be trusted is open",
)

LOOSE = Mark(
    "°",
    "loose bound",
    f"the proved ε is more than {LARGEST} times the best lower bound that is known for the same event, so the row may"
    " have more noise than it needs (docs/accounting.md, slack)",
)


BY_EMBEDDINGS = Mark("§", "answers by embeddings", "a control by a second public model")


#: Mechanisms of the package that read records, prompt the language model, and are controls.
CONTROLS = ("topic_words", "one_vote")
CONTROL = Mark("¢", "control", "a simple way to show what records hold, which a method should beat")


SERVED = Mark(
    "⇄",
    "a model server read private prompts",
    "prompts that hold private records left the process for a model server, which is trusted with them and with"
    " answering each for itself (docs/servers.md)",
)


FIXED_DRAW = Mark(
    "◊",
    "one sampling draw for all seeds",
    "all seeds share the sampled records, or the public texts that are shown, so the effect of that one draw cannot"
    " be separated from the mechanism's: in no rank set",
)


UNANSWERED = Mark(
    "∅",
    "slots without an answer",
    "the model gave no answer to prompts of some slots (a server refused them, or its numbers were not finite); these"
    " slots abstained, so the score may be lower than the method's",
)


OWN_READER = Mark(
    "¶",
    "uses the embeddings that this metric reads",
    "the mechanism votes or answers by the embedding model that scores it, which favours it: in no rank set",
)


CHANGED_CODE = Mark(
    "¬",
    "changed checkout",
    "the checkout had changes that its commit lacks, so the commit does not say which code ran",
)


def is_up_to_rounding(result: Result) -> bool:
    """Whether the proof holds for real numbers, and the code that ran may depart from them.

    So it is for a private event with a finite ε, unless the model is known to be batch-invariant.
    """
    privacy = result.privacy
    if result.manifest.model.batch_invariant is True:
        return False
    return math.isfinite(privacy.epsilon_proved) and _is_private(privacy.event)


def is_vouched(result: Result, vouched: bool | None = None) -> bool | None:
    """Whether the plug-in file behind a result passed the conformance kit; None for a mechanism of the package.

    vouched: of a submission, whether the maintainers ran it, which they do after the kit; what a submitted result says
    of itself does not count. None: the result is our own.
    """
    if result.cell.plugin is None:
        return None
    return bool(result.manifest.plugin_checked) if vouched is None else vouched


def marks_of(results: Iterable[Result], vouched: bool | None = None) -> tuple[Mark, ...]:
    """The marks of a row: one bad seed is enough. vouched: see `is_vouched`."""
    seeds = list(results)
    rules = {
        ROUNDING: any(map(is_up_to_rounding, seeds)),
        NOT_CHECKED: any(is_vouched(result, vouched) is False for result in seeds),
        LOOSE: any((result.privacy.slack or 1) > LARGEST for result in seeds),
        BY_EMBEDDINGS: any(
            result.prepared and result.manifest.embedding is not None for result in seeds
        ),
        CONTROL: any(
            result.cell.mechanism in CONTROLS and not result.cell.plugin for result in seeds
        ),
        SERVED: any(map(_is_served, seeds)),
        FIXED_DRAW: _is_draw_fixed(seeds),
        UNANSWERED: any(result.failures for result in seeds),
        OWN_READER: any(result.uses_its_reader for result in seeds),
        CHANGED_CODE: any(result.manifest.dirty for result in seeds),
    }
    return tuple(mark for mark, holds in rules.items() if holds)


def _is_draw_fixed(results: Sequence[Result]) -> bool:
    """Whether seeds share what should be drawn anew: by the option `sampling_seed`, or because their public texts agree
    for every label that two seeds have. A label as its own text is no draw, nor is the likeliest text.
    """
    if any(result.cell.options.get("sampling_seed") is not None for result in results):
        return True
    texts: dict[str, list[frozenset[str]]] = defaultdict(list)
    for result in results:
        if result.privacy.epsilon_proved != 0 or result.cell.options.get("greedy"):
            continue
        by_label: dict[str, set[str]] = defaultdict(set)
        for released in result.released:
            by_label[released.label].add(released.text)
        for label, of_seed in by_label.items():
            if of_seed != {label}:
                texts[label].append(frozenset(of_seed))
    repeated = [by_seed for by_seed in texts.values() if len(by_seed) > 1]
    return bool(repeated) and all(len(set(by_seed)) == 1 for by_seed in repeated)


def signs(marks: Iterable[Mark]) -> str:
    """'≈‡'."""
    return "".join(mark.sign for mark in marks)


def _is_served(result: Result) -> bool:
    """Whether a model server read prompts with private records."""
    return result.manifest.server is not None and _is_private(result.privacy.event)


def _is_private(event: Mapping[str, Any]) -> bool:
    """Whether any part of an event is more than NoOp."""
    return not event_kinds(event) <= {
        "none",
        "parallel",
        "compose",
        "poisson",
        "fixed_size",
        "repeat",
    }


def event_kinds(event: Any) -> set[str]:
    """The kinds of an event, as `dpicl.accounting.events.to_json` writes it, and its parts; '?' for anything else."""
    kinds = set()
    queue = [event]
    while queue:
        part = queue.pop()
        if not isinstance(part, dict) or not isinstance(part.get("event"), str):
            kinds.add("?")
            continue
        kinds.add(part["event"])
        of = part.get("of", [])
        if isinstance(of, dict) and part["event"] == "parallel":
            queue += of.values()
        else:
            queue += of if isinstance(of, list) else [of]
    return kinds
