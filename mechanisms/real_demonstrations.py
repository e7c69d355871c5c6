"""The upper end of the scale: real private records as demonstrations, shown as they are. epsilon = infinity."""

from __future__ import annotations

from dataclasses import dataclass

from dp_accounting import dp_event as dp

from harness.errors import DataError
from harness.mechanism import Context, Demonstration, DemonstrationMechanism, Sizes
from harness.privacy.private_set import PrivateSet


@dataclass(frozen=True)
class RealDemonstrations(DemonstrationMechanism):
    """One random record of each shot's label (of any keyword where the task has none); never stored or published."""

    name = "real_demonstrations"
    knob = None
    source = "no privacy"

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return dp.NonPrivateDpEvent()

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        records = private.reveal("real records shown as demonstrations")
        generator = context.streams.stream("real demonstrations")
        chosen: list[Demonstration] = []
        for label in context.shots:
            used = {demonstration.text for demonstration in chosen}
            candidates = [r for r in records if (not private.partitioned or r.label == label) and r.text not in used]
            if not candidates:
                raise DataError(f"There are too few records of '{label}' for {len(context.shots)} demonstrations.")
            record = candidates[int(generator.integers(len(candidates)))]
            chosen.append(
                Demonstration(text=record.text, label=record.label, tokens=len(context.model.encode(record.text)))
            )
        return chosen
