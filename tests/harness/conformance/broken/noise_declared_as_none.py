"""It says that it costs nothing, so that no epsilon is asked for; and releases noisy counts."""

from dataclasses import replace

from dp_accounting import dp_event as dp

from tests.harness.conformance.sound import SoundTokens


class NoiseDeclaredAsNone(SoundTokens):
    name = "noise_declared_as_none"
    knob = None

    def events(self, knob, sizes):
        return dp.NoOpDpEvent()

    def release(self, private, context):
        return super().release(private, replace(context, knob=1.0))
