"""Who is in and who is out: the sampling randomness of a membership attack.

Candidates are train records. A canary is in by a fair coin of its own, so that one release already bounds epsilon
(dpicl.attacks.one_run); with more members than others, or more others than members, the surplus is in, or out,
for sure. Where records of different labels are disjoint groups, candidates have the labels of the demonstrations to be
released: no other group is touched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dpicl.core.errors import UsageError
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Partition
from dpicl.data.task import Record, Task


@dataclass(frozen=True)
class Game:
    """members, others, canaries: as in `dpicl.attacks.base.AttackSetup`. sizes: members to be expected, by
    group."""

    members: tuple[Record, ...] = field(repr=False)
    others: tuple[Record, ...] = field(repr=False)
    canaries: frozenset[Record] = field(repr=False)
    sizes: Mapping[Partition, int]


def assign(task: Task, members: int, others: int, shots: int, seed: int) -> Game:
    """About ``members`` records in and ``others`` out, exactly members + others in all.

    shots: of the release, whose labels are those of `dpicl.releasing.release` for this seed.
    Raises UsageError when the task has too few records, or there are fewer members than labels.
    """
    randomness = streams(seed)
    labels: list[Partition] = [None]
    if task.partitioned:
        labels = list(dict.fromkeys(task.plan_shots(shots, randomness.stream("shots"))))
    if members < len(labels):
        raise UsageError(f"{members} members do not cover the {len(labels)} labels of the shots; raise --members.")
    sampling = randomness.stream("attack: members")
    inside: list[Record] = []
    outside: list[Record] = []
    canaries: list[Record] = []
    sizes: dict[Partition, int] = {}
    for label, n_in, n_out in zip(labels, _shares(members, len(labels)), _shares(others, len(labels)), strict=True):
        group = [record for record in task.train if label is None or record.label == label]
        if len(group) < n_in + n_out:
            raise UsageError(
                f"{task.name} has {len(group)} train records{'' if label is None else f' of {label!r}'} and"
                f" {n_in + n_out} are needed; lower --members and --others."
            )
        drawn = [group[at] for at in sampling.permutation(len(group))[: n_in + n_out].tolist()]
        by_coin = 2 * min(n_in, n_out)
        for record, heads in zip(drawn[:by_coin], sampling.random(by_coin) < 0.5, strict=True):
            (inside if heads else outside).append(record)
        (inside if n_in > n_out else outside).extend(drawn[by_coin:])
        canaries += drawn[:by_coin]
        sizes[label] = n_in
    return Game(tuple(inside), tuple(outside), frozenset(canaries), sizes)


def _shares(total: int, parts: int) -> Sequence[int]:
    """``total`` in ``parts`` numbers that differ by at most 1."""
    return [total // parts + (at < total % parts) for at in range(parts)]
