"""Invented news blurbs in the style of AG News; the rules are in agnews.txt."""

from dpicl.tasks.synthetic.grammar import Grammar, write_classes

GRAMMAR = Grammar.read("lexicon", "agnews")
records = write_classes(GRAMMAR, "agnews")
