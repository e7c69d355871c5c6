"""The control that a private method must beat: demonstrations that the model writes from the public prompt alone.

Tang et al. (ICLR 2024) call it epsilon = 0, 4-shot: no private record is read. Its gain over zero-shot comes from the
format and from what the model knows; only what a mechanism gains beyond it was learned from private data.

Texts are sampled at temperature 1, anew for every seed; ``greedy`` gives the continuation of Tang et al.'s released
code, the same texts for every seed. Where a demonstration is an input with its output (generation), the model writes
the input after the task's instruction and then the output to it. (Public *records* of the same data set are another
control, `public_records`.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpicl import (
    Context,
    Demonstration,
    DemonstrationMechanism,
    PrivateSet,
    PublicTask,
    Sizes,
    check_positive,
    check_style,
    public_prompts,
    seeds_of,
    write_texts,
)
from dpicl import dp_event as dp

#: Stands for the text in a query, to see what surrounds it.
_GAP = "\x00"


@dataclass(frozen=True)
class PublicDemonstrations(DemonstrationMechanism):
    """tokens: the longest text, as for the mechanisms that it is compared with."""

    name = "public_demonstrations"
    knob = None
    source = "Tang et al., ICLR 2024, epsilon = 0"
    summary = "demonstrations that the model writes from the public prompt alone: what a private method must beat"
    needs = "texts"
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
    greedy: bool = False

    def __post_init__(self) -> None:
        check_positive(tokens=self.tokens)
        check_style(self.style)

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return dp.NoOpDpEvent()

    def skip(self, task: PublicTask) -> str | None:
        return "zero_shot releases the same texts there" if task.kind == "json" else None

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        temperature = 0.0 if self.greedy else 1.0
        if context.task.kind == "generation":
            return self._pairs(context, temperature)
        prompts = public_prompts(context, self.tokens, self.style)
        return write_texts(
            context, context.shots, prompts, self.tokens, "public demonstrations", temperature
        )

    def _pairs(self, context: Context, temperature: float) -> list[Demonstration]:
        task, model = context.task, context.model
        before, _, after = task.query(_GAP).partition(_GAP)
        opened, ends = task.icl_prefix(()) + before, [after[:1] or "\n", *task.stop_strings]
        inputs = self._sample(context, [opened] * len(context.shots), ends, temperature, "inputs")
        queries = [task.icl_prefix(()) + task.query(text) for text in inputs]
        until = task.config.generation_kwargs.until
        outputs = self._sample(context, queries, until, temperature, "outputs")
        pairs = zip(inputs, outputs, strict=True)
        return [
            Demonstration(text, output, tokens=len(model.encode(text))) for text, output in pairs
        ]

    def _sample(
        self,
        context: Context,
        prompts: Sequence[str],
        ends: Sequence[str],
        temperature: float,
        stream: str,
    ) -> list[str]:
        model = context.model
        seeds = seeds_of(context, f"public demonstrations: {stream}", len(prompts))
        encoded = [model.encode(prompt) for prompt in prompts]
        texts = model.generate(encoded, self.tokens, ends, temperature=temperature, seeds=seeds)
        return [text.strip().strip('"').strip() for text in texts]
