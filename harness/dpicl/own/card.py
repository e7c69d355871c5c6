"""Writes the privacy card of a release as Markdown and JSON: what was done, what is proved, what is not covered.

It may be published beside what was released: it holds settings, public numbers and proofs, no released text and nothing
that follows from the records without noise. So it does not say which private sets were charged: these are the ones that
have records in common with this one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from dpicl.accounting.group_privacy import of_person
from dpicl.core.cell import ReleaseConfig
from dpicl.core.field_types import Count, Delta, Epsilon
from dpicl.core.json_text import to_plain
from dpicl.core.messages import show_rounded_up
from dpicl.core.printable import make_visible
from dpicl.core.vocabulary import NEIGHBOURS_TEXT, is_simulated, model_name
from dpicl.data.task import Task
from dpicl.mechanism.bases import Mechanism
from dpicl.own.texts import read_texts
from dpicl.own.utility import Utility
from dpicl.releasing.release import UP_TO_ROUNDING, Release
from dpicl.results.schema import Free, KnobValue, Manifest, Moment, Part, Privacy
from dpicl.run.pipeline import embedding_of, now, privacy_of

SCHEMA_VERSION: Final = 1
SEEDED = (
    "NOT PRIVATE: the noise came from a seed, so whoever knows the seed can take it away. This release is for trying on"
    " public records; publish nothing of it that was made from private ones."
)

SIMULATED = (
    "WORTH NOTHING: the model is simulated, and knows nothing. This release is for trying the commands; use a real"
    " model."
)
UNCHECKED = (
    "NOBODY CHECKED THE CODE: the mechanism is a plug-in that had not passed `dpicl check` on the machine of this"
    " release, so nothing shows that it adds the noise that it declares."
)
NOT_MEASURED = "utility was not measured (`--public-test FILE` measures it on public records, at no cost in privacy)"
_OF_RECORDS = (
    "The guarantee is for one record: that of a person with k records in the set is k times epsilon at (e^(k epsilon) -"
    " 1)/(e^epsilon - 1) times delta, and records that tell about each other (families, edited copies) are protected as"
    " single ones only.",
    "The set is that of the file after texts that differ in case, blanks, punctuation and Unicode form alone were taken"
    " once: where the file repeats texts, one line more or less may change the set by two records (k = 2).",
)
_OF_PERSONS = (
    "A person is what the named field of the file says (letters and digits of it): somebody who is in it under two"
    " names or numbers counts as two people, and two who share one count as one.",
    "What others write about a person is in the others' rows, and these are protected as the rows of those who wrote"
    " them: families, colleagues and quoted messages are not protected together.",
)
_NOT_COVERED = (
    "How long the release ran, how much memory it took and whether it failed: withheld, and not proved.",
    "What the model knew before: records that it was trained on are not protected by any of this.",
    "Every other release from the same records: what they cost adds up with this one. Whoever made this release keeps a"
    " budget of them (`dpicl budget`), which knows the releases of one machine and recognises records by their texts"
    " (case, blanks, punctuation and Unicode form aside); an edited or translated copy is another record to it.",
    "Declared sizes, labels, prompts, options and queries are public inputs. If they were chosen by looking at the"
    " records, they tell about them; a declared size far below the truth (more than 2^17 records in one sum) voids the"
    " margins that pay for floating point.",
    "Code in the same process (the mechanism, the model's library) is trusted to read records only in its samples.",
)


#: Somebody with so many records is told what the guarantee of one is worth to them.
_NUMBERS_OF_ROWS = (2, 5, 10)


class CardTask(Part):
    name: str
    kind: str
    labels: list[str]


class PersonUnit(Part):
    """The guarantee of a person of whom at most so many rows were used. epsilon, delta: theirs; those of the card's
    `privacy` are those of a row that was used. field: the column that says whose a row is."""

    rows: Annotated[Count, Field(ge=1)]
    epsilon: Epsilon
    delta: Delta
    field: str = ""


class PrivacyCard(Part):
    """A privacy card. private: whether it promises anything; a plug-in that nobody checked does not. warning: where the
    release is not private, or of a simulated model. utility: None where it was not measured. state_sha256: of the file
    that answers follow from, where they were made from one and cost nothing more (missing else). person: whom the
    guarantee is for; missing where it is a record. texts: what is plainly wrong with released texts, in sentences;
    missing where nothing is. reading: what the user chose about rows that are not used, in sentences."""

    schema_version: Literal[1] = SCHEMA_VERSION
    private: bool
    warning: str | None
    mechanism: str
    source: str
    kind: str
    options: Free
    task: CardTask
    noise: str
    privacy: Privacy
    manifest: Manifest
    not_covered: list[str]
    created: Moment
    utility: Utility | None = None
    state_sha256: str | None = Field(default=None, exclude_if=lambda value: value is None)
    person: PersonUnit | None = Field(default=None, exclude_if=lambda value: value is None)
    texts: list[str] = Field(default=[], exclude_if=lambda value: not value)
    reading: list[str] = Field(default=[], exclude_if=lambda value: not value)

    @model_validator(mode="after")
    def _require_warning(self) -> PrivacyCard:
        if self.private and self.noise != "secure":
            raise ValueError("a release is private with secure noise, and only then")
        if not self.private and self.noise == "secure" and not self.unchecked:
            raise ValueError("a release with secure noise is private, unless its code was not checked")
        if not self.private and self.warning is None:
            raise ValueError("a card warns where the release is not private")
        return self

    @property
    def unchecked(self) -> bool:
        """Whether it is of a plug-in that had not passed the kit."""
        return self.manifest.plugin_checked is False

    def say_unchecked(self) -> PrivacyCard:
        """The card whose first sentence says so, where secure noise rests on code that nobody checked: one of an
        earlier version did not."""
        if self.noise != "secure" or not self.unchecked or (self.warning or "").startswith(UNCHECKED):
            return self
        return self.model_copy(update={"private": False, "warning": f"{UNCHECKED} {self.warning or ''}".strip()})


def card(
    mechanism: Mechanism,
    options: Mapping[str, Any],
    task: Task,
    made: Release,
    manifest: Manifest,
    config: ReleaseConfig,
    utility: Utility | None = None,
    person: PersonUnit | None = None,
    reading: Sequence[str] = (),
) -> PrivacyCard:
    """manifest: from before the release. person: whom the guarantee is for; None for a record. reading: sentences about
    rows that were not used; public, as all of a card."""
    rounding = ["How the model rounds: the proof is about real numbers (see the notes)."]
    embedding = embedding_of(mechanism, None)
    read = ([] if mechanism.needs == "nothing" else [manifest.model.name]) + ([embedding.name] if embedding else [])
    warnings = ([] if config.secure else [SEEDED]) + ([SIMULATED] if any(map(is_simulated, read)) else [])
    return PrivacyCard(
        private=config.secure,
        warning=" ".join(warnings) or None,
        mechanism=mechanism.name,
        source=mechanism.source,
        kind=str(mechanism.kind),
        options=to_plain(options),
        task=CardTask(name=task.name, kind=task.kind, labels=list(task.labels)),
        noise=config.noise,
        privacy=privacy_of(mechanism, made, config),
        manifest=manifest.model_copy(update={"embedding": embedding}),
        not_covered=[
            *(rounding if _is_up_to_rounding(made.bounds.notes) else []),
            *(_OF_PERSONS if person else _OF_RECORDS),
            *_NOT_COVERED,
        ],
        person=person,
        texts=_read_released(mechanism, task, made),
        reading=list(reading),
        created=now(),
        utility=utility,
    ).say_unchecked()


def _read_released(mechanism: Mechanism, task: Task, made: Release) -> list[str]:
    limit = getattr(mechanism, "tokens", None)
    labels = list(task.labels) if task.partitioned else []
    return read_texts(made.demonstrations, labels, limit if isinstance(limit, int) else None)


def card_json(content: Mapping[str, Any]) -> str:
    return json.dumps(to_plain(content), indent=1) + "\n"


def card_markdown(content: Mapping[str, Any]) -> str:
    privacy, manifest = content["privacy"], content["manifest"]
    proved, delta = guarantee_of(content)
    target = float(privacy["epsilon_target"]) * (content.get("person") or {"rows": 1})["rows"]
    knob = "" if privacy["knob"] is None else f", {KnobValue(**privacy['knob'])}"
    version = f"{manifest['commit']}{' (with changes)' if manifest['dirty'] else ''}" if manifest["commit"] else "none"
    state = content.get("state_sha256")
    rows = [
        ("mechanism", f"{content['mechanism']} ({content['source']})" if content["source"] else content["mechanism"]),
        ("options", _json(content["options"])),
        ("task", f"{content['task']['name']}, {content['task']['kind']}"),
        ("labels", ", ".join(content["task"]["labels"][:50])),
        ("model", f"{model_name(manifest['model']['name'])}, {manifest['dtype']}, {_pin(manifest['model'])}"),
        *([("embedding model", _json(manifest["embedding"]))] if manifest.get("embedding") else []),
        *([("answered from", f"a state, sha256 {state}, at no further cost")] if state else []),
        (
            "epsilon",
            f"{show_rounded_up(proved, 6)} {describe_proof(content)}, {target:.6g} asked for",
        ),
        ("delta", f"{delta:.6g}"),
        ("unit and neighbours", f"{unit_of_card(content)}; {_neighbours(content)}"),
        *_of_more_rows(content),
        ("queries covered", "any number" if privacy["queries"] is None else str(privacy["queries"])),
        ("noise", content["noise"] + knob),
        ("declared sizes", _json(manifest["data"]["sizes"])),
        ("dpicl", f"commit {version}, {_json(manifest['packages'])}"),
        ("created", content["created"]),
    ]
    parts = [
        f"# Privacy card: {_escape(content['mechanism'])}, protects {_escape(unit_of_card(content))}",
        *([f"**{_escape(content['warning'])}**"] if content["warning"] else []),
        *([_promise(content)] if content["noise"] == "secure" else []),
        _table(("", ""), rows),
        "## What was charged",
        _table(
            ("group of records", "times", "event"),
            [(row["partition"] or "all", str(row["count"]), _json(row["event"])) for row in privacy["ledger"]],
        )
        or "Nothing: no private record was read.",
        "Accountants: `{}`".format(_json(privacy["accountants"]).replace("`", "'")),
        *(f"- {_escape(note)}" for note in privacy["notes"]),
        *(f"- {_escape(sentence)}" for sentence in content.get("reading", ())),
        *_about_texts(content),
        "## Utility",
        _utility(content.get("utility")),
        "## What is not covered",
        "\n".join(f"- {_escape(each)}" for each in content["not_covered"]),
    ]
    return "\n\n".join(parts) + "\n"


def _about_texts(content: Mapping[str, Any]) -> list[str]:
    sentences = [f"- {_escape(sentence)}" for sentence in content.get("texts", ())]
    return ["## What the texts look like", "\n".join(sentences)] if sentences else []


def _utility(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return f"{NOT_MEASURED[0].upper()}{NOT_MEASURED[1:]}."
    rows = [(row["name"], *(f"{row[key]:.3f}" for key in ("score", "low", "high"))) for row in found["rows"]]
    said = [
        f"Measured before, on public records, at no cost in privacy: {_escape(found['metric'])} on {found['tested']} of"
        f" them; {found['trained_on']} others stood in for the private ones. On the private records it may be better or"
        " worse."
    ]
    if doubt := Utility.model_validate(found).doubt:
        said.append(f"**{_escape(doubt)}**")
    return "\n\n".join([*said, _table(("made by", "score", "95% from", "to"), rows)])


def _promise(content: Mapping[str, Any]) -> str:
    privacy = content["privacy"]
    subject = "This release is" if content["private"] else "If its code does what it declares, this release is"
    rounding = ", up to rounding," if _is_up_to_rounding(privacy["notes"]) else ""
    epsilon, delta = guarantee_of(content)
    more = "one record more"
    if person := content.get("person"):
        more = f"the rows of one person more ({'one' if person['rows'] == 1 else person['rows']} at most)"
    return (
        f"{subject}{rounding} ({show_rounded_up(epsilon, 6)}, {delta:.6g})-differentially private: for two data sets of"
        f" which one has {more}, every outcome has probabilities within a factor e^epsilon, up to delta."
    )


def guarantee_of(content: Mapping[str, Any]) -> tuple[float, float]:
    """(epsilon, delta) of whom a card is about: a person, or else a record."""
    person = content.get("person")
    if person is None:
        return float(content["privacy"]["epsilon_proved"]), float(content["privacy"]["delta"])
    return float(person["epsilon"]), float(person["delta"])


def unit_of_card(content: Mapping[str, Any]) -> str:
    """Whom a card is about: 'one record', 'one person (customer_id)', or 'one person (customer_id) with at most 3
    rows'."""
    person = content.get("person")
    if person is None:
        return "one record"
    column = make_visible(person.get("field", ""), 60)
    who = f"one person ({column})" if column else "one person"
    return who if person["rows"] == 1 else f"{who} with at most {person['rows']} rows"


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
        return [("epsilon of one row that was used", shown)] if content["person"]["rows"] > 1 else []
    if content["noise"] != "secure":
        return []
    rows = []
    for number in _NUMBERS_OF_ROWS:
        theirs, share = of_person(epsilon, delta, number)
        shown = f"{show_rounded_up(theirs)} at delta = {show_rounded_up(share)}" if share < 1 else "nothing"
        rows.append((f"epsilon for somebody with {number} records", shown))
    return rows


def describe_proof(content: Mapping[str, Any]) -> str:
    """In what sense the epsilon of a card is proved."""
    if content["manifest"].get("plugin_checked") is False:
        return "declared by code that nobody checked"
    return "proved up to rounding" if _is_up_to_rounding(content["privacy"]["notes"]) else "proved"


def _is_up_to_rounding(notes: Sequence[str]) -> bool:
    """Also of a card whose note has the words of an earlier version."""
    return any(note.startswith(UP_TO_ROUNDING.partition(":")[0]) for note in notes)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown; '' for no rows."""
    if not rows:
        return ""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(_escape, row))} |" for row in rows)])


def _json(value: Any) -> str:
    """As people read it: letters of any language as they are, what cannot be seen escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def _escape(text: str) -> str:
    """Text that Markdown and HTML show as it is, in one line: names and options are not always ours."""
    one_line = "".join(character if character.isprintable() else " " for character in str(text))
    return re.sub(r"([\\`*_\[\]|<>&])", r"\\\1", one_line)


def _pin(model: Mapping[str, Any]) -> str:
    """What pins the model's files down, as far as it is known."""
    if model["sha256"]:
        return f"sha256 {model['sha256']}"
    return f"revision {model['revision']}" if model.get("revision") else "files not known"
