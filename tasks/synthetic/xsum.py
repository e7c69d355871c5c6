"""Invented local news with one-line summaries; the rules are in xsum.txt."""

from dpicl.tasks.synthetic.grammar import Grammar, pairs

GRAMMAR = Grammar.read("lexicon", "names", "xsum")
records = pairs(GRAMMAR, "xsum", "report")
