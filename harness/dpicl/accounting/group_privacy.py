"""What a guarantee for one record is for several records of one person: group privacy.

Lemma (Vadhan 2017, "The complexity of differential privacy", 2.2). What is (e, d)-DP for one record is (k e, d S)-DP
for k records, with S = (e^(k e) - 1)/(e^e - 1), the sum of e^(i e) over i < k. Proof: take the k records away one by
one; each step multiplies the probability of an event, and what was added to it so far, by e^e at most and adds d. QED.

Which groups of records (labels) the k are in makes no difference, since each step is one record of one group. It also
holds for several releases together, whose sets may hold other records of the person: step i takes the i-th one out of
each set that has so many, so it is one record for each of them.
"""

from __future__ import annotations

import math

from dpicl.core.errors import UsageError
from dpicl.core.messages import show_rounded_up
from dpicl.core.seeds import LEAST_SECURE_DELTA


def growth(epsilon: float, rows: int) -> float:
    """S of the lemma: by how much delta grows for so many records, where a record has this epsilon; inf where no float
    holds it."""
    if rows * epsilon > 700:
        return math.inf
    return math.expm1(rows * epsilon) / math.expm1(epsilon) if epsilon > 0 else float(rows)


def of_person(epsilon: float, delta: float, rows: int) -> tuple[float, float]:
    """(epsilon, delta) of a person with so many records, from that of a record. Delta may be 1 or more: then nothing is
    promised to them."""
    return rows * epsilon, delta * growth(epsilon, rows)


def of_record(
    epsilon: float,
    delta: float,
    rows: int,
    secure: bool,
) -> tuple[float, float]:
    """(epsilon, delta) that a record needs, so that a person with so many has the one that is given.

    Raises UsageError where secure noise cannot be accounted at so small a delta, with the least one of the person.
    """
    if rows == 1 or math.isinf(epsilon):
        return epsilon, delta
    share, times = epsilon / rows, growth(epsilon / rows, rows)
    if secure and delta / times < LEAST_SECURE_DELTA:
        raise UsageError(
            f"For a person with {rows} rows at epsilon = {epsilon:g}, delta must be at least"
            f" {show_rounded_up(LEAST_SECURE_DELTA * times)}, not {delta:g}: a row is accounted at a part of it, and"
            f" secure noise needs {LEAST_SECURE_DELTA:g} there; raise --delta, or lower --rows-per-person."
        )
    return share, delta / times
