"""task.yaml is checked once, with lines, before anything runs; it holds no code but the functions that it names."""

import dataclasses
from pathlib import Path

import pytest

from dpicl.core.errors import DpiclError
from dpicl.data.config import TASKS, list_tasks
from dpicl.data.task_file import LM_EVAL_KEYS, TaskFile, read_task_file
from tests.harness.helpers import refuse

pytestmark = pytest.mark.usefixtures("no_plugins_before")


def text_of(name: str) -> str:
    return (TASKS / name / "task.yaml").read_text()


def read(text: str, name: str = "agnews") -> TaskFile:
    return read_task_file(text, "task.yaml", name, built_in=True)


def test_every_task_of_the_project_is_sound():
    for name in list_tasks():
        assert read(text_of(name), name).metadata.name == name


def test_keys_without_a_meaning_here_are_those_of_lm_eval():
    from lm_eval.api.task import TaskConfig

    assert {field.name for field in dataclasses.fields(TaskConfig)} == LM_EVAL_KEYS | set(
        TaskFile.model_fields
    )


CHANGES = {
    "booleans for labels": (
        "[World, Sports, Business, Technology]",
        "[yes, no]",
        10,
        "put it in quotes",
    ),
    "a label twice": ("[World, Sports, Business, Technology]", "[World, World]", 10, "twice"),
    "a mapped label that is none": (
        "Sci/Tech: Technology}",
        "Sci/Tech: Tech}",
        44,
        "none of doc_to_choice",
    ),
    "an unknown main metric": (
        "main_metric: acc_logistic",
        "main_metric: acc_logistics",
        25,
        "Did you mean",
    ),
    "a metric that is not listed": ("metric: acc\n", "metric: accuracy\n", 14, "list it"),
    "a template that does not parse": (
        '"Article: {{text}}\\nAnswer:"',
        '"Article: {{text}"',
        8,
        "template",
    ),
    "a template with another field": ("{{text}}", "{{title}}", 8, "nothing else"),
    "a template with code": (
        "{{text}}",
        "{{ cycler.__init__.__globals__.os.system('x') }}",
        8,
        "nothing else",
    ),
    "a template that is code": (
        'doc_to_text: "Article: {{text}}\\nAnswer:"',
        "doc_to_text: !function os.getcwd",
        8,
        "written out",
    ),
    "an empty stop string": ('stop: ["\\n", " END"]', 'stop: [""]', 27, "at least 1 item"),
    "no prompts in a style": ("    chat:", "    chats:", 33, "Unknown key"),
    "an include": (
        "task: dpicl_agnews",
        "include: other.yaml\ntask: dpicl_agnews",
        2,
        "Unknown key",
    ),
    "a custom data set that is no function": (
        "!function dpicl.tasks.loaders.documents",
        "documents",
        3,
        "!function",
    ),
    "another kind of answer": (
        "output_type: multiple_choice",
        "output_type: generate_until",
        5,
        "multiple_choice",
    ),
    "a metric that the harness computes": (
        "  main_metric:",
        "  aggregates: {acc_nearest: os.getcwd}\n  main_metric:",
        21,
        "itself",
    ),
    "delimiter that is a number": (
        'target_delimiter: " "',
        "target_delimiter: 1",
        11,
        "put it in quotes",
    ),
    "metadata that is a list": (
        "metadata:\n  version: 2",
        "metadata: [1]\nother:\n  version: 1\n",
        22,
        "other",
    ),
}
PREFIX = 'private_prefix: "Text:"'
CHANGES |= {
    "an unknown placeholder": ('News Type: \\"{label}\\"\\nText: \\""', '{labl}"', 32, "{label}"),
    "a placeholder of a gigabyte": (PREFIX, 'private_prefix: "{label:>1000000000}"', 39, "{label}"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_wrong_value_is_one_sentence_with_its_line(name: str):
    old, new, line, words = CHANGES[name]
    text = text_of("agnews")
    assert old in text, old
    with pytest.raises(DpiclError) as caught:
        read(text.replace(old, new, 1))
    message = str(caught.value)
    assert f"line {line}:" in message and words in message and "\n" not in message


def test_a_command_says_so_before_anything_runs(dpicl, meals: Path):
    file = meals / "task.yaml"
    file.write_text(file.read_text().replace("doc_to_choice:", "doc_to_choice: []\nunused:", 1))
    refuse(dpicl("list", "tasks", "--plugin", meals), "line", "doc_to_choice")


def test_nothing_of_a_task_folder_is_imported_before_a_run(dpicl, meals: Path, monkeypatch):
    monkeypatch.setenv("DPICL_DATA", str(meals.parent))
    (meals / "own.py").write_text(f"open({str(meals / 'ran')!r}, 'w')")
    file = meals / "task.yaml"
    file.write_text(
        file.read_text().replace("dpicl.tasks.metrics.classification_results", "own.results")
    )
    dpicl("list", "tasks", "--plugin", meals)
    dpicl("plan", meals / "suite.yaml", "--plugin", meals)
    assert not (meals / "ran").exists()
    refuse(
        dpicl(
            "run",
            meals / "suite.yaml",
            "--plugin",
            meals,
            "--results",
            meals.parent / "r",
            "--model",
            "sim",
        ),
        "lm-eval cannot load",
    )
    assert (
        meals / "ran"
    ).exists()  # which is why docs/add-a-task.md says that a task folder is code
