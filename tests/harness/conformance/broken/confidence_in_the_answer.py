"""An answer says how many slots agree with it."""

from tests.harness.conformance.sound import SoundVoting


class ConfidenceInTheAnswer(SoundVoting):
    name = "confidence_in_the_answer"

    def answer(self, query, sample, context):
        said = super().answer(query, sample, context)
        scores = context.reader.label_scores(query, sample.slots, calibrated=False)
        return f"{said} ({(scores.argmax(axis=1) == context.task.labels.index(said)).mean():.0%} sure)"
