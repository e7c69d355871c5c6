"""A task file of lm-evaluation-harness becomes a task here, or everything that stands in the way is named at once."""

import csv
import json

import pytest
import yaml

from dpicl.data.config import load_config
from dpicl.plan.selection import select

CHOICE = {
    "task": "sst2",
    "dataset_path": "csv",
    "dataset_kwargs": {"data_files": {"train": "train.csv", "validation": "test.csv"}},
    "output_type": "multiple_choice",
    "training_split": "train",
    "validation_split": "validation",
    "doc_to_text": "{{sentence | trim}}\nIs sentence positive?\nAnswer:",
    "doc_to_target": "label",
    "doc_to_choice": ["negative", "positive"],
    "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
}
SUMMARY = {
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"train": "train.jsonl", "test": ["test.jsonl"]}},
    "output_type": "generate_until",
    "doc_to_text": "{{dialogue}}\nSummary:",
    "doc_to_target": "{{summary}}",
    "generation_kwargs": {"until": ["\n"], "max_gen_toks": 30},
}


@pytest.fixture
def folder(tmp_path, monkeypatch, own_cache):
    for split, records in (("train", 40), ("test", 12)):
        with (tmp_path / f"{split}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["sentence", "label"])
            writer.writerows(
                [f"{split} film {number} was fine", number % 2] for number in range(records)
            )
        lines = [
            {"dialogue": f"{split} {number}: hello", "summary": f"greeting {number}"}
            for number in range(records)
        ]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def bring_in(dpicl, folder, content, *flags):
    (folder / "theirs.yaml").write_text(
        content if isinstance(content, str) else yaml.safe_dump(content)
    )
    return dpicl(f"new task mine --from-lm-eval {folder}/theirs.yaml", *flags)


def test_multiple_choice_becomes_a_classification_that_runs(dpicl, folder):
    answer = bring_in(dpicl, folder, CHOICE).succeed()
    assert "acc_norm" in answer.err
    dpicl(
        "run mine/suite.yaml --plugin mine --model sim --results results --json",
    ).succeed()
    select("mine/suite.yaml", folder / "results", plugins=[folder / "mine"])
    task = load_config("mine")
    assert task.doc_to_text == "{{text | trim}}\nIs sentence positive?\nAnswer:"
    assert task.data.local.labels == {"0": "negative", "1": "positive"}


def test_generate_until_becomes_a_generation_task(dpicl, folder):
    bring_in(dpicl, folder, SUMMARY).succeed()
    content = yaml.safe_load((folder / "mine/task.yaml").read_text().replace("!function", ""))
    assert content["metadata"]["kind"] == "generation"
    assert content["generation_kwargs"]["max_gen_toks"] == 30
    dpicl("data mine --plugin mine --json").succeed()


def test_files_of_records_can_be_named_beside_it(dpicl, folder):
    content = CHOICE | {"dataset_path": "nyu-mll/glue", "dataset_kwargs": None}
    refused = bring_in(dpicl, folder, content)
    assert refused.code == 2 and "--from FILE" in refused.err
    bring_in(dpicl, folder, content, "--from", "train.csv", "--test", "test.csv").succeed()


def test_all_that_is_unsupported_is_said_at_once(dpicl, folder):
    wrong = "\n".join(
        [
            "dataset_path: org/somewhere",
            "output_type: loglikelihood",
            "doc_to_text: '{{passage}} {{question}}'",
            "doc_to_target: !function utils.target",
            "process_docs: !function utils.process",
            "description: '{{subject}} questions'",
            "gen_prefix: Well",
            "colour: red",
        ]
    )
    refused = bring_in(dpicl, folder, wrong)
    assert refused.code == 2
    for part in ("output_type (line 2)", "2 fields (passage, question)", "doc_to_target (line 4)", "process_docs",
                 "description (line 6)", "gen_prefix", "colour", "dataset_path (line 1)"):  # fmt: skip
        assert part in refused.err, part
    assert not (folder / "mine").exists()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"doc_to_text": "{{ sentence | attr('__class__') }}"}, "no other code"),
        ({"doc_to_text": "{% for a in sentence %}{{a}}{% endfor %}"}, "no other code"),
        ({"doc_to_text": "{{ sentence"}, "not a valid template"),
        ({"doc_to_target": 3}, "name of a field"),
        ({"doc_to_target": "The {{label}}"}, "one field as it is"),
        ({"doc_to_choice": "{{choices}}"}, "must be a list"),
        ({"doc_to_choice": [False, True]}, "in quotes"),
        ({"dataset_kwargs": {"data_files": {"train": "absent.csv"}}}, "no file"),
        ({"dataset_kwargs": {"data_files": {"train": ["a.csv", "b.csv"]}}}, "no single file"),
        ({"dataset_kwargs": ["train.csv"]}, "needs data_files"),
        ({"repeats": 5}, "asked once"),
        ({"include": "base.yaml"}, "included file"),
        ({"class": "Squad"}, "by code in Python"),
    ],
)
def test_what_cannot_come_in_is_one_sentence(dpicl, folder, change, sentence):
    refused = bring_in(dpicl, folder, CHOICE | change)
    assert refused.code == 2
    assert sentence in refused.err
    assert "Traceback" not in refused.err
    assert not (folder / "mine").exists()


def test_records_that_do_not_fit_leave_nothing_behind(dpicl, folder):
    (folder / "train.csv").write_text("sentence,label\nfine film,7\n")
    refused = bring_in(dpicl, folder, CHOICE)
    assert refused.code == 2
    assert not (folder / "mine").exists()
