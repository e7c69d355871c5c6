"""How much of the private records released texts repeat: copied spans of words, and ROUGE-L overlap.

After Zeng et al. 2024 ("The good and the bad", Findings of ACL, section 4; evaluation_results.py of their code): a text
counts as a repeat when 20 words in a row are those of a record, and as a retelling when ROUGE-L precision or recall
with a record is above 0.5. They compare with the few documents that were retrieved; here every private record is
compared, since an aggregate of many records may repeat any of them. Differences: their loops leave out the last
position, so a span at the very end of a text or a record needs 21 words; here 20 are enough.

Both are exact: no record is skipped that could match. Frequent phrases (disclaimers, headers) and a few words in common
count too, so a number means something only beside that of texts which the model wrote without private examples.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from dpicl.core.errors import UsageError

if TYPE_CHECKING:
    from nltk.stem.porter import PorterStemmer

#: Words in a row that make a copied span (Zeng et al.).
SPAN = 20
#: ROUGE-L precision or recall above this makes a retelling (Zeng et al.).
OVERLAP = 0.5

_WORD = re.compile(r"\w+")


class Copies(NamedTuple):
    """Counts over released texts; no text is kept.

    copying: texts that match a private record. records: private records that one of the texts matches. longest: words
    of the longest copied span; 0 without any, and for overlap.
    """

    copying: int
    records: int
    longest: int = 0


def copied_spans(released: Sequence[str], records: Sequence[str], span: int = SPAN) -> Copies:
    """Texts with ``span`` or more consecutive words of a record. Words are runs of \\w, compared with their case.

    Time is linear in the number of words of the records, beside the matches. Raises UsageError without released texts
    or for a span below 1.
    """
    _check(released)
    if span < 1:
        raise UsageError(f"A copied span has at least 1 word, not {span}.")
    texts = [_WORD.findall(text) for text in released]
    places: defaultdict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for number, words in enumerate(texts):
        for start, window in enumerate(_windows(words, span)):
            places[window].append((number, start))
    copying: set[int] = set()
    copied_records = longest = 0
    for record in records:
        words = _WORD.findall(record)
        hits = [(at, place) for at, window in enumerate(_windows(words, span)) for place in places.get(window, ())]
        copied_records += bool(hits)
        for at, (number, start) in hits:
            copying.add(number)
            if not (at and start and words[at - 1] == texts[number][start - 1]):  # a longer span starts earlier
                shared = takewhile(
                    lambda pair: pair[0] == pair[1], zip(words[at:], texts[number][start:], strict=False)
                )
                longest = max(longest, sum(1 for _ in shared))
    return Copies(len(copying), copied_records, longest)


def overlaps(released: Sequence[str], records: Sequence[str], threshold: float = OVERLAP) -> Copies:
    """Texts whose ROUGE-L precision or recall with a record is above ``threshold``; tokens and stems of rouge-score.

    The length of the longest common subsequence is at most the number of shared tokens, so only pairs that share enough
    are looked at; there it is computed exactly. Precision is the part of the released text, so a text of few words
    reaches it by chance. Raises UsageError without released texts or for a threshold outside [0, 1).
    """
    _check(released)
    if not 0 <= threshold < 1:
        raise UsageError(f"The overlap threshold must be at least 0 and below 1, not {threshold}.")
    texts = [_stems(text) for text in released]
    bags = [Counter(text) for text in texts]
    copying: set[int] = set()
    overlapped = 0
    for record in records:
        stems = _stems(record)
        bag, matched = Counter(stems), False
        for number, (text, words) in enumerate(zip(texts, bags, strict=True)):
            shorter = min(len(text), len(stems))  # the larger of precision and recall is over this
            if not shorter or (words & bag).total() / shorter <= threshold:
                continue
            if common_subsequence(text, stems) / shorter > threshold:
                copying.add(number)
                matched = True
        overlapped += matched
    return Copies(len(copying), overlapped)


def common_subsequence(left: Sequence[str], right: Sequence[str]) -> int:
    """Length of the longest common subsequence, bit-parallel (Hyyrö 2004, "Bit-parallel LCS-length computation
    revisited"): one row of the table is one whole number with a bit for each token of ``left``.
    """
    at: defaultdict[str, int] = defaultdict(int)
    for position, token in enumerate(left):
        at[token] |= 1 << position
    full = (1 << len(left)) - 1
    row = full  # zeros are where the length grows
    for token in right:
        matched = row & at.get(token, 0)
        row = ((row + matched) | (row - matched)) & full
    return len(left) - row.bit_count()


def _windows(words: Sequence[str], span: int) -> Iterator[tuple[str, ...]]:
    return (tuple(words[start : start + span]) for start in range(len(words) - span + 1))


def _check(released: Sequence[str]) -> None:
    if not released:
        raise UsageError("There is no released text to compare with the records; ask for at least one.")


def _stems(text: str) -> list[str]:
    """rouge-score's tokens with its stemmer; each word is stemmed once."""
    from rouge_score import tokenize

    return [stem for word in tokenize.tokenize(text, None) for stem in _stem(word)]


@lru_cache(maxsize=100_000)
def _stem(word: str) -> tuple[str, ...]:
    from rouge_score import tokenize

    return tuple(tokenize.tokenize(word, _stemmer()))


@cache
def _stemmer() -> PorterStemmer:
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()
