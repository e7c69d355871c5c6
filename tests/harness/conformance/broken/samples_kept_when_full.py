"""A sample that leaves many slots empty is drawn again: what is used is no longer a Poisson sample."""

from tests.harness.conformance.sound import SoundTokens


class SamplesKeptWhenFull(SoundTokens):
    name = "samples_kept_when_full"
    draws = 4

    def drawn(self, sampler, private, group):
        for _ in range(self.draws):
            sample = sampler.draw()
            if sum(map(len, sample.slots)) >= self.slots:
                break
        return sample, sample.slots
