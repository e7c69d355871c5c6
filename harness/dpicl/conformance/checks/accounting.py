"""`budget` and `ledger`: a run costs what was declared; every release is charged, with the knob of its own label."""

from __future__ import annotations

import math

from dpicl.accounting import dp_event as dp
from dpicl.accounting.decomposition import components
from dpicl.accounting.events import flatten
from dpicl.conformance.bench import DELTA, EPSILON, HIGH_EPSILON, Bench
from dpicl.conformance.checking import CheckEvidence, Verdict, failed, passed
from dpicl.conformance.transcript import Transcript
from dpicl.core.cell import ReleaseConfig
from dpicl.core.errors import BudgetExceeded, PluginError
from dpicl.releasing.release import release


def budget(evidence: CheckEvidence) -> Verdict:
    """The harness's own release, for one query or shot and for several, stays within the target, and within another."""
    bench = evidence.bench
    fixed = bench.fixed
    all_of_it = len(bench.queries) if bench.answers else len(bench.shots)
    target = EPSILON if fixed is None else math.inf if bench.unbounded else 0.0
    targets = [(target, all_of_it)]
    if evidence.effort.epsilons:
        targets.append((target, 1))
        if fixed is None:
            targets.append((HIGH_EPSILON, all_of_it))
    proved = []
    for target, number in targets:
        config = ReleaseConfig(epsilon=target, delta=DELTA, seed=bench.seed, shots=number)
        queries = bench.queries[:number] if bench.answers else None
        try:
            released = release(bench.mechanism, bench.task, bench.model, config, queries)
        except BudgetExceeded as error:
            what = f"{number} {'queries' if bench.answers else 'shots'} at epsilon = {target:g}"
            return failed(
                f"{what}: {error} `events` must cover every query and every shot of its `sizes`."
            )
        except PluginError as error:
            return failed(f"The harness refuses its release: {error}")
        proved.append(f"{released.bounds.upper:.4g} of {target:g}")
    return passed(f"the ledgers of {len(proved)} runs prove epsilon = {', '.join(proved)}")


def ledger(evidence: CheckEvidence) -> Verdict:
    """A mechanism that costs nothing releases nothing. (A release needs a permit, and a permit a charged sample.)"""
    bench = evidence.bench
    if bench.unbounded:
        return passed(
            "epsilon is infinite and says so: the whole set was charged as read without privacy"
        )
    if bench.fixed and (evidence.plain.observed_releases or evidence.plain.samples):
        return failed(
            "It declares that it costs nothing (NoOp) but samples or releases; declare its events."
        )
    problem = _knob_of_another_label(bench, evidence.plain)
    if problem:
        return failed(problem)
    releases = sum(len(run.observed_releases) for run in evidence.runs)
    return passed(f"{releases} releases, each with a permit of a charged sample")


def _knob_of_another_label(bench: Bench, run: Transcript) -> str | None:
    """Where labels have noise of their own: a release from one label's records with the noise of another, in words."""
    knobs = bench.label_knobs()
    if len(set(knobs.values())) < 2:
        return None
    sizes = bench.sizes()
    declared = {}
    for label, knob in knobs.items():
        event = bench.mechanism.events(knob, sizes.select_group(label))
        declared[label] = _list_releases(event, label)
    for spend in run.spends:
        partition = run.samples[spend.sample].partition
        undeclared = flatten(spend.event).keys() - declared.get(partition or "", set())
        for event in undeclared:
            others = [other for other, events in declared.items() if event in events]
            if others:
                what = (
                    f"It releases from the records of {partition!r} with the knob of {others[0]!r}"
                )
                return f"{what}: {event!r}. Write each label with `context.for_label(label)`."
    return None


def _list_releases(event: dp.DpEvent, label: str) -> set[dp.DpEvent]:
    """What is released from the samples of a label."""
    releases: set[dp.DpEvent] = set()
    for component in components(event, label):
        inside = component.event if isinstance(component, dp.PoissonSampledDpEvent) else component
        releases |= flatten(inside).keys()
    return releases
