"""Label-randomised demonstrations: the local end of the scale. Each of the k shown records sends its text as it is, and
its own label through k-ary randomised response (Warner 1965; Kairouz, Bonawitz & Ramage, ICML 2016).

1. k records of the declared set are shown: those whose texts have the smallest public hashes, salted with public
   randomness. So which ones, and in which order, follows from texts, which are published here, and from no label; and
   the labels of the demonstrations are what comes out, not those of the plan of shots;
2. each keeps its label with probability e^epsilon / (e^epsilon + L - 1), and else has one of the other L - 1, each with
   probability 1 / (e^epsilon + L - 1). epsilon = 1 / temperature: the choice by softmax of [y = own label] /
   temperature;
3. texts with these labels are the demonstrations.

Privacy (unit: the *label* of one record; neighbours: this label is another one; no curator is trusted with it; proved
mode). The chances of a label to come out differ by e^epsilon between two own labels, and nothing else depends on the
label: pure epsilon-local DP with delta = 0, exactly. A record is shown once, and each answers for itself alone, so k
costs nothing. **The texts are not protected at all**, nor that they are in the set: another notion of privacy than
every other mechanism here has, so its rows stand in a table of their own. It is refused for restricted records and with
secure noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_accounting import dp_event as dp

from dpicl.core.vocabulary import LABEL_LOCAL, Record
from dpicl.mechanism.bases import Context, Demonstration, DemonstrationMechanism, Knob, Sizes
from dpicl.mechanism.generation import check_positive, cut_record
from dpicl.privacy.events import label_response
from dpicl.privacy.private_set import PrivateSet

if TYPE_CHECKING:
    from dpicl.data.task import PublicTask


@dataclass(frozen=True)
class LabelResponses(DemonstrationMechanism):
    """record_tokens: every text is cut to its first so many tokens (None: whole)."""

    name = "ldp_labels"
    knob = Knob("temperature", low=0.01, high=10_000.0, non_private=0.0)
    source = "randomised response: Warner 1965"
    summary = "shows records' texts as they are, with labels randomised (another notion of privacy)"
    needs = "texts"
    notion = LABEL_LOCAL

    record_tokens: int | None = None

    def __post_init__(self) -> None:
        check_positive(record_tokens=self.record_tokens)

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return label_response(1 / knob if knob > 0 else math.inf)

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float:
        """The formula of randomised response."""
        return 1 / knob if knob > 0 else math.inf

    def skip(self, task: PublicTask) -> str | None:
        if task.kind == "classification":
            return None
        return "it randomises labels of a public list, and this task has none; its texts would be published as they are"

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        salt = str(context.streams.stream("shown texts").integers(2**62))
        response = self.events(context.knob, Sizes({}, {}))
        shown = private.label_responses(len(context.shots), context.task.labels, response=response, salt=salt)
        cut = [cut_record(Record(text, label), context.model, self.record_tokens) for text, label in shown]
        return [Demonstration(record.text, record.label) for record in cut]
