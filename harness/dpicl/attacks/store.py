"""Reads and writes attack results: results/attacks/<attack>/<model>/<mechanism>/<task>/<id>.json."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dpicl.attacks.results import AttackResult, Attempt, attack_from_text
from dpicl.core.errors import UsageError
from dpicl.core.files import require_no_link, write_whole
from dpicl.core.paths import slug
from dpicl.results.schema import to_text
from dpicl.results.store import Damaged, Store, list_results, read_file, require_readable

ATTACKS = "attacks"


def path_of(results: Path, attempt: Attempt | AttackResult) -> Path:
    """Where a result is, or will be."""
    subject = attempt.subject
    of_attack = results / ATTACKS / slug(attempt.attack)
    return (
        of_attack
        / slug(subject.model)
        / slug(subject.mechanism)
        / slug(subject.task)
        / f"{attempt.id}.json"
    )


def find_stored(
    results: Path,
    attempt: Attempt,
    say: Callable[[str], None],
    fingerprint: str | None = None,
) -> AttackResult | None:
    """The result of an attempt, None without one. A damaged file in its place is moved into quarantine, and ``say`` is
    called with a sentence about it.

    Raises UsageError for a result of records with another fingerprint (None: any).
    """
    path = path_of(results, attempt)
    require_no_link(path.parent, results)
    result = read_file(path, attack_from_text)
    if isinstance(result, Damaged):
        Store(results, ATTACKS).set_aside([result])
        say(f"{result.path} is not a result and was moved into quarantine/: {result.reason}.")
        return None
    if result is not None and fingerprint not in (None, result.manifest.data.fingerprint):
        subject = attempt.subject
        raise UsageError(
            f"The audit under {results} at epsilon = {subject.epsilon:g} was computed on different data of"
            f" {subject.task} (fingerprint mismatch); give another --results folder, or move it away."
        )
    return result


def write(results: Path, result: AttackResult) -> Path:
    """Writes one result, whole or not at all. Raises ResultError when the disk does not take it."""
    path = path_of(results, result)
    write_whole(path, require_readable(to_text, attack_from_text, result), results)
    return path


def load_attacks(results: Path) -> tuple[list[AttackResult], list[Damaged]]:
    """Every attack result, and the invalid files. Changes nothing on disk."""
    attacks: list[AttackResult] = []
    paths, damaged = list_results(results / ATTACKS, results)
    for path in paths:
        result = read_file(path, attack_from_text)
        if isinstance(result, Damaged):
            damaged.append(result)
        elif result is not None:
            attacks.append(result)
    return attacks, damaged
