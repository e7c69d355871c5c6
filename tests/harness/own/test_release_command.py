"""`dpicl release`, `dpicl answer` and `dpicl budget`, on the simulated model."""

import csv
import io
import json
from functools import partial

import datasets
import pandas
import pytest

import dpicl as package
from dpicl import models
from dpicl.core.cell import large_delta
from dpicl.core.errors import DpiclError, UsageError
from dpicl.core.vocabulary import Demonstration, ReleasedPrompt
from dpicl.data.task import Task
from dpicl.engines.progress import Stages
from dpicl.models import simulated
from dpicl.models.base import ModelIdentity
from dpicl.own import job as release_job
from dpicl.own import released as formats
from dpicl.own.records import make_config
from dpicl.own.utility import Utility, UtilityRow
from tests.harness.helpers import refuse
from tests.harness.own.desk import (
    ALWAYS,
    LABELS,
    assert_nothing_charged,
    read_card,
    read_rows,
    release,
    write_csv,
)

BREAKING = ("--plugin", "breaks.py", "--allow-unchecked")
BREAKS = """
import numpy as np
from dpicl import Demonstration, DemonstrationMechanism, Knob, gaussian

class Breaks(DemonstrationMechanism):
    name = "breaks"
    knob = Knob("noise_multiplier", low=0.05, high=1000.0, non_private=0.0)

    def events(self, knob, sizes):
        return gaussian(knob)

    def release(self, private, context):
        sample = private.poisson_slots(20, None, partition="billing", releases=gaussian(context.knob)).draw()
        if WHEN:
            raise RuntimeError("the vase")
        sample.spend(gaussian(context.knob)).noisy_sum(np.zeros(2), 1.0)
        return [Demonstration("text", label) for label in context.shots]
"""


def test_from_a_csv_to_demonstrations_a_card_and_a_budget(dpicl, desk):
    answer = release(dpicl, "--total-epsilon", 1.1, "--json").succeed()
    rows = read_rows(desk / "demos.jsonl")
    assert [set(row) for row in rows] == [{"text", "label"}] * 4
    assert {row["label"] for row in rows} <= set(LABELS)
    card = read_card()
    assert card == answer.json["card"] and card["private"]
    assert 0.98 <= card["privacy"]["epsilon_proved"] <= 1 and card["privacy"]["delta"] == 1e-6
    assert card["manifest"]["data"]["sizes"] == dict.fromkeys(LABELS, 20)
    assert card["manifest"]["data"]["fingerprint"] == "withheld"
    assert len(card["not_covered"]) > 4 and card["privacy"]["event"]["event"] == "parallel"
    page = (desk / "demos.card.md").read_text()
    assert (
        "one record; add or remove one record" in page
        and "noise\\_multiplier" in page
        and str(desk) not in page
    )
    assert "Utility was not measured" in page
    (stands,) = answer.json["budgets"]
    assert stands["private_set"] == "tickets"
    assert stands["releases"] == 1
    assert stands["total_epsilon"] == 1.1
    assert stands["epsilon"] == pytest.approx(card["privacy"]["epsilon_proved"])
    for file in desk.iterdir():
        if file.is_file() and file.name != "tickets.csv":
            assert "swordfish" not in file.read_text()
    (desk / "more.csv").write_text((desk / "tickets.csv").read_text() + "one more,refund\n")
    refused = release(dpicl, data="more.csv", out="again.jsonl")
    refuse(refused, "tickets", "1.1")
    assert "loading" not in refused.err
    assert not list(desk.glob("again*"))
    shown = dpicl("budget", "--private-set", "tickets", "--json")
    assert [entry["kind"] for entry in shown.json["private_sets"][0]["entries"]] == [
        "limit",
        "charge",
    ]
    assert "tickets" in dpicl("budget").out


def test_a_release_of_the_simulated_model_is_worth_nothing(dpicl, desk, monkeypatch):
    answer = release(dpicl, "--json")
    warning = answer.json["card"]["warning"]
    assert answer.json["card"]["private"]
    assert "simulated" in warning
    assert warning in release(dpicl, out="b.jsonl").err
    page = (desk / "demos.card.md").read_text()
    assert warning in page and "-differentially private" in page
    monkeypatch.setattr(
        simulated,
        "ModelIdentity",
        lambda name, *more, **named: ModelIdentity("mine", *more, **named),
    )
    assert release(dpicl, "--json", out="c.jsonl").json["card"]["warning"] is None


@pytest.mark.parametrize("alone", [True, False, None])
def test_a_proof_that_holds_up_to_rounding_says_so(dpicl, desk, monkeypatch, alone):
    """Also where nobody knows whether the model reads rows alone."""
    make_identity = partial(ModelIdentity, batch_invariant=alone)
    monkeypatch.setattr(
        simulated, "ModelIdentity", lambda *plain, batch_invariant: make_identity(*plain)
    )
    answer = release(dpicl)
    page = (desk / "demos.card.md").read_text()
    assert ("This release is, up to rounding, (" in page) is (alone is not True)
    assert ("proved up to rounding at delta" in answer.out) is (alone is not True)
    notes = read_card()["privacy"]["notes"]
    assert any("up to rounding" in note for note in notes) is (alone is not True)


def test_output_that_is_there_or_cannot_be_written_costs_nothing(dpicl, desk):
    (desk / "demos.card.md").write_text("mine")
    answer = release(dpicl)
    refuse(answer, "demos.card.md", "--out")
    assert "loading" not in answer.err
    refuse(release(dpicl, out="tickets.csv/demos.jsonl"), "Nothing was charged")
    assert (desk / "demos.card.md").read_text() == "mine" and not (desk / "demos.jsonl").exists()
    assert_nothing_charged(dpicl)


@pytest.mark.parametrize(
    ("name", "content", "noise"),
    [
        ("a.csv", "text,label\n", "secure"),
        ("a.jsonl", "\n", "seeded"),
        ("a.json", "[]", "secure"),
    ],
)
def test_a_file_without_a_record_costs_nothing(dpicl, desk, name, content, noise):
    (desk / name).write_text(content)
    refuse(release(dpicl, "--noise", noise, data=name), name, "no record")
    assert_nothing_charged(dpicl)
    assert not list(desk.glob("demos*"))


@pytest.mark.parametrize("out", [".", "", "a\0b", "x" * 300])
def test_what_is_no_name_of_a_file_costs_nothing(dpicl, desk, out):
    refuse(release(dpicl, out=out), "--out")
    assert_nothing_charged(dpicl)


def test_a_release_that_cannot_be_saved_after_all_is_on_stdout(dpicl, desk, monkeypatch):
    monkeypatch.setattr(release_job, "try_places", lambda out: None)
    answer = release(dpicl, out="tickets.csv/demos.jsonl")
    assert answer.code == 2 and "not lost" in answer.err
    assert len([line for line in answer.out.splitlines() if line.startswith('{"text"')]) == 4
    assert dpicl("budget", "--json").json["private_sets"][0]["releases"] == 1


def test_deltas_above_one_over_the_declared_records_are_refused(dpicl, desk):
    delta = ("--delta", 1 / 100)  # 60 records are declared
    release(dpicl, *delta).succeed()
    refused = release(dpicl, *delta, out="again.jsonl")
    refuse(
        refused, "2 releases", "delta = 0.02", "0.0166667, one over the declared number of records"
    )
    shown = dpicl("budget", "--private-set", "tickets").out
    assert "limit of deltas" in shown and "0.0166667" in shown
    assert dpicl("budget", "--private-set", "tickets", "--total-delta", 0.03).code == 2
    dpicl("budget", "--private-set", "tickets", "--total-delta", 0.02, "--raise").succeed()
    release(dpicl, *delta, out="again.jsonl").succeed()
    assert "the limit of deltas is spent" in dpicl("budget").out


@pytest.mark.parametrize(
    ("when", "words", "charged"),
    [
        ("True", "the vase", 0),  # without a record, so its own words can be shown
        ("sample.slots", "fails with made-up records, so nothing was charged", 0),
        ("any('swordfish' in slot[0].text for slot in sample.slots)", "stays on the budget", 1),
    ],
)
def test_a_failure_is_shown_only_where_no_record_caused_it(dpicl, desk, when, words, charged):
    (desk / "breaks.py").write_text(BREAKS.replace("WHEN", when))
    answer = dpicl(
        "release", "breaks", *BREAKING, "--data", "tickets.csv", *ALWAYS, "--out", "x.jsonl"
    )
    assert answer.code == 2 and words in answer.err
    assert ("the vase" in answer.err) is (when == "True")
    assert len(dpicl("budget", "--json").json["private_sets"]) == charged
    assert not list(desk.glob("x.*"))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--epsilon", "inf"), ["finite"]),
        (("--epsilon", "0"), ["--epsilon should be greater than 0, not '0'"]),
        (("--measure-only",), ["--public-test"]),
        (
            ("--measure-only", "--public-test", "tickets.csv", "--noise", "seeded"),
            ["--noise seeded"],
        ),
        (("--delta", "1e-7"), ["1e-06"]),
        (("--delta", "0.1"), ["0.1", "1/60", "--allow-large-delta"]),
        (("--delta", "0.1", "--noise", "seeded"), ["1/60"]),
        (("--task", "agnews"), ["--labels", "--task"]),
        (("--size", "billing=5"), ["--size"]),
        (("--text-field", "body"), ["body", "text, label", "--text-field"]),
        (("--private-set", "a/b"), ["a/b"]),
        (("--text-is", "{x}"), ["--text-is"]),
        (("--format", "pdf"), ["jsonl"]),
        (("--option", "slots=400"), ["400"]),
    ],
)
def test_what_does_not_fit_is_one_sentence_and_costs_nothing(dpicl, desk, more, words):
    answer = release(dpicl, *more)
    assert answer.code == 2 and "Traceback" not in answer.err
    assert all(word in answer.err for word in words), answer.err
    assert_nothing_charged(dpicl)


def test_a_large_delta_needs_a_flag_and_the_card_says_so(dpicl, desk):
    release(dpicl, "--delta", "0.1", "--allow-large-delta").succeed()
    assert "above 1/60" in " ".join(read_card()["privacy"]["notes"])
    assert "above 1/60" in (desk / "demos.card.md").read_text()
    assert large_delta(1 / 60, 60) == "" != large_delta(1 / 59, 60)


@pytest.mark.parametrize(
    "line", ["a swordfish,weather", '"","billing"', "a swordfish", "a swordfi\xdfh,billing"]
)
def test_a_record_that_cannot_be_read_tells_nothing(dpicl, desk, line):
    with (desk / "tickets.csv").open("ab") as file:
        file.write(line.encode("latin-1") + b"\n")
    answer = release(dpicl, "--label-field", "label")
    named = ("data", "tickets.csv", "--labels", ",".join(LABELS), "--label-field", "label")
    assert (
        answer.code == 2
        and "`dpicl data tickets.csv` with the same labels and fields" in answer.err
    )
    assert not any(word in answer.err for word in ("swordfish", "weather", "line 5"))
    described = dpicl(*named)
    assert described.code and "line 56" in described.out + described.err
    assert "line 56" in release(dpicl, "--noise", "seeded").err


@pytest.mark.parametrize("wrong", [',{"text": "a", "text": "b"}]', ",{]", '}, "\udcff"'])
def test_a_document_that_a_record_breaks_tells_nothing(dpicl, desk, wrong):
    content = '[{"text": "ticket 1", "label": "billing"}\n' + wrong
    (desk / "a.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    answer, shown = (
        release(dpicl, data="a.json"),
        release(dpicl, "--noise", "seeded", data="a.json").err,
    )
    assert answer.code == 2 and "dpicl data a.json" in answer.err
    assert not any(word in answer.err for word in ("twice", "line 2", "JSON:"))
    assert "twice" in shown or "line 2" in shown


def test_a_key_of_one_record_is_no_name_of_a_column(dpicl, desk):
    rows = [
        {"text": "ticket 1", "team": "billing"},
        {"text": "ticket 2", "team": "billing", "swordfish": 1},
    ]
    (desk / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    answer = release(dpicl, data="a.jsonl")
    assert answer.code == 2 and "text, team" in answer.err and "swordfish" not in answer.err


def test_columns_and_labels_of_any_name(dpicl, desk):
    rows = [f"a text {number},{label}" for number in range(20) for label in LABELS]
    (desk / "odd.csv").write_text("\n".join(["Text,My  label", *rows]))
    fields = ("--text-field", "Text", "--label-field", "My  label")
    dpicl("data", "odd.csv", *fields, "--labels", ",".join(LABELS)).succeed()
    release(dpicl, *fields, data="odd.csv").succeed()
    with pytest.raises(UsageError, match="characters together"):
        make_config([f"{'x' * 150} {number}" for number in range(200)], "text")
    with pytest.raises(UsageError, match="one line"):
        make_config(["a\udcff", "b"], "text")


def test_the_format_of_a_prompt(dpicl, desk):
    assert (
        release(dpicl, "--format", "prompt", "--text-is", "support ticket", out="prompt.txt").code
        == 0
    )
    prompt = (desk / "prompt.txt").read_text()
    assert prompt.startswith("Classify each support ticket as billing, technical or refund.")
    assert (
        prompt.endswith("Support ticket: {text}\nCategory:\n") and prompt.count("\nCategory:") == 5
    )


def test_libraries_open_what_is_released(tmp_path):
    """csv, pandas, datasets, and the message formats as their programs take them."""
    task = Task.from_records(make_config(LABELS, "text"), (), {})
    texts = ["=cmd|' /C calc'!A0", 'a "quoted", text', "زر"]
    prompt = ReleasedPrompt(
        None, [Demonstration(text, label) for text, label in zip(texts, LABELS, strict=True)]
    )
    contents = {form: formats.format_release(prompt, task, form) for form in formats.FORMATS}
    rows = list(csv.DictReader(io.StringIO(contents["csv"])))
    assert [row["label"] for row in rows] == list(LABELS)
    assert [row["text"] for row in rows] == [
        "'" + texts[0],
        *texts[1:],
    ]
    frame = pandas.read_parquet(io.BytesIO(contents["parquet"]))
    assert frame.text.tolist() == texts and frame.label.tolist() == list(LABELS)
    (tmp_path / "train.parquet").write_bytes(contents["hf"])
    data = datasets.Dataset.from_parquet(
        str(tmp_path / "train.parquet"), cache_dir=str(tmp_path / "cache")
    )
    assert list(data["text"]) == texts
    assert data.features["label"].names == list(task.labels)
    assert [data.features["label"].int2str(label) for label in data["label"]] == list(LABELS)
    chat = json.loads(contents["messages-openai"])["messages"]
    assert [one["role"] for one in chat] == [
        "system",
        *["user", "assistant"] * 3,
        "user",
    ]
    anthropic = json.loads(contents["messages-anthropic"])
    roles = [one["role"] for one in anthropic["messages"]]
    assert anthropic["system"] and roles == [*["user", "assistant"] * 3, "user"]


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "hf"])
def test_a_table_has_the_instruction_that_was_released(form):
    task = Task.from_records(make_config(LABELS, "text"), (), {})
    content = formats.format_release(ReleasedPrompt("Sort them well."), task, form)
    assert "Sort them well." in (
        content if isinstance(content, str) else str(pandas.read_parquet(io.BytesIO(content)))
    )


def test_what_a_model_writes_moves_nothing_and_ends_no_line():
    task = Task.from_records(make_config(LABELS, "text"), (), {})
    hostile = 'x\u2028y\x1b[2J"}\n{"text": "z\u202e'
    prompt = ReleasedPrompt("do\x07 it", [Demonstration(hostile, "billing")])
    lines = formats.format_release(prompt, task, "jsonl").splitlines()
    assert [list(json.loads(line)) for line in lines] == [["instruction"], ["text", "label"]]
    assert json.loads(lines[1])["text"] == hostile
    for form in set(formats.FORMATS) - {"parquet", "hf"}:
        text = formats.format_release(prompt, task, form)
        assert not set(text) & {"\x1b", "\u2028", "\u202e", "\x07"}


def test_answers_of_both_kinds(dpicl, desk):
    (desk / "new.txt").write_text("where is my money\n\nthe app is broken\n")
    (desk / "new.csv").write_text("id,text\n7,where is my money\nq8,the app is broken\n")
    words = ("--data", "tickets.csv", *ALWAYS)
    answer = dpicl("answer", "voting", *words, "--queries", "new.txt", "--option", "slots=4",
                   "--option", "examples_per_slot=1", "--out", "a.jsonl", "--json").succeed()  # fmt: skip
    rows = read_rows(desk / "a.jsonl")
    assert [(row["id"], row["text"]) for row in rows] == [
        ("1", "where is my money"), ("2", ""), ("3", "the app is broken")
    ]  # fmt: skip
    assert rows.pop(1)["answer"] == "" and "1 of 3 queries have no text" in answer.err
    assert {row["answer"] for row in rows} <= set(LABELS)
    assert answer.json["card"]["privacy"]["queries"] == 2
    answer = dpicl("answer", "embedding_centroids", *words, "--queries", "new.csv", "--option", "embedding=sim",
                   "--out", "b.jsonl", "--json").succeed()  # fmt: skip
    assert [row["id"] for row in read_rows(desk / "b.jsonl")] == [
        "7",
        "q8",
    ]
    assert answer.json["card"]["privacy"]["queries"] is None
    assert answer.json["budgets"][0]["releases"] == 2
    refuse(
        dpicl("answer", "tang", *words, "--queries", "new.txt", "--out", "c.jsonl"), "dpicl release"
    )
    large = ("--delta", 0.1, "--queries", "new.txt", "--out", "c.jsonl")
    refuse(dpicl("answer", "embedding_centroids", *words, *large), "1/60", "--allow-large-delta")
    refuse(dpicl("release", "voting", *words, "--out", "c.jsonl"), "dpicl answer")
    (desk / "new.csv").write_text("id,body\n7,where\n")
    refuse(dpicl("answer", "voting", *words, "--queries", "new.csv", "--out", "c.jsonl"), "'text'")


def test_from_python(desk):
    released = package.release("tang", data="tickets.csv", labels=LABELS, size=20, model="sim",
                           options={"slots": 4, "tokens": 3}, out="demos.jsonl")  # fmt: skip
    assert (
        len(released.demonstrations) == 4
        and released.instruction is None
        and released.card["private"]
    )
    assert released.text() == (desk / "demos.jsonl").read_text()
    answers = package.answer("embedding_centroids", data="tickets.csv", labels=LABELS, model="sim",
                             queries=["where is my money"], size=dict.fromkeys(LABELS, 20),
                             options={"embedding": "sim"}).answers  # fmt: skip
    assert set(answers) == {"1"}
    (stands,) = package.budget()
    assert stands["releases"] == 2 and 1 < stands["epsilon"] < stands["sum_epsilon"] <= 2
    with pytest.raises(package.UsageError, match="nothing"):
        package.budget("nothing")


@pytest.mark.parametrize(
    ("where", "charged"),
    [
        ((models, "load"), 0),
        ((release_job, "charge"), 0),
        ((formats.PrivateRelease, "save"), 1),
    ],
)
def test_a_release_that_is_stopped_says_whether_its_charge_stays(
    dpicl, desk, monkeypatch, where, charged
):
    def stop(*arguments, trial=False, **more):
        if not trial:
            raise KeyboardInterrupt

    monkeypatch.setattr(*where, stop)
    answer = release(dpicl)
    assert answer.code == 130 and not list(desk.glob("demos*"))
    assert ("nothing was charged" in answer.err) is (where == (models, "load"))
    assert len(package.budget()) == charged


def test_how_far_a_release_is_from_private_records_is_not_said(dpicl, desk, monkeypatch):
    counted = []

    def report(stages: Stages, done: int, total: int, unit: str) -> None:
        counted.append((stages._stage, f"{done} of {total} {unit}"))

    monkeypatch.setattr(Stages, "report", report)
    release(dpicl).succeed()
    stages = {stage for stage, _ in counted}
    assert stages == {"trying the release without a record", "timing it with 24 made-up records"}
    assert counted[-1][1] == "4 of 4 demonstrations"


def test_utility_is_measured_on_public_records_first(dpicl, desk):
    answer = release(dpicl, "--public-test", "public.csv")
    refuse(answer, "public.csv")
    assert "loading" not in answer.err
    write_csv(desk / "public.csv", 12)
    answer = release(dpicl, "--public-test", "public.csv", "--json").succeed()
    utility = answer.json["card"]["utility"]
    assert utility["metric"] == "acc_calibrated"
    assert utility["trained_on"] == 18
    assert utility["tested"] == 18
    controls = ["zero_shot", "public_demonstrations", "repeated_label", "topic_words"]
    names = ["tang", *controls, "public records in the prompt"]
    assert [row["name"] for row in utility["rows"]] == names
    assert all(0 <= row["low"] <= row["score"] <= row["high"] <= 1 for row in utility["rows"])
    page = (desk / "demos.card.md").read_text()
    assert "| tang | " in page and "On the private records it may be" in page
    assert utility["not_better_than"] == names[1:]  # what knows nothing beats nothing
    assert (
        "not shown to be better than that of zero_shot" in answer.err
        and "not shown to be better" in page
    )
    heads = (
        "loading",
        "measuring",
        "acc_calibrated on 18",
        "trying",
        "charging epsilon",
        "charged to 'tickets'",
    )
    assert all(any(line.startswith(head) for line in answer.err.splitlines()) for head in heads), (
        answer.err
    )
    assert (
        dpicl("budget", "--json").json["private_sets"][0]["releases"] == 1
    )  # the trial cost nothing


def test_a_doubt_names_the_controls_that_score_higher():
    def doubt(**scores):
        rows = [
            UtilityRow(name=name, score=score, low=score, high=score)
            for name, score in scores.items()
        ]
        doubted = [row.name for row in rows[1:]]
        return Utility(
            metric="acc", trained_on=9, tested=9, rows=rows, not_better_than=doubted
        ).doubt

    assert doubt(tang=0.5, zero_shot=0.5).endswith("better than that of zero_shot.")
    assert doubt(tang=0.5, zero_shot=0.4, topic_words=0.7).endswith(
        "zero_shot or topic_words (topic_words scores higher)."
    )
    assert "(repeated_label and topic_words score higher)" in doubt(
        tang=0.5, repeated_label=0.6, topic_words=0.7
    )
    assert not doubt(tang=0.5)


def test_what_beats_the_others_is_measured_alone_at_no_cost(dpicl, desk):
    """The simulated model does not know what these words mean; records do."""
    words = {"billing": "money", "technical": "screen", "refund": "parcel"}
    rows = [f"{word} case {n},{label}" for n in range(14) for label, word in words.items()]
    (desk / "public.csv").write_text("\n".join(["text,label", *rows]))
    command = ("release", "embedding_centroids", "--data", "tickets.csv", *ALWAYS[:-1], 8, "--option", "embedding=sim",
             "--public-test", "public.csv", "--measure-only", "--out", "desk.json")  # fmt: skip
    answer = dpicl(*command, "--json").succeed()
    utility = answer.json["card"]["utility"]
    scores = {row["name"]: row for row in utility["rows"]}
    assert scores["embedding_centroids"]["low"] > scores["zero_shot"]["high"]
    assert "zero_shot" not in utility["not_better_than"]
    shown = dpicl(*command)
    assert f"{scores['zero_shot']['score']:.3f}" in shown.out and "charging" not in shown.err
    assert not list(desk.glob("desk*")) and answer.json["budgets"] == []
    assert_nothing_charged(dpicl)


def test_utility_of_answers_is_measured_for_as_many_queries(dpicl, desk):
    write_csv(desk / "public.csv", 12)
    (desk / "asked.txt").write_text("my bill\na crash\n")
    words = (
        "--data",
        "tickets.csv",
        *ALWAYS,
        "--queries",
        "asked.txt",
        "--public-test",
        "public.csv",
    )
    answer = dpicl(
        "answer", "voting", *words, "--option", "slots=4", "--out", "answers.jsonl", "--json"
    ).succeed()
    utility = answer.json["card"]["utility"]
    assert utility["tested"] == 2 and utility["rows"][0]["name"] == "voting"


def test_a_workbook_and_tables_in_memory_are_read_as_a_file_is(desk):
    frame = pandas.read_csv("tickets.csv")
    frame.to_excel("tickets.xlsx", index=False)
    settings = {
        "labels": LABELS,
        "model": "sim",
        "noise": "seeded",
        "options": {"slots": 4, "tokens": 3, "top_k": 10},
    }
    pairs = list(zip(frame.text, frame.label, strict=True))
    dataset = datasets.Dataset.from_pandas(frame)
    releases = [
        package.release("tang", data=data, size=20, **settings)
        for data in ("tickets.csv", "tickets.xlsx", pairs, dataset)
    ]
    fingerprints = {each.card["manifest"]["data"]["fingerprint"] for each in releases}
    assert len(fingerprints) == 1
    assert all(each.demonstrations == releases[0].demonstrations for each in releases)


def test_rows_in_memory_that_cannot_be_read_show_nothing(desk):
    settings = {"labels": LABELS, "model": "sim", "noise": "seeded", "size": 20}
    for data, words in (
        (7, "Records are a file"),
        ([("a swordfish", "weather")] * 3, "the list row 0"),
    ):
        with pytest.raises(DpiclError, match=words) as error:
            package.release("tang", data=data, **settings)
        assert "swordfish" not in str(error.value)


def test_a_program_describes_its_rows_as_it_numbers_them(desk):
    frame = pandas.DataFrame(
        {
            "text": ["a", "b", "c", None],
            "label": ["billing", "refund", "other", "refund"],
            "user": [*"ppqp"],
        },
        index=[5, 9, 12, 20],
    )
    described = package.data(frame, labels=["billing", "refund"])
    (split,) = described.document["splits"]
    assert described.document["what"] == "the DataFrame" and described.code == 1
    assert sorted(line for lines in split["faults"].values() for line in lines) == [12, 20]
    assert described.document["persons"][0]["largest"] == 2
    for rows in (
        frame.loc[[20, 5]],
        [("", "billing"), ("a", "refund")],
    ):
        (split,) = package.data(rows, labels=["billing", "refund"]).document["splits"]
        assert [*split["faults"].values()] == [[0]]
    with pytest.raises(UsageError, match="person_field is for a file"):
        package.data("trec", person_field="user")
    assert "swordfish" not in str(package.data("tickets.csv", labels=LABELS).document)


def test_records_known_under_another_name_are_refused(dpicl, desk):
    release(dpicl, "--total-epsilon", 1.1).succeed()
    (desk / "copy.csv").write_text((desk / "tickets.csv").read_text())
    refuse(
        release(dpicl, "--private-set", "fresh", data="copy.csv", out="x.jsonl"),
        "These are records of",
        "tickets",
    )
