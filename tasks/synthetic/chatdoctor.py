"""Invented patients' questions with answers; the rules are in chatdoctor.txt."""

from dpicl.tasks.synthetic.grammar import Grammar, pairs

GRAMMAR = Grammar.read("chatdoctor")
records = pairs(GRAMMAR, "chatdoctor", "consultation")
