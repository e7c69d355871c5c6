"""Shows a privacy card as Markdown and HTML: a page for whoever signs it, then the pages of an engineer.

The first page has no hash and no JSON. Names and options are not always ours, so every value is escaped, as one line
and without characters that nobody sees.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpicl.accounting.group_privacy import of_person
from dpicl.core.messages import count, names_text, show_rounded_up
from dpicl.core.vocabulary import NEIGHBOURS_TEXT, model_name
from dpicl.own.card import (
    NOT_MEASURED,
    describe_proof,
    guarantee_of,
    is_up_to_rounding,
    unit_of_card,
)
from dpicl.own.utility import Utility
from dpicl.results.parts import KnobValue

#: Somebody with so many records is told what the guarantee of one is worth to them, on the first page and after it.
_ROWS_ON_FIRST_PAGE, _NUMBERS_OF_ROWS = (1, 2, 5), (2, 5, 10)
#: Above this epsilon a factor of odds is no promise that anybody could use.
_WORTHLESS = 20.0
_STYLE = """
body { font: 11pt/1.45 Georgia, serif; margin: 2em auto; max-width: 46em; padding: 0 1em; color: #111; }
h1, h2, th, td { font-family: system-ui, sans-serif; } h1 { font-size: 1.4em; } h2 { font-size: 1.1em; }
table { border-collapse: collapse; width: 100%; font-size: .9em; }
th, td { border: 1px solid #999; padding: .3em .5em; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
table + table { margin-top: 1em; } td:first-child { min-width: 9em; }
.warning { border: 2px solid #a00; padding: .6em; font-weight: bold; }
@page { size: A4; margin: 18mm; }
@media print { body { margin: 0; max-width: none; } .engineer { break-before: page; } tr { break-inside: avoid; } }
"""
_NOT_COVERED = (
    "What the model knew before it saw these records, and what others publish.",
    "Other releases from the same records: what each may tell adds up.",
    "Labels, declared numbers, prompts and settings, which are public and not computed from the records.",
    "How long the release took, and whether it failed.",
)


@dataclass(frozen=True)
class Paragraph:
    text: str
    is_warning: bool = False


@dataclass(frozen=True)
class Bullets:
    items: Sequence[str]


@dataclass(frozen=True)
class Rows:
    """head: () where the first cell of a row names it."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


Block = Paragraph | Bullets | Rows


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Block]


def card_markdown(content: Mapping[str, Any]) -> str:
    parts = [f"# {_escape(_title(content))}", *map(_markdown, _warnings(content))]
    for section in (*first_page(content), *_engineers_pages(content)):
        parts.append(f"## {_escape(section.title)}")
        parts += [_markdown(block) for block in section.blocks]
    return "\n\n".join(parts) + "\n"


def card_html(content: Mapping[str, Any]) -> str:
    """One file without scripts or links, which a browser prints: the first page alone, then the engineer's."""
    title = _plain(_title(content))
    warnings = "".join(map(_html, _warnings(content)))
    pages = [
        ("officer", f"<h1>{title}</h1>{warnings}", first_page(content)),
        ("engineer", "", _engineers_pages(content)),
    ]
    bodies = []
    for name, head, sections in pages:
        shown = "".join(
            f"<h2>{_plain(each.title)}</h2>{''.join(map(_html, each.blocks))}\n"
            for each in sections
        )
        bodies.append(f'<section class="{name}">{head}{shown}</section>')
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body>\n{''.join(bodies)}</body></html>\n"
    )


def _title(content: Mapping[str, Any]) -> str:
    return f"Privacy card: {content['mechanism']}, protects {unit_of_card(content)}"


def _warnings(content: Mapping[str, Any]) -> list[Block]:
    return [Paragraph(content["warning"], is_warning=True)] if content["warning"] else []


# --- the first page


def first_page(content: Mapping[str, Any]) -> list[Section]:
    """What was released, about whom, what is promised, and whether it may be published; no hash and no JSON."""
    blocks: list[Block] = []
    promises = content["noise"] == "secure"
    if promises:
        blocks += [Paragraph(_odds_sentence(content)), _rows_table(content)]
    facts = [
        ("What was released", _released(content)),
        ("About whom", _about_whom(content)),
        ("Spent by this release", _spent(content) if promises else "nothing: it is not private"),
        ("Left", _left(content)),
        (
            "Who to ask",
            content.get("contact") or "whoever gave you this card (no contact was named)",
        ),
        ("May it be published?", _may_be_published(content)),
        ("Made on", str(content["created"])[:10]),
        ("Signed (name, date)", "_" * 30),
    ]
    people = "People who are named in the rows of others, families, and copies that were edited."
    return [
        Section("For whoever signs this", [*blocks, Rows((), facts)]),
        Section(
            "What this does not cover",
            [Bullets([people, *_NOT_COVERED, *content.get("reading", ())])],
        ),
    ]


def _odds_sentence(content: Mapping[str, Any]) -> str:
    """The guarantee as odds: what is (epsilon, delta)-DP is a choice, made with probability 1 - delta, of something
    that is (epsilon, 0)-DP (Kairouz, Oh & Viswanath 2017, theorem 3.3)."""
    epsilon, delta = guarantee_of(content)
    who = "person" if content.get("person") else "record"
    subject = "Whatever" if content["private"] else "If the code does what it declares: whatever"
    failing = (
        f" With a chance of at most {_chance(delta)} this protection fails." if delta > 0 else ""
    )
    if epsilon > _WORTHLESS:
        return (
            f"Next to nothing is promised: at epsilon = {show_rounded_up(epsilon)} what was released may show whether a"
            f" given {who} is in the data.{failing}"
        )
    most = math.ceil(100 / (1 + math.exp(-epsilon)))
    return (
        f"{subject} somebody believed before, seeing what was released changes the odds that a given {who} is in the"
        f" data by a factor of at most {_factor(epsilon)}: a guess of 50% becomes at most {most}%, or at least"
        f" {100 - most}%.{failing}"
    )


def _rows_table(content: Mapping[str, Any]) -> Rows:
    """What it is for people with several rows; of those whose rows were limited never more than for so many."""
    person = content.get("person")
    privacy = content["privacy"]
    epsilon, delta = float(privacy["epsilon_proved"]), float(privacy["delta"])
    rows = []
    for number in _ROWS_ON_FIRST_PAGE:
        if person and number >= person["rows"]:
            theirs, share = guarantee_of(content)
        else:
            theirs, share = of_person(epsilon, delta, number)
        nothing = theirs > _WORTHLESS or share >= 1
        shown = (
            ("nothing is promised", "")
            if nothing
            else (f"at most {_factor(theirs)}", _chance(share))
        )
        rows.append((count(number, "row"), *shown))
    return Rows(("A person with", "odds change by a factor of", "chance that it fails"), rows)


def _released(content: Mapping[str, Any]) -> str:
    what = content.get("released") or (
        "demonstrations" if content["kind"] == "demonstrations" else "answers"
    )
    labels = content["task"]["labels"]
    shown = names_text(labels[:20]) + (f" and {len(labels) - 20} more" if len(labels) > 20 else "")
    return (
        f"{what}, made by the method {content['mechanism']}; {count(len(labels), 'label')}: {shown}"
    )


def _about_whom(content: Mapping[str, Any]) -> str:
    declared = sum(content["manifest"]["data"]["sizes"].values())
    number = f"about {declared:,} private records (a public number, not a count)"
    person = content.get("person")
    if not person:
        return f"{number}; single records are protected, and somebody who has several less (the table above)"
    rows = "one row" if person["rows"] == 1 else f"at most {person['rows']} rows"
    return f"{number}; people are protected, whoever the column {person.get('field', '')} names: {rows} of each is used"


def _spent(content: Mapping[str, Any]) -> str:
    epsilon, delta = guarantee_of(content)
    covered = content["privacy"]["queries"]
    times = (
        "however often it is used"
        if covered is None
        else f"for {count(covered, 'question')}, all of them together"
    )
    return f"epsilon = {show_rounded_up(epsilon, 4)} at delta = {delta:g}, {times}"


def _left(content: Mapping[str, Any]) -> str:
    limit = content.get("total_epsilon")
    where = "its owner's budget says what is left (`dpicl budget`), which is not for publication"
    if limit is None:
        return f"no limit was stated with this release; {where}"
    epsilon, _ = guarantee_of(content)
    left = max(0.0, float(limit) - epsilon)
    return f"of epsilon = {float(limit):g} for all releases at most {left:.4g}, less what others have spent; {where}"


def _may_be_published(content: Mapping[str, Any]) -> str:
    if content["noise"] != "secure":
        return "No: the noise came from a seed, so this protects nobody."
    if not content["private"]:
        return "No, not before somebody has checked the code."
    return "Yes: what was released and this card. Not: the private file, what `dpicl data` shows, and the budget."


def _factor(epsilon: float) -> str:
    return show_rounded_up(math.exp(epsilon), 3)


def _chance(delta: float) -> str:
    return f"1 in {math.floor(1 / delta * (1 + 1e-12)):,}" if delta > 0 else "none"


# --- the engineer's pages


def _engineers_pages(content: Mapping[str, Any]) -> list[Section]:
    privacy, manifest = content["privacy"], content["manifest"]
    proved, delta = guarantee_of(content)
    person = content.get("person") or {"rows": 1}
    target = float(privacy["epsilon_target"]) * person["rows"]
    knob = "" if privacy["knob"] is None else f", {KnobValue(**privacy['knob'])}"
    version = (
        f"{manifest['commit']}{' (with changes)' if manifest['dirty'] else ''}"
        if manifest["commit"]
        else "none"
    )
    state = content.get("state_sha256")
    rows = [
        (
            "mechanism",
            f"{content['mechanism']} ({content['source']})"
            if content["source"]
            else content["mechanism"],
        ),
        ("options", _json(content["options"])),
        ("task", f"{content['task']['name']}, {content['task']['kind']}"),
        ("labels", ", ".join(content["task"]["labels"][:50])),
        (
            "model",
            f"{model_name(manifest['model']['name'])}, {manifest['dtype']}, {_pin(manifest['model'])}",
        ),
        *([("embedding model", _json(manifest["embedding"]))] if manifest.get("embedding") else []),
        *([("answered from", f"a state, sha256 {state}, at no further cost")] if state else []),
        (
            "epsilon",
            f"{show_rounded_up(proved, 6)} {describe_proof(content)}, {target:.6g} asked for",
        ),
        ("delta", f"{delta:.6g}"),
        ("unit and neighbours", f"{unit_of_card(content)}; {_neighbours(content)}"),
        *_of_more_rows(content),
        (
            "queries covered",
            "any number" if privacy["queries"] is None else str(privacy["queries"]),
        ),
        ("noise", content["noise"] + knob),
        ("declared sizes", _json(manifest["data"]["sizes"])),
        ("dpicl", f"commit {version}, {_json(manifest['packages'])}"),
        ("created", content["created"]),
    ]
    promise = [Paragraph(_promise(content))] if content["noise"] == "secure" else []
    groups = []
    for row in privacy["ledger"]:
        groups.append((row["partition"] or "all", str(row["count"]), _json(row["event"])))
    charged: list[Block] = [Paragraph("Nothing: no private record was read.")]
    if groups:
        charged = [Rows(("group of records", "times", "event"), groups)]
    charged.append(Paragraph(f"Accountants: {_json(privacy['accountants'])}"))
    if privacy["notes"]:
        charged.append(Bullets(privacy["notes"]))
    texts = content.get("texts", ())
    return [
        Section("For engineers", [*promise, Rows((), rows)]),
        Section("What was charged", charged),
        *([Section("What the texts look like", [Bullets(texts)])] if texts else []),
        Section("Utility", _utility(content.get("utility"))),
        Section("What is not covered, in full", [Bullets(content["not_covered"])]),
    ]


def _utility(measured: Mapping[str, Any] | None) -> list[Block]:
    if measured is None:
        return [Paragraph(f"{NOT_MEASURED[0].upper()}{NOT_MEASURED[1:]}.")]
    rows = []
    for row in measured["rows"]:
        numbers = [f"{row[key]:.3f}" for key in ("score", "low", "high")]
        rows.append((row["name"], *numbers))
    summary = (
        f"Measured before, on public records, at no cost in privacy: {measured['metric']} on {measured['tested']} of"
        f" them; {measured['trained_on']} others stood in for the private ones. On the private records it may be"
        " better or worse."
    )
    doubt = Utility.model_validate(measured).doubt
    doubts = [Paragraph(doubt, is_warning=True)] if doubt else []
    return [Paragraph(summary), *doubts, Rows(("made by", "score", "95% from", "to"), rows)]


def _promise(content: Mapping[str, Any]) -> str:
    privacy = content["privacy"]
    subject = (
        "This release is"
        if content["private"]
        else "If its code does what it declares, this release is"
    )
    rounding = ", up to rounding," if is_up_to_rounding(privacy["notes"]) else ""
    epsilon, delta = guarantee_of(content)
    more = "one record more"
    if person := content.get("person"):
        more = f"the rows of one person more ({'one' if person['rows'] == 1 else person['rows']} at most)"
    return (
        f"{subject}{rounding} ({show_rounded_up(epsilon, 6)}, {delta:.6g})-differentially private: for two data sets of"
        f" which one has {more}, every outcome has probabilities within a factor e^epsilon, up to delta."
    )


def _neighbours(content: Mapping[str, Any]) -> str:
    if not content.get("person"):
        return NEIGHBOURS_TEXT
    return "add or remove a person's rows; proved for a record, and by group privacy for more than one row"


def _of_more_rows(content: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What the guarantee of a record is for somebody with several, and that of a record where there is a person's."""
    privacy = content["privacy"]
    epsilon, delta = float(privacy["epsilon_proved"]), float(privacy["delta"])
    if content.get("person"):
        shown = f"{show_rounded_up(epsilon, 6)} at delta = {delta:.6g}"
        return (
            [("epsilon of one row that was used", shown)] if content["person"]["rows"] > 1 else []
        )
    if content["noise"] != "secure":
        return []
    rows = []
    for number in _NUMBERS_OF_ROWS:
        theirs, share = of_person(epsilon, delta, number)
        shown = (
            f"{show_rounded_up(theirs)} at delta = {show_rounded_up(share)}"
            if share < 1
            else "nothing"
        )
        rows.append((f"epsilon for somebody with {number} records", shown))
    return rows


# --- Markdown and HTML


def _markdown(block: Block) -> str:
    match block:
        case Paragraph(text, is_warning):
            return f"**{_escape(text)}**" if is_warning else _escape(text)
        case Bullets(items):
            return "\n".join(f"- {_escape(item)}" for item in items)
    width = max((len(row) for row in block.rows), default=1)
    head = block.head or [""] * width
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(_escape, row))} |" for row in block.rows)])


def _html(block: Block) -> str:
    match block:
        case Paragraph(text, is_warning):
            kind = ' class="warning"' if is_warning else ""
            return f"<p{kind}>{_plain(text)}</p>"
        case Bullets(items):
            return f"<ul>{''.join(f'<li>{_plain(item)}</li>' for item in items)}</ul>"
    head = "".join(f"<th>{_plain(cell)}</th>" for cell in block.head)
    first = "td" if block.head else "th"
    rows = [f"<tr>{head}</tr>"] if head else []
    for name, *cells in block.rows:
        others = "".join(f"<td>{_plain(cell)}</td>" for cell in cells)
        rows.append(f"<tr><{first}>{_plain(name)}</{first}>{others}</tr>")
    return f"<table>{''.join(rows)}</table>"


def _json(value: Any) -> str:
    """As people read it: letters of any language as they are, what cannot be seen escaped."""
    text = json.dumps(value, ensure_ascii=False)
    characters = (each if each.isprintable() else json.dumps(each)[1:-1] for each in text)
    return "".join(characters)


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in str(text))


def _escape(text: str) -> str:
    """Text that Markdown and HTML show as it is, in one line."""
    return re.sub(r"([\\`*_\[\]|<>&])", r"\\\1", _one_line(text))


def _plain(text: str) -> str:
    """Text that HTML shows as it is, in one line."""
    return html.escape(_one_line(text))


def _pin(model: Mapping[str, Any]) -> str:
    """What pins the model's files down, as far as it is known."""
    if model["sha256"]:
        return f"sha256 {model['sha256']}"
    return f"revision {model['revision']}" if model.get("revision") else "files not known"
