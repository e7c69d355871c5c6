"""Invented questions in the style of TREC; the rules are in trec.txt."""

from dpicl.tasks.synthetic.grammar import Grammar, write_classes

GRAMMAR = Grammar.read("lexicon", "names", "trec")
records = write_classes(GRAMMAR, "trec", "{}_question")
