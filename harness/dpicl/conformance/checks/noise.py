"""`noise`: every noisy release has fresh noise of the stated scale on every coordinate, from the given source."""

from __future__ import annotations

from collections.abc import Iterator

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
from dpicl.conformance.transcript import ObservedRelease, Transcript
from dpicl.privacy.release_hooks import is_above, round_noise

_SOURCE = "let the permit that `sample.spend` gives draw it"


def noise(evidence: CheckEvidence) -> Verdict:
    """See docs/add-a-mechanism.md."""
    if evidence.bench.fixed:
        return not_applicable(evidence.bench.fixed)
    earlier: set[bytes] = set()
    for run in evidence.runs:
        for problem in _problems(run, earlier):
            return failed(f"{'With secure noise: ' if run.unseeded else ''}{problem}")
    if not any(run.observed_releases for run in evidence.runs):
        return failed(
            "Epsilon is finite but there was no noisy release; use a primitive such as dpicl.GaussianSum."
        )
    return _distribution(evidence)


def _problems(run: Transcript, earlier: set[bytes]) -> Iterator[str]:
    """What is wrong with the noise of one run. earlier: all noise of earlier releases of all runs."""
    drawn_from = {run.sample_of(observed) for observed in run.observed_releases}
    for spend in run.spends:
        if spend.sample not in drawn_from:
            yield f"{spend.event!r} was spent and nothing was drawn with its permit; release through a primitive."
    rounds: dict[int | None, np.ndarray] = {}
    for observed in run.observed_releases:
        if observed.release.kind == "threshold":
            yield from _wrong_answer(observed, rounds)
        else:
            yield from _wrong_values(observed, earlier)


def _wrong_answer(
    observed: ObservedRelease,
    rounds: dict[int | None, np.ndarray],
) -> Iterator[str]:
    """What is wrong with an answer of AboveThreshold unless it is that of fresh noise of the query, and of noise of the
    threshold that was drawn for the first question of its round. rounds: spend -> noise of its threshold."""
    *of_threshold, of_query = observed.noise or (np.zeros(0),)
    if of_threshold:
        rounds.setdefault(observed.spend, of_threshold[0])
    explained = len(of_threshold) <= 1 and observed.spend in rounds and of_query.size == 1
    if explained:
        answer = is_above(observed.release, rounds[observed.spend], of_query)
        explained = answer[0] == observed.released[0]
    if not explained:
        yield f"A query was compared without fresh noise of its own and of its round's threshold; {_SOURCE}."


def _wrong_values(observed: ObservedRelease, earlier: set[bytes]) -> Iterator[str]:
    """What is wrong unless the output is the input plus the noise that was drawn for it, used for the first time."""
    if len(observed.noise) == 1 and _is_explained(observed):
        key = observed.noise[0].tobytes()
        if key and key in earlier:
            yield f"The same noise was drawn for two releases, from a source that starts again; {_SOURCE}."
        earlier.add(key)
        return
    what = "A choice was made" if observed.release.kind == "choice" else "A sum was released"
    yield f"{what} without fresh noise of its own on every coordinate; {_SOURCE}."


def _is_explained(observed: ObservedRelease) -> bool:
    values, release = observed.noise[0], observed.release
    if values.size != release.clean.size:
        return False
    if release.kind == "gaussian":
        added = round_noise(values, release.grid, release.scale).reshape(release.clean.shape)
        return bool(np.array_equal(observed.released, release.clean + added))
    if release.scale == 0:
        return False
    noisy_scores = release.clean / release.scale + values
    order = np.argsort(-noisy_scores, kind="stable")
    return order[: release.count].tolist() == observed.released.tolist()


def _distribution(evidence: CheckEvidence) -> Verdict:
    """Kolmogorov-Smirnov against the standard normal, and the standard Gumbel, distribution."""
    sums: list[np.ndarray] = []
    draws: list[np.ndarray] = []
    for run in evidence.runs:
        for observed in run.observed_releases:
            if observed.release.kind == "gaussian":
                added = observed.released - observed.release.clean
                sums.append(added.ravel() / observed.release.scale)
            else:
                draws += observed.noise
    tests = []
    for values, law, name in ((sums, stats.norm, "N(0, 1)"), (draws, stats.gumbel_r, "Gumbel")):
        if not values:
            continue
        pooled = np.concatenate(values)
        p = float(stats.kstest(pooled, law.cdf).pvalue)
        if p < FALSE_ALARM:
            return failed(
                f"{pooled.size} noise values do not follow {name} (Kolmogorov-Smirnov, p = {p:.2g})."
            )
        tests.append(f"{pooled.size} values follow {name} (Kolmogorov-Smirnov, p = {p:.2g})")
    return passed("; ".join(tests) + "; each used once")
