"""The privacy card of a release, as JSON: what was done, what is proved, what is not covered. (dpicl.own.card_pages
shows it as Markdown and HTML.)

It may be published beside what was released: it holds settings, public numbers and proofs, no released text and nothing
that follows from the records without noise. So it does not say which private sets were charged: these are the ones that
have records in common with this one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from dpicl.core.cell import ReleaseConfig
from dpicl.core.field_types import Count, Delta, Epsilon, written_if_set
from dpicl.core.json_text import to_plain
from dpicl.core.printable import make_visible
from dpicl.core.vocabulary import is_simulated
from dpicl.data.free_texts import Form, describe_form
from dpicl.data.task import Task
from dpicl.mechanism.bases import Mechanism
from dpicl.own.texts import read_texts
from dpicl.own.utility import Utility
from dpicl.releasing.release import UP_TO_ROUNDING, Release
from dpicl.results.parts import Free
from dpicl.results.schema import Manifest, Moment, Part, Privacy
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
#: Said before anything is charged.
NOT_COMPARED = (
    "Not compared with what costs nothing (names of the labels as texts, the model's own texts, no text): the same"
    " command with --public-test FILE --measure-only, and public records like these, compares them at no cost in"
    " privacy."
)
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


class Guarantee(Part):
    """What is promised, and to whom: in words, and whether that is a record or a person. privacy_of: whom the numbers
    of the card's `privacy` are about: the same, or one of the rows of a person that were used."""

    unit: Literal["record", "person"]
    protects: str
    epsilon: Epsilon
    delta: Delta
    privacy_of: Literal["record", "row"]


class PrivacyCard(Part):
    """A privacy card. private: whether it promises anything; a plug-in that nobody checked does not. warning: where the
    release is not private, or of a simulated model. utility: None where it was not measured. state_sha256: of the file
    that answers follow from, where they were made from one and cost nothing more (missing else). person: whom the
    guarantee is for; missing where it is a record. texts: what is plainly wrong with released texts, in sentences;
    missing where nothing is. reading: what the user chose about rows that are not used, in sentences. guarantee: what
    is promised; missing in cards of earlier versions, whose `person` or else `privacy` says it. released: what was
    released, in words. contact: who is to be asked. total_epsilon: what the user stated, with this release, that all
    releases of the set may add up to."""

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
    state_sha256: str | None = written_if_set()
    person: PersonUnit | None = written_if_set()
    texts: list[str] = written_if_set([])
    reading: list[str] = written_if_set([])
    guarantee: Guarantee | None = written_if_set()
    released: str = written_if_set("")
    contact: str = written_if_set("")
    total_epsilon: Epsilon | None = written_if_set()

    @model_validator(mode="after")
    def _require_warning(self) -> PrivacyCard:
        if self.private and self.noise != "secure":
            raise ValueError("a release is private with secure noise, and only then")
        if not self.private and self.noise == "secure" and not self.unchecked:
            raise ValueError(
                "a release with secure noise is private, unless its code was not checked"
            )
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
        warning = self.warning or ""
        if self.noise != "secure" or not self.unchecked or warning.startswith(UNCHECKED):
            return self
        return self.model_copy(
            update={"private": False, "warning": f"{UNCHECKED} {warning}".strip()}
        )


def card(
    mechanism: Mechanism,
    options: Mapping[str, Any],
    task: Task,
    result: Release,
    manifest: Manifest,
    config: ReleaseConfig,
    person: PersonUnit | None,
    form: Form,
    notes: Sequence[str],
    **about: Any,
) -> PrivacyCard:
    """manifest: from before the release. person: whom the guarantee is for; None for a record. form: of the records.
    notes: on privacy, besides those of the release. about: more fields of the card; all of it is public."""
    rounding = ["How the model rounds: the proof is about real numbers (see the notes)."]
    embedding = embedding_of(mechanism, None)
    model_names: list[str] = []
    if mechanism.needs != "nothing":
        model_names.append(manifest.model.name)
    if embedding:
        model_names.append(embedding.name)
    warnings: list[str] = []
    if not config.secure:
        warnings.append(SEEDED)
    if any(map(is_simulated, model_names)):
        warnings.append(SIMULATED)
    privacy = privacy_of(mechanism, result, config)
    privacy = privacy.model_copy(update={"notes": [*privacy.notes, *notes]})
    limit = getattr(mechanism, "tokens", None)
    texts = read_texts(
        result.demonstrations,
        list(task.labels) if task.partitioned else [],
        limit if isinstance(limit, int) else None,
    )
    return PrivacyCard(
        private=config.secure,
        warning=" ".join(warnings) or None,
        mechanism=mechanism.name,
        source=mechanism.source,
        kind=str(mechanism.kind),
        options=to_plain(options),
        task=CardTask(name=task.name, kind=task.kind, labels=list(task.labels)),
        noise=config.noise,
        privacy=privacy,
        manifest=manifest.model_copy(update={"embedding": embedding}),
        not_covered=[
            *(rounding if is_up_to_rounding(result.bounds.notes) else []),
            *(_OF_PERSONS if person else _OF_RECORDS),
            *_NOT_COVERED,
        ],
        person=person,
        texts=[*texts, *describe_form([each.text for each in result.demonstrations], form)],
        guarantee=_guarantee(privacy, person),
        created=now(),
        **about,
    ).say_unchecked()


def _guarantee(privacy: Privacy, person: PersonUnit | None) -> Guarantee:
    shown = {
        "privacy": privacy.model_dump(mode="json"),
        "person": None if person is None else person.model_dump(mode="json"),
    }
    epsilon, delta = guarantee_of(shown)
    return Guarantee(
        unit="person" if person else "record",
        protects=unit_of_card(shown),
        epsilon=epsilon,
        delta=delta,
        privacy_of="row" if person else "record",
    )


def card_json(content: Mapping[str, Any]) -> str:
    return json.dumps(to_plain(content), indent=1) + "\n"


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


def describe_proof(content: Mapping[str, Any]) -> str:
    """In what sense the epsilon of a card is proved."""
    if content["manifest"].get("plugin_checked") is False:
        return "declared by code that nobody checked"
    return "proved up to rounding" if is_up_to_rounding(content["privacy"]["notes"]) else "proved"


def is_up_to_rounding(notes: Sequence[str]) -> bool:
    """Also of a card whose note has the words of an earlier version."""
    return any(note.startswith(UP_TO_ROUNDING.partition(":")[0]) for note in notes)
