"""A hook of mkdocs that completes the pages of the reference from the code."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from typing import Any

from dpicl import list_mechanisms
from dpicl.api.verbs import Verb, parameters
from dpicl.cli.commands import CONFIG, JSON, load
from dpicl.mechanism.registry import load_mechanisms
from dpicl.program import VERBS

#: Page -> object -> the members that mkdocstrings shows at the end of the page ("": the object's docstring alone).
SHOWN = {
    "proofs.md": {
        "dpicl.accounting.bounded_range": "",
        "dpicl.accounting.sampled_composites": "",
        "dpicl.privacy.above_threshold": "",
        "dpicl.privacy.limited_domain": "",
        "dpicl.privacy.joining": "",
        "dpicl.privacy.near_centre.NearCentre": "",
        "dpicl.privacy.cluster_tree": "",
        "dpicl.accounting.slack": "",
        "dpicl.core.exact_noise": "",
        "dpicl.privacy.secure_release": "sum_margin, choice_margin, threshold_margin, floating_point_delta",
        "dpicl.attacks.exact_pairs": "",
        "dpicl.attacks.exact_groups": "",
    },
    "files.md": {
        "dpicl.results.schema": (
            "Result, Score, Documents, Privacy, KnobValue, LedgerRow, Released, Answer, Manifest, Model, Data, Machine,"
            " Cost"
        ),
        "dpicl.core.cell": "Cell",
        "dpicl.attacks.results": "AttackResult",
        "dpicl.plan.suite": "Suite",
        "dpicl.plan.suite_rows": "MechanismEntry",
        "dpicl.leaderboards.model.submissions": "Card",
    },
    "python.md": {
        "dpicl": (
            "evaluate, check, audit, attack, tune, calibrate, account, release, answer, budget, board, compare, plot,"
            " DemonstrationMechanism, AnswerMechanism, PreparedMechanism, Knob, Sizes, PublicTask, GaussianSum,"
            " BoundedRangeChoice, NearestToMean, NoisySum, NoisyTopK, VoteHistogram, LimitedDomain, AboveThreshold,"
            " PrivateSet, LanguageModel, RereadingModel, Attack, AttackSetup"
        ),
    },
}
SHARED = 3  #: a flag that so many commands have, in the same words, is explained once


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """The text of a page, with the part of it that is made here."""
    name = page.file.src_uri
    if name in SHOWN:
        return f"{markdown}\n{show(name)}"
    write = {"command-line.md": commands, "mechanisms.md": mechanisms}.get(name)
    return f"{markdown}\n{write()}" if write else markdown


def show(page: str) -> str:
    """The objects of a page, for mkdocstrings to fill in."""
    alone = "{members: false}"
    parts = "{members: [%s], group_by_category: false, show_root_heading: false, show_root_toc_entry: false}"
    options = {name: parts % members if members else alone for name, members in SHOWN[page].items()}
    return "\n".join(f"::: {name}\n    options: {shown}\n" for name, shown in options.items())


def mechanisms() -> str:
    """A section for each shipped mechanism: the head of its file, and its options with their defaults."""
    known = load_mechanisms()
    return "\n".join(
        _mechanism(row, known[row["name"]].cls)
        for row in list_mechanisms()
        if row["origin"] == "built in"
    )


def _mechanism(row: dict[str, Any], cls: type) -> str:
    options = ", ".join(f"`{name}` ({value})" for name, value in row["options"].items())
    docstring = (
        cls.__doc__
        if cls.__dict__.get("__doc__") and not cls.__doc__.startswith(f"{cls.__name__}(")
        else ""
    )
    about = [
        inspect.getmodule(cls).__doc__,
        docstring,
        f"Options with their defaults: {options}." if options else "",
    ]
    return "\n\n".join(
        [f"## {row['name']}", *(inspect.cleandoc(text) for text in about if text), ""]
    )


def commands() -> str:
    """A table of the commands, one of the flags that several have, and a section for each command."""
    rows = {name: list(_rows(name)) for name in VERBS}
    counts = Counter(row for verbs in rows.values() for row in verbs)
    shared = {row for row, count in counts.items() if count >= SHARED}
    names = [f"| [`dpicl {name}`](#{name}) | {_cell(does)} |" for name, (_, does) in VERBS.items()]
    head = [
        "",
        "| command | does |",
        "|---|---|",
        *names,
        "",
        "| flags of several commands | meaning |",
        "|---|---|",
    ]
    flags = sorted(_line(row) for row in shared if row[1])
    return "\n".join(
        [*head, *flags, *(_section(name, verbs, shared) for name, verbs in rows.items())]
    )


def _section(name: str, rows: list[tuple[str, str]], shared: set[tuple[str, str]]) -> str:
    verb: Verb = vars(load(VERBS[name][0]))["verb"]
    section = [
        "| flag | meaning |",
        "|---|---|",
        *(_line(row) for row in rows if row not in shared),
        "",
    ]
    also = "`, `".join(
        flag.split(" ")[0].strip("`") for flag, text in rows if (flag, text) in shared
    )
    examples = "`, `".join(verb.example.splitlines())
    return "\n".join(["", f"## {name}", "", f"`{examples}`. Also: `{also}`.", "", *section])


def _rows(name: str) -> Iterator[tuple[str, str]]:
    """(flag with its value, meaning) of each parameter."""
    function = load(VERBS[name][0])
    verb: Verb = vars(function)["verb"]
    for each in parameters(function).values():
        if not each.flag.hidden:
            value = "" if each.positional or each.switch else f" {each.placeholder}"
            needed = (
                " (required)"
                if (each.required and not each.positional) or each.name in verb.needs
                else ""
            )
            yield f"`{_cell(each.written + value)}`", _cell(each.flag.help) + needed
    yield "`--config FILE`", _cell(CONFIG)
    yield "`--json`", _cell(JSON)


def _line(row: tuple[str, str]) -> str:
    return f"| {row[0]} | {row[1]} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
