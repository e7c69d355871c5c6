"""Samples texts from the model: releases of the reference baselines on JSON and continuation tasks, and candidates of
private evolution.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpicl.mechanism.bases import Context, Demonstration
from dpicl.mechanism.generation import PromptWriter, ReleasedText

if TYPE_CHECKING:
    from dpicl.privacy.private_set import PrivateRecord


def sample_texts(
    context: Context,
    slots: Sequence[Sequence[PrivateRecord]],
    stream: str,
) -> list[Demonstration]:
    """One text a shot, sampled at temperature 1 after the completion prompt that shows the records of its slot.

    slots: the records of each shot; () for the public prompt. stream: name of the public randomness of the samples.
    A text has at most the task's `max_gen_toks` tokens, and ends where any released text would (`ReleasedText`).
    """
    task, model = context.task, context.model
    room = task.config.generation_kwargs.max_gen_toks
    prompts = [
        PromptWriter(task, model, label, room, None, "completion").private(slot)
        for label, slot in zip(context.shots, slots, strict=True)
    ]
    return write_texts(context, context.shots, prompts, room, stream)


def public_prompts(
    context: Context,
    room: int,
    style: str = "completion",
) -> list[list[int]]:
    """The prompt that asks for one more text of each shot's label, without a record."""
    return [
        PromptWriter(
            context.task,
            context.model,
            label,
            room,
            None,
            style,
        ).public
        for label in context.shots
    ]


def seeds_of(context: Context, stream: str, count: int) -> list[int]:
    """Public seeds of so many samples, from the stream of that name."""
    return [int(seed) for seed in context.streams.stream(stream).integers(2**53, size=count)]


def write_texts(
    context: Context,
    labels: Sequence[str],
    prompts: Sequence[Sequence[int]],
    room: int,
    stream: str,
    temperature: float = 1.0,
) -> list[Demonstration]:
    """One text of each label, sampled after its prompt: at most ``room`` tokens, up to where a released text ends."""
    seeds = seeds_of(context, stream, len(prompts))
    # Blanks before the first word end no released text, so a stop string that is blank waits for ReleasedText.
    stop = [word for word in context.task.stop_strings if word.strip()]
    texts = context.model.generate(prompts, room, stop, temperature=temperature, seeds=seeds)
    return [_release(context, label, text) for label, text in zip(labels, texts, strict=True)]


def _release(context: Context, label: str, text: str) -> Demonstration:
    released = ReleasedText(context.task, context.model)
    for token in context.model.encode(text):
        if released.ended:
            break
        released.append(token)
    return released.demonstration(label)
