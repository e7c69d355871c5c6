"""Reads and writes attack results: results/attacks/<attack>/<model>/<mechanism>/<task>/<id>.json."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dpicl.attacks.results import AttackResult, Attempt, attack_from_text
from dpicl.core.errors import UsageError
from dpicl.core.files import require_no_link, write_whole
from dpicl.core.paths import slug
from dpicl.data.task import Task
from dpicl.results.schema import to_text
from dpicl.results.store import Damaged, Store, list_results, read_file, require_readable

ATTACKS = "attacks"


def path_of(results: Path, made: Attempt | AttackResult) -> Path:
    """Where a result is, or will be."""
    subject = made.subject
    folder = results / ATTACKS / slug(made.attack) / slug(subject.model) / slug(subject.mechanism) / subject.task
    return folder / f"{made.id}.json"


def find_stored(
    results: Path, wanted: Attempt, say: Callable[[str], None], task: Task | None = None
) -> AttackResult | None:
    """The result that is there. A file in its place that is no result is moved aside, and ``say`` tells.

    Raises UsageError for a result of other records than those of ``task``.
    """
    path = path_of(results, wanted)
    require_no_link(path.parent, results)
    found = read_file(path, attack_from_text)
    if isinstance(found, Damaged):
        Store(results, ATTACKS).set_aside([found])
        say(f"{found.path} is not a result and was moved into quarantine/: {found.reason}.")
        return None
    if found is not None and task is not None and found.manifest.data.fingerprint != task.fingerprint:
        raise UsageError(
            f"The audit under {results} at epsilon = {wanted.subject.epsilon:g} was computed on different data of"
            f" {task.name} (fingerprint mismatch); give another --results folder, or move it away."
        )
    return found


def write(results: Path, result: AttackResult) -> Path:
    """Writes one result, whole or not at all. Raises ResultError when the disk does not take it."""
    path = path_of(results, result)
    write_whole(path, require_readable(to_text, attack_from_text, result), results)
    return path


def load_attacks(results: Path) -> tuple[list[AttackResult], list[Damaged]]:
    """Every attack result, and the files that are none. Changes nothing on disk."""
    found: list[AttackResult] = []
    paths, damaged = list_results(results / ATTACKS, results)
    for path in paths:
        each = read_file(path, attack_from_text)
        if isinstance(each, Damaged):
            damaged.append(each)
        elif each is not None:
            found.append(each)
    return found, damaged
