"""Topic words: the words that most records of a class hold, as its demonstration. A control: no private record is ever
in a prompt, and every method that writes texts has to beat it.

For every label:

1. public: the list of words is every token of the model that is a word of four letters or more, less stop words
   (mechanisms/stopwords.txt);
2. each private record of the label, alone in its slot, says which words of the list it holds;
3. the k words with the largest counts under Gumbel noise of temperature tau, in order;
4. public: words that were released for several labels say nothing of any, and are dropped;
5. every demonstration of the label has the words that are left as its text.

After the keywords of Wu et al. 2024 (mechanisms/ksa.py), with the topic histogram of private conditional text
generation in mind; no paper has it as a method.

Privacy (unit: one record; neighbours: add/remove; proved mode). A record of the label is in the one sample of the run
for certain (rate 1) and has a slot of its own, so one more record raises every count by 0 or 1 and changes nothing
else: the range of the move is at most 1. The k words are k choices without replacement, each epsilon'-bounded range
with epsilon' = 1/tau (`NoisyTopK`), from the one release of the label, whatever n_y, the number of shots, and the
length of a record are. Labels are disjoint and compose in parallel. What is dropped and shown follows from released
words, the list from the model's tokenizer alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dpicl import (
    Context,
    Demonstration,
    DemonstrationMechanism,
    Knob,
    LanguageModel,
    NoisyTopK,
    PrivateSet,
    PublicTask,
    Sizes,
    check_positive,
    parallel,
)
from dpicl import dp_event as dp
from dpicl.mechanisms.ksa import stopwords, words_of

#: Letters of the shortest word.
SHORTEST = 4


@dataclass(frozen=True)
class TopicWords(DemonstrationMechanism):
    """words: k, how many are released for a label."""

    name = "topic_words"
    knob = Knob("temperature", low=0.02, high=10_000.0, non_private=0.0)
    source = "a control; keywords as in Wu et al., ICLR 2024, arXiv 2305.01639"
    summary = (
        "shows the words that most records of a class hold, chosen with noise from a public list"
    )
    needs = "nothing"

    words: int = 12

    def __post_init__(self) -> None:
        check_positive(words=self.words)
        self.require_at_most(words=1_000)

    def skip(self, task: PublicTask) -> str | None:
        return _REASONS.get(task.kind)

    def unmet_needs(self, task: PublicTask, model: LanguageModel) -> str | None:
        if list_words(model):
            return None
        return (
            f"No token of {model.identity.name} is a word of {SHORTEST} letters or more, and {self.name} chooses from"
            " these; use another model, or name the tokenizer of the server's model (docs/servers.md)."
        )

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return parallel(dict.fromkeys(sizes.shots, self._top(knob).event))

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        public, labels = list_words(context.model), list(dict.fromkeys(context.shots))
        chosen = {label: self._choose(label, public, private, context) for label in labels}
        times = Counter(word for words in chosen.values() for word in words)
        texts = {
            label: " ".join(word for word in words if times[word] == 1)
            for label, words in chosen.items()
        }
        return [Demonstration(texts[label], label) for label in context.shots]

    def _choose(
        self, label: str, public: Sequence[str], private: PrivateSet, context: Context
    ) -> list[str]:
        top, group = self._top(context.knob), private.partition_of(label)
        sample = private.poisson_slots(
            private.size(group), None, partition=group, releases=top.event
        ).draw()
        places = {word: at for at, word in enumerate(public)}
        held = [
            [places[word] for word in words_of(record.text) if word in places]
            for (record,) in sample.slots
        ]
        return [public[at] for at in top.choose_held(held, len(public), sample)]

    def _top(self, knob: float) -> NoisyTopK:
        return NoisyTopK(self.words, knob, own_slots=True)


#: Kind of task -> why there are no words of a class.
_REASONS = {
    "extraction": "it releases words of a class, and a demonstration here is a text that holds a phrase to be found",
    "generation": "it releases words of a class, and a demonstration here is an input with its output",
    "continuation": "it releases words of a class, and a demonstration here is a text with what follows it",
    "json": "it releases words of a class, and a list of words of all records is no text like theirs (one_vote and"
    " private_evolution write some)",
}


def list_words(model: LanguageModel) -> list[str]:
    """The public list: words in lower case, in the order of their first token."""
    tokens = (model.decode([token]).strip().lower() for token in range(model.vocab_size))
    words = dict.fromkeys(word for word in tokens if len(word) >= SHORTEST and word.isalpha())
    return [word for word in words if word not in stopwords()]
