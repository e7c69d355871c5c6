"""Builds the page of a row (settings, other rows, released texts, spent budget, attacks, how to reproduce it) and the
appendix of a site with the first texts that each row released.
"""

from __future__ import annotations

import json
import shlex
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

from dpicl.attacks.table import attacks_table, options_text
from dpicl.core.messages import capitalize, epsilon_text, names_text, queries_words, score_text
from dpicl.core.printable import make_visible
from dpicl.core.vocabulary import model_name
from dpicl.evaluation.statistics import Difference
from dpicl.leaderboards.compare.rows import difference_columns
from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.comparability import Group
from dpicl.leaderboards.model.marks import event_kinds
from dpicl.leaderboards.model.ranks import Pairs
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.submissions import Submission
from dpicl.leaderboards.model.text import metric_name, metrics_text
from dpicl.leaderboards.render.addresses import Addresses
from dpicl.leaderboards.render.attacks_view import list_attacks_on
from dpicl.leaderboards.render.board_tables import submitted_table
from dpicl.leaderboards.render.columns import row_facts
from dpicl.models.server_settings import without_address
from dpicl.results.schema import Result
from dpicl.results.store import Store
from dpicl.tables.document import Block, Column, Facts, Heading, Link, Part, Words, make_table, notes, words

#: Rows that the page of a row is compared with, those with the nearest scores; `dpicl compare` has the others.
MOST_RIVALS = 20
#: Test records whose released answers the page shows of a row; result files hold them all.
MOST_ANSWERS = 30
#: Texts of a row in the appendix of a site.
MOST_TEXTS = 20
#: The packages whose versions the page shows; result files hold them all.
_PACKAGES = ("torch", "transformers", "lm_eval", "lm-eval", "dp-accounting", "prv-accountant")


def row_blocks(section: Section, row: Row, pairs: Pairs, places: Addresses, docs: str = "") -> list[Block]:
    """Everything that is known of a row. pairs: of its task. places: where pages are. docs: the address of the
    documentation; "": it is named and not linked."""
    group, first, name = section.group, row.results[0], f"{row.title} on {row.task}"
    suite = Link(f"{group.suite}, version {group.version}", "index.html")
    path = (suite, " › ", Link(row.label, places.board_of_name(row.label)), f" › {row.task}")
    blocks: list[Block] = [Words(path), Heading(name, 1), Facts(_facts(group, row))]
    blocks += [words(f"Refuted: {row.audit.flag}.", "note flag")] if row.audit.flag else []
    blocks += notes(_remarks(row))
    if row.submission is not None:
        blocks += _submission(row.submission, row)
    blocks += [*_list_neighbours(pairs, row, places, group), *_show_released(row)]
    metrics = {
        metric_name(name) + " (lower is better)" * row.lower_is_better(name): score_text(value)
        for name, value in row.numbers.items()
    }
    read = metrics_text((metric_name(name), first.reader_of(name)) for name in row.numbers)
    blocks += [Heading("Metrics"), Facts(metrics), words(f"{capitalize(read)}.", "quiet")]
    blocks += notes(f"{metric_name(metric)} was not computed: {reason}" for metric, reason in row.skipped.items())
    attacked = list_attacks_on([row])
    attacks = attacks_table(f"Attacks on {row.title}", attacked) if attacked else words("None.", "quiet")
    blocks += [*_seeds(row), Heading("Attacks"), attacks]
    if row.audit.command:
        blocks += [words("No audit yet. Make it with:", "quiet"), words(row.audit.command, "command")]
    blocks += [*_ledger(row), *_proof(row, docs)]
    made, costs = _manifest(first), [result.cost for result in row.results]
    if others := sorted({_commit(result) for result in row.results} - {_commit(first)}):
        made["other seeds"] = f"code {names_text(others)}"
    seconds, tokens = fmean(sum(one.seconds.values()) for one in costs), fmean(one.tokens_read for one in costs)
    memory = max(one.peak_memory_mb for one in costs)
    made["cost"] = f"{seconds:.0f} s and {tokens:,.0f} tokens read a seed, at most {memory:,.0f} MB"
    made["command"] = command(group, row) + (" (runs the submitted code)" if row.submission is not None else "")
    if len(row.seeds) > 1:
        made["short way"] = f"the command with --seed {row.seeds[0]}: one of its {len(row.seeds)} seeds"
    blocks += [Heading("How it was made"), Facts(made, "manifest")]
    return [*blocks, Part((words(bibtex(group, row, places.of(row)), "command"),), "Cite this row")]


def _submission(submission: Submission, row: Row) -> list[Block]:
    """What a submission says of its method, and what was found about it."""
    blocks: list[Block] = [Heading(f"Submitted as {submission.name}")]
    card = submission.card
    if card.unreliable:
        blocks.append(words(f"Unreliable, without a rank: {card.unreliable}", "note flag"))
    said: dict[str, str | Link] = {"authors": names_text(card.authors) or "–"}
    for name in ("licence", "paper", "code", "public_data", "tuning"):
        text = getattr(card, name)
        said[name.replace("_", " ")] = Link(text, text, untrusted=True)
    blocks.append(Facts(said, "manifest"))
    reading = "A paper's score is of its own model and records: it is here to be read, not to be compared closely."
    return [*blocks, submitted_table([row]), words(reading, "quiet")]


def _facts(group: Group, row: Row) -> dict[str, str | Link]:
    first, shown = row.results[0], row_facts(row)
    return {
        "model": model_name(group.model),
        "records": group.source,
        "neighbours": first.privacy.neighbours,
        "mechanism": first.cell.mechanism,
        "options": options_text(first.cell.options, none="none"),
        "knob": str(first.privacy.knob) if first.privacy.knob else "none",
        **shown,
        "privacy": f"ε = {shown['proved ε']} proved, δ = {first.privacy.delta:g}",
        "covers": queries_words(row.queries),
        "noise": first.cell.noise,
        "shots": str(first.cell.shots),
    }


def _remarks(row: Row) -> Iterator[str]:
    """What a reader must know of its numbers."""
    yield from (f"In doubt: {doubt}." for doubt in row.audit.doubts)
    if row.recovery is None:
        yield f"Recovery n/a: {row.recovery_note}."
    elif row.recovery_interval is None and not row.is_baseline:
        yield "The recovery has no interval: one seed, or seeds at which real demonstrations may gain nothing."
    yield from (f"{mark.sign} {mark.name}: {mark.why}." for mark in row.marks)
    yield from dict.fromkeys(note for result in row.results for note in result.privacy.notes)


def _list_neighbours(pairs: Pairs, row: Row, places: Addresses, group: Group) -> list[Block]:
    """The rows of its task that a row stands beside, best first."""
    nearest = sorted(pairs.rivals(row), key=lambda one: abs(one.score - row.score))[:MOST_RIVALS]
    nearest.sort(key=lambda one: one.score if row.lower_is_better(row.metric) else -one.score)
    if not nearest:
        return []
    columns = (
        Column("row", "row", lambda rival: rival[0].title),
        Column("score", "score", lambda rival: rival[0].score, score_text),
        *difference_columns(lambda rival: (rival[1], row.caveat, rival[0].caveat, pairs.explain(row, rival[0]))),
    )

    def kind(rival: tuple[Row, Difference | None]) -> str:
        other, found = rival
        if found is not None and found.verdict == "better":
            return "first" if found.value > 0 else "worse"
        return "end" if other.is_baseline else ""

    reading = (
        "Differences are this row minus the other, paired over the seeds of both; positive: this"
        " row is better. Intervals hold simultaneously and p is adjusted as for the ranks; any other two rows:"
        f" dpicl compare ROW ROW --suite {group.suite}."
    )
    found, title = [(one, pairs.difference(row, one)) for one in nearest], "Beside other rows"
    table = make_table(
        title, columns, found, kind=kind, links=lambda rival: {0: places.page(rival[0])}, notes=(reading,)
    )
    return [Heading(title), table]


_SEED = Column("seed", "seed", itemgetter(0))
_LABEL = Column("label", "label", itemgetter(1), lambda label: label or "(none)")
_TEXT = Column("text", "text", itemgetter(2), lambda text: text or "(empty)", wide=True)


def _show_released(row: Row) -> Iterator[Block]:
    """Released texts are untrusted, and data."""
    what = "answers" if row.results[0].kind != "demonstrations" else "demonstrations"
    yield Heading(f"Released {what}")
    by_seed = {one.cell.seed: {each.id: each.text for each in one.answers} for one in row.results if one.answers}
    if by_seed:
        ids = list(dict.fromkeys(name for answers in by_seed.values() for name in answers))
        columns = [Column("record", "record", str)]
        for seed, answers in by_seed.items():
            columns.append(
                Column(f"seed {seed}", f"seed {seed}", answers.get, lambda text: text or "(empty)", wide=True)
            )
        shown = min(MOST_ANSWERS, len(ids))
        more = "; the rest is in the result files" if shown < len(ids) else ""
        said = f"{shown} of {len(ids)} test records, by id{more}"
        yield make_table("Released answers", columns, ids[:MOST_ANSWERS], sortable=False, notes=(said,))
    texts = [one for one in row.results if one.texts and not one.answers]
    own: list[tuple[int, str, str, int | None]] = []
    own += [(one.cell.seed, "instruction", one.instruction, None) for one in texts if one.instruction is not None]
    own += [(one.cell.seed, each.label, each.text, each.tokens) for one in texts for each in one.released]
    if own:
        columns = [_LABEL, _SEED, _TEXT, Column("tokens", "tokens", itemgetter(3))]
        yield make_table("Released texts", columns, own, sortable=False)
    if withheld := sum(one.released_count for one in row.results if not one.texts):
        why = "they were made without privacy, or they retell records that may not be published"
        yield words(f"{withheld} {what} are not shown: {why}.", "quiet")
    elif not by_seed and not own:
        yield words("None.", "quiet")


def _seeds(row: Row) -> list[Block]:
    columns = (
        Column("seed", "seed", attrgetter("cell.seed")),
        Column("score", "score", lambda one: one.scores[one.main_metric].value, score_text),
        Column(
            "interval",
            "its 95% interval",
            lambda one: (one.scores[one.main_metric].low, one.scores[one.main_metric].high),
            lambda own: f"{score_text(own[0])}–{score_text(own[1])}",
        ),
        Column("proved", "proved ε", attrgetter("privacy.epsilon_proved"), epsilon_text),
        Column("knob", "knob", lambda one: one.privacy.knob and one.privacy.knob.value, "{:.6g}".format),
        Column("seconds", "seconds", lambda one: sum(one.cost.seconds.values()), "{:.0f}".format),
        Column("created", "made", attrgetter("created")),
        Column("file", "result file", lambda one: f"{one.cell_id}.json"),
    )
    cell = row.results[0].cell
    said = ["A seed's own interval is a bootstrap over its test records."]
    if row.submission is None:
        folder = Store(Path("."), cell.suite).path(cell).parent.as_posix()
        said.append(f"The files are in {folder} under the folder of results.")
    table = make_table("Seeds and result files", columns, row.results, sortable=False, notes=tuple(said))
    return [Heading("Seeds"), table]


_LEDGER = (
    Column(
        "records", "records", lambda one: "all records" if one.partition is None else f"records of '{one.partition}'"
    ),
    Column("count", "times", attrgetter("count")),
    Column("event", "event", lambda one: describe(one.event), wide=True),
    Column("note", "note", lambda one: one.note if one.note not in describe(one.event) else None, wide=True),
)


def _ledger(row: Row) -> Iterator[Block]:
    first = row.results[0]
    yield Heading("Ledger of the first seed")
    if first.privacy.ledger:
        yield make_table("Ledger", _LEDGER, first.privacy.ledger, sortable=False)
    else:
        yield words("Empty: it holds no access to private records.", "quiet")
    if len({tuple(sorted(one.model_dump_json() for one in result.privacy.ledger)) for result in row.results}) > 1:
        yield words("Some other seed has another ledger.", "quiet")
    if first.privacy.accountants:
        yield Facts({f"accountant: {name}": _describe(one) for name, one in sorted(first.privacy.accountants.items())})


def _proof(row: Row, docs: str) -> Iterator[Block]:
    """What the proved ε rests on: the theorem for the events of the ledger."""
    privacy = row.results[0].privacy
    if privacy.ledger and privacy.accountants:
        rule, proofs = "accounting.md#theorems-by-what-is-in-the-ledger", "proofs.md"
        pages = [Link(f"docs/{one}", f"{docs}/{one}") if docs else f"docs/{one}" for one in (rule, proofs)]
        events, by = (names_text(sorted(own)) for own in (event_kinds(privacy.event), privacy.accountants))
        yield Words((f"Proof: of {events}, by {by}: the rule is in ", pages[0], ", its proof in ", pages[1], "."))


def command(group: Group, row: Row) -> str:
    """The command that reproduces a row in a folder of its own. That of a submitted row runs the submitted code.

    Options from the command line are part of the label, as 'row+name=value' (see dpicl.plan.expand).
    """
    cell, submission = row.results[0].cell, row.submission
    said = ["dpicl", "run", group.asked]
    if submission is None:
        label, *options = cell.label.split("+")
    else:
        label = cell.mechanism
        options = [f"{label}.{name}={json.dumps(value)}" for name, value in sorted(cell.options.items())]
        if submission.plugin is not None:
            said += ["--plugin", f"leaderboards/submissions/{submission.name}/{submission.plugin.name}"]
    said += ["--task", cell.task, "--mechanism", label, "--model", without_address(cell.model)]
    said += ["--source", group.source]
    said += [] if row.is_baseline else ["--epsilon", f"{cell.epsilon:g}"]
    said += [] if cell.test_records is None else ["--limit", str(cell.test_records)]
    said += ["--results", "again"]
    return shlex.join([*said, *(word for option in options for word in ("--option", option))])


#: Characters that mean something to TeX; braces count for BibTeX even behind a backslash.
_TEX = {
    **{character: f"\\{character}" for character in "$&#_%"},
    "\\": r"\textbackslash{}",
    "{": r"\textbraceleft{}",
    "}": r"\textbraceright{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "ε": r"$\varepsilon$",
    "∞": r"$\infty$",
}


def escape_tex(text: str) -> str:
    """Text as LaTeX sets it: letters of any language as they are, what TeX has no character for as a question mark."""

    def escape(character: str) -> str:
        is_letter = character.isascii() or unicodedata.category(character)[0] in "LMN"
        return _TEX.get(character, character if is_letter else "?")

    return "".join(map(escape, make_visible(text)))


def bibtex(group: Group, row: Row, key: str) -> str:
    """An entry for this row, beside that of CITATION.cff. key: the row's id in addresses, which no other row has."""
    year, commit = datetime.fromisoformat(row.results[0].created).year, _commit(row.results[0])
    name, suite, model = map(escape_tex, (f"{row.title} on {row.task}", group.suite, model_name(group.model)))
    title = f"{{{name}}}, suite {suite} version {escape_tex(str(group.version))}, {model}"
    note = escape_tex(f"code {commit}, score {score_text(row.score)}")
    return (
        f"@misc{{dpicl-{key}, author = {{The dpicl-bench authors}}, title = {{{title}}},"
        f" howpublished = {{dpicl-bench}}, year = {{{year}}}, note = {{{note}}}}}"
    )


def _describe(value: Any) -> str:
    """What an accountant said: a number, words, or several of them with their names."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_describe(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(_describe, value))
    return str(value)


def _commit(result: Result) -> str:
    manifest = result.manifest
    commit = "not a checkout" if manifest.commit is None else manifest.commit[:12]
    return commit + (", with changes" if manifest.dirty else "")


def _manifest(result: Result) -> dict[str, str | Link]:
    manifest = result.manifest
    model, data = manifest.model, manifest.data
    packages = [f"{name} {manifest.packages[name]}" for name in _PACKAGES if name in manifest.packages]
    dropped = ", ".join(f"{count} {reason}" for reason, count in data.dropped.items() if count)
    private = sum(data.sizes.values())
    return {
        "model": f"{model_name(model.name)}, {model.parameters:,} parameters, {manifest.dtype}, {manifest.device}",
        "weights": model.sha256 or model.revision or "no fingerprint",
        "records": f"{data.source}, {private:,} private, {data.public_records:,} public, {data.test_records:,} test",
        "fingerprint": f"sha256 {data.fingerprint}",
        "dropped": dropped or "none",
        "prompts": f"sha256 {manifest.prompts_hash}",
        "code": _commit(result),
        "packages": ", ".join(packages),
        "machine": f"{manifest.machine.cpu}, {manifest.machine.cores} cores, Python {manifest.python}",
    }


def describe(event: Mapping[str, Any]) -> str:
    """An event in a few words, from the JSON of dpicl.accounting.events; of an unknown kind as its JSON."""
    match event:
        case {"event": "none"}:
            return "nothing private"
        case {"event": "non_private"}:
            return "records shown as they are"
        case {"event": "gaussian" | "laplace" as kind, "noise_multiplier": noise}:
            return f"{kind.capitalize()} noise, multiplier {noise:.4g}"
        case {"event": "zcdp", "rho": rho}:
            return f"zero-concentrated, ρ = {rho:.4g}"
        case {"event": "epsilon_delta", "epsilon": epsilon, "delta": delta}:
            return f"({epsilon:.4g}, {delta:.3g})-private"
        case {"event": "poisson", "rate": rate, "of": inner}:
            return f"Poisson sample, rate {rate:.4g}, of [{describe(inner)}]"
        case {"event": "fixed_size", "size": size, "sample": sample, "of": inner}:
            return f"{sample:,} of {size:,} records without replacement, of [{describe(inner)}]"
        case {"event": "repeat", "count": count, "of": inner}:
            return f"{count:,} × [{describe(inner)}]"
        case {"event": "compose", "of": parts}:
            return " and ".join(describe(part) for part in parts)
        case {"event": "parallel", "of": branches}:
            return "; ".join(f"{name}: {describe(branch)}" for name, branch in branches.items())
    return json.dumps(event)


_APPENDIX = (
    f"The first {MOST_TEXTS} texts of every row that released some, at its smallest ε, in the order of its seeds. Texts"
    " that were made without privacy, or that retell records which may not be published, are not here."
)


def texts_blocks(board: Board) -> list[Block]:
    """Released texts are untrusted, and data. Empty where no row has any to show."""
    blocks: list[Block] = []
    for section in board.sections:
        own = [block for table in section.tables for block in _texts_of_task(table.rows)]
        blocks += [words(f"Model: {model_name(section.group.model)}."), *own] if own else []
    return [Heading("Released texts", 1), words(_APPENDIX), *blocks] if blocks else []


def _texts_of_task(rows: Sequence[Row]) -> Iterator[Block]:
    ordered = sorted(rows, key=lambda row: (row.label, row.epsilon))
    for _, same in groupby(ordered, key=lambda row: row.label):
        row = next(same)
        shown = ((one.cell.seed, each.label, each.text) for one in row.results if one.texts for each in one.released)
        if found := list(islice(shown, MOST_TEXTS)):
            yield make_table(f"{row.title} on {row.task}", (_SEED, _LABEL, _TEXT), found, sortable=False, heading=True)
