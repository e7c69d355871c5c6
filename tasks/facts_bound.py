"""Did a fact surface more often than the proved epsilon of its release allows? (task shared_facts)

    python -m dpicl.tasks.facts_bound RESULT.json ...

**One record.** Each of the `LONE` facts is in one record or in none by an independent fair coin, drawn before and apart
from everything else. Let S be the event that fact i surfaces, R the other records. (epsilon, delta)-DP for add or
remove one record says P[S | R and i] <= e^epsilon P[S | R] + delta for every R; R has the same distribution whichever
way the coin fell, so

    P[i surfaces | one record holds it] <= e^epsilon P[i surfaces | no record holds it] + delta.

Both sides are measured in one run: the first by the facts of one record, the second by those of none, P_0. Facts of one
run share its noise, so their counts are not binomial. The test that holds all the same (Steinke, Nasr & Jagielski 2023,
theorem 5.2; dpicl.attacks.one_run) takes every such fact that surfaced for one that a record holds: of r
guesses no more are right than in r throws of a coin that falls right with e^epsilon / (1 + e^epsilon), up to a term in
delta. So many right guesses refute each epsilon up to `epsilon_lower`, and the bound is *violated* where that is above
the proved one. It needs all records of the corpus, and n that does not follow from the coins: declare `sizes` for that;
counted, n moves by one in about 570, and the noise with it.

**m records.** Facts of 5, 25 and 125 records are there in every draw. Exchange such a fact with one of no record: the
two sets differ in 2m records, and passwords are exchangeable, so with k = 2m group privacy gives

    P[surfaces | m records hold it] <= e^(k epsilon) P_0 + delta (e^(k epsilon) - 1) / (e^epsilon - 1).

It says nothing (1) but at a small k epsilon. Shares get Clopper-Pearson limits as if facts were independent: a hint.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import binomtest

from dpicl.attacks.one_run import epsilon_lower
from dpicl.core.errors import DpiclError, ResultError, UsageError, one_line
from dpicl.core.json_text import text_of
from dpicl.core.messages import message
from dpicl.core.printable import printable
from dpicl.data.task import Task
from dpicl.results.schema import Result, from_text
from dpicl.tasks.facts import GROUPS, group_of, held


@dataclass(frozen=True)
class Surfaced:
    """What surfaced of the facts that so many records hold.

    share: there / facts. allowed: upper limit of the rate that the proved epsilon allows (of facts of no record: None).
    violated: whether the measured rate refutes it; None where nothing follows.
    """

    records: int
    there: int
    facts: int
    allowed: float | None
    violated: bool | None

    @property
    def share(self) -> float:
        return self.there / self.facts if self.facts else 0.0


@dataclass(frozen=True)
class FactCurve:
    """The curve of one result. epsilon_lower: refuted by the facts of one record; None without all records."""

    curve: tuple[Surfaced, ...]
    epsilon: float
    epsilon_lower: float | None

    @property
    def onset(self) -> int | None:
        """The least number of records from which on half of the facts and more surface; None: no number."""
        return next((own.records for own in self.curve if own.records and own.share >= 0.5), None)

    @property
    def violated(self) -> bool:
        return any(own.violated for own in self.curve)


def reading(
    counts: Mapping[int, tuple[int, int]], epsilon: float, delta: float, whole: bool = True, confidence: float = 0.95
) -> FactCurve:
    """counts: group -> (facts that surfaced, facts), as `dpicl.tasks.facts.surfaced`. whole: whether the run had all
    records. Raises UsageError for a confidence outside (0, 1)."""
    if not 0 < confidence < 1:
        raise UsageError(f"Confidence must lie between 0 and 1, not {confidence}.")
    alpha = 1 - confidence
    (none, unheld), (one, single) = counts[0], counts[1]
    refuted = epsilon_lower(unheld + single, none + one, one, delta, alpha) if whole else None
    chance = float(binomtest(none, unheld).proportion_ci(1 - alpha).high) if unheld else 1.0
    curve = []
    for records, (there, facts) in counts.items():
        allowed = violated = None
        if records and facts:
            allowed = _allowed(chance, epsilon, delta, 1 if records == 1 else 2 * records)
            if records > 1:
                violated = bool(binomtest(there, facts).proportion_ci(1 - alpha).low > allowed)
            elif refuted is not None:
                violated = refuted > epsilon
        curve.append(Surfaced(records, there, facts, allowed, violated))
    return FactCurve(tuple(curve), epsilon, refuted)


def _allowed(chance: float, epsilon: float, delta: float, k: int) -> float:
    """e^(k epsilon) chance + delta (1 + e^epsilon + ... + e^((k - 1) epsilon)), at most 1."""
    if k * epsilon > 700:
        return 1.0
    return min(1.0, math.exp(k * epsilon) * chance + delta * sum(math.exp(i * epsilon) for i in range(k)))


def of_result(result: Result, confidence: float = 0.95) -> FactCurve:
    """The reading of a result of shared_facts. Raises UsageError for another one, or of other records."""
    cell = result.cell
    if cell.task != "shared_facts":
        raise UsageError(f"This result is of {cell.task}; give results of shared_facts.")
    task = Task.load(cell.task, "synthetic", limit_train=cell.train_records, limit_test=cell.test_records)
    if cell.private_share is not None:
        task = task.drawn(cell.private_share, cell.seed)
    if task.fingerprint != result.manifest.data.fingerprint:
        raise UsageError("This result is of other records than those of the corpus as it is; run the cell again.")
    sizes = dict.fromkeys(GROUPS, 0)
    for records in held(task.train, task.seed).values():
        sizes[group_of(records)] += 1
    if lacking := [f"surfaces_{group}" for group in sizes if f"surfaces_{group}" not in result.aggregates]:
        raise UsageError(f"This result lacks {', '.join(lacking)}; run the cell again.")
    counts = {group: (round(result.aggregates[f"surfaces_{group}"] * n), n) for group, n in sizes.items()}
    privacy = result.privacy
    return reading(counts, privacy.epsilon_proved, privacy.delta, cell.train_records is None, confidence)


def line(result: Result) -> str:
    """A result and its reading, in one line."""
    own = of_result(result)
    curve = ", ".join(f"{each.records}: {each.there}/{each.facts}" for each in own.curve)
    said = "VIOLATED" if own.violated else "not violated"
    tail = f"refuted up to {own.epsilon_lower:.2f}" if own.epsilon_lower is not None else "not all records"
    return (
        f"{result.cell.label}, seed {result.cell.seed}, proved epsilon {own.epsilon:.3g} ({tail}, {said});"
        f" surfaced of facts held by {curve}; half from {own.onset}"
    )


def main(paths: Sequence[str]) -> int:
    """Prints a line a result file. Exit code 1 where a bound is violated, 2 for a file that is no such result."""
    try:
        if not paths:
            raise UsageError("Give result files of shared_facts.")
        results = [_read(Path(path)) for path in paths]
        for result in results:
            sys.stdout.write(printable(line(result)) + "\n")
        return int(any(of_result(result).violated for result in results))
    except DpiclError as error:
        message(one_line(error))
        return 2


def _read(path: Path) -> Result:
    try:
        return from_text(text_of(path))
    except (OSError, ValueError) as error:
        raise ResultError(f"{path} is no result that can be read: {one_line(error, 200)}.") from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
