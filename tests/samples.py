"""Samples as plain records (a sample can be read only while it is open), private sets, and tasks of given records."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from dpicl.accounting.ledger import Ledger
from dpicl.attacks.audit_runs import CoupledSampling
from dpicl.attacks.observers import Recording
from dpicl.core.seeds import PublicStreams, Streams
from dpicl.data.splits import Record
from dpicl.data.task import Task, load_config
from dpicl.privacy.private_set import PrivateSet
from dpicl.privacy.release_hooks import NoisyRelease, observing

GENERATION = ("samsum", "xsum", "chatdoctor")


def contents(slots):
    """The same slots with records that stay."""
    return tuple(tuple(Record(record.text, record.label) for record in slot) for slot in slots)


def private_set(
    records: Sequence[Any],
    sizes: Mapping[str | None, int],
    seed: int = 0,
    noise: Any = None,
    **more: Any,
) -> tuple[PrivateSet, Ledger, PublicStreams]:
    """The set, its ledger without a limit, and the public randomness of that seed. A record that is added at the end
    changes nobody else's coin or slot."""
    ledger, streams = Ledger(None, math.inf), Streams(seed)
    noise = noise or streams.source("noise")
    private = PrivateSet(
        records, ledger, sizes=sizes, sampling=CoupledSampling(seed), noise=noise, **more
    )
    return private, ledger, streams.public


@contextmanager
def noisy_releases() -> Iterator[list[NoisyRelease]]:
    """Every noisy release that is made inside, with its values before noise; the list is there at the end."""
    recording, releases = Recording(), list[NoisyRelease]()
    with observing(recording):
        yield releases
    releases += [observation.release for observation in recording.observed_releases]


def small_task(name: str, test: Sequence[Record], labels: Sequence[str] = ()) -> Task:
    """A task of these test records and no others."""
    config = load_config(name)
    kind = config.metadata.kind
    of_classes = tuple(config.doc_to_choice) or tuple(labels)
    return Task(
        name=name, kind=kind, labels=of_classes, partitioned=kind == "classification", source="synthetic",
        fingerprint="", dropped={}, train=(), test=tuple(test), config=config,
    )  # fmt: skip
