"""The non-private reference baseline: real private records as demonstrations, unchanged. epsilon = infinity.

On a JSON task, where released texts themselves are scored, the model writes each of them after fresh private records,
by sampling at temperature 1; but where the question is what of the records surfaces (`scores_private`), they are shown
unchanged there too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dpicl import (
    LATER_OPTION,
    Context,
    DataError,
    Demonstration,
    DemonstrationMechanism,
    PrivateSet,
    Sizes,
    check_positive,
    cut_record,
    sample_texts,
)
from dpicl import dp_event as dp

#: Private records in the prompt of each text of a JSON task.
EXAMPLES = 4


@dataclass(frozen=True)
class RealDemonstrations(DemonstrationMechanism):
    """One random record of each shot's label (of any keyword where the task has none); never stored or published.

    matched_tokens: records are cut to their first so many tokens, for a ceiling of the length of released texts; None:
    they are whole.
    """

    name = "real_demonstrations"
    knob = None
    source = "no privacy"
    summary = "real records as demonstrations, no privacy: the upper reference baseline"
    needs = "texts"

    matched_tokens: int | None = field(default=None, metadata={LATER_OPTION: True})

    def __post_init__(self) -> None:
        check_positive(matched_tokens=self.matched_tokens)

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return dp.NonPrivateDpEvent()

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        records = private.reveal("real records shown as demonstrations")
        generator = context.streams.stream("real demonstrations")
        if context.task.kind == "json" and not context.task.config.metadata.scores_private:
            size = min(EXAMPLES, len(records))
            chosen = [
                generator.choice(len(records), size=size, replace=False) for _ in context.shots
            ]
            slots = [[records[i] for i in slot] for slot in chosen]
            return sample_texts(context, slots, "texts after real records")
        shown: list[Demonstration] = []
        used: set[str] = set()
        for label in context.shots:
            candidates = [
                r
                for r in records
                if (not private.partitioned or r.label == label) and r.text not in used
            ]
            if not candidates:
                raise DataError(
                    f"There are too few records of '{label}' for {len(context.shots)} demonstrations."
                )
            drawn = candidates[int(generator.integers(len(candidates)))]
            used.add(drawn.text)
            record = cut_record(drawn, context.model, self.matched_tokens)
            tokens = len(context.model.encode(record.text))
            shown.append(Demonstration(record.text, record.label, tokens=tokens))
        return shown
