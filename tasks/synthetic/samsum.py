"""Invented chats of two people with summaries; the rules are in samsum.txt."""

from dpicl.tasks.synthetic.grammar import Grammar, pairs

GRAMMAR = Grammar.read("samsum")
records = pairs(GRAMMAR, "samsum", "chat")
