"""Voting by the records that are like the query, with the retrieval of MuRAG (Wu et al., "Private-RAG: Answering
Multiple Queries with LLMs while Keeping Your Data Private", arXiv 2511.07637, algorithm 1), which makes that of
DP-kNN-ICL (Koskela et al., "Differentially Private In-Context Learning with Nearest Neighbor Search", arXiv 2511.04332)
provable: a bound on every record's uses in place of a sample.

Queries come in a fixed public order. For every query:

1. a record joins when the inner product of its public embedding with the query's is at least t, and it has joined fewer
   than r queries so far. Its slot among M is a public hash of its content (dpicl.privacy.joining, in the
   harness: no mechanism sees the counts);
2. with ``nearest`` = k the k likest of those that joined are shown, as in both papers; all that joined have spent a
   use. Without it a slot's prompt shows its N likest records, and no record displaces one of another slot. A slot votes
   as in `voting`. An empty slot votes by the public prompt;
3. the answer is the argmax over candidates of the ballots of all slots + N(0, 2 sigma^2), or + N(0, 8 sigma^2) with
   ``nearest``.

Privacy (unit: one record; neighbours: add/remove; proved mode). With the queries and answers so far given, whether a
record joins follows from this record and its own count alone, so adding one changes no other record's uses: it changes
one slot's ballot, by sqrt(2) in L2, in at most r queries that are known before they are answered, and nothing
elsewhere; with ``nearest`` two ballots, its slot's and that of the record which it displaces: 2 sqrt(2). All answers
cost r x Gaussian(sigma), whatever Q is and also for queries that are chosen after earlier answers. Nothing is sampled,
so nothing is amplified. Which records a slot shows, and which do not fit its prompt, follows from the slot's own
records. A record that joins pays also when its slot does not show it.

DP-kNN-ICL itself has no threshold, and an individual Renyi filter charges the records that are shown (as a summary
describes it; of the stored copy of the paper only the introduction could be read, and no code was found). Such a filter
is for losses that follow from the record and the transcript; there they follow from the other records too: one that
enters displaces another one, whose uses then last longer, so one record can change every query of a stream
(tests/harness/privacy/test_joining.py finds such streams).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dpicl import (
    LATER_OPTION,
    GaussianSum,
    JoiningScheme,
    Sizes,
    UsageError,
    check_embedding_name,
    check_positive,
)
from dpicl.mechanisms.voting import Voting


@dataclass(frozen=True)
class VotingNearest(Voting):
    """threshold: t, of embeddings of length 1. uses: r, the most queries that a record joins. nearest: k, the records
    that a query shows; None: all that join it. embedding: name of the embedding model. examples_per_slot: N, the most
    records that a prompt shows. The rest as in voting."""

    name = "voting_nearest"
    knob = Voting.knob
    source = "Wu et al., arXiv 2511.07637; after Koskela et al., arXiv 2511.04332"
    reading = "it votes by records that MuRAG's filter retrieves; what DP-kNN-ICL retrieves has no proof here"
    summary = "voting by the records that are like the query, each in a few queries at most"
    published = {}

    threshold: float = 0.4
    uses: int = 10
    embedding: str = "embedded"
    nearest: int | None = field(default=None, metadata={LATER_OPTION: True})

    slot_per_record = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_embedding_name(self.embedding)
        check_positive(uses=self.uses, nearest=self.nearest)
        if self.partition != "per_query":
            raise UsageError(
                "Records join queries by likeness and are not sampled; leave out the option partition."
            )
        if self.sampling_seed is not None:
            raise UsageError(
                "Records join queries by likeness and are not sampled; leave out the option sampling_seed."
            )

    @property
    def scheme(self) -> JoiningScheme:
        return JoiningScheme(
            self.slots,
            self.examples_per_slot,
            self.threshold,
            self.uses,
            self.embedding,
            self.nearest,
        )

    def _sum(self, knob: float) -> GaussianSum:
        return GaussianSum(knob, replaced=self.scheme.replaced)

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> None:
        """No authors have claimed anything for this mechanism."""
        return None
