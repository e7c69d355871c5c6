"""The board as one static page: no server, nothing loaded from elsewhere, works from file://.

Released texts and names are hostile input. Jinja escapes every value, control and direction characters are written out
(`leaderboards.text.visible`), and the content security policy admits this page's own style and script by their hashes
and nothing else: no other script, no request, no form.
"""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from harness.errors import ResultError
from harness.results import Result
from leaderboards.board import Board, Section
from leaderboards.events_text import describe
from leaderboards.groups import reproduce_command
from leaderboards.metrics import is_distance, metric_name, scored_things
from leaderboards.plot import marker_svg, privacy_utility_svg, series_styles
from leaderboards.rows import REAL_DATA, ZERO_SHOT, Row
from leaderboards.standings import TaskTable, first_per_query, has_per_query
from leaderboards.text import (
    PER_QUERY_NOTE,
    epsilon_text,
    interval_text,
    names_text,
    queries_text,
    queries_words,
    recovery_text,
    score_text,
    seeds_text,
    visible,
)

_TEMPLATES = Path(__file__).resolve().parent / "templates"
#: Released answers that the page shows of a row and seed; result files hold them all.
MOST_ANSWERS = 200
#: The packages whose versions the page shows; result files hold them all.
_PACKAGES = ("torch", "transformers", "lm_eval", "lm-eval", "dp-accounting", "prv-accountant")


def write_html(board: Board, folder: Path) -> Path:
    """Writes ``folder/index.html`` (whole or not at all) and returns its path. Raises ResultError when it cannot."""
    page = render_html(board)
    target = Path(folder) / "index.html"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=".index", suffix=".html")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(page)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except OSError as error:
        raise ResultError(f"Cannot write the page {target}: {error.strerror}; choose another folder.") from error
    return target


def render_html(board: Board) -> str:
    """The whole page as text."""
    style, script = (_TEMPLATES / "board.css").read_text("utf-8"), (_TEMPLATES / "board.js").read_text("utf-8")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}';"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )
    return (
        _environment()
        .get_template("board.html")
        .render(
            board=board,
            sections=[_section(section, i) for i, section in enumerate(board.sections)],
            policy=policy,
            style=Markup(style),
            script=Markup(script),
            per_query_note=PER_QUERY_NOTE,
        )
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else visible(str(value)),
    )
    environment.filters |= {
        "epsilon": epsilon_text,
        "score": score_text,
        "recovery": recovery_text,
        "queries": queries_text,
        "seeds": seeds_text,
        "names": names_text,
        "metric": _metric,
        "scored": scored_things,
        "interval": interval_text,
        "sentence": lambda text: text[:1].upper() + text[1:],
    }
    return environment


def _metric(metric: str) -> str:
    return metric_name(metric) + (" (lower is better)" if is_distance(metric) else "")


def _section(section: Section, number: int) -> dict[str, Any]:
    """What the template shows of a section. Every row has an anchor, the target of its link in the table."""
    styles = series_styles(section.tables)
    anchors = {id(row): f"row-{number}-{i}" for i, row in enumerate(_all_rows(section))}
    return {
        "section": section,
        "legend": [(label, marker_svg(style)) for label, style in styles.items()],
        "plots": {table.task: privacy_utility_svg(table, styles) for table in section.tables},
        "absent": {table.task: list(_absent(table)) for table in section.tables},
        "has_per_query": has_per_query,
        "explained": first_per_query(section.tables),
        "anchor": lambda row: anchors[id(row)],
        "detail": lambda row: _detail(section, row),
    }


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
