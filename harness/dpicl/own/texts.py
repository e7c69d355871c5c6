"""Reads released texts for what is plainly wrong with them: from what was released alone, so it costs nothing."""

from __future__ import annotations

from collections.abc import Sequence

from dpicl.core.messages import names_text
from dpicl.core.vocabulary import Demonstration
from dpicl.data.splits import normalise

#: What decoders write for bytes that are no UTF-8.
_BROKEN = "\ufffd"
#: Labels that a sentence names.
_NAMED = 20


def read_texts(
    texts: Sequence[Demonstration], labels: Sequence[str], limit: int | None
) -> list[str]:
    """Sentences about texts that repeat each other or their label, were cut or are broken, and labels without a text.

    labels: of the classification; () where there are none. limit: most tokens of a text, None where there is no limit.
    """
    keys = [normalise(each.text) for each in texts]
    labels_of_texts = [normalise(each.label) for each in texts]
    counts = {
        "repeat an earlier one": len(keys) - len(set(keys)),
        "repeat the label": sum(map(str.__eq__, keys, labels_of_texts)),
        "hold characters that are not UTF-8": sum(_BROKEN in each.text for each in texts),
        f"have all {limit} tokens that a text may have, and may be cut off": sum(
            each.tokens == limit for each in texts
        ),
    }
    sentences = [
        f"{number} of {len(texts)} texts {what}." for what, number in counts.items() if number
    ]
    missing = labels_without_text(texts, labels)
    return [*sentences, missing] if missing else sentences


def labels_without_text(texts: Sequence[Demonstration], labels: Sequence[str]) -> str:
    """A sentence that names the labels of which there is no text; '' where each has one, or texts have none of them."""
    there = {each.label for each in texts}
    missing = [label for label in labels if label not in there]
    if not missing or there.isdisjoint(labels):
        return ""
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return f"No text is of the label {names_text(missing[:_NAMED], 'or')}{more}; --shots-per-label 1 writes one each."
