"""Invented sentences about films that name a genre or a director, in the style of MIT Movies; rules in movies.txt."""

from dpicl.data.config import load_config
from dpicl.tasks.synthetic.grammar import Grammar, Pairs, Records, generators

GRAMMAR = Grammar(
    Grammar.read("movies").rules
    | {"genre": load_config("mit_g").labels, "director": load_config("mit_d").labels}
)


def sentences(task: str, slot: str) -> Records:
    """(sentence, slot value) pairs, slot 'genre' or 'director'; the value is part of the sentence."""

    def records(label: str | None, split: str, seed: int) -> Pairs:
        return (
            GRAMMAR.pair(f"{slot}_sentence", f"{slot}#k", each)
            for each in generators(seed, task, split)
        )

    return records
