"""Builds the page of a row (settings, other rows, released texts, spent budget, attacks, how to reproduce it), and the
first texts of every row for the page of its task.
"""

from __future__ import annotations

import json
import shlex
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import attrgetter, itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

from dpicl.attacks.table import attacks_table, options_text
from dpicl.core.messages import (
    capitalize,
    epsilon_text,
    names_text,
    queries_words,
    score_text,
    signed_text,
)
from dpicl.core.printable import make_visible
from dpicl.core.vocabulary import model_name
from dpicl.leaderboards.compare.rows import DescribedDifference
from dpicl.leaderboards.model.board import Section
from dpicl.leaderboards.model.comparability import Group
from dpicl.leaderboards.model.marks import event_kinds
from dpicl.leaderboards.model.ranks import Pairs
from dpicl.leaderboards.model.rows import Row, by_worth
from dpicl.leaderboards.model.submissions import Submission
from dpicl.leaderboards.model.task_table import TaskTable
from dpicl.leaderboards.model.text import interval_text, p_number
from dpicl.leaderboards.render.addresses import Addresses
from dpicl.leaderboards.render.attacks_view import list_attacks_on
from dpicl.leaderboards.render.board_tables import submitted_table
from dpicl.leaderboards.render.columns import row_facts
from dpicl.leaderboards.render.guide import Guide, Method
from dpicl.models.server_settings import without_address
from dpicl.results.parts import LedgerRow
from dpicl.results.schema import Result, Score
from dpicl.results.store import Store
from dpicl.tables.document import (
    Block,
    Column,
    Facts,
    Heading,
    Link,
    Part,
    Table,
    Words,
    make_table,
    notes,
    words,
)

#: Rows that the page of a row is compared with, those with the nearest scores; `dpicl compare` has the others.
MOST_RIVALS = 20
#: Test records whose released answers the page shows of a row; result files hold them all.
MOST_ANSWERS = 30
#: Texts of a row on the page of its task.
MOST_TEXTS = 20
#: The packages whose versions the page shows; result files hold them all.
_PACKAGES = ("torch", "transformers", "lm_eval", "lm-eval", "dp-accounting", "prv-accountant")


def row_blocks(
    section: Section,
    table: TaskTable,
    row: Row,
    pairs: Pairs,
    places: Addresses,
    docs: str = "",
    guide: Guide | None = None,
) -> list[Block]:
    """Everything that is known of a row; what does not apply is left out. pairs: of its task. places: where pages are.
    docs: the address of the documentation; "": it is named and not linked. guide: what pages say of methods."""
    group = section.group
    suite = Link(f"{group.suite}, version {group.version}", "index.html")
    task = Link(row.task, places.task(table))
    path = (suite, " › ", task, " › ", Link(row.label, places.board_of_name(row.label)))
    blocks: list[Block] = [Words(path), Heading(row.place, 1)]
    blocks += _method((guide or Guide()).method(row.mechanism))
    blocks.append(Facts(_facts(group, row)))
    if row.audit.flag:
        blocks.append(words(f"Refuted: {row.audit.flag}.", "note flag"))
    blocks += notes(_remarks(row))
    if row.submission is not None:
        blocks += _submission(row.submission, row)
    blocks += _list_neighbours(pairs, row, places, group)
    blocks += _show_released(row)
    blocks += _seeds(row)
    blocks += _attacks(row)
    blocks += _ledger(row)
    blocks += _proof(row, docs)
    blocks += _origin(group, row)
    citation = words(bibtex(group, row, places.of(row)), "command")
    return [*blocks, Part((citation,), "Cite this row (BibTeX)")]


def _method(method: Method) -> Iterator[Block]:
    """What it does, with its paper and its code."""
    sources = {"paper": method.paper, "code": method.code}
    parts: list[str | Link] = [f"{capitalize(method.summary)}."] if method.summary else []
    for name, address in sources.items():
        if address:
            parts += [" ", Link(name, address)]
    if parts:
        yield Words(tuple(parts))


def _attacks(row: Row) -> Iterator[Block]:
    attacked = list_attacks_on([row])
    if attacked or row.audit.command:
        yield Heading("Attacks")
    if attacked:
        yield attacks_table(f"Attacks on {row.title}", attacked)
    if row.audit.command:
        yield words("No audit yet. Make it with:", "quiet")
        yield words(row.audit.command, "command")


def _origin(group: Group, row: Row) -> Iterator[Block]:
    """What the row was made with, what it cost, and the command that makes it again."""
    yield Heading("How it was made")
    first = row.results[0]
    facts = _manifest(first)
    if others := sorted({_commit(result) for result in row.results} - {_commit(first)}):
        facts["other seeds"] = f"code {names_text(others)}"
    costs = [result.cost for result in row.results]
    seconds = fmean(sum(cost.seconds.values()) for cost in costs)
    tokens = fmean(cost.tokens_read for cost in costs)
    memory = max(cost.peak_memory_mb for cost in costs)
    facts["cost"] = (
        f"{seconds:.0f} s and {tokens:,.0f} tokens read a seed, at most {memory:,.0f} MB"
    )
    yield Facts(facts, "manifest")
    yield Heading("Run it again")
    yield words(command(group, row), "command")
    remarks = [] if row.submission is None else ["It runs the submitted code."]
    if len(row.seeds) > 1:
        remarks.append(
            f"The command with --seed {row.seeds[0]} makes one of its {len(row.seeds)} seeds."
        )
    yield from notes(remarks, "quiet")


def _submission(submission: Submission, row: Row) -> list[Block]:
    """What a submission says of its method, and what was found about it."""
    blocks: list[Block] = [Heading(f"Submitted as {submission.name}")]
    card = submission.card
    if card.unreliable:
        blocks.append(words(f"Unreliable, without a rank: {card.unreliable}", "note flag"))
    facts: dict[str, str | Link] = {"authors": names_text(card.authors) or "–"}
    for name in ("licence", "paper", "code", "public_data", "tuning"):
        text = getattr(card, name)
        facts[name.replace("_", " ")] = Link(text, text, untrusted=True)
    blocks.append(Facts(facts, "manifest"))
    reading = "A paper's score is of its own model and records: it is here to be read, not to be compared closely."
    return [*blocks, submitted_table([row]), words(reading, "quiet")]


def _facts(group: Group, row: Row) -> dict[str, str | Link]:
    """What was run and what it scored; the proved ε comes with its δ."""
    first = row.results[0]
    facts: dict[str, str | Link] = {**row_facts(row), "δ": f"{first.privacy.delta:g}"}
    facts |= {"covers": queries_words(row.queries), "neighbours": first.privacy.neighbours}
    facts |= {
        "model": model_name(group.model),
        "records": group.source,
        "mechanism": first.cell.mechanism,
    }
    if options := options_text(first.cell.options, none=""):
        facts["options"] = options
    if first.privacy.knob:
        facts["knob"] = str(first.privacy.knob)
        facts["noise"] = first.cell.noise
    return {**facts, "shots": str(first.cell.shots)}


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
    nearest = sorted(pairs.rivals(row), key=lambda rival: abs(rival.score - row.score))[
        :MOST_RIVALS
    ]
    if not nearest:
        return []
    rivals = []
    for rival in by_worth(nearest):
        difference = pairs.difference(row, rival)
        reason = pairs.explain(row, rival)
        rivals.append(
            _Rival(rival, DescribedDifference(difference, row.caveat, rival.caveat, reason))
        )
    columns = (
        Column("row", "row", "row.title"),
        Column("score", "score", "row.score", score_text),
        Column("verdict", "verdict", "described.verdict", wide=True),
        Column("value", "difference", "described.difference.value", signed_text),
        Column(
            "interval",
            "95% interval",
            "described.difference.interval",
            interval_text,
            "simultaneous for all pairs of the table",
        ),
        Column("p", "adjusted p", "described.difference.p", p_number),
    )

    reading = (
        "Differences are this row minus the other, paired over the seeds of both; positive: this"
        " row is better. Intervals hold simultaneously and p is adjusted as for the ranks; any other two rows:"
        f" dpicl compare ROW ROW --suite {group.suite}."
    )
    title = "Beside other rows"
    table = make_table(
        title,
        columns,
        rivals,
        kind=attrgetter("kind"),
        links=lambda rival: {0: places.page(rival.row)},
        notes=(reading,),
    )
    return [Heading(title), table]


@dataclass(frozen=True)
class _Rival:
    """A row beside the page's own. described: the own row minus it."""

    row: Row
    described: DescribedDifference

    @property
    def kind(self) -> str:
        difference = self.described.difference
        if difference is not None and difference.verdict == "better":
            return "first" if difference.value > 0 else "worse"
        return "end" if self.row.is_baseline else ""


def _show_label(label: str) -> str:
    return label or "(none)"


def _show_text(text: str) -> str:
    return text or "(empty)"


_SEED = Column("seed", "seed", itemgetter(0))
_LABEL = Column("label", "label", itemgetter(1), _show_label)
_TEXT = Column("text", "text", itemgetter(2), _show_text, wide=True)


def _show_released(row: Row) -> Iterator[Block]:
    """Released texts are untrusted, and data."""
    noun = "demonstrations" if row.results[0].kind == "demonstrations" else "answers"
    answered = [result for result in row.results if result.answers]
    texts: list[tuple[int, str, str, int | None]] = []
    with_texts = [result for result in row.results if result.texts and not result.answers]
    for result in with_texts:
        if result.instruction is not None:
            texts.append((result.cell.seed, "instruction", result.instruction, None))
    for result in with_texts:
        texts += [
            (result.cell.seed, text.label, text.text, text.tokens) for text in result.released
        ]
    withheld = sum(result.released_count for result in row.results if not result.texts)
    if answered or texts or withheld:
        yield Heading(f"Released {noun}")
    if answered:
        yield _answers_table(answered)
    if texts:
        columns = [_LABEL, _SEED, _TEXT, Column("tokens", "tokens", itemgetter(3))]
        yield make_table("Released texts", columns, texts, sortable=False)
    if withheld:
        reason = "they were made without privacy, or they retell records that may not be published"
        yield words(f"{withheld} {noun} are not shown: {reason}.", "quiet")


def _answers_table(results: Sequence[Result]) -> Table:
    """A line a test record, a column a seed."""
    columns = [Column("record", "record", str)]
    ids: dict[str, None] = {}
    for result in results:
        answers = {answer.id: answer.text for answer in result.answers}
        ids |= dict.fromkeys(answers)
        name = f"seed {result.cell.seed}"
        columns.append(Column(name, name, answers.get, _show_text, wide=True))
    shown = list(ids)[:MOST_ANSWERS]
    more = "; the rest is in the result files" if len(shown) < len(ids) else ""
    note = f"{len(shown)} of {len(ids)} test records, by id{more}"
    return make_table("Released answers", columns, shown, sortable=False, notes=(note,))


def _score(result: Result) -> Score:
    return result.scores[result.main_metric]


def _score_interval(result: Result) -> tuple[float, float]:
    score = _score(result)
    return score.low, score.high


def _score_interval_text(interval: tuple[float, float]) -> str:
    return "–".join(map(score_text, interval))


def _seconds(result: Result) -> float:
    return sum(result.cost.seconds.values())


_SEEDS = (
    Column("seed", "seed", "cell.seed"),
    Column("score", "score", lambda result: _score(result).value, score_text),
    Column("interval", "its 95% interval", _score_interval, _score_interval_text),
    Column("proved", "proved ε", "privacy.epsilon_proved", epsilon_text),
    Column("knob", "knob", "privacy.knob.value", "{:.6g}".format, optional=True),
    Column("seconds", "seconds", _seconds, "{:.0f}".format),
    Column("created", "made"),
    Column("file", "result file", "cell_id", "{}.json".format),
)


def _seeds(row: Row) -> list[Block]:
    cell = row.results[0].cell
    remarks = ["A seed's own interval is a bootstrap over its test records."]
    if row.submission is None:
        folder = Store(Path("."), cell.suite).path(cell).parent.as_posix()
        remarks.append(f"The files are in {folder} under the folder of results.")
    table = make_table(
        "Seeds and result files", _SEEDS, row.results, sortable=False, notes=tuple(remarks)
    )
    return [Heading("Seeds"), table]


def _ledger_records(row: LedgerRow) -> str:
    return "all records" if row.partition is None else f"records of '{row.partition}'"


def _ledger_note(row: LedgerRow) -> str | None:
    return None if row.note in describe(row.event) else row.note


_LEDGER = (
    Column("records", "records", _ledger_records),
    Column("count", "times"),
    Column("event", "event", lambda row: describe(row.event), wide=True),
    Column("note", "note", _ledger_note, wide=True, optional=True),
)


def _ledger(row: Row) -> Iterator[Block]:
    privacy = row.results[0].privacy
    if not privacy.ledger:
        return
    yield Heading("Ledger of the first seed")
    yield make_table("Ledger", _LEDGER, privacy.ledger, sortable=False)
    ledgers = set()
    for result in row.results:
        ledgers.add(tuple(sorted(line.model_dump_json() for line in result.privacy.ledger)))
    if len(ledgers) > 1:
        yield words("Some other seed has another ledger.", "quiet")
    if privacy.accountants:
        accountants = sorted(privacy.accountants.items())
        yield Facts({f"accountant: {name}": _describe(value) for name, value in accountants})


def _proof(row: Row, docs: str) -> Iterator[Block]:
    """What the proved ε rests on: the theorem for the events of the ledger."""
    privacy = row.results[0].privacy
    if privacy.ledger and privacy.accountants:

        def link(page: str) -> str | Link:
            return Link(f"docs/{page}", f"{docs}/{page}") if docs else f"docs/{page}"

        events = names_text(sorted(event_kinds(privacy.event)))
        accountants = names_text(sorted(privacy.accountants))
        rule, proof = link("accounting.md#theorems-by-what-is-in-the-ledger"), link("proofs.md")
        yield Words(
            (
                f"Proof: of {events}, by {accountants}: the rule is in ",
                rule,
                ", its proof in ",
                proof,
                ".",
            )
        )


def command(group: Group, row: Row) -> str:
    """The command that reproduces a row in a folder of its own. That of a submitted row runs the submitted code.

    Options from the command line are part of the label, as 'row+name=value' (see dpicl.plan.expand).
    """
    cell, submission = row.results[0].cell, row.submission
    arguments = ["dpicl", "run", group.asked]
    if submission is None:
        label, *options = cell.label.split("+")
    else:
        label = cell.mechanism
        options = [
            f"{label}.{name}={json.dumps(value)}" for name, value in sorted(cell.options.items())
        ]
        if submission.plugin is not None:
            arguments += [
                "--plugin",
                f"leaderboards/submissions/{submission.name}/{submission.plugin.name}",
            ]
    arguments += ["--task", cell.task, "--mechanism", label, "--model", without_address(cell.model)]
    arguments += ["--source", group.source]
    if not row.is_baseline:
        arguments += ["--epsilon", f"{cell.epsilon:g}"]
    if cell.test_records is not None:
        arguments += ["--limit", str(cell.test_records)]
    arguments += ["--results", "again"]
    for option in options:
        arguments += ["--option", option]
    return shlex.join(arguments)


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
    first = row.results[0]
    year = datetime.fromisoformat(first.created).year
    suite = f"suite {escape_tex(group.suite)} version {escape_tex(group.version)}"
    title = f"{{{escape_tex(row.place)}}}, {suite}, {escape_tex(model_name(group.model))}"
    note = escape_tex(f"code {_commit(first)}, score {score_text(row.score)}")
    return (
        f"@misc{{dpicl-{key}, author = {{The dpicl-bench authors}}, title = {{{title}}},"
        f" howpublished = {{dpicl-bench}}, year = {{{year}}}, note = {{{note}}}}}"
    )


def _describe(value: Any) -> str:
    """The value of an accountant: a number, words, or several of them with their names."""
    match value:
        case float():
            return f"{value:.6g}"
        case Mapping():
            return ", ".join(f"{name} {_describe(part)}" for name, part in value.items())
        case list():
            return ", ".join(map(_describe, value))
    return str(value)


def _commit(result: Result) -> str:
    manifest = result.manifest
    commit = "not a checkout" if manifest.commit is None else manifest.commit[:12]
    return commit + (", with changes" if manifest.dirty else "")


def _manifest(result: Result) -> dict[str, str | Link]:
    manifest = result.manifest
    model, data = manifest.model, manifest.data
    packages = [
        f"{name} {manifest.packages[name]}" for name in _PACKAGES if name in manifest.packages
    ]
    dropped = ", ".join(f"{count} {reason}" for reason, count in data.dropped.items() if count)
    private = sum(data.sizes.values())
    records = f"{private:,} private, {data.public_records:,} public, {data.test_records:,} test"
    return {
        "model": f"{model_name(model.name)}, {model.parameters:,} parameters, {manifest.dtype}, {manifest.device}",
        "weights": model.sha256 or model.revision or "no fingerprint",
        "records": f"{data.source}, {records}",
        "fingerprint": f"sha256 {data.fingerprint}",
        **({"dropped": dropped} if dropped else {}),
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


def texts_blocks(table: TaskTable) -> Iterator[Block]:
    """The first texts of every row of a task, which are untrusted, and data."""
    ordered = sorted(table.rows, key=attrgetter("label", "epsilon"))
    tables = []
    for _, of_label in groupby(ordered, key=attrgetter("label")):
        row = next(of_label)
        texts = [
            (result.cell.seed, text.label, text.text)
            for result in row.results
            if result.texts
            for text in result.released
        ]
        if texts:
            columns = (_SEED, _LABEL, _TEXT)
            shown = make_table(row.title, columns, texts[:MOST_TEXTS], sortable=False)
            tables.append(Part((shown,), row.title))
    if tables:
        yield Heading("Released texts")
        yield words(_TEXTS, "quiet")
        yield from tables


_TEXTS = (
    f"The first {MOST_TEXTS} of every row that released some, at its smallest ε, in the order of its seeds. Texts that"
    " were made without privacy, or that retell records which may not be published, are not here."
)
