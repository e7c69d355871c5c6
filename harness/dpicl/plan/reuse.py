"""Finds results whose releases new cells only have to score: made from the same records, settings and files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from dpicl.core.cell import Cell
from dpicl.core.errors import DpiclError
from dpicl.core.plugins import Registered
from dpicl.plan.staleness import Comparison
from dpicl.results import manifest
from dpicl.results.fingerprints import Fingerprints
from dpicl.results.schema import Result


def find_releases(
    cells: Iterable[Cell],
    results: Collection[Result],
    records: Fingerprints,
    mechanisms: Mapping[str, Registered],
    loaded: Mapping[str, str],
) -> dict[str, Result]:
    """Id of a cell -> the newest result of its row and task whose release it can score.

    A release depends on no test record, so a cell may have others than the result; the worker that scores it compares
    the records that both have in common. A release of a changed checkout can be scored from a changed checkout only: in
    others it is made again, from code that a commit names. loaded: as `find_presence`.
    """
    _, is_changed = manifest.commit()
    by_release = {
        _key(result.cell): result
        for result in sorted(results, key=lambda result: result.created)
        if result.can_score_again and (is_changed or not result.manifest.dirty)
    }
    comparison = Comparison(records, mechanisms, results, loaded)
    releases = {}
    for cell in cells:
        result = by_release.get(_key(cell))
        if result is not None and _is_current(result, comparison):
            releases[cell.id] = result
    return releases


def _key(cell: Cell) -> tuple[str, str]:
    return cell.label, cell.release_id


def _is_current(result: Result, comparison: Comparison) -> bool:
    """Whether a release is what would be made now, as far as files say."""
    try:
        return not comparison.find_difference(result)
    except DpiclError:  # its records are not here: it is made again
        return False
