"""The noise vector of a demonstration is drawn once, 'so that its tokens are consistent'."""

from tests.harness.conformance.sound import SoundTokens


class Frozen:
    """One vector of noise, given again and again."""

    seeded = True

    def __init__(self, source):
        self.source, self.values = source, None

    def gaussian(self, scale, size):
        if self.values is None:
            self.values = self.source.gaussian(scale, size)
        return self.values


class NoiseReusedAcrossTokens(SoundTokens):
    name = "noise_reused_across_tokens"

    def source(self, context):
        return Frozen(context.noise)
