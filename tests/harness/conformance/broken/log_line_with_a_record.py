"""A slot without an answer is logged with what it shows."""

import logging

import numpy as np

from tests.harness.conformance.sound import SoundVoting

log = logging.getLogger(__name__)


class LogLineWithARecord(SoundVoting):
    name = "log_line_with_a_record"

    def answer(self, query, sample, context):
        scores = context.reader.label_scores(query, sample.slots, calibrated=False)
        for slot, row in zip(sample.slots, scores, strict=True):
            if np.isnan(row).any():
                log.debug("no answer after %s", [record.text for record in slot])
        return super().answer(query, sample, context)
