"""Joins records to similar queries: each record joins at most r queries, whatever the other records are.

A record joins a query when its public embedding and that of the query have an inner product of at least a public
threshold, and it has joined fewer than r queries so far. Its slot is a public hash of its content. So which queries a
record joins follows from the record itself, the queries, and its own count; records do not compete.

Theorem. Let D' be D and one record x more, and let every query j release M_j(what the slots of j say, j's permit),
where M_j is a mechanism of one event E for slots of which one changes. The queries may be chosen after the earlier
answers. Then all answers together cost r x E, however many there are.

Proof. Fix x and a transcript of queries and answers. For every other record, its embedding, its count and so its
queries are the same in D and D', and so is its slot: x changes no slot but its own, in no query but those that it
joins. Whether x joins query j follows from x, query j and whether x joined the earlier ones, hence from the transcript,
which is public: it is known before j is answered, and where x does not join, M_j has the same input and the same output
distribution in both worlds. So the run is an interaction of at most r adaptively chosen mechanisms of event E, between
which somebody who knows D, x and the transcript so far answers the other queries without having to know which world it
is: adaptive composition of r events, and post-processing. With fewer queries than r it is as many as there are. QED.

For sums of ballots E is one Gaussian of sensitivity sqrt(2), so over the stream they move by at most sqrt(2 r) in L2.

With ``nearest`` = k a query shows the k likest of the records that join it, and all that join it have spent a use: the
retrieval of MuRAG (arXiv 2511.07637, algorithm 1, lines 2 to 6). The same proof holds with an event E for inputs of
which two slots change: x enters the k likest in place of one other record, in its slot and in that one's, and only in
queries that x joins; who joins is as before. For ballots the sum moves by 2 sqrt(2).

Without a threshold, where a use is spent by what is shown alone, this would not do: a record that enters displaces
another one, which keeps a use of its count for later and there displaces the next, so one record can change every
query.

Likeness is worked out record by record, in an order of additions that the number of records does not change: a product
of matrices rounds a row by how many others there are, and at the threshold that would be another record's membership.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np


class Joining:
    """The counts of one stream of queries. It holds no record, only where each belongs.

    contents: what a slot follows from, one a record. rows: float64[n, d], the records' embeddings. slots: M. uses: r.
    nearest: k; None: all that join are shown.
    """

    def __init__(
        self,
        contents: Sequence[tuple[str, ...]],
        rows: np.ndarray,
        slots: int,
        threshold: float,
        uses: int,
        nearest: int | None = None,
    ) -> None:
        self._rows = np.ascontiguousarray(rows, dtype=np.float64)
        self._places = [slot_of(content, slots) for content in contents]
        self._slots, self._threshold, self._nearest = slots, threshold, nearest
        self._left = np.full(len(contents), uses)

    def join(self, query: np.ndarray) -> list[list[int]]:
        """The numbers of the records that a query [d] shows, in M slots, the likest first. One use of each that joins
        is spent."""
        alike = (self._rows * query).sum(axis=1)
        joined = np.flatnonzero((alike >= self._threshold) & (self._left > 0))
        self._left[joined] -= 1
        slots: list[list[int]] = [[] for _ in range(self._slots)]
        for at in joined[np.argsort(-alike[joined], kind="stable")][: self._nearest].tolist():
            slots[self._places[at]].append(at)
        return slots


def slot_of(content: tuple[str, ...], slots: int) -> int:
    """In [0, slots): a public hash of what a record says."""
    digest = hashlib.sha256(repr(content).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % slots
