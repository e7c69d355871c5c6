"""The text ends when most slots want it to: no token is released for that, but the end is."""

from tests.harness.conformance.sound import SoundTokens


class StoppingOnAPrivateEos(SoundTokens):
    name = "stopping_on_a_private_eos"

    def stops(self, rows, model):
        return (rows.argmax(axis=1) == model.eos_token_id).mean() > 0.5
