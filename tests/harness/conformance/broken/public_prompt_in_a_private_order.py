"""The public prompts of the answers are ordered by private counts: what the model is asked tells them."""

import numpy as np

from dpicl.harness.mechanism.bases import FinalPrompt
from tests.harness.conformance.sound import SoundVoting


class PublicPromptInAPrivateOrder(SoundVoting):
    name = "public_prompt_in_a_private_order"

    def answer(self, query, sample, context):
        scores = context.reader.label_scores(query, sample.slots, calibrated=False)
        order = np.argsort(-np.nan_to_num(scores, neginf=0.0).sum(axis=0))
        listed = ", ".join(context.task.labels[at] for at in order)
        said = super().answer(query, sample, context)
        return FinalPrompt(f"One of {listed}.\n{query.text}\nIt is {said} {said} {said}.\nAnswer:")
