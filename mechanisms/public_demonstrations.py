"""The control that a private method must beat: demonstrations that the model writes from the public prompt alone.

Tang et al. (ICLR 2024) call it epsilon = 0, 4-shot: no private record is read; the text of each label is the greedy
continuation of the instruction and the label. Its gain over zero-shot comes from the format and from what the model
knows; only what a mechanism gains beyond it was learned from private data. All seeds show this one greedy set of texts,
in other orders: its spread over seeds, and that of a recovery over it, leaves out which public texts were written.

Where a demonstration is an input with its output (generation), they are records of the task's public part. Where
demonstrations have no labels (continuation), one prompt would give the same text each time: they are samples at
temperature 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_accounting import dp_event as dp

from dpicl.harness.core.errors import DataError
from dpicl.harness.mechanism.bases import Context, Demonstration, DemonstrationMechanism, Sizes
from dpicl.harness.mechanism.generation import PromptWriter, ReleasedText, check_positive, check_style, public_log_probs
from dpicl.harness.privacy.private_set import PrivateSet
from dpicl.mechanisms._sampled_texts import sampled_texts

if TYPE_CHECKING:
    from dpicl.harness.data.task import PublicTask


@dataclass(frozen=True)
class PublicDemonstrations(DemonstrationMechanism):
    """tokens: the longest text, as for the mechanisms that it is compared with."""

    name = "public_demonstrations"
    knob = None
    source = "Tang et al., ICLR 2024, epsilon = 0"
    summary = "demonstrations from the public prompt alone: what a private method must beat"
    needs = "log-probabilities"
    published = {
        "agnews": {"tokens": 100},
        "dbpedia": {"tokens": 100},
        "trec": {"tokens": 15},
        "mit_g": {"tokens": 20},
        "mit_d": {"tokens": 20},
        "ginc": {"tokens": 10},
    }

    tokens: int = 50
    style: str = "completion"

    def __post_init__(self) -> None:
        check_positive(tokens=self.tokens)
        check_style(self.style)

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return dp.NoOpDpEvent()

    def skip(self, task: PublicTask) -> str | None:
        if task.kind == "json":
            return "it writes greedily from one prompt, so all its texts would be the same; zero_shot samples them"
        if task.kind == "generation" and not task.has_public_part:
            return "the task has no public records; add a public part to its task.yaml"
        return None

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        if context.task.kind == "generation":
            return _public_records(context)
        if context.task.kind == "continuation":
            return sampled_texts(context, [()] * len(context.shots), "public demonstrations", self.tokens)
        return context.for_each_shot(lambda label: self._write(label, context))

    def _write(self, label: str, context: Context) -> Demonstration:
        model = context.model
        prompts = PromptWriter(context.task, model, label, self.tokens, None, self.style)
        decoder = model.decoder([prompts.public], prompts.prefix)
        text = ReleasedText(context.task, model)
        while not text.ended and len(text.tokens) < self.tokens:
            if text.tokens:
                decoder.append(text.tokens[-1])
            text.append(int(public_log_probs(decoder.likeliest(1), model)[0].argmax()))
        return text.demonstration(label)


def _public_records(context: Context) -> list[Demonstration]:
    """A random public record a shot, none of them twice."""
    public, shots = context.task.public, len(context.shots)
    if len(public) < shots:
        raise DataError(
            f"{context.task.name} has {len(public)} public records and {shots} are to be shown; lower shots."
        )
    chosen = context.streams.stream("public demonstrations").choice(len(public), size=shots, replace=False)
    return [
        Demonstration(record.text, record.label, tokens=len(context.model.encode(record.text)))
        for record in (public[i] for i in chosen)
    ]
