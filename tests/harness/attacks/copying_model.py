"""A language model that copies: it knows what stands in its prompt and nothing else. Attacks must succeed on it."""

import math
import re

from dpicl.models.base import Prefix
from dpicl.models.simulated import SimulatedLM

_LABELLED = re.compile(r"^Article: (?P<text>.*)\nAnswer: ?(?P<label>.*)$", re.MULTILINE)
_ADDRESS = re.compile(r"[\w.-]+@[\w.-]+\w")


class CopyingLM(SimulatedLM):
    """Answers direct questions, ordinary queries, completions and extractions by looking them up in the prompt."""

    def score(self, queries, prefix: Prefix | None = None):
        rows = []
        for query, endings in queries:
            answer = self._answer(self.decode(query))
            words = [self.decode(ending).strip() for ending in endings]
            self.usage.tokens_read += len(query)
            rows.append(
                [math.log(0.9) if word == answer else math.log(0.1 / len(words)) for word in words]
            )
        return rows

    def generate(self, prompts, max_tokens, stop=(), prefix: Prefix | None = None, **settings):
        return [self._copy(self.decode(prompt))[:200] for prompt in prompts]

    @staticmethod
    def _answer(prompt):
        """Yes or No to a direct question; else the label that the text was first shown with; else the first one."""
        if "Answer Yes or No" in prompt:
            examples, _, question = prompt.rpartition(
                "Is the following text one of the examples above?"
            )
            text = question.partition("Text: ")[2].partition("\n")[0]
            return "Yes" if text in examples else "No"
        *shown, question = _LABELLED.finditer(prompt + "\n")
        return next(
            (each["label"] for each in shown if each["text"].startswith(question["text"])), ""
        )

    @staticmethod
    def _copy(prompt):
        """What followed the start of a text, the first address, or nothing in particular."""
        examples, _, question = prompt.rpartition("Complete the following text")
        if examples:
            start = question.partition("Text: ")[2]
            return (
                examples.partition(start)[2].partition("\n")[0].strip()
                if start in examples
                else "who knows"
            )
        if "email address" in prompt:
            addresses = _ADDRESS.findall(prompt)
            return addresses[0] if addresses else "none"
        return "nothing of note"
