"""`sampling`: the records behind releases are Poisson samples of the charged rate (chi-square tests), or those that
join queries, as often as was charged and each in a slot of its own (exactly)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
from scipy import stats

from dpicl.conformance.checking import (
    FALSE_ALARM,
    CheckEvidence,
    Verdict,
    failed,
    not_applicable,
    passed,
)
from dpicl.conformance.transcript import Drawn, Transcript

#: A chi-square cell needs at least so many expected counts.
_FEWEST = 5.0

_Value = TypeVar("_Value")


def sampling(evidence: CheckEvidence) -> Verdict:
    """Sizes, inclusion of every record, independence of successive samples, and slots."""
    if evidence.bench.fixed:
        return not_applicable(evidence.bench.fixed)
    used = [sample for run in evidence.runs for sample in samples_used(run)]
    random = [sample for sample in used if sample.rate < 1]
    if not used:
        return failed(
            "No release was charged to a sample; draw records with `private.poisson_slots`."
        )
    if any(sample.uses is not None for sample in used):
        return _check_joining(evidence.runs)
    if not random:
        return not_applicable(
            "every record is in every sample (q = 1): nothing is claimed from sampling"
        )
    tests = {
        "the size of a sample": _sizes(random),
        "how often each record is sampled": _inclusion(random),
        "whether a record is sampled twice in a row": _repeats(evidence.runs),
        "which slot a record is in": _slots(random),
    }
    for name, p in tests.items():
        if p is not None and p < FALSE_ALARM:
            sample = random[0]
            sizes = [len(each.members) for each in random]
            facts = f"p = {p:.1g}; {sample.size} records, sizes from {min(sizes)} to {max(sizes)}"
            return failed(
                f"Samples are not Poisson: {name} does not fit q = {sample.rate:.3g} (chi-square, {facts})."
            )
    shown = ", ".join(f"{p:.2g}" for p in tests.values() if p is not None)
    return passed(
        f"{len(random)} samples at q = {random[0].rate:.3g}; chi-square of size, records, repeats, slots: p = {shown}"
    )


def _check_joining(runs: Sequence[Transcript]) -> Verdict:
    """No record is behind the releases of more queries than was charged, and none changes its slot."""
    most = 0
    for run in runs:
        used = samples_used(run)
        uses = max(sample.uses or 0 for sample in used)
        joined = Counter(member for sample in used for member in sample.members)
        places: set[tuple[int, int]] = set()
        for sample in used:
            if sample.slots:
                places.update(zip(sample.members, sample.slots, strict=True))
        if any(often > uses for often in joined.values()):
            return failed(
                f"A record is behind {max(joined.values())} releases and {uses} were charged; use each sample once."
            )
        if len(places) > len(joined):
            return failed(
                "A record changes its slot from query to query; its slot must follow from the record alone."
            )
        most = max(most, *joined.values(), 0)
    return passed(
        f"{len(runs)} runs; no record joins more than the {uses} queries that were charged (at most {most})"
    )


def samples_used(run: Transcript) -> list[Drawn]:
    """The samples that a run's releases were charged to; where texts of other records were read instead, these records
    (unless it read all of them, which is no sample: see `private-reads`)."""
    used = []
    for number in sorted({spend.sample for spend in run.spends}):
        drawn = run.samples[number]
        read = run.texts_read.get(number + 1, set())
        if not read <= set(drawn.members) and len(read) < drawn.size:
            drawn = Drawn(drawn.partition, tuple(sorted(read)), (), drawn.size, drawn.rate, None)
        used.append(drawn)
    return used


def _sizes(samples: Sequence[Drawn]) -> float | None:
    """Sizes against Binomial(n, q), for the most frequent (n, q)."""
    size, rate = _commonest((sample.size, sample.rate) for sample in samples)
    alike = [sample for sample in samples if (sample.size, sample.rate) == (size, rate)]
    sizes = np.minimum([len(sample.members) for sample in alike], size)
    shares = stats.binom.pmf(np.arange(size + 1), size, rate)
    return _chi_square(np.bincount(sizes, minlength=size + 1), shares * len(alike))


def _inclusion(samples: Sequence[Drawn]) -> float | None:
    """How often each record of a group is sampled: n independent binomial counts, of the most frequent group."""
    kind = _commonest((sample.partition, sample.size, sample.rate) for sample in samples)
    alike = [sample for sample in samples if (sample.partition, sample.size, sample.rate) == kind]
    members = Counter(member for sample in alike for member in sample.members)
    often = np.array(list(members.values()), dtype=np.float64)
    mean = len(alike) * alike[0].rate
    if mean < _FEWEST:
        return None
    never = (alike[0].size - len(often)) * mean**2
    squares = ((often - mean) ** 2).sum() + never
    statistic = squares / (mean * (1 - alike[0].rate))
    return float(stats.chi2.sf(statistic, df=alike[0].size))


def _repeats(runs: Sequence[Transcript]) -> float | None:
    """Records in a sample and in the next one of the same group, against q^2 n."""
    both = expected = variance = 0.0
    for run in runs:
        samples = samples_used(run)
        for first, second in zip(samples[::2], samples[1::2], strict=False):
            if first.partition == second.partition and first.rate == second.rate < 1:
                share = first.rate**2
                both += len(set(first.members) & set(second.members))
                expected += share * first.size
                variance += share * (1 - share) * first.size
    if expected < _FEWEST:
        return None
    return float(stats.chi2.sf((both - expected) ** 2 / variance, df=1))


def _slots(samples: Sequence[Drawn]) -> float | None:
    """Slots of sampled records against the uniform distribution."""
    placed = [sample for sample in samples if sample.number and sample.slots]
    if not placed:
        return None
    number = _commonest(sample.number or 0 for sample in placed)
    slots = [slot for sample in placed if sample.number == number for slot in sample.slots]
    expected = np.full(number, len(slots) / number)
    return _chi_square(np.bincount(slots, minlength=number), expected)


def _chi_square(observed: np.ndarray, expected: np.ndarray) -> float | None:
    """p of Pearson's test, neighbouring cells merged until each expects `_FEWEST`; None for less than two cells."""
    cells: list[list[float]] = [[0.0, 0.0]]
    for number, mean in zip(observed.tolist(), expected.tolist(), strict=True):
        if cells[-1][1] >= _FEWEST:
            cells.append([0.0, 0.0])
        cells[-1][0] += number
        cells[-1][1] += mean
    if len(cells) > 1 and cells[-1][1] < _FEWEST:
        number, mean = cells.pop()
        cells[-1][0] += number
        cells[-1][1] += mean
    if len(cells) < 2:
        return None
    table = np.array(cells)
    counts, means = table.T
    statistic = ((counts - means) ** 2 / means).sum()
    return float(stats.chi2.sf(statistic, df=len(cells) - 1))


def _commonest(values: Iterable[_Value]) -> _Value:
    return Counter(values).most_common(1)[0][0]
