"""A mechanism that passes at its ordinary setting, and not with an option of its own."""

from dataclasses import dataclass

from tests.harness.conformance.sound import SoundVoting


@dataclass(frozen=True)
class Fails(SoundVoting):
    """With ``wrong`` it raises."""

    name = "fails"
    wrong: bool = False

    def answer(self, query, sample, context):
        if self.wrong:
            raise ValueError("no")
        return super().answer(query, sample, context)
