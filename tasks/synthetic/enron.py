"""Invented e-mails of invented people; the rules are in enron.txt.

Whatever looks like personal data leads to nobody: addresses are under the names that are reserved for examples
(RFC 2606: example.com, example.org, example.net and the top level .example), and telephone numbers are 555-0110 to
555-0199, out of the range 555-0100 to 555-0199 that the North American plan keeps for fiction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from dpicl.tasks.synthetic.grammar import Grammar, generators

GRAMMAR = Grammar.read("lexicon", "enron")
LABEL = "email"

#: How the grammar writes a person's address: <Ana Bell at example.com>.
_ADDRESS = re.compile(r"<(?P<first>\w+) (?P<last>\w+) at (?P<domain>[\w.]+)>")
#: How local parts are made of names, so that no two people share one; a record keeps to one of them.
_LOCAL_PARTS = (
    "{first}.{last}",
    "{first}_{last}",
    "{first}-{last}",
    "{first}{last}",
    "{last}.{first}",
)


def records(label: str | None, split: str, seed: int) -> Iterator[tuple[str, str]]:
    """Endless (e-mail with ' / ' between its lines, 'email') pairs; there are no classes, so `label` is None."""
    for generator in generators(seed, "enron", split):
        text = GRAMMAR.expand("mail", generator)
        local_part = _LOCAL_PARTS[int(generator.random() * len(_LOCAL_PARTS))]
        yield _ADDRESS.sub(partial(_address, local_part), text), LABEL


def _address(local_part: str, person: re.Match[str]) -> str:
    first, last = person["first"].lower(), person["last"].lower()
    return local_part.format(first=first, last=last) + "@" + person["domain"]
