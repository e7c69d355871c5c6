"""Invented sentences about films that name a genre or a director, in the style of MIT Movies; rules in movies.txt."""

from dpicl.data.task import keywords
from dpicl.tasks.synthetic.grammar import Grammar, Pairs, Records, generators

GRAMMAR = Grammar(Grammar.read("movies").rules | {"genre": keywords("mit_g"), "director": keywords("mit_d")})


def sentences(task: str, slot: str) -> Records:
    """(sentence, slot value) pairs, slot 'genre' or 'director'; the value is part of the sentence."""

    def records(label: str | None, split: str, seed: int) -> Pairs:
        return (GRAMMAR.pair(f"{slot}_sentence", f"{slot}#k", each) for each in generators(seed, task, split))

    return records
