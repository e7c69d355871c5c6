"""Prompts are kept for debugging, with the records that they show."""

import tempfile
from pathlib import Path

from tests.harness.conformance.sound import SoundTokens


class PromptWrittenToAFile(SoundTokens):
    name = "prompt_written_to_a_file"

    def drawn(self, sampler, private, group):
        sample, slots = super().drawn(sampler, private, group)
        with (Path(tempfile.gettempdir()) / "prompt_written_to_a_file.log").open("w", encoding="utf-8") as log:
            log.writelines(ascii(record.text) + "\n" for slot in slots for record in slot)
        return sample, slots
