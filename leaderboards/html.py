"""The board of a suite as one static page (see leaderboards/page.py for what a page may hold)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from markupsafe import Markup

from harness.results import Result
from leaderboards import page, svg
from leaderboards.attack_page import write_attacks_html
from leaderboards.attack_plots import AUC, attack_points, auc_svg, audited_svg, external_point
from leaderboards.board import Board, Section
from leaderboards.events_text import describe
from leaderboards.groups import reproduce_command
from leaderboards.plot import privacy_utility_svg, series_styles
from leaderboards.rows import REAL_DATA, ZERO_SHOT, Row
from leaderboards.standings import TaskTable, first_per_query, has_per_query
from leaderboards.text import PER_QUERY_NOTE, bound_text, epsilon_text, interval_text, queries_words, recovery_text

__all__ = ["MOST_ANSWERS", "render_html", "write_attacks_html", "write_html"]

#: Released answers that the page shows of a row and seed; result files hold them all.
MOST_ANSWERS = 200
#: The packages whose versions the page shows; result files hold them all.
_PACKAGES = ("torch", "transformers", "lm_eval", "lm-eval", "dp-accounting", "prv-accountant")


def write_html(board: Board, folder: Path) -> Path:
    """Writes ``folder/index.html`` (whole or not at all) and returns its path. Raises ResultError when it cannot."""
    return page.write(render_html(board), folder)


def render_html(board: Board) -> str:
    """The whole page as text."""
    sections = [_section(section, i) for i, section in enumerate(board.sections)]
    return page.render("board.html", board=board, sections=sections, per_query_note=PER_QUERY_NOTE)


def _section(section: Section, number: int) -> dict[str, Any]:
    """What the template shows of a section. Every row has an anchor, the target of its link in the table."""
    styles = series_styles(section.tables)
    anchors = {id(row): f"row-{number}-{i}" for i, row in enumerate(_all_rows(section))}
    return {
        "section": section,
        "legend": [(label, svg.key(style)) for label, style in styles.items()],
        "plots": {table.task: privacy_utility_svg(table, styles) for table in section.tables},
        "audited_plot": _audited_plot(section, styles),
        "auc_plots": list(_auc_plots(section, styles)),
        "absent": {table.task: list(_absent(table)) for table in section.tables},
        "has_per_query": has_per_query,
        "explained": first_per_query(section.tables),
        "anchor": lambda row: anchors[id(row)],
        "detail": lambda row: _detail(section, row),
    }


def _audited_plot(section: Section, styles: dict[str, int]) -> Markup | None:
    """Audited against proved ε of all rows; None without an attack that bounds ε."""
    points = []
    for row in _all_rows(section):
        points += attack_points(row.label, row.audit.attacks)
        points += [external_point(row.label, one, row.proved) for one in row.audit.external]
    return audited_svg(points, styles) if points else None


def _auc_plots(section: Section, styles: dict[str, int]) -> Iterator[tuple[str, Markup]]:
    """(caption, plot) for every membership attack on every task."""
    for table in section.tables:
        rows = (*table.in_order, *table.paper)
        found = [(row.label, one) for row in rows for one in row.audit.attacks if AUC in one.measures]
        for name in dict.fromkeys(one.attack for _, one in found):
            title = f"{table.task}: AUC of {name} against ε, with 95% intervals"
            yield f"{table.task}: {name}", auc_svg([pair for pair in found if pair[1].attack == name], styles, title)


def _all_rows(section: Section) -> Iterator[Row]:
    for table in section.tables:
        yield from table.in_order
        yield from table.paper


def _absent(table: TaskTable) -> Iterator[tuple[str, str]]:
    if table.zero_shot is None:
        yield ZERO_SHOT, "0"
    if table.real_data is None:
        yield REAL_DATA, "∞"


def _detail(section: Section, row: Row) -> dict[str, Any]:
    """Everything behind a row: what was asked, what was spent, what came out, and how to make it again."""
    first = row.results[0]
    knob = first.privacy.knob
    facts = {
        "mechanism": first.cell.mechanism,
        "options": ", ".join(f"{name} = {value}" for name, value in sorted(first.cell.options.items())) or "none",
        "knob": f"{knob.name} = {knob.value:.6g}" if knob else "none",
        "privacy": f"ε = {epsilon_text(row.proved)} proved, δ = {first.privacy.delta:g}, {first.privacy.neighbours}",
        "covers": queries_words(row.queries),
        "per-query ε": epsilon_text(row.epsilon_per_query),
        "audited ε": bound_text(row.audit.epsilon),
        "recovery": recovery_text(row.recovery),
        "95% interval of recovery": interval_text(row.recovery_interval),
        "noise": first.cell.noise,
        "shots": str(first.cell.shots),
    }
    return {
        "facts": facts,
        "privacy_notes": first.privacy.notes,
        "ledger": [_ledger_entry(entry) for entry in first.privacy.ledger],
        "answers_queries": row.queries is not None,
        "released": [(result.cell.seed, result.released) for result in row.results if result.released],
        "answers": [_answers(result) for result in row.results if result.answers],
        "withheld": sum(result.released_count for result in row.results if not result.released and not result.answers),
        "manifest": _manifest(first),
        "cost": _cost(row.results),
        "command": reproduce_command(section.group, first.cell, fixed=row.is_end),
    }


def _answers(result: Result) -> dict[str, Any]:
    """The first answers of a seed, and how many there are."""
    return {"seed": result.cell.seed, "shown": result.answers[:MOST_ANSWERS], "total": len(result.answers)}


def _ledger_entry(entry: dict[str, Any]) -> tuple[str, int, str, str]:
    """(which records, how often, event in words, note)."""
    records = "all records" if entry["partition"] is None else f"records of '{entry['partition']}'"
    return records, entry["count"], describe(entry["event"]), entry["note"]


def _manifest(result: Result) -> dict[str, str]:
    manifest = result.manifest
    model, data = manifest.model, manifest.data
    packages = [f"{name} {manifest.packages[name]}" for name in _PACKAGES if name in manifest.packages]
    dropped = ", ".join(f"{count} {reason}" for reason, count in data.dropped.items() if count)
    private = sum(data.sizes.values())
    commit = "not a checkout" if manifest.commit is None else manifest.commit[:12]
    return {
        "model": f"{model.name}, {model.parameters:,} parameters, {manifest.dtype}, {manifest.device}",
        "weights": model.sha256 or model.revision or "no fingerprint",
        "records": f"{data.source}, {private:,} private, {data.public_records:,} public, {data.test_records:,} test",
        "fingerprint": f"sha256 {data.fingerprint}",
        "dropped": dropped or "none",
        "prompts": f"sha256 {manifest.prompts_hash}",
        "code": commit + (", with changes" if manifest.dirty else ""),
        "packages": ", ".join(packages),
        "machine": f"{manifest.machine.cpu}, {manifest.machine.cores} cores, Python {manifest.python}",
    }


def _cost(results: tuple[Result, ...]) -> str:
    seconds = [sum(result.cost.seconds.values()) for result in results]
    memory = max(result.cost.peak_memory_mb for result in results)
    tokens = sum(result.cost.tokens_read for result in results) / len(results)
    return f"{sum(seconds) / len(seconds):.0f} s and {tokens:,.0f} tokens read a seed, at most {memory:,.0f} MB"
