"""Attack results under a results folder: results/attacks/<attack>/<model>/<mechanism>/<task>/<id>.json.

External evaluations are results/external/**/*.json.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from harness.attacks.results import AttackResult, External, attack_from_text, external_from_text, to_text
from harness.errors import ResultError
from harness.files import write_whole
from harness.paths import slug
from harness.store import Damaged

ATTACKS = "attacks"
EXTERNAL = "external"
T = TypeVar("T")


def path_of(results: Path, result: AttackResult) -> Path:
    """Where a result is, or will be."""
    subject = result.subject
    folder = results / ATTACKS / slug(result.attack) / slug(subject.model) / slug(subject.mechanism) / subject.task
    return folder / f"{result.id}.json"


def write(results: Path, result: AttackResult) -> Path:
    """Writes one result, whole or not at all. Raises ResultError when the disk does not take it."""
    path = path_of(results, result)
    write_whole(path, to_text(result), results)
    return path


def load_attacks(results: Path) -> tuple[list[AttackResult], list[Damaged]]:
    """Every attack result, and the files that are none. Changes nothing on disk."""
    return _load(results / ATTACKS, attack_from_text)


def load_external(results: Path) -> tuple[list[External], list[Damaged]]:
    """Every external evaluation, and the files that are none."""
    return _load(results / EXTERNAL, external_from_text)


def _load(folder: Path, read: Callable[[str], T]) -> tuple[list[T], list[Damaged]]:
    found, damaged = [], []
    for path in sorted(folder.rglob("*.json")):
        try:
            found.append(read(path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            damaged.append(Damaged(path, "damaged: it is not text"))
        except ValueError as error:
            damaged.append(Damaged(path, str(error)))
        except OSError as error:
            raise ResultError(f"Cannot read {path}: {error.strerror}.") from error
    return found, damaged
