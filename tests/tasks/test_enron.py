"""Task enron: what a record is, what is measured, invented people who lead to nobody, real ones who stay unseen."""

import re
from itertools import islice

import pytest

from dpicl import models
from dpicl.attacks.pii_patterns import addresses, find_identifiers, phones
from dpicl.core.errors import DataError
from dpicl.data.splits import Record
from dpicl.data.task import Task
from dpicl.evaluation.lm_eval_bridge import evaluate
from dpicl.mechanism.bases import Demonstration
from dpicl.models.base import ChatPrompt
from dpicl.tasks import mail
from dpicl.tasks.synthetic import enron
from tests.harness.helpers import write

RESERVED = re.compile(r"@(?:[a-z]+\.)*(?:example\.(?:com|org|net)|example)")
FICTITIOUS = re.compile(r"(?:[2-9]\d\d)?55501\d\d")


@pytest.fixture(scope="module")
def synthetic() -> Task:
    return Task.load("enron", "synthetic")


@pytest.fixture(scope="module")
def invented() -> list[str]:
    return [text for text, _ in islice(enron.records(None, "train", 3), 4_000)]


# --- invented people


def test_every_address_and_number_leads_to_nobody(invented):
    mails = {each for each in find_identifiers(invented) if "@" in each}
    numbers = find_identifiers(invented) - mails
    assert len(mails) > 1000 and len(numbers) > 600
    assert all(RESERVED.fullmatch(address[address.index("@") :]) for address in mails)
    assert all(FICTITIOUS.fullmatch(number) for number in numbers)


def test_no_address_or_number_is_overlooked(invented):
    for text in invented:
        assert text.count("@") == sum(text.count(address) for address in addresses(text))
        assert bool(re.search(r"555.01\d\d", text)) == bool(phones(text))
        assert not re.search(r"[<>]\S* at ", text)


# --- records of the other sources


@pytest.fixture
def local(local_data):
    """Writes local files; the train rows as given, one test row."""

    def write_rows(*rows: dict) -> None:
        write(local_data, "enron", "train", rows)
        write(local_data, "enron", "test", [{"text": "A test mail about the weather of today"}])

    return write_rows


def test_a_local_record_is_its_body_on_one_line_cut_at_120_words(local):
    header = {
        "sender": "a@b.example",
        "subject": "HIDDEN",
        "emails": ["c@d.example"],
        "src": "HIDDEN",
    }
    local({"text": "One,\n\n  two \t three\r\nfour\n", **header}, {"text": "word " * 200, **header})
    task = Task.load("enron", "local")
    assert [record.text for record in task.train] == [
        "One, / two three / four",
        " ".join(["word"] * 120),
    ]
    assert {record.label for record in task.train} == {"email"}


@pytest.mark.parametrize(
    "body",
    [
        None,
        7,
        ["SECRET"],
        {"SECRET": 1},
    ],
)
def test_a_row_without_a_body_is_refused_without_its_content(local, body):
    local({"text": body, "sender": "SECRET@b.example"})
    with pytest.raises(DataError, match=r"enron/train\.jsonl line 1 needs the body") as caught:
        Task.load("enron", "local")
    assert "SECRET" not in str(caught.value)


# --- prompts


def test_a_mail_is_shown_as_it_is_and_asked_for_without_a_label(synthetic):
    body = Record("Dear {label}, / {{ 1 }}", "email")
    assert synthetic.generation_prompt("email", [body]) == (
        "Write an e-mail.\n\nE-mail: Dear {label}, / {{ 1 }} END\nE-mail:"
    )
    assert synthetic.icl_prefix([body]) + synthetic.query("") == (
        "Write an e-mail.\n\nE-mail: Dear {label}, / {{ 1 }}\nE-mail:"
    )
    assert synthetic.generation_prompt("email", (), style="chat") == ChatPrompt(
        "Generate only the text of one e-mail.", "E-mail:"
    )
    assert synthetic.generation_prompt("email", [body], style="chat") == ChatPrompt(
        "Here are e-mails.\n\nDear {label}, / {{ 1 }}\n\nPlease give me another one.", "E-mail:"
    )


# --- metrics


@pytest.mark.parametrize(
    ("text", "plausible"),
    [
        ("Bob, / Can we meet on Monday? / Ann", 1.0),
        ("one two three four five", 1.0),
        ("one two three four four", 0.0),
        ("猫 犬 鳥 魚 馬", 1.0),
        ("", 0.0),
        ("Write an e-mail. E-mail: Write an e-mail. one two three four", 0.0),
        ("one two three four five one two three four five", 1.0),
        ("one two three four five one two three four five one", 0.0),
    ],
)
def test_plausible_texts_have_five_words_and_do_not_loop(text, plausible):
    assert mail.results({}, [text]) == {"plausible": plausible}


def test_word_distance_by_hand():
    records = ["the gas the price", "The sample"]  # the 3/6, gas, price, sample 1/6
    texts = ["the THE pump", "gas!"]  # the 2/4, gas 1/4, another word 1/4
    assert mail.word_distance(texts, records) == pytest.approx(
        (0 + 1 / 12 + 1 / 6 + 1 / 6 + 1 / 4) / 2
    )
    assert mail.word_distance(records, records) == 0.0
    assert mail.word_distance(["pump station"], records) == pytest.approx(1.0)
    for nothing in ([], ["", "?!"]):
        assert mail.word_distance(nothing, records) == mail.word_distance(records, nothing) == 1.0


def test_released_mails_are_scored_through_lm_eval(synthetic):
    texts = [
        "Bob, / Can we meet on Monday? / Ann",
        "",
        "{{ text }} {% raw %} \ud800",
        "Bob, Can we meet on Monday? Ann",
    ]
    evaluation = evaluate(
        synthetic, models.load("sim"), [Demonstration(text, "email", tokens=1) for text in texts]
    )
    assert evaluation.outcomes["plausible"] == [1.0, 0.0, 0.0, 1.0]
    assert evaluation.scores == {"plausible": 0.5}
    records = [record.text for record in synthetic.test]
    assert evaluation.aggregates == {
        "word_distance": mail.word_distance(texts, records),
        "repeats": 0.25,
    }


# --- mechanisms
