"""`budget` and `ledger`: what a run costs is what was promised, and whatever is released is paid for."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping

from dp_accounting import dp_event as dp

from harness.conformance.bench import DELTA, EPSILON
from harness.conformance.evidence import Evidence
from harness.conformance.transcript import Passage, Transcript
from harness.conformance.verdicts import Verdict, failed, passed
from harness.errors import BudgetExceeded
from harness.mechanism import AnswerMechanism
from harness.output_cache import OutputCache
from harness.privacy.events import BoundedRangeDpEvent, flatten
from harness.releasing import Releaser, Terms

#: Rounding between the noise of a door and the event that was spent for it.
_CLOSE = 1e-6


def budget(evidence: Evidence) -> Verdict:
    """The harness's own release, for one query or shot and for several, stays within the target."""
    bench = evidence.bench
    fixed = bench.fixed
    target = EPSILON if fixed is None else math.inf if bench.unbounded else 0.0
    answers = isinstance(bench.mechanism, AnswerMechanism)
    releaser = Releaser(bench.model, lambda: OutputCache(None))
    proved = []
    for number in (1, len(bench.queries) if answers else len(bench.shots)):
        terms = Terms(target, DELTA, bench.seed, shots=number)
        try:
            released = releaser.release(bench.mechanism, bench.task, terms, bench.queries[:number] if answers else None)
        except BudgetExceeded as error:
            what = f"{number} {'queries' if answers else 'shots'}"
            return failed(f"{what}: {error} `events` must cover every query and every shot of its `sizes`.")
        proved.append(released.bounds.upper)
    return passed(f"the ledgers of two runs prove epsilon = {' and '.join(f'{e:.4g}' for e in proved)} of {target:g}")


def ledger(evidence: Evidence) -> Verdict:
    """Every release is backed by an event that was spent from its sample; a mechanism that costs nothing does
    nothing."""
    bench = evidence.bench
    if bench.unbounded:
        return passed("epsilon is infinite and says so: the whole set was charged as read without privacy")
    for run in evidence.runs:
        unpaid = [number for number, passage in enumerate(run.passages) if passage.spend is None]
        if unpaid:
            return failed(
                f"Release {unpaid[0] + 1} of a run was paid from no sample: declare it in `poisson_slots` and"
                " call `sample.spend(event)`, as the primitives do, before the noise is drawn."
            )
        if problem := _overdrawn(run):
            return failed(problem)
    if bench.fixed and (evidence.plain.passages or evidence.plain.samples):
        return failed("It declares that it costs nothing (NoOp) but samples or releases; declare its events.")
    return passed(f"{sum(len(run.passages) for run in evidence.runs)} releases, each spent from a charged sample")


def claimed_rhos(event: dp.DpEvent) -> list[tuple[str, float, int]]:
    """(kind of door or 'any', zCDP rho, count) of every leaf of a spent event; rho is infinite without noise."""
    found = []
    for leaf, count in flatten(event).items():
        match leaf:
            case dp.GaussianDpEvent():
                found.append(("gaussian", 1 / (2 * leaf.noise_multiplier**2), count))
            case BoundedRangeDpEvent():
                found.append(("choice", leaf.epsilon**2 / 8, count))
            case dp.ZCDpEvent(xi=0.0):
                found.append(("any", leaf.rho, count))
            case dp.NonPrivateDpEvent():
                found.append(("any", math.inf, count))
    return found


def door_rho(passage: Passage) -> float:
    """zCDP rho of one release (of each draw, for a choice) by its own bound and scale."""
    shape = passage.shape
    if shape.scale == 0 or shape.bound == 0:
        return math.inf
    ratio = shape.bound / shape.scale
    return ratio**2 / (2 if shape.kind == "gaussian" else 8)


def matches(passage: Passage, event: dp.DpEvent) -> bool:
    """Whether the noise of a release is that of some leaf of the event."""
    rho = door_rho(passage)
    return any(
        kind in ("any", passage.shape.kind) and (rho == claim or math.isclose(rho, claim, rel_tol=_CLOSE))
        for kind, claim, _ in claimed_rhos(event)
    )


def by_spend(run: Transcript) -> Mapping[int, list[Passage]]:
    """Releases by the spend that paid for them."""
    groups: dict[int, list[Passage]] = defaultdict(list)
    for passage in run.passages:
        if passage.spend is not None:
            groups[passage.spend].append(passage)
    return groups


def _overdrawn(run: Transcript) -> str | None:
    """More noisy sums than were spent. Choices may share an event (splits of disjoint boxes): `audit` adds them up."""
    for at, passages in by_spend(run).items():
        sums = Counter(passage.shape.kind for passage in passages)["gaussian"]
        paid = sum(count for kind, _, count in claimed_rhos(run.spends[at].event) if kind != "choice")
        if sums > paid:
            return (
                f"{sums} noisy sums were released for one spent event that pays for {paid}; spend one event for each"
                " release, and charge them all."
            )
    return None
