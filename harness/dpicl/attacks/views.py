"""Replaces the question of a task while its records stay the same.

A view is a task, so every mechanism that does the view's kind answers it, through the same slots and at the same price.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from dpicl.core.vocabulary import Partition
from dpicl.data import splits as record_sets
from dpicl.data.task import PublicTask, Record, Task
from dpicl.data.task_file import Generation
from dpicl.models.base import LanguageModel

AnyTask = TypeVar("AnyTask", bound=PublicTask)

#: The answers to a direct question about membership.
YES, NO = "Yes", "No"
#: Placeholder of a text while a template is split.
_MARK = "\x00"


def view(
    task: AnyTask,
    question: str,
    *,
    kind: str,
    labels: Sequence[str] = (),
    **changes: Any,
) -> AnyTask:
    """``task`` with another question: the examples are shown as the task shows them, with its instruction.

    question: what stands after the examples, a jinja template of ``text`` (lm-eval's `doc_to_text`).
    kind: 'classification' among ``labels``, or 'generation' of a text. changes: other top-level keys of task.yaml,
    such as `generation_kwargs` and `target_delimiter`.
    """
    config = task.config.model_copy(update={"doc_to_text": question, **changes})
    return replace(
        task,
        config=config,
        kind=kind,
        labels=tuple(labels),
        partitioned=False,
        shown_by=task.public_view(),
    )


def ask_yes_or_no(task: AnyTask) -> AnyTask:
    """Is this text one of the examples? The direct question of Xia et al. 2025 (prompt 1), for candidates Yes and No.

    The words are ours: theirs are made for chat models.
    """
    question = (
        "Is the following text one of the examples above? Answer Yes or No.\nText: {{text}}\n"
        "Is it one of them? Answer:"
    )
    return view(task, question, kind="classification", labels=(YES, NO), target_delimiter=" ")


def free_text(task: AnyTask, room: int = 24) -> AnyTask:
    """Whatever is asked, answered with a short text: for mechanisms that aggregate texts, and for released examples.

    The query's text is the whole question. room: the longest answer, in tokens.
    """
    until = Generation(until=["\n"], max_gen_toks=room)
    return view(task, "{{text}}", kind="generation", target_delimiter=" ", generation_kwargs=until)


def replace_records(
    task: Task,
    train: Sequence[Record],
    sizes: Mapping[Partition, int] | None = None,
) -> Task:
    """The same task with these private records, and their fingerprint. sizes: n_y as declared (None: counted).

    An attacker's private set has a random size. Noise that followed it would tell the size, and no epsilon covers that.
    """
    digest = record_sets.fingerprint(list(train), list(task.test), list(task.public))
    return replace(task, train=tuple(train), fingerprint=digest, declared=sizes)


def show_start(task: PublicTask, text: str) -> str:
    """What a prompt shows of a record up to the end of this beginning of its text."""
    if task.kind == "json":
        return task.query("") + task.config.target_delimiter + text
    return task.query(_MARK).partition(_MARK)[0] + text


def completions(task: Task, model: LanguageModel, prompts: Sequence[str]) -> list[str]:
    """The model's texts after prompts, by the generation settings of a task."""
    settings = task.config.generation_kwargs
    tokens = [model.encode(prompt) for prompt in prompts]
    texts = model.generate(tokens, settings.max_gen_toks, settings.until)
    return [text.strip() for text in texts]


def first_words(text: str, words: int | None) -> str:
    """The first ``words`` words, with single blanks between them; None: the text as it is."""
    return text if words is None else " ".join(text.split()[:words])


def spell_out(task: PublicTask, text: str, output: str, times: int) -> str:
    """A text that, put where the task shows a text, reads like ``times`` examples of ``text`` with that output, and
    then ``text`` again."""
    before, _, after = task.query(_MARK).partition(_MARK)
    example = (
        text
        + after
        + task.config.target_delimiter
        + output
        + task.config.fewshot_delimiter
        + before
    )
    return example * times + text
