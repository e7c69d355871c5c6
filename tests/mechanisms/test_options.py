"""What mechanisms refuse: options that make no sense, and tasks that they cannot do."""

import pytest

from dpicl.core.errors import UsageError
from dpicl.mechanisms.dp_opt import DPOpt
from dpicl.mechanisms.embedding_centroids import EmbeddingCentroids
from dpicl.mechanisms.esa import ESA
from dpicl.mechanisms.ksa import KSA
from dpicl.mechanisms.one_vote import OneVote
from dpicl.mechanisms.private_evolution import PrivateEvolution
from dpicl.mechanisms.private_prediction import PrivatePrediction
from dpicl.mechanisms.sga import SGA
from dpicl.mechanisms.sga_histogram import SGAHistogram
from dpicl.mechanisms.tang import Tang
from dpicl.mechanisms.topic_words import TopicWords
from dpicl.mechanisms.voting import Voting
from dpicl.mechanisms.voting_nearest import VotingNearest
from tests.mechanisms.answering import TinyTask


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        *(
            (Tang, {"slots": 0}),
            (Tang, {"top_p": 0.0}),
            (Voting, {"slots": 0}),
            (Voting, {"candidates": "span"}),
        ),
        *(
            (ESA, {"radius": -1.0}),
            (KSA, {"words": 0}),
            (SGA, {"public": "on"}),
            (SGAHistogram, {"top": 0}),
        ),
        *(
            (PrivatePrediction, {"threshold_share": 1.0}),
            (DPOpt, {"failure": 1.0}),
            (DPOpt, {"retries": -1}),
        ),
        *(
            (PrivateEvolution, {"candidates": 10**8}),
            (PrivateEvolution, {"style": "letter"}),
        ),
        *(
            (OneVote, {"candidates": 0}),
            (OneVote, {"temperature": 0.0}),
            (TopicWords, {"words": 0}),
        ),
        *(
            (VotingNearest, {"partition": "once"}),
            (VotingNearest, {"threshold": 2.0}),
            (VotingNearest, {"uses": 0}),
        ),
        *((EmbeddingCentroids, {"embedding": "no such"}), (EmbeddingCentroids, {"clip": 0.0})),
    ],
)
def test_options_that_make_no_sense_are_refused(cls, options):
    with pytest.raises(UsageError):
        cls(**options)


@pytest.mark.parametrize(
    ("cls", "kinds"),
    [
        (Voting, {"classification", "extraction"}),
        (TopicWords, {"classification"}),
        *((cls, {"generation"}) for cls in (ESA, KSA, SGA)),
    ],
)
def test_a_task_that_a_mechanism_cannot_do_is_skipped(cls, kinds):
    for kind in ("classification", "extraction", "generation", "continuation", "json"):
        reason = cls().skip(TinyTask(kind))
        assert (reason is None) == (kind in kinds)
