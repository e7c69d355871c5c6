"""Invented encyclopaedia entries in the style of DBPedia-14; the rules are in dbpedia.txt."""

from dpicl.tasks.synthetic.grammar import Grammar, write_classes

GRAMMAR = Grammar.read("lexicon", "names", "dbpedia")
records = write_classes(GRAMMAR, "dbpedia")
