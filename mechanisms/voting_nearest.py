"""Voting by the records that are like the query: after retrieval for in-context learning under differential privacy
(DP-kNN-ICL, arXiv 2511.04332; MuRAG, arXiv 2511.07637), with a bound on every record's uses in place of a sample.

Queries come in a fixed public order. For every query:

1. a record joins when the inner product of its public embedding with the query's is at least t, and it has joined fewer
   than r queries so far. Its slot among M is a public hash of its content (dpicl.harness.privacy.joining, in the
   harness: no mechanism sees the counts);
2. a slot's prompt shows its N likest records; it votes as in `voting`. An empty slot votes by the public prompt;
3. the answer is the argmax over candidates of the ballots of all slots + N(0, 2 sigma^2).

Privacy (unit: one record; neighbours: add/remove; proved mode). With the queries and answers so far given, whether a
record joins follows from this record and its own count alone, so adding one changes no other record's uses: it changes
one slot's ballot, by sqrt(2) in L2, in at most r queries that are known before they are answered, and nothing
elsewhere. All answers cost r x Gaussian(sigma), whatever Q is and also for queries that are chosen after earlier
answers: the votes of the stream move by sqrt(2 r) in L2. Nothing is sampled, so nothing is amplified. Which records a
slot shows, and which do not fit its prompt, follows from the slot's own records. A record that joins pays also when its
slot does not show it. Retrieving the k nearest records would not do: a record that enters displaces another one, whose
uses then last longer, so one record can change every query of a stream, and the cost grows with Q.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpicl.harness.core.errors import UsageError
from dpicl.harness.mechanism.bases import Sizes
from dpicl.harness.mechanism.generation import check_positive
from dpicl.harness.models.embeddings import check_name
from dpicl.harness.privacy.sampling_schemes import JoiningScheme
from dpicl.mechanisms.voting import Voting


@dataclass(frozen=True)
class VotingNearest(Voting):
    """threshold: t, of embeddings of length 1. uses: r, the most queries that a record joins. embedding: name of the
    embedding model. examples_per_slot: N, the most records that a prompt shows. The rest as in voting."""

    name = "voting_nearest"
    knob = Voting.knob
    source = "after arXiv 2511.04332 and 2511.07637"
    summary = "voting by the records that are like the query, each in a few queries at most"
    published = {}

    threshold: float = 0.4
    uses: int = 10
    embedding: str = "embedded"

    slot_per_record = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.embedding)
        check_positive(uses=self.uses)
        if self.partition != "per_query":
            raise UsageError("Records join queries by likeness and are not sampled; leave out the option partition.")
        if self.sampling_seed is not None:
            raise UsageError(
                "Records join queries by likeness and are not sampled; leave out the option sampling_seed."
            )

    @property
    def scheme(self) -> JoiningScheme:
        return JoiningScheme(self.slots, self.examples_per_slot, self.threshold, self.uses, self.embedding)

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> None:
        """No authors have claimed anything for this mechanism."""
        return None
